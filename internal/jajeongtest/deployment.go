// Package jajeongtest gives a test one deployment of Jajeong on real servers: a migrated database and a key prefix of
// its own, with the accounts of sql/grants.sql and the users of docs/redis-users.acl. Settlements run in the test's
// process under the account of `settle`; the test itself is an administrator. TestMain of a package calls [Main], a
// test calls [New]:
//
//	d := jajeongtest.New(t)
//	couponID := d.AddCoupon(2)
//	d.AddUsers(1, 2, 3)
//	d.Apply(couponID, 3, 1, 2)
//	d.SettleNow()
//	require.Equal(t, []coupon.UserID{3, 1}, d.Issued(couponID))
//	d.Verify()
package jajeongtest

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/docs"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/handover"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/hostile"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
	"github.com/jajeong/jajeong/internal/users"
	migrations "github.com/jajeong/jajeong/sql"
)

// HandOverTime is the time that pods have to hand lost applications over, for what runs in the process of a test. It is
// short, because many tests lose them for good. Programs have the time of the product.
const HandOverTime = 100 * time.Millisecond

// Main runs the tests on a database server with hostile defaults and exits. For TestMain.
func Main(m *testing.M) { testenv.MainHostile(m) }

// Deployment is a database and a part of a Redis with everything that the programs need there.
type Deployment struct {
	T      testing.TB
	DB     *sql.DB               // as administrator
	Redis  redis.UniversalClient // as administrator
	Prefix string                // of all keys
	Store  *candidates.Store     // of a pod, which remembers the applications that it accepted
	Users  *users.Directory

	Accounts                  map[string]string // DSNs by the names in sql/grants.sql
	RedisUsers                *testenv.RedisUsers
	Admin, Job, Operator, API Access // of the test, the settlement, operators and pods
	Wallet                    connect.MySQLSettings

	UserTable UserTable

	noon *time.Location // see Noon
}

// Access is how one account reaches MySQL and Redis.
type Access struct {
	connect.MySQLSettings
	connect.RedisSettings
}

// Options choose the servers and the users' table of a deployment. New takes the zero Options.
type Options struct {
	Redis *testenv.RedisHandle // nil: a share of the shared Redis
	MySQL *testenv.MySQLHandle // nil: a migrated database on the shared server
	Users *UserTable           // nil: MigratedUsers

	Galera bool // MySQL is a node of Galera
}

// New makes a deployment on the shared servers.
func New(t testing.TB) *Deployment {
	t.Helper()
	return NewWith(t, Options{})
}

// NewWith makes a deployment. Everything it made is removed at the end of the test.
func NewWith(t testing.TB, o Options) *Deployment {
	t.Helper()
	if o.Redis == nil {
		r := testenv.RedisFor(t)
		o.Redis = &r
	}
	if o.Users == nil {
		o.Users = &MigratedUsers
	}
	database := databaseOf(t, o)
	d := &Deployment{T: t, Redis: o.Redis.Client, Prefix: o.Redis.Prefix, UserTable: *o.Users,
		Users: o.Users.Settings().Directory()}
	d.Admin.MySQLDSN, d.Admin.RedisAddrs, d.Admin.GaleraSingleWriter = database.DSN, o.Redis.Addrs, o.Galera
	d.DB = d.open(database.DSN)
	d.PodsDie()

	d.Accounts = map[string]string{}
	settings := hostile.Settings(t, d.DB)
	for name, dsn := range database.Accounts {
		d.Accounts[name] = hostile.DSN(t, dsn, settings)
	}
	d.RedisUsers = testenv.RedisUsersFor(t, o.Redis.Client, o.Redis.Prefix, docs.RedisUsers)
	access := func(account, user string) (a Access) {
		require.Contains(t, d.Accounts, account)
		a.MySQLDSN, a.RedisAddrs, a.GaleraSingleWriter = d.Accounts[account], o.Redis.Addrs, o.Galera
		username, password := d.RedisUsers.As(user)
		a.RedisUsername, a.RedisPasswordFile = username, testenv.SecretFile(t, password)
		return a
	}
	d.Job = access("jajeong_settle", "jajeong_settle")
	d.Operator = access("jajeong_operator", "jajeong_settle")
	d.API = access("jajeong_api", "jajeong_api")
	d.Wallet.MySQLDSN, d.Wallet.GaleraSingleWriter = d.Accounts["jajeong_wallet"], o.Galera
	return d
}

// databaseOf is one of the pool, unless the options bring a database.
func databaseOf(t testing.TB, o Options) testenv.SchemaHandle {
	t.Helper()
	grants := o.Users.grants(migrations.Grants)
	if o.MySQL == nil {
		return migrated.DatabaseWith(t, migrated.Users{DDL: o.Users.DDL, Grants: grants})
	}
	require.NoError(t, migrated.Migrate(t.Context(), o.MySQL.DSN, o.Users.DDL))
	return testenv.SchemaHandle{MySQLHandle: *o.MySQL, Accounts: testenv.Accounts(t, o.MySQL.DSN, grants)}
}

// NewOnPrivateRedis makes a deployment with a Redis of its own, for proxies and full memory, and with some table of
// users.
func NewOnPrivateRedis(t testing.TB) *Deployment {
	t.Helper()
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	return NewWith(t, Options{Redis: RedisAt(t, server.Addr()), Users: SomeUserTable(t)})
}

// For returns the deployment for a subtest.
func (d *Deployment) For(t testing.TB) *Deployment {
	other := *d
	other.T = t
	return &other
}

// Flags are the flags of both programs for an access to this deployment.
func (d *Deployment) Flags(a Access) []string {
	flags := []string{"--mysql-dsn=" + a.MySQLDSN, "--redis-addrs=" + strings.Join(a.RedisAddrs, ","),
		"--redis-username=" + a.RedisUsername, "--redis-password-file=" + a.RedisPasswordFile}
	if d.Prefix != "" {
		flags = append(flags, "--redis-key-prefix="+d.Prefix)
	}
	return append(flags, d.UserTable.Flags()...)
}

// WalletPool are connections of wallet-api, until the end of the test.
func (d *Deployment) WalletPool() *sql.DB {
	d.T.Helper()
	pool, err := d.Wallet.Open(connect.Patient, zap.NewNop())
	return testenv.Opened(d.T, pool, err)
}

// RedisAt is a Redis of the test's own, or a Cluster, for one deployment.
func RedisAt(t testing.TB, addrs ...string) *testenv.RedisHandle {
	t.Helper()
	client, err := (&connect.RedisSettings{RedisAddrs: addrs}).Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return &testenv.RedisHandle{Addrs: addrs, Client: client}
}

// StoreAt is a store of coupons on a Redis of the test's own, or a Cluster.
func StoreAt(t testing.TB, addrs ...string) (redis.UniversalClient, *candidates.Store) {
	t.Helper()
	client := RedisAt(t, addrs...).Client
	store, err := candidates.NewStore(client, candidates.Options{})
	require.NoError(t, err)
	return client, store
}

// DatabaseOn is a database on a server of the test's own.
func DatabaseOn(t testing.TB, server *testenv.MySQL) *testenv.MySQLHandle {
	t.Helper()
	admin, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.Exec("CREATE DATABASE jajeong CHARACTER SET utf8mb4")
	require.NoError(t, err)
	return &testenv.MySQLHandle{DSN: server.DSN("jajeong")}
}

// open opens a pool with the sessions of the programs. MySQL ends none while a test waits.
func (d *Deployment) open(dsn string) *sql.DB {
	d.T.Helper()
	db, err := (&connect.MySQLSettings{MySQLDSN: dsn, GaleraSingleWriter: d.Admin.GaleraSingleWriter}).
		Open(connect.Patient, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(func() { _ = db.Close() })
	return db
}

// NewStore is the store of a process that has just started.
func (d *Deployment) NewStore(client redis.UniversalClient) *candidates.Store {
	d.T.Helper()
	store, err := candidates.NewStore(client, candidates.Options{KeyPrefix: d.Prefix, HandOverTime: HandOverTime})
	require.NoError(d.T, err)
	return store
}

// remember gives Store the memory of a pod that has just started.
func (d *Deployment) remember() {
	d.Store.Recorder = handover.New(d.Store, HandOverTime, time.Now, zap.NewNop())
}

// Memory is the memory of Store.
func (d *Deployment) Memory() *handover.Memory { return d.Store.Recorder.(*handover.Memory) }

// Now is the Redis clock.
func (d *Deployment) Now() time.Time {
	d.T.Helper()
	now, err := d.Store.Now(d.T.Context())
	require.NoError(d.T, err)
	return now
}

// Exec executes a statement as administrator.
func (d *Deployment) Exec(query string, args ...any) {
	d.T.Helper()
	_, err := d.DB.Exec(query, args...)
	require.NoError(d.T, err)
}
