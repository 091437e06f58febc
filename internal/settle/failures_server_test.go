package settle_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// newOnPrivateMySQL has a MySQL server of its own.
func newOnPrivateMySQL(t *testing.T) (*jajeongtest.Deployment, *testenv.MySQL) {
	t.Helper()
	server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
	return jajeongtest.NewWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)}), server
}

// oneByOne is a settler that settles one coupon after the other.
func oneByOne(d *jajeongtest.Deployment) *settle.Settler {
	return d.Settler(func(s *settle.Settler) { s.Parallel = 1 })
}

// useAccount has the settlement use a new account with these rights alone.
func useAccount(d *jajeongtest.Deployment, password, rights string) (name string) {
	d.T.Helper()
	config, err := mysql.ParseDSN(d.Job.MySQLDSN)
	require.NoError(d.T, err)
	name = fmt.Sprintf("plain_%d", time.Now().UnixNano()%1e12)
	d.Exec(fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'secret'", name))
	d.T.Cleanup(func() { _, _ = d.DB.Exec(fmt.Sprintf("DROP USER '%s'@'%%'", name)) })
	if rights != "" {
		d.Exec(fmt.Sprintf("GRANT %s TO '%s'@'%%'", fmt.Sprintf(rights, "`"+config.DBName+"`"), name))
	}
	config.User, config.Passwd = name, password
	d.Job.MySQLDSN = config.FormatDSN()
	return name
}

const everyRight = "SELECT, INSERT, UPDATE, DELETE ON %s.*"

func settleThree(d *jajeongtest.Deployment, couponID coupon.CouponID) {
	d.T.Helper()
	d.SettleNow()
	requireSettled(d, couponID, results{issued: []coupon.UserID{3, 1}, notSelected: []coupon.UserID{2}})
}

// A wrong setup is not repeated. Nothing moves, and the advice names the remedy.
func TestSettle_WrongSetupMovesNothingAndNamesRemedy(t *testing.T) {
	t.Parallel()
	shared := jajeongtest.New(t)
	shared.AddUsers(1, 2, 3)
	for name, c := range map[string]struct {
		password, rights string
		breaks, mends    string
		says             []string
	}{
		"a wrong password": {"wrong", everyRight, "", "", []string{"1045", "MYSQL_DSN"}},
		"no right to issue": {"secret", "SELECT, UPDATE, DELETE ON %[1]s.*", "GRANT INSERT ON settlement_run TO %s", "",
			[]string{"1142", "grants"}},
		"no table to go on": {"secret", everyRight, "RENAME TABLE settlement TO gone",
			"RENAME TABLE gone TO settlement", []string{"1146", "settle migrate"}},
		"no column": {"secret", everyRight, "ALTER TABLE user_coupon RENAME COLUMN position TO seat",
			"ALTER TABLE user_coupon RENAME COLUMN seat TO position", []string{"1054", "settle migrate"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := shared.For(t)
			couponID := d.AddCoupon(2)
			d.Apply(couponID, 3, 1, 2)
			right := d.Job
			account := useAccount(d, c.password, c.rights)
			if c.breaks != "" && c.mends != "" {
				d.Exec(c.breaks)
			} else if c.breaks != "" {
				d.Exec(fmt.Sprintf(c.breaks, "'"+account+"'@'%'"))
			}
			report, err := d.Settle(jajeongtest.Manual(couponID))
			if err == nil {
				require.Equal(t, []coupon.Class{coupon.Setup}, report.Classes())
				err = report.Coupons[0].Err()
			}
			require.Equal(t, coupon.Setup, mysqltx.ClassOf(err))
			for _, word := range c.says {
				require.Contains(t, err.Error()+mysqltx.Advice(err).In(text.English), word)
			}
			require.NotContains(t, err.Error(), "secret")

			if c.mends != "" {
				d.Exec(c.mends)
			}
			requireUnchanged(d, couponID, 3, 1, 2)
			d.Job = right
			settleThree(d, couponID)
		})
	}
}

// The test servers have no certificate that a client trusts, or no TLS at all. A nightly run does not take that for a
// server that is away.
func TestSettle_WrongTLSSettingMovesNothing(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	couponID := d.AddQueue(2, 3, 1, 2)
	d.Refresh()
	right := d.Job
	config, err := mysql.ParseDSN(d.Job.MySQLDSN)
	require.NoError(t, err)
	config.TLSConfig = "true"
	d.Job.MySQLDSN = config.FormatDSN()
	_, err = d.Settle(nightNow)
	require.Equal(t, coupon.Setup, mysqltx.ClassOf(err))
	require.Regexp(t, "tls.* MYSQL_DSN|MYSQL_DSN.* tls", err.Error()+mysqltx.Advice(err).In(text.English),
		"which TLS the server has decides who says it")
	requireUnchanged(d, couponID, 3, 1, 2)
	d.Job = right
	settleThree(d, couponID)
}

// One server has one trouble after the other, since a start takes longer than a repair.
func TestSettle_SettlesAfterServerTrouble(t *testing.T) {
	t.Parallel()
	d, server := newOnPrivateMySQL(t)
	d.AddUsers(1, 2, 3)
	for _, trouble := range []struct {
		name string
		test func(*jajeongtest.Deployment, *testenv.MySQL, coupon.CouponID)
	}{
		{"takes no writes", takesNoWrites},
		{"takes no writes from the middle on", takesNoWritesFromTheMiddleOn},
		{"has too many connections", hasTooManyConnections},
		{"is killed in the middle and started again", isKilledInTheMiddle},
	} {
		t.Run(trouble.name, func(t *testing.T) {
			d.T = t
			couponID := d.AddCoupon(2)
			d.Apply(couponID, 3, 1, 2)
			d.Refresh()
			trouble.test(d, server, couponID)
			settleThree(d, couponID)
		})
		d.T = t
	}
}

// A former primary may accept writes again soon: no application goes to the DLQ.
func takesNoWrites(d *jajeongtest.Deployment, _ *testenv.MySQL, couponID coupon.CouponID) {
	d.Exec("SET GLOBAL read_only = 1")
	_, err := d.Settle(jajeongtest.Manual())
	require.ErrorContains(d.T, err, "read-only")
	require.Equal(d.T, coupon.Infrastructure, mysqltx.ClassOf(err))
	d.Exec("SET GLOBAL read_only = 0")
	requireUnchanged(d, couponID, 3, 1, 2)
}

// The server accepts writes again before the next attempt.
func takesNoWritesFromTheMiddleOn(d *jajeongtest.Deployment, _ *testenv.MySQL, couponID coupon.CouponID) {
	s := oneByOne(d)
	s.Hook = onStep(func(step settle.Step, times int) {
		switch {
		case step == settle.StepCount && times == 1:
			d.Exec("SET GLOBAL read_only = 1")
		case step == settle.StepLock && times == 2:
			requireUnchanged(d, couponID, 3, 1, 2)
			d.Exec("SET GLOBAL read_only = 0")
		}
	})
	report, err := s.RunOnce(d.T.Context(), jajeongtest.Manual(couponID))
	require.NoError(d.T, err)
	require.Empty(d.T, report.Classes())
	require.Equal(d.T, []uint64{1, 2}, d.Seats(couponID))
}

// All connections are in use: the first applications go to the DLQ, as when the server is away.
func hasTooManyConnections(d *jajeongtest.Deployment, _ *testenv.MySQL, couponID coupon.CouponID) {
	arrivals := arrivalsOf(d, couponID, 3, 1)
	var before int
	require.NoError(d.T, d.DB.QueryRow("SELECT @@max_connections").Scan(&before))
	d.Exec("SET GLOBAL max_connections = 12")
	others, err := (&connect.MySQLSettings{MySQLDSN: d.Accounts["jajeong_settle"]}).Open(connect.Patient, zap.NewNop())
	require.NoError(d.T, err)
	defer others.Close()
	var taken []*sql.Conn
	for {
		conn, err := others.Conn(d.T.Context())
		if err != nil {
			require.ErrorContains(d.T, err, "1040")
			break
		}
		taken = append(taken, conn)
	}
	_, err = d.Settle(nightNow)
	require.ErrorContains(d.T, err, "1040")
	require.Equal(d.T, coupon.Infrastructure, mysqltx.ClassOf(err))
	requireAwayReview(d, couponID, 1, arrivals)
	require.Equal(d.T, []string{"2"}, d.Waiting(couponID))
	for _, conn := range taken {
		require.NoError(d.T, conn.Close())
	}
	d.Exec(fmt.Sprintf("SET GLOBAL max_connections = %d", before))
}

// The server restarts between the inserts and the commit. The same run repeats the transaction.
func isKilledInTheMiddle(d *jajeongtest.Deployment, server *testenv.MySQL, couponID coupon.CouponID) {
	s := oneByOne(d)
	locked := 0
	s.Hook = onStep(func(step settle.Step, times int) {
		if step == settle.StepLock {
			locked = times
		}
		if step == settle.StepCount && times == 1 {
			require.NoError(d.T, server.Restart(context.Background()))
		}
	})
	report, err := s.RunOnce(d.T.Context(), jajeongtest.Manual(couponID))
	require.NoError(d.T, err)
	require.Empty(d.T, report.Classes())
	require.Equal(d.T, 2, locked)
	require.Equal(d.T, []uint64{1, 2}, d.Seats(couponID))
}

// onStep is a hook that calls do as each step begins, with how often that step has begun.
func onStep(do func(step settle.Step, times int)) func(coupon.CouponID, settle.Step) {
	var mu sync.Mutex
	times := map[settle.Step]int{}
	return func(_ coupon.CouponID, step settle.Step) {
		mu.Lock()
		defer mu.Unlock()
		times[step]++
		do(step, times[step])
	}
}
