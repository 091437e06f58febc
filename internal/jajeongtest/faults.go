package jajeongtest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// The indexes of the proxies that Proxied returns.
const (
	ToMySQL = iota
	ToRedis
)

// Proxied puts fault proxies in front of MySQL and Redis, which must be one server each. The deployment that it returns
// is the same, but its programs and its operators connect through the proxies.
func (d *Deployment) Proxied(rule faultproxy.Rule) ([]*faultproxy.Proxy, *Deployment) {
	d.T.Helper()
	dsn, err := mysql.ParseDSN(d.Job.MySQLDSN)
	require.NoError(d.T, err)
	require.Len(d.T, d.Job.RedisAddrs, 1)
	proxies := faultproxy.NewGroup(d.T, rule, dsn.Addr, d.Job.RedisAddrs[0])
	proxied := *d
	through := func(s *connect.MySQLSettings) {
		s.MySQLDSN = strings.Replace(s.MySQLDSN, "("+dsn.Addr+")", "("+proxies[ToMySQL].Addr+")", 1)
	}
	for _, a := range []*Access{&proxied.Job, &proxied.Operator, &proxied.API} {
		through(&a.MySQLSettings)
		a.RedisAddrs = []string{proxies[ToRedis].Addr}
	}
	through(&proxied.Wallet)
	return proxies, &proxied
}

// PodsDie replaces Store by that of a new pod, which remembers no accepted application.
func (d *Deployment) PodsDie() {
	d.T.Helper()
	d.Store = d.NewStore(d.Redis)
	d.remember()
}

// RefuseRows adds a trigger that refuses new rows of these users, or of all, as one of another team might.
func (d *Deployment) RefuseRows(table string, users ...coupon.UserID) (allow func()) {
	d.T.Helper()
	condition := "TRUE"
	if len(users) > 0 {
		condition = "NEW.user_id IN (" + list(users) + ")"
	}
	d.Exec(fmt.Sprintf(`CREATE TRIGGER refuses_%[1]s BEFORE INSERT ON %[1]s FOR EACH ROW
		IF %[2]s THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an odd user'; END IF`, table, condition))
	return func() { d.Exec("DROP TRIGGER refuses_" + table) }
}

// RefuseOddUsers adds a trigger that refuses coupons for the users in the table odd_user.
func (d *Deployment) RefuseOddUsers() {
	d.T.Helper()
	d.Exec("CREATE TABLE odd_user (id BIGINT UNSIGNED PRIMARY KEY)")
	d.Exec(`CREATE TRIGGER odd_users BEFORE INSERT ON user_coupon FOR EACH ROW
		IF NEW.run_id IS NOT NULL AND EXISTS (SELECT 1 FROM odd_user WHERE id = NEW.user_id)
		THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an odd user'; END IF`)
}

// Lock locks a coupon's row until release is called, at the latest at the end of the test.
func (d *Deployment) Lock(couponID coupon.CouponID) (release func()) {
	d.T.Helper()
	tx, err := d.DB.Begin()
	require.NoError(d.T, err)
	release = sync.OnceFunc(func() { _ = tx.Rollback() })
	d.T.Cleanup(release)
	// The comment keeps AwaitLockWait from counting this statement.
	_, err = tx.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE /* by the test */", couponID)
	require.NoError(d.T, err)
	return release
}

// AwaitLockWait waits until a session of this database waits for a row lock.
func (d *Deployment) AwaitLockWait() {
	d.T.Helper()
	testenv.Eventually(d.T, "a session waits for the lock", func() bool {
		return testenv.Sessions(d.T, d.DB, func(s testenv.Session) bool {
			return s.Command == "Query" && strings.HasSuffix(s.Statement, "FOR UPDATE")
		}) > 0
	})
}
