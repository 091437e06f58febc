package catalog_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/handover"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/migrated"
)

func TestMain(m *testing.M) {
	// A pool that was closed while its Redis was away tries once more before it notices.
	goleak.VerifyTestMain(testenv.WithServers{M: m},
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// world is a deployment: a MySQL database, a key prefix in Redis, and a catalog.
type world struct {
	t       *testing.T
	db      *sql.DB
	redis   testenv.RedisHandle
	store   *candidates.Store
	memory  *handover.Memory // of the newest process
	logger  *zap.Logger
	dsn     string // of apply-api
	catalog *catalog.Catalog
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	database := migrated.Database(t)
	db, err := (&connect.MySQLSettings{MySQLDSN: database.DSN}).Open(connect.Patient, zaptest.NewLogger(t))
	w := &world{t: t, db: testenv.Opened(t, db, err), redis: testenv.RedisFor(t), logger: zaptest.NewLogger(t),
		dsn: database.Accounts["jajeong_api"]}
	w.store, w.catalog = w.process()
	return w
}

// process is another process of the deployment.
func (w *world) process() (*candidates.Store, *catalog.Catalog) {
	store, err := candidates.NewStore(w.redis.Client, candidates.Options{KeyPrefix: w.redis.Prefix})
	require.NoError(w.t, err)
	w.memory = handover.New(store, candidates.HandOverTime, time.Now, zap.NewNop())
	store.Recorder = w.memory
	return store, w.catalogOver(store)
}

func (w *world) catalogOver(store catalog.Store) *catalog.Catalog {
	return catalog.New(w.options(store))
}

// options are those of a process with the rights of apply-api.
func (w *world) options(store catalog.Store) catalog.Options {
	db, err := (&connect.MySQLSettings{MySQLDSN: w.dsn}).Open(connect.Brief, zap.NewNop())
	return catalog.Options{DB: testenv.Opened(w.t, db, err), Store: store, Memory: w.memory, Logger: w.logger,
		Now: time.Now}
}

func storeAt(t *testing.T, addr string) *candidates.Store {
	t.Helper()
	_, store := jajeongtest.StoreAt(t, addr)
	return store
}

func (w *world) exec(statement string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), statement, args...)
	require.NoError(w.t, err)
}

// coupon adds a coupon with ten seats that opened an hour ago.
func (w *world) coupon(id coupon.CouponID) {
	w.t.Helper()
	w.couponBetween(id, "-1 HOUR", "1 DAY")
}

func (w *world) couponBetween(id coupon.CouponID, opens, closes string) {
	w.t.Helper()
	w.exec(fmt.Sprintf(`INSERT INTO coupon (id, name, total_quantity, apply_opens_at, apply_closes_at)
VALUES (?, '자정 쿠폰', 10, UTC_TIMESTAMP(6) + INTERVAL %s, UTC_TIMESTAMP(6) + INTERVAL %s)`, opens, closes), uint64(id))
}

func (w *world) requireKnown(coupons map[coupon.CouponID]bool) {
	w.t.Helper()
	for id, want := range coupons {
		_, ok := w.catalog.Lookup(id)
		require.Equal(w.t, want, ok, "coupon %d", id)
	}
}

func (w *world) refresh() {
	w.t.Helper()
	require.NoError(w.t, w.refreshOf(w.catalog))
}

// refreshOf refreshes a catalog until a refresh ends in its time.
func (w *world) refreshOf(c *catalog.Catalog) error {
	w.t.Helper()
	return testenv.InTime(w.t, func() error { return c.Refresh(w.t.Context()) })
}

func (w *world) apply(couponID coupon.CouponID, user coupon.UserID) candidates.Receipt {
	w.t.Helper()
	receipt, err := w.store.Apply(w.t.Context(), couponID, user)
	require.NoError(w.t, err)
	return receipt
}

// journal makes the coupon's row of the journal, as if the task had written it that long ago.
func (w *world) journal(couponID coupon.CouponID, mark promise.Mark, accepted int64, age time.Duration) {
	w.t.Helper()
	w.exec(`REPLACE INTO journal (coupon_id, epoch, up_to, accepted, written_at)
VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)`, uint64(couponID), mark.Epoch, mark.UpTo, accepted,
		age.Microseconds())
}

func (w *world) accepted(couponID coupon.CouponID) (n int64) {
	w.t.Helper()
	require.NoError(w.t, w.db.QueryRowContext(w.t.Context(), "SELECT accepted FROM journal WHERE coupon_id = ?",
		uint64(couponID)).Scan(&n))
	return n
}

func (w *world) epoch(couponID coupon.CouponID) string {
	w.t.Helper()
	look, err := w.store.Look(w.t.Context(), couponID, coupon.Known{})
	require.NoError(w.t, err)
	return look.Epoch
}

// restored marks the server of a coupon as compared with the journal.
func (w *world) restored(couponID coupon.CouponID) {
	w.t.Helper()
	ended, err := w.store.EndRestore(w.t.Context(), couponID, candidates.Ending{Epoch: w.epoch(couponID)})
	require.NoError(w.t, err)
	require.True(w.t, ended.Done)
}

// forget removes a coupon from Redis, as a failover to an empty replica does.
func (w *world) forget(couponID coupon.CouponID) {
	w.t.Helper()
	queue := fmt.Sprintf("%scandidates:coupon:%d", w.redis.Prefix, couponID)
	require.NoError(w.t, w.redis.Client.Del(w.t.Context(), queue, "state:{"+queue+"}").Err())
}
