package cli

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// newOwnWorld has its database on a server of its own, which the test may break.
func newOwnWorld(t *testing.T) (*world, *testenv.MySQL) {
	t.Helper()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	admin, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.Exec("CREATE DATABASE jajeong CHARACTER SET utf8mb4")
	require.NoError(t, err)
	return newWorldWith(t, testenv.RedisFor(t), testenv.MySQLHandle{DSN: server.DSN("jajeong")}), server
}

// account makes an account for this world's database, with these rights alone, and lets the program use it.
func (w *world) account(password, rights string) {
	w.t.Helper()
	config, err := mysql.ParseDSN(w.servers[0][len("--mysql-dsn="):])
	require.NoError(w.t, err)
	name := fmt.Sprintf("plain_%d", time.Now().UnixNano()%1e12)
	w.exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'secret'", name))
	w.t.Cleanup(func() { _, _ = w.db.Exec(fmt.Sprintf("DROP USER '%s'@'%%'", name)) })
	if rights != "" {
		w.exec(fmt.Sprintf("GRANT %s TO '%s'@'%%'", fmt.Sprintf(rights, "`"+config.DBName+"`"), name))
	}
	config.User, config.Passwd = name, password
	w.servers = append([]string{"--mysql-dsn=" + config.FormatDSN()}, w.servers[1:]...)
}

const everyRight = "SELECT, INSERT, UPDATE, DELETE ON %s.*"

// lineOfThree is a coupon of two seats that three users applied for, in an order of their own.
func (w *world) lineOfThree() (coupon uint64) {
	w.t.Helper()
	coupon = w.coupon(2)
	w.users(1, 2, 3)
	w.apply(coupon, 3, 1, 2)
	return coupon
}

func (w *world) threeSettled(coupon uint64) {
	w.t.Helper()
	code, _, stderr := w.runAtOnce()
	require.Zero(w.t, code, stderr)
	require.Equal(w.t, []uint64{3, 1}, w.issued(coupon))
	require.Equal(w.t, []uint64{2}, w.outcome(coupon, "NOT_SELECTED"))
	require.Empty(w.t, w.waiting(coupon))
	require.Empty(w.t, w.underReview(coupon))
	w.verify()
}

// What repeating cannot help stops at once, moves nothing and says what to mend.
func TestASetupThatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		password, rights string
		breaks, mends    string
		says             []string
	}{
		"a wrong password":  {"wrong", everyRight, "", "", []string{"1045", "MYSQL_DSN"}},
		"no right at all":   {"secret", "", "", "", []string{"1044", "MYSQL_DSN"}},
		"no right to write": {"secret", "SELECT ON %s.*", "", "", []string{"1142", "grants"}},
		"no right to issue": {"secret", "SELECT, UPDATE, DELETE ON %[1]s.*", "GRANT INSERT ON settlement_run TO %s", "", []string{"1142", "grants"}},
		"no table to begin": {"secret", everyRight, "RENAME TABLE settlement_run TO gone", "RENAME TABLE gone TO settlement_run", []string{"1146", "settle migrate"}},
		"no table to go on": {"secret", everyRight, "RENAME TABLE settlement TO gone", "RENAME TABLE gone TO settlement", []string{"1146", "settle migrate"}},
		"no column":         {"secret", everyRight, "ALTER TABLE user_coupon RENAME COLUMN position TO seat", "ALTER TABLE user_coupon RENAME COLUMN seat TO position", []string{"1054", "settle migrate"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			coupon := w.lineOfThree()
			right := w.servers
			w.account(c.password, c.rights)
			if c.breaks != "" && c.mends != "" {
				w.exec(c.breaks)
			} else if c.breaks != "" {
				config, err := mysql.ParseDSN(w.servers[0][len("--mysql-dsn="):])
				require.NoError(t, err)
				w.exec(fmt.Sprintf(c.breaks, "'"+config.User+"'@'%'"))
			}
			began := time.Now()
			code, _, stderr := w.runAtOnce()
			require.Equal(t, 2, code, stderr)
			for _, word := range c.says {
				require.Contains(t, stderr, word)
			}
			require.NotContains(t, stderr, "safe to run again")
			require.NotContains(t, stderr, "secret")
			require.Less(t, time.Since(began), 3*time.Second, "it is not tried again")

			if c.mends != "" {
				w.exec(c.mends)
			}
			w.nothingMoved(coupon, 3, 1, 2)
			w.servers = right
			w.threeSettled(coupon)
		})
	}
}

// One server of the test's own meets one trouble after the other: a server takes longer to start than to be mended.
func TestAServerInTrouble(t *testing.T) {
	t.Parallel()
	w, server := newOwnWorld(t)
	w.users(1, 2, 3)
	w.account("secret", everyRight) // who may do everything may also write to a read-only server
	for _, trouble := range []struct {
		name string
		test func(*world, *testenv.MySQL, uint64)
	}{
		{"takes no writes", takesNoWrites},
		{"takes no writes from the middle on", takesNoWritesFromTheMiddleOn},
		{"has too many connections", hasTooManyConnections},
		{"is killed in the middle and started again", isKilledInTheMiddle},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			w.t = t
			coupon := w.coupon(2)
			w.apply(coupon, 3, 1, 2)
			w.refresh()
			trouble.test(w, server, coupon)
			w.threeSettled(coupon)
		})
		w.t = t
	}
}

// As one that was the primary until a moment ago. It cannot be told from one that is about to take writes again:
// nobody is put under review.
func takesNoWrites(w *world, _ *testenv.MySQL, coupon uint64) {
	w.exec("SET GLOBAL read_only = 1")
	code, _, stderr := w.runAtOnce()
	require.Equal(w.t, 1, code, stderr)
	require.Contains(w.t, stderr, "read-only")
	require.Contains(w.t, stderr, "safe to run again")
	w.exec("SET GLOBAL read_only = 0")
	w.nothingMoved(coupon, 3, 1, 2)
}

// The server takes writes again by the time of the next attempt, or that one leads to another server.
func takesNoWritesFromTheMiddleOn(w *world, _ *testenv.MySQL, coupon uint64) {
	s := w.settlerOfItsOwn()
	s.Hook = onStep(func(step settle.Step, times int) {
		switch {
		case step == settle.StepCount && times == 1:
			w.exec("SET GLOBAL read_only = 1")
		case step == settle.StepLock && times == 2:
			w.nothingMoved(coupon, 3, 1, 2)
			w.exec("SET GLOBAL read_only = 0")
		}
	})
	code, _, _, stderr := w.settleWith(s, coupon)
	require.Zero(w.t, code, stderr)
	require.Equal(w.t, []uint64{1, 2}, w.positions(coupon))
}

// Every connection is taken by others: the first in line are put under review, as when the server is away.
func hasTooManyConnections(w *world, _ *testenv.MySQL, coupon uint64) {
	arrivals := w.arrivalsOf(coupon, 3, 1)
	var before int
	require.NoError(w.t, w.db.QueryRow("SELECT @@max_connections").Scan(&before))
	w.exec("SET GLOBAL max_connections = 12")
	others := w.as("jajeong_settle")
	defer others.Close()
	var taken []*sql.Conn
	for {
		conn, err := others.Conn(w.t.Context())
		if err != nil {
			require.ErrorContains(w.t, err, "1040")
			break
		}
		taken = append(taken, conn)
	}
	code, _, stderr := w.runAtOnce()
	require.Equal(w.t, 1, code, stderr)
	require.Contains(w.t, stderr, "1040")
	require.Contains(w.t, stderr, "safe to run again")
	w.awayReview(coupon, 1, arrivals)
	require.Equal(w.t, []string{"2"}, w.waiting(coupon))
	for _, conn := range taken {
		require.NoError(w.t, conn.Close())
	}
	w.exec(fmt.Sprintf("SET GLOBAL max_connections = %d", before))
}

// The server dies between the inserts and the commit and is back at once: the run itself begins again.
func isKilledInTheMiddle(w *world, server *testenv.MySQL, coupon uint64) {
	s := w.settlerOfItsOwn()
	locked := 0
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepLock {
			locked = times
		}
		if step == settle.StepCount && times == 1 {
			require.NoError(w.t, server.Restart(context.Background()))
		}
	})
	code, _, _, stderr := w.settleWith(s, coupon)
	require.Zero(w.t, code, stderr)
	require.Equal(w.t, 2, locked)
	require.Equal(w.t, []uint64{1, 2}, w.positions(coupon))
}

// settlerOfItsOwn reaches MySQL as the program does, with the world's flags.
func (w *world) settlerOfItsOwn() *settle.Settler {
	w.t.Helper()
	db, err := (&connect.MySQLSettings{MySQLDSN: strings.TrimPrefix(w.servers[0], "--mysql-dsn=")}).Open(zap.NewNop())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = db.Close() })
	s := w.settler()
	s.DB, s.Parallel = mysqltx.New(db), 1
	return s
}

// onStep is a hook that is called before each step, with how often that step has begun.
func onStep(do func(step settle.Step, times int)) func(uint64, settle.Step) {
	var mu sync.Mutex
	times := map[settle.Step]int{}
	return func(_ uint64, step settle.Step) {
		mu.Lock()
		defer mu.Unlock()
		times[step]++
		do(step, times[step])
	}
}
