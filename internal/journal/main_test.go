package journal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// journalled is a coupon in a deployment of its own. The journal has its line.
func journalled(t *testing.T, seats int, users ...coupon.UserID) (*jajeongtest.Deployment, coupon.CouponID) {
	t.Helper()
	d := jajeongtest.New(t)
	id := d.AddQueue(seats, users...)
	d.Journal(id)
	return d, id
}

// lose makes Redis lose coupons, while every pod dies.
func lose(d *jajeongtest.Deployment, coupons ...coupon.CouponID) {
	d.T.Helper()
	d.PodsDie()
	d.LoseRedis(coupons...)
}

// handOver hands over an answer, as a pod does.
func handOver(d *jajeongtest.Deployment, id coupon.CouponID, member string, arrival coupon.Arrival) {
	d.T.Helper()
	require.NoError(d.T, d.Redis.ZAdd(d.T.Context(), d.Key("returned", id),
		redis.Z{Score: float64(arrival), Member: member}).Err())
}

// vanish deletes entries of the queue by hand.
func vanish(d *jajeongtest.Deployment, id coupon.CouponID, members ...any) {
	d.T.Helper()
	require.NoError(d.T, d.Redis.ZRem(d.T.Context(), d.Queue(id), members...).Err())
}

func members(users ...coupon.UserID) (all []string) {
	for _, user := range users {
		all = append(all, user.Member())
	}
	return all
}

// rows are the users in the journal of a coupon, by arrival.
func rows(d *jajeongtest.Deployment, id coupon.CouponID) []coupon.UserID {
	d.T.Helper()
	return jajeongtest.Column[coupon.UserID](d,
		"SELECT user_id FROM line_journal WHERE coupon_id = ? ORDER BY arrival, user_id", id)
}

// markOf is how far the journal of a coupon came.
func markOf(d *jajeongtest.Deployment, id coupon.CouponID) (m promise.Mark) {
	d.T.Helper()
	require.NoError(d.T, d.DB.QueryRow("SELECT epoch, up_to FROM journal WHERE coupon_id = ?", id).
		Scan(&m.Epoch, &m.UpTo))
	return m
}

func journalField(d *jajeongtest.Deployment, id coupon.CouponID, column string) int64 {
	d.T.Helper()
	return d.Number(fmt.Sprintf("SELECT %s FROM journal WHERE coupon_id = ?", column), id)
}

// copier is the journal of a `settle serve` and what it remembers of one coupon.
type copier struct {
	*journal.Journal
	d        *jajeongtest.Deployment
	id       coupon.CouponID
	progress journal.Progress
}

func copierOf(d *jajeongtest.Deployment, id coupon.CouponID) *copier {
	d.T.Helper()
	c := &copier{Journal: journalOf(d), d: d, id: id}
	require.NoError(d.T, c.Begin(d.T.Context(), id))
	return c
}

// copying is a coupon in a deployment of its own, and its copier.
func copying(t *testing.T, seats int, users ...coupon.UserID) (*jajeongtest.Deployment, coupon.CouponID, *copier) {
	t.Helper()
	d := jajeongtest.New(t)
	id := d.AddQueue(seats, users...)
	return d, id, copierOf(d, id)
}

// copy copies once.
func (c *copier) copy() journal.Copied {
	c.d.T.Helper()
	copied, err := c.Copy(c.d.T.Context(), c.id, &c.progress)
	require.NoError(c.d.T, err)
	return copied
}

// restart forgets what the process knows.
func (c *copier) restart() { c.progress = journal.Progress{} }

// journalOf is the journal of a `settle serve`.
func journalOf(d *jajeongtest.Deployment) *journal.Journal {
	d.T.Helper()
	servers, err := connect.Open(&d.Job.MySQLSettings, connect.Brief, &d.Job.RedisSettings, zap.NewNop())
	require.NoError(d.T, err)
	d.T.Cleanup(servers.Close)
	return &journal.Journal{DB: mysqltx.NewBrief(servers.MySQL), Store: d.NewStore(servers.Redis)}
}

var errCrash = errors.New("the process crashes")
