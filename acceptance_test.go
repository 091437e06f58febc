package jajeong_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// deployment is the two programs as they are shipped, on real servers.
type deployment struct {
	*jajeongtest.Deployment
	t   *testing.T
	env []string
	// Base addresses of the pod started last, and its process.
	api, admin string
	pod        *os.Process
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	m := testenv.MySQLFor(t)
	return deployOn(t, &m)
}

func deployOn(t *testing.T, m *testenv.MySQLHandle) *deployment {
	t.Helper()
	r := testenv.RedisFor(t)
	return &deployment{Deployment: jajeongtest.NewWith(t, jajeongtest.Options{Redis: &r, MySQL: m}), t: t, env: append(os.Environ(),
		"MYSQL_DSN="+m.DSN, "REDIS_ADDRS="+strings.Join(r.Addrs, ","), "REDIS_KEY_PREFIX="+r.Prefix,
		"APPLY_LISTEN=127.0.0.1:0", "USER_RATE=0", "SHUTDOWN_DELAY=0s", "APPLY_ADMIN_LISTEN=127.0.0.1:0")}
}

func (d *deployment) settle(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(context.Background(), testenv.Build(d.t, "./cmd/settle"), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

var settleNow = []string{"run", "--cutoff=now", "--operator=kim", "--reason=acceptance", "--output=json"}

// serve starts apply-api, and returns the deployment asked through this pod when it knows the coupon. At the end of the test the
// pod must exit with 0 after SIGTERM.
func (d *deployment) serve(couponID coupon.CouponID) *deployment {
	d.t.Helper()
	cmd := exec.Command(testenv.Build(d.t, "./cmd/apply-api"))
	cmd.Env = d.env
	logs, err := cmd.StderrPipe()
	require.NoError(d.t, err)
	require.NoError(d.t, cmd.Start())
	d.pod = cmd.Process
	d.t.Cleanup(func() {
		assert.NoError(d.t, cmd.Process.Signal(syscall.SIGTERM))
		assert.NoError(d.t, cmd.Wait())
	})
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		var line struct{ Apply, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Apply != "" {
			d.api, d.admin = "http://"+line.Apply, "http://"+line.Admin
			break
		}
	}
	require.NotEmpty(d.t, d.api)
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	testenv.Eventually(d.t, 20*time.Second, "the catalog is loaded", func() bool {
		return d.apply(couponID+1, 1).httpStatus == http.StatusNotFound // 503 until then
	})
	pod := *d
	return &pod
}

// ready asks the pod started last whether it is, and what it says of MySQL.
func (d *deployment) ready() (ready, mysql bool) {
	response, err := http.Get(d.admin + "/readyz")
	require.NoError(d.t, err)
	defer response.Body.Close()
	var body struct {
		Ready  bool
		Checks map[string]struct{ OK bool }
	}
	require.NoError(d.t, json.NewDecoder(response.Body).Decode(&body))
	require.Equal(d.t, body.Ready, response.StatusCode == http.StatusOK)
	return body.Ready, body.Checks["mysql"].OK
}

type answer struct {
	httpStatus int
	Status     string
	Code       string
	Position   int64
	Seats      int64
	AppliedAt  string
	OpensAt    string
	ServerTime string
}

func (d *deployment) apply(couponID coupon.CouponID, user coupon.UserID) answer {
	return d.ask(http.MethodPost, "", couponID, user)
}
func (d *deployment) me(couponID coupon.CouponID, user coupon.UserID) answer {
	return d.ask(http.MethodGet, "/me", couponID, user)
}

func (d *deployment) ask(method, path string, couponID coupon.CouponID, user coupon.UserID) (a answer) {
	request, err := http.NewRequest(method, fmt.Sprintf("%s/v1/coupons/%d/applications%s", d.api, couponID, path), nil)
	if err != nil {
		return a
	}
	request.Header.Set("X-User-ID", fmt.Sprint(user))
	client := &http.Client{Transport: openapi.Transport(d.t, nil)}
	response, err := client.Do(request)
	if err != nil {
		a.Status = err.Error()
		return a
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&a)
	a.httpStatus = response.StatusCode
	if a.Code != "" {
		a.Status = a.Code // a problem document
	}
	return a
}

func (d *deployment) count(query string, args ...any) int { return int(d.Number(query, args...)) }

func TestAThousandUsersForAHundredSeats(t *testing.T) {
	t.Parallel()
	const users, seats, atOnce = 1000, 100, 500
	d := deploy(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, users)...)
	couponID := d.AddCoupon(seats)
	d.serve(couponID)

	var mu sync.Mutex
	answers := map[string]int{}
	first, second := map[coupon.UserID]answer{}, map[coupon.UserID]answer{}
	var crowd errgroup.Group
	crowd.SetLimit(atOnce)
	for twice := range 2 {
		for _, user := range jajeongtest.Between[coupon.UserID](1, users) {
			crowd.Go(func() error {
				a := d.apply(couponID, user)
				mu.Lock()
				defer mu.Unlock()
				answers[a.Status]++
				if twice == 0 {
					first[user] = a
				} else {
					second[user] = a
				}
				return nil
			})
		}
	}
	_ = crowd.Wait()
	require.Equal(t, map[string]int{"ACCEPTED": users, "DUPLICATE": users}, answers)
	for user, a := range first {
		require.Equal(t, a.AppliedAt, second[user].AppliedAt, "user %d is told the same arrival again", user)
		require.EqualValues(t, seats, a.Seats)
	}

	require.Equal(t, answer{httpStatus: 200, Status: "PENDING", Position: first[7].Position, Seats: seats, AppliedAt: first[7].AppliedAt}, d.me(couponID, 7))
	require.Equal(t, "NOT_APPLIED", d.me(couponID, users+1).Code)

	// Eight at once, as when a person, a CronJob and a scheduler meet.
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			code, stdout, stderr := d.settle(settleNow...)
			assert.Zero(t, code, "%s%s", stdout, stderr)
		})
	}
	runs.Wait()
	require.Equal(t, seats, d.count("SELECT COUNT(*) FROM user_coupon"))
	require.Equal(t, seats, d.count("SELECT issued_count FROM coupon"))
	require.Equal(t, users-seats, d.count("SELECT COUNT(*) FROM application_outcome WHERE outcome = 'NOT_SELECTED'"))
	require.Equal(t, seats, d.count(`SELECT COUNT(*) FROM user_coupon
		WHERE applied_at < (SELECT MIN(applied_at) FROM application_outcome)`), "the lowest arrivals are issued")
	for user, a := range first {
		require.Equal(t, a.Position <= seats, d.count("SELECT COUNT(*) FROM user_coupon WHERE user_id = ?", user) == 1,
			"user %d was told position %d", user, a.Position)
	}
	code, stdout, stderr := d.settle("verify")
	require.Zero(t, code, "%s%s", stdout, stderr)

	// The rerun changes nothing, and those who hold the coupon are told so.
	records := d.count("SELECT COUNT(*) FROM settlement")
	code, stdout, _ = d.settle(settleNow...)
	require.Zero(t, code)
	require.Contains(t, stdout, "UNCHANGED")
	require.Equal(t, seats, d.count("SELECT COUNT(*) FROM user_coupon"))
	require.Equal(t, records, d.count("SELECT COUNT(*) FROM settlement"))
	for user, a := range first {
		if a.Position == 1 {
			require.Equal(t, "ALREADY_ISSUED", d.apply(couponID, user).Code)
			require.Equal(t, "ISSUED", d.me(couponID, user).Status)
		}
		if a.Position == seats+1 {
			require.Equal(t, "SOLD_OUT", d.apply(couponID, user).Code)
			require.Equal(t, answer{httpStatus: 200, Status: "NOT_SELECTED", AppliedAt: a.AppliedAt}, d.me(couponID, user))
		}
	}
	require.Equal(t, "NOT_APPLIED", d.me(couponID, users+1).Code)
}

// The clock of Redis decides.
func TestDoorsOpenSharpOnEveryPod(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	testenv.Build(t, "./cmd/apply-api") // takes its time
	opens := time.Now().Add(6 * time.Second).Truncate(time.Second).UTC()
	couponID := d.AddCouponBetween(100, opens, opens.Add(time.Hour))
	pods := []*deployment{d.serve(couponID), d.serve(couponID)}
	require.True(t, time.Now().Before(opens), "the pods were not up in time: nothing was tested")

	const crowd = 8 // on each pod
	var early, late [2]atomic.Int64
	var people sync.WaitGroup
	for p, pod := range pods {
		for person := range crowd {
			people.Go(func() {
				user := coupon.UserID(1 + p*crowd + person)
				for deadline := opens.Add(20 * time.Second); time.Now().Before(deadline); {
					a := pod.apply(couponID, user)
					if a.Code == "NOT_OPEN" {
						early[p].Add(1)
						assert.Equal(t, opens, instant(t, a.OpensAt))
						assert.True(t, instant(t, a.ServerTime).Before(opens), "%s was refused", a.ServerTime)
						continue
					}
					assert.Equal(t, "ACCEPTED", a.Status)
					assert.False(t, instant(t, a.AppliedAt).Before(opens), "%s was accepted", a.AppliedAt)
					late[p].Add(1)
					return
				}
			})
		}
	}
	people.Wait()
	for p := range pods {
		require.NotZero(t, early[p].Load())
		require.EqualValues(t, crowd, late[p].Load())
	}
}

func instant(t *testing.T, text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	assert.NoError(t, err)
	return at.UTC()
}

// This holds for running pods and for pods that start meanwhile. Readiness reports MySQL as missing.
func TestMySQLAwayIsNotNoticedByApplicants(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	d := deployOn(t, jajeongtest.DatabaseOn(t, server))
	couponID := d.AddCoupon(100)
	before := d.serve(couponID)
	require.Equal(t, "ACCEPTED", before.apply(couponID, 1).Status)
	ready, mysql := d.ready()
	require.True(t, ready && mysql)

	require.NoError(t, server.Kill())
	d.serve(couponID) // started while MySQL is away
	require.Equal(t, "ACCEPTED", before.apply(couponID, 2).Status)
	require.Equal(t, "ACCEPTED", d.apply(couponID, 3).Status)
	require.Equal(t, "DUPLICATE", d.apply(couponID, 1).Status)
	require.EqualValues(t, 3, d.me(couponID, 3).Position)
	ready, mysql = d.ready()
	require.True(t, ready, "it can serve")
	require.False(t, mysql, "and says what is missing")

	require.NoError(t, server.Restart(t.Context()))
	testenv.Eventually(t, 30*time.Second, "the pods have MySQL again", func() bool {
		_, mysql := d.ready()
		return mysql
	})
	code, _, stderr := d.settle(settleNow...)
	require.Zero(t, code, stderr)
	code, stdout, _ := d.settle("verify")
	require.Zero(t, code, stdout)
}

func TestChangesReachTheDoorOfALivePod(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	couponID := d.AddCoupon(100)
	d.serve(couponID)
	user := coupon.UserID(0)
	becomes := func(change, want string, seats int64) {
		t.Helper()
		d.Exec("UPDATE coupon SET "+change+" WHERE id = ?", couponID)
		testenv.Eventually(t, 15*time.Second, want+" after "+change, func() bool {
			user++
			a := d.apply(couponID, user)
			return a.Status == want && (seats == 0 || a.Seats == seats)
		})
	}
	becomes("total_quantity = 100", "ACCEPTED", 100)
	becomes("status = 'PAUSED'", "PAUSED", 0)
	becomes("status = 'OPEN', total_quantity = 150", "ACCEPTED", 150)
	becomes("apply_closes_at = UTC_TIMESTAMP(6)", "CLOSED", 0)
	becomes("apply_closes_at = UTC_TIMESTAMP(6) + INTERVAL 1 DAY", "ACCEPTED", 150)
	becomes("apply_opens_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR", "NOT_OPEN", 0)
}
