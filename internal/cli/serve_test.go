package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// startServe runs `settle serve` in this process until stop is called. The test must read the logs to their end.
func (w *world) startServe(args ...string) (logs io.Reader, stop func(), ended <-chan int) {
	reader, writer := io.Pipe()
	ctx, stop := context.WithCancel(w.T.Context())
	w.T.Cleanup(stop)
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, slices.Concat([]string{"serve"}, args, w.servers), io.Discard, writer)
		writer.Close()
	}()
	return reader, stop, code
}

func TestServe_SettlesLastNightAndStops(t *testing.T) {
	t.Parallel()
	n := newNight(newWorld(t), 1)
	for runs := range 2 { // started again, it settles the night again, which changes nothing
		logs, stop, ended := n.startServe()
		go func() { _, _ = io.Copy(io.Discard, logs) }()
		testenv.Eventually(t, "the night is settled", func() bool {
			return len(n.IDs("SELECT id FROM settlement_run WHERE status = 'SUCCEEDED'")) == runs+1
		})
		stop()
		require.Zero(t, <-ended)
	}
	midnight := calendar.DefaultCutoff(n.Now(), jajeongtest.Zone)
	require.Len(t, n.IDs("SELECT id FROM settlement_run WHERE trigger_kind = 'CRON' AND cutoff = ?", midnight.UTC()), 2)
	n.requireRepaired()
}

func TestServe_ServesAdminPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logs, stop, ended := w.startServe("--admin-listen=127.0.0.1:0")
	var listening struct{ Admin string }
	for lines := bufio.NewScanner(logs); listening.Admin == "" && lines.Scan(); {
		_ = json.Unmarshal(lines.Bytes(), &listening)
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	require.NotEmpty(t, listening.Admin)
	get := func(path string) (int, string) {
		response, err := http.Get("http://" + listening.Admin + path)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	status, _ := get("/livez")
	require.Equal(t, http.StatusOK, status)
	status, text := get("/readyz")
	require.Equal(t, http.StatusOK, status, text)
	require.NotContains(t, text, "catalog")
	testenv.Eventually(t, "the night is told", func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, `jajeong_run_status{status="SUCCEEDED",trigger="CRON"} 1`) && strings.Contains(text, `jajeong_pool_connections{`)
	})
	w.AddImmediate(1, 1)
	testenv.Eventually(t, "the coupon is issued", func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, "jajeong_issue_delay_seconds_count 1") && strings.Contains(text, `jajeong_issue_runs_total{status="SETTLED"} 1`)
	})
	_, text = get("/metrics")
	require.Contains(t, text, `jajeong_run_applications{outcome="ISSUED",trigger="CRON"} 0`, "the metrics of the night stay")
	require.Regexp(t, `jajeong_issue_looked_at_timestamp_seconds [1-9]`, text)
	stop()
	require.Zero(t, <-ended)
	_, err := http.Get("http://" + listening.Admin + "/livez")
	require.Error(t, err)
}

// A night that cannot begin is repeated within seconds, not minutes.
func TestServe_RepeatsNightSoonAfterMySQLWasAway(t *testing.T) {
	t.Parallel()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	n := newNight(newWorldWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)}), 1)
	require.NoError(t, server.Kill())
	logs, stop, ended := n.startServe("--tasks=nights")
	var messages []string
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		var line struct {
			Msg, Task string
			Wait      float64 `json:"next_try_in"` // seconds
		}
		_ = json.Unmarshal(lines.Bytes(), &line)
		switch messages = append(messages, line.Msg); line.Msg {
		case "task failed":
			require.Equal(t, "nights", line.Task)
			require.Less(t, line.Wait, 6.0)
			if slices.Index(messages, line.Msg) == len(messages)-1 { // the first one
				require.NoError(t, server.Restart(t.Context()))
			}
		case "night settled":
			stop()
		}
	}
	require.Zero(t, <-ended)
	require.Contains(t, messages, "task failed")
	n.requireRepaired()
}

// An operator who forgot to migrate learns it at the start, whichever table or column the migration would create.
func TestServe_RefusesOldSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	changes := map[string]string{
		"no cadence":    "ALTER TABLE coupon DROP COLUMN cadence",
		"no line limit": "ALTER TABLE coupon DROP COLUMN line_limit",
		"no nonce":      "ALTER TABLE settlement_run DROP COLUMN nonce",
		"no order id":   "ALTER TABLE user_coupon DROP COLUMN order_id",
		"no row id":     "ALTER TABLE settlement DROP COLUMN first_user_coupon_id",
		"no erased":     "ALTER TABLE promise DROP COLUMN erased_rejected",
	}
	for _, table := range w.tables() {
		changes["no "+table] = "RENAME TABLE " + table + " TO gone"
	}
	require.Len(t, changes, 6+18)
	changes["no right to a table to come"] = changes["no cadence"] +
		"; DROP TABLE settled; REVOKE SELECT, INSERT, UPDATE ON settled FROM "
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for statement := range strings.SplitSeq(change, "; ") {
				if strings.HasSuffix(statement, " FROM ") {
					statement += w.ownName()
				}
				w.Exec(statement)
			}
			for _, task := range allTasks {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // if it stays up
				defer cancel()
				var stderr strings.Builder
				code := run(ctx, append([]string{"serve", "--lang=en", "--event-sink=redis", "--tasks=" + task}, w.servers...), io.Discard, &stderr)
				require.Equal(t, exitUse, code, stderr.String())
				require.Contains(t, stderr.String(), text.AdviseMigrate.In(text.English))
			}
		})
	}
}

// tables returns the tables of the migrations, except that of the users.
func (w *world) tables() (tables []string) {
	w.T.Helper()
	tables, err := mysqltx.Column[string](w.T.Context(), w.DB, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_name NOT IN ('user', 'goose_db_version')`)
	require.NoError(w.T, err)
	return tables
}

func TestServe_RefusesUnusableAdminAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { taken.Close() })
	for address, want := range map[string]int{taken.Addr().String(): exitInfrastructure, "nowhere": exitUse} {
		code, _, stderr := settleBare(t, "serve", "--mysql-dsn=u:p@tcp(127.0.0.1:1)/x", "--admin-listen="+address)
		require.Equal(t, want, code)
		require.Contains(t, stderr, "SETTLE_ADMIN_LISTEN")
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
