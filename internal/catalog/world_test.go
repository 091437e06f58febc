package catalog_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/recall"
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
	memory  *recall.Memory // of the newest process
	catalog *catalog.Catalog
}

func newWorld(t *testing.T) *world {
	t.Parallel()
	db, err := (&connect.MySQLSettings{MySQLDSN: migrated.Database(t).DSN}).Open(connect.Patient, zaptest.NewLogger(t))
	w := &world{t: t, db: testenv.Opened(t, db, err), redis: testenv.RedisFor(t)}
	w.store, w.catalog = w.process()
	return w
}

// process is another process of the deployment.
func (w *world) process() (*candidates.Store, *catalog.Catalog) {
	store, err := candidates.NewStore(w.redis.Client, candidates.Options{KeyPrefix: w.redis.Prefix})
	require.NoError(w.t, err)
	w.memory = recall.New(store)
	return store, w.catalogOver(store)
}

func (w *world) catalogOver(store catalog.Store) *catalog.Catalog {
	return catalog.New(catalog.Options{DB: w.db, Store: store, Memory: w.memory, Logger: zaptest.NewLogger(w.t),
		Now: time.Now})
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

func (w *world) promise(couponID coupon.CouponID) (p coupon.Promise) {
	w.t.Helper()
	err := w.db.QueryRowContext(w.t.Context(), "SELECT accepted, last_arrival FROM promise WHERE coupon_id = ?",
		couponID).
		Scan(&p.Accepted, &p.LastArrival)
	require.NoError(w.t, err)
	return p
}

// forget removes a coupon from Redis, as a failover to an empty replica does.
func (w *world) forget(couponID coupon.CouponID) {
	w.t.Helper()
	queue := fmt.Sprintf("%scandidates:coupon:%d", w.redis.Prefix, couponID)
	require.NoError(w.t, w.redis.Client.Del(w.t.Context(), queue, "state:{"+queue+"}").Err())
}
