package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
	migrations "github.com/jajeong/jajeong/sql"
)

// startServe runs `settle serve` in this process until stop is called. The test must read the logs to their end.
func (w *world) startServe(args ...string) (logs io.Reader, stop func(), ended <-chan int) {
	return w.start(append([]string{"serve"}, args...), w.servers...)
}

// start runs a verb until stop.
func (w *world) start(verb []string, servers ...string) (logs io.Reader, stop func(), ended <-chan int) {
	reader, writer := io.Pipe()
	ctx, stop := context.WithCancel(w.T.Context())
	w.T.Cleanup(stop)
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, slices.Concat(verb, servers), io.Discard, writer)
		writer.Close()
	}()
	return reader, stop, code
}

// adminPort waits for the address of the admin port in a log, and reads the rest of the log.
func adminPort(t *testing.T, logs io.Reader) string {
	t.Helper()
	var listening struct{ Admin string }
	for lines := bufio.NewScanner(logs); listening.Admin == "" && lines.Scan(); {
		_ = json.Unmarshal(lines.Bytes(), &listening)
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	require.NotEmpty(t, listening.Admin)
	return listening.Admin
}

func get(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get("http://" + addr + path)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestServe_ServesAdminPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logs, stop, ended := w.startServe("--admin-listen=127.0.0.1:0")
	admin := adminPort(t, logs)
	get := func(path string) (int, string) { return get(t, admin, path) }
	status, _ := get("/livez")
	require.Equal(t, http.StatusOK, status)
	status, text := get("/readyz")
	require.Equal(t, http.StatusOK, status, text)
	require.NotContains(t, text, "catalog")
	testenv.Eventually(t, "the night is told", func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, `jajeong_run_status{status="SUCCEEDED",trigger="CRON"} 1`) &&
			strings.Contains(text, `jajeong_pool_connections{`)
	})
	w.AddImmediate(1, 1)
	testenv.Eventually(t, "the coupon is issued", func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, "jajeong_issue_delay_seconds_count 1") &&
			strings.Contains(text, `jajeong_issue_runs_total{status="SETTLED"} 1`)
	})
	_, text = get("/metrics")
	require.Contains(t, text, `jajeong_run_applications{outcome="ISSUED",trigger="CRON"} 0`,
		"the metrics of the night stay")
	require.Regexp(t, `jajeong_issue_looked_at_timestamp_seconds [1-9]`, text)
	stop()
	require.Zero(t, <-ended)
	_, err := http.Get("http://" + admin + "/livez")
	require.Error(t, err)
}

// A night that cannot begin is repeated within seconds, not minutes. A coupon that cannot be issued moves nobody.
func TestServe_GoesOnAfterMySQLWasAway(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	n := newNight(newWorldWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)}), 1)
	all := between(1, 20)
	n.AddUsers(all[3:]...)
	immediate := n.AddImmediate(10)
	n.Apply(immediate, all[:3]...)
	require.NoError(t, server.Kill())
	logs, stop, ended := n.startServe("--tasks=nights,issue")
	lines := bufio.NewScanner(logs)
	await := func(message string) {
		t.Helper()
		for lines.Scan() {
			var line struct {
				Msg, Task string
				Wait      float64 `json:"next_try_in"` // seconds
			}
			_ = json.Unmarshal(lines.Bytes(), &line)
			if line.Msg == "task failed" {
				require.Equal(t, "nights", line.Task)
				require.Less(t, line.Wait, 6.0)
			}
			if line.Msg == message {
				return
			}
		}
		t.Fatal("the log ended without: " + message)
	}
	await("task failed")
	require.NoError(t, server.Restart(t.Context()))
	await("night settled")
	n.awaitEmptyLine(immediate)

	require.NoError(t, server.Kill())
	n.Apply(immediate, all[3:]...)
	arrivals := n.Arrivals(immediate)
	await("coupon not issued")
	require.Equal(t, arrivals, n.Arrivals(immediate))
	require.Empty(t, n.UnderReview(immediate))
	require.NoError(t, server.Restart(t.Context()))
	await("coupon no longer fails")
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	n.awaitEmptyLine(immediate)
	require.Equal(t, all[:10], n.Issued(immediate))
	require.Empty(t, n.UnderReview(immediate))
	stop()
	require.Zero(t, <-ended)
	n.requireRepaired()
}

// unchecked is the log of a settle serve, which it stops if the program starts without a check of the tables.
type unchecked struct {
	strings.Builder
	stop func()
}

func (u *unchecked) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("the tables were not checked at the start")) {
		u.stop()
	}
	return u.Builder.Write(line)
}

// An operator who forgot to migrate, or to load the rights, learns it at the start, whichever table and task it is.
func TestServe_RefusesMissingTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := func(name, advice string, tasks ...string) {
		for _, task := range tasks {
			code, stderr, patient := exitDone, &unchecked{}, testenv.Patient(t)
			for code == exitDone && patient.Err() == nil { // the tables were not read in time
				ctx, stop := context.WithCancel(patient)
				stderr = &unchecked{stop: stop}
				code = run(ctx, append([]string{"serve", "--lang=en", "--event-sink=redis", "--tasks=" + task},
					w.servers...), io.Discard, stderr)
				stop()
			}
			require.Equal(t, exitUse, code, "%s: %s", name, stderr.String())
			require.Contains(t, stderr.String(), advice, name)
		}
	}
	for i, table := range migrations.Tables {
		w.Exec("RENAME TABLE " + table + " TO gone")
		refused(table, text.AdviseMigrate.In(text.English), allTasks[i%len(allTasks)])
		w.Exec("RENAME TABLE gone TO " + table)
	}
	w.Exec("REVOKE SELECT, INSERT, UPDATE ON settled FROM " + w.ownName())
	refused("no right", text.AdviseGrants.In(text.English), allTasks...)
}

func TestServe_RefusesUnusableAdminAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	for address, want := range map[string]int{taken.Addr().String(): exitInfrastructure, "nowhere": exitUse} {
		code, _, stderr := settleBare(t, "serve", "--mysql-dsn=u:p@tcp(127.0.0.1:1)/x", "--admin-listen="+address)
		require.Equal(t, want, code)
		require.Contains(t, stderr, "ADMIN_LISTEN")
	}
}

func TestServe_WarnsOfHeldCoupon(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 1)
	n.AddPromises(n.coupons[0], 1) // one application is lost
	logs, stop, ended := n.startServe()
	levels := map[string]string{}
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		var line struct{ Level, Msg string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		levels[line.Msg] = line.Level
		if line.Msg == "night settled" {
			stop()
		}
	}
	require.Zero(t, <-ended)
	require.Equal(t, []string{"warn", "warn"}, []string{levels["coupon not settled"], levels["night settled"]})
}

// The log names locked coupons and, if the account may see it, the session that locks them. That of a run does, too.
// The metric of `settle serve` counts the coupons.
func TestServe_NamesWhoKeepsACouponLocked(t *testing.T) {
	t.Parallel()
	for name, mayProcess := range map[string]bool{"right PROCESS": true, "no right": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLocked(t, mayProcess)
		})
	}
}

// lockLine is a line of the log about a locked coupon, or about another matter.
type lockLine struct {
	Msg, Admin string
	Coupon     coupon.CouponID `json:"coupon_id"`
	Sessions   []string        `json:"sessions_with_old_locks"`
	Unknown    string          `json:"sessions_unknown"`
}

func (l lockLine) requireHolder(t *testing.T, holder string, mayProcess bool) {
	t.Helper()
	if !mayProcess {
		require.Contains(t, l.Unknown, "PROCESS", "%+v", l)
		return
	}
	require.Len(t, l.Sessions, 1, "%+v", l)
	require.Regexp(t, "^"+holder+` \S+@\S+ \(Sleep, [0-9]+ s\)$`, l.Sessions[0])
}

func testLocked(t *testing.T, mayProcess bool) {
	w := newWorld(t)
	w.AddUsers(7)
	run := w.AddQueue(5, 8)
	w.Exec(fmt.Sprintf(`CREATE TRIGGER waits BEFORE INSERT ON user_coupon FOR EACH ROW
		IF NEW.coupon_id = %d THEN
			SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'Lock wait timeout exceeded';
		END IF`, run)) // at once: a true wait takes ten seconds, seven times
	issued, journalled := w.AddImmediate(5, 1, 2, 3), w.AddQueue(5, 4, 5, 6)
	w.Journal(journalled)
	w.Apply(journalled, 7)
	if mayProcess {
		w.Exec("GRANT PROCESS ON *.* TO " + w.ownName() + ", " + w.nameOf("jajeong_operator"))
	}
	tx, err := w.DB.Begin()
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", issued)
	require.NoError(t, err)
	_, err = tx.Exec("SELECT coupon_id FROM journal WHERE coupon_id = ? FOR UPDATE", journalled)
	require.NoError(t, err)
	var holder string
	require.NoError(t, tx.QueryRow("SELECT CONNECTION_ID()").Scan(&holder))

	logs, stop, ended := w.startServe("--tasks=issue,journal", "--admin-listen=127.0.0.1:0")
	locked := func(admin string, want int) {
		t.Helper()
		_, metrics := get(t, admin, "/metrics")
		for _, task := range []string{"issue", "journal"} {
			require.Contains(t, metrics, fmt.Sprintf(`jajeong_locked_coupons{task="%s"} %d`, task, want))
		}
	}
	ran := make(chan string, 1) // the log of a run
	admin, named, freed := "", map[coupon.CouponID]bool{}, map[coupon.CouponID]bool{}
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		var line lockLine
		_ = json.Unmarshal(lines.Bytes(), &line)
		switch {
		case line.Admin != "":
			admin = line.Admin
		case strings.HasPrefix(line.Msg, "another session keeps a coupon locked"):
			line.requireHolder(t, holder, mayProcess)
			if named[line.Coupon] = true; len(named) == 2 {
				locked(admin, 1)
				go func() { // the log must be read meanwhile
					_, _, stderr := w.settle("run", "--cutoff=now", fmt.Sprint("--coupon=", run), "--operator=kim",
						"--reason=test")
					ran <- stderr
					_ = tx.Rollback()
				}()
			}
		case strings.HasPrefix(line.Msg, "coupon no longer locked"):
			if freed[line.Coupon] = true; len(freed) == 2 {
				go func() { // the log must be read meanwhile
					defer stop()
					w.awaitJournalled(journalled, 4)
					testenv.Eventually(t, "the coupon is issued", func() bool { return len(w.Issued(issued)) == 3 })
				}()
			}
		}
	}
	require.Zero(t, <-ended)
	require.Equal(t, map[coupon.CouponID]bool{issued: true, journalled: true}, named)
	says := <-ran
	busy := lockLine{}
	for text := range strings.Lines(says) {
		if strings.Contains(text, "coupon not settled") {
			require.NoError(t, json.Unmarshal([]byte(text), &busy))
		}
	}
	require.Equal(t, run, busy.Coupon, says)
	busy.requireHolder(t, holder, mayProcess)
	require.Len(t, w.Issued(issued), 3)
	require.EqualValues(t, 4, w.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", journalled))
}
