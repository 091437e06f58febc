package jajeong_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
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

func TestMain(m *testing.M) {
	transport := http.DefaultTransport.(*http.Transport)
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 512 // applicants keep their connections
	testenv.Main(m)
}

// deployment has the built programs on real servers.
type deployment struct {
	*jajeongtest.Deployment
	env []string
	pod *testenv.Program // started last
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	return deployWith(t, jajeongtest.Options{})
}

func deployWith(t *testing.T, o jajeongtest.Options) *deployment {
	t.Helper()
	d := jajeongtest.NewWith(t, o)
	return &deployment{Deployment: d, env: d.Environment()}
}

func (d *deployment) settle(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(testenv.Patient(d.T), testenv.Build(d.T, "./cmd/settle"), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// verify demands an exit code of settle verify, which returns 1 while a server is slow.
func (d *deployment) verify(want int, args ...string) (output string) {
	d.T.Helper()
	code, output := d.RunToEnd(func() *exec.Cmd {
		cmd := exec.CommandContext(testenv.Patient(d.T), testenv.Build(d.T, "./cmd/settle"),
			append([]string{"verify"}, args...)...)
		cmd.Env = d.env
		return cmd
	})
	require.Equal(d.T, want, code, output)
	return output
}

var settleNow = []string{"run", "--cutoff=now", "--operator=kim", "--reason=acceptance", "--output=json"}

// serve starts apply-api, waits until it knows the coupon, and returns the deployment with this pod.
func (d *deployment) serve(couponID coupon.CouponID) *deployment {
	d.T.Helper()
	d.pod = d.Start(d.env, "./cmd/apply-api")
	testenv.Eventually(d.T, "the catalog is loaded", func() bool {
		return d.apply(couponID+1, 1).HTTP == http.StatusNotFound // 503 until then
	})
	pod := *d
	return &pod
}

// awaitReady waits until the pod started last is ready, with or without MySQL.
func (d *deployment) awaitReady(withMySQL bool) {
	d.T.Helper()
	testenv.Eventually(d.T, fmt.Sprintf("the pod is ready, MySQL: %t", withMySQL), func() bool {
		ready, mysql := d.ready()
		return ready && mysql == withMySQL
	})
}

// ready returns the readiness of the pod started last, and the check of MySQL in it.
func (d *deployment) ready() (ready, mysql bool) {
	response, err := http.Get("http://" + d.pod.Admin + "/readyz")
	require.NoError(d.T, err)
	defer response.Body.Close()
	var body struct {
		Ready  bool
		Checks map[string]struct{ OK bool }
	}
	require.NoError(d.T, json.NewDecoder(response.Body).Decode(&body))
	require.Equal(d.T, body.Ready, response.StatusCode == http.StatusOK)
	return body.Ready, body.Checks["mysql"].OK
}

func (d *deployment) apply(couponID coupon.CouponID, user coupon.UserID) jajeongtest.APIAnswer {
	return jajeongtest.Ask(openapi.Transport(d.T, nil), d.pod.Apply, http.MethodPost, "", couponID, user)
}

func (d *deployment) me(couponID coupon.CouponID, user coupon.UserID) jajeongtest.APIAnswer {
	return jajeongtest.Ask(openapi.Transport(d.T, nil), d.pod.Apply, http.MethodGet, "/me", couponID, user)
}

// answered repeats a request until it has an answer, and counts the repetitions. This machine may be slower than a
// timeout of the pod.
func (d *deployment) answered(ask func(coupon.CouponID, coupon.UserID) jajeongtest.APIAnswer,
	couponID coupon.CouponID, user coupon.UserID) (a jajeongtest.APIAnswer, repeated int) {
	over := testenv.Patient(d.T)
	a = ask(couponID, user)
	for ; (a.HTTP == 0 || a.Status == "UNAVAILABLE") && over.Err() == nil; repeated++ {
		a = ask(couponID, user)
	}
	return a, repeated
}

// mustApply applies for the first time. After a repetition, the first application may have been accepted.
func (d *deployment) mustApply(couponID coupon.CouponID, user coupon.UserID) {
	d.T.Helper()
	a, repeated := d.answered(d.apply, couponID, user)
	if repeated == 0 || a.Status != "DUPLICATE" {
		require.Equal(d.T, "ACCEPTED", a.Status)
	}
}

func (d *deployment) count(query string, args ...any) int { return int(d.Number(query, args...)) }

func TestThousandUsersApplyForHundredSeats(t *testing.T) {
	t.Parallel()
	const users, seats, parallel = 1000, 100, 500
	d := deploy(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, users)...)
	couponID := d.AddCoupon(seats)
	d.serve(couponID)

	var mu sync.Mutex
	lost, answers := 0, map[string]int{}
	first, second := map[coupon.UserID]jajeongtest.APIAnswer{}, map[coupon.UserID]jajeongtest.APIAnswer{}
	var applying errgroup.Group
	applying.SetLimit(parallel)
	for twice := range 2 {
		for _, user := range jajeongtest.Between[coupon.UserID](1, users) {
			applying.Go(func() error {
				a, repeated := d.answered(d.apply, couponID, user)
				mu.Lock()
				defer mu.Unlock()
				lost += repeated
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
	_ = applying.Wait()
	require.Equal(t, 2*users, answers["ACCEPTED"]+answers["DUPLICATE"], "%v", answers)
	require.LessOrEqual(t, answers["ACCEPTED"], users)
	require.GreaterOrEqual(t, answers["ACCEPTED"], users-lost)
	for user, a := range first {
		require.Equal(t, a.AppliedAt, second[user].AppliedAt,
			"the answer to a duplicate has the first arrival, user %d", user)
		require.EqualValues(t, seats, a.Seats)
	}

	pending := jajeongtest.APIAnswer{HTTP: 200, Status: "PENDING", Position: first[7].Position, Seats: seats,
		AppliedAt: first[7].AppliedAt}
	apply := func(user coupon.UserID) jajeongtest.APIAnswer { a, _ := d.answered(d.apply, couponID, user); return a }
	me := func(user coupon.UserID) jajeongtest.APIAnswer { a, _ := d.answered(d.me, couponID, user); return a }
	require.Equal(t, pending, me(7))
	require.Equal(t, "NOT_APPLIED", me(users+1).Code)

	// Three runs start together, as when an operator, a CronJob and a scheduler meet.
	var runs sync.WaitGroup
	for range 3 {
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
	issued := d.issuedAt(couponID)
	for user, a := range first {
		_, holds := issued[user]
		require.Equal(t, a.Position <= seats, holds, "user %d was answered position %d", user, a.Position)
	}
	d.verify(0)

	// A second run changes nothing, and a new application is answered by its outcome.
	records := d.count("SELECT COUNT(*) FROM settlement")
	code, stdout, _ := d.settle(settleNow...)
	require.Zero(t, code)
	require.Contains(t, stdout, "UNCHANGED")
	require.Equal(t, seats, d.count("SELECT COUNT(*) FROM user_coupon"))
	require.Equal(t, records, d.count("SELECT COUNT(*) FROM settlement"))
	for user, a := range first {
		if a.Position == 1 {
			require.Equal(t, "ALREADY_ISSUED", apply(user).Code)
			require.Equal(t, "ISSUED", me(user).Status)
		}
		if a.Position == seats+1 {
			require.Equal(t, "SOLD_OUT", apply(user).Code)
			require.Equal(t, jajeongtest.APIAnswer{HTTP: 200, Status: "NOT_SELECTED", AppliedAt: a.AppliedAt}, me(user))
		}
	}
	require.Equal(t, "NOT_APPLIED", me(users+1).Code)
}

func instant(t testing.TB, text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	assert.NoError(t, err)
	return at.UTC()
}

// Running pods and pods that start meanwhile accept applications. Readiness reports that MySQL is down.
func TestApplying_WorksWhileMySQLIsDown(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	d := deployWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)})
	couponID := d.AddCoupon(100)
	before := d.serve(couponID)
	before.mustApply(couponID, 1)
	d.awaitReady(true)

	require.NoError(t, server.Kill())
	d.serve(couponID)
	before.mustApply(couponID, 2)
	d.mustApply(couponID, 3)
	again, _ := d.answered(d.apply, couponID, 1)
	require.Equal(t, "DUPLICATE", again.Status)
	third, _ := d.answered(d.me, couponID, 3)
	require.EqualValues(t, 3, third.Position)
	d.awaitReady(false)

	require.NoError(t, server.Restart(t.Context()))
	d.awaitReady(true)
	code, _, stderr := d.settle(settleNow...)
	require.Zero(t, code, stderr)
	d.verify(0)
}
