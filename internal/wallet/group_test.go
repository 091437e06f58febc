package wallet_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/wallet"
)

const groupUsers = 20

// grouped is a Store under the account of wallet-api, with a coupon that users 1 to groupUsers have.
type grouped struct {
	*checkout
	store *wallet.Store
}

func newGrouped(t *testing.T) *grouped {
	t.Helper()
	d := jajeongtest.New(t)
	var users []coupon.UserID
	for user := range coupon.UserID(groupUsers) {
		users = append(users, user+1)
	}
	c := &checkout{Deployment: d, coupon: d.AddQueue(groupUsers, users...)}
	d.Exec("UPDATE coupon SET discount_won = 5000 WHERE id = ?", c.coupon)
	d.SettleNow()
	pool, err := d.Wallet.Open(connect.Patient, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	c.db = mysqltx.NewBrief(pool)
	return &grouped{c, wallet.NewStore(pool)}
}

func (g *grouped) ask(ctx context.Context, verb wallet.Verb, user coupon.UserID, order string) (wallet.Decision, error) {
	return g.store.Redeem(ctx, g.coupon, wallet.Call{Verb: verb, Actor: "checkout", OrderID: order, User: user, AmountWon: 12_000, TTL: time.Minute})
}

// all makes one call for each user at once, and demands the code.
func (g *grouped) all(verb wallet.Verb, order string, want wallet.Code) {
	g.T.Helper()
	var calls sync.WaitGroup
	for user := range coupon.UserID(groupUsers) {
		calls.Go(func() {
			d, err := g.ask(g.T.Context(), verb, user+1, fmt.Sprintf("%s-%d", order, user+1))
			assert.NoError(g.T, err)
			assert.Equal(g.T, want, d.Code)
		})
	}
	calls.Wait()
}

// The rows are those that Redeem writes.
func TestStore_CallsTogetherWriteWhatRedeemWrites(t *testing.T) {
	t.Parallel()
	g := newGrouped(t)
	g.all(wallet.Confirm, "A", wallet.OrderNotFound)
	g.all(wallet.Reserve, "A", wallet.Done)
	g.all(wallet.Reserve, "A", wallet.Repeated)
	g.all(wallet.Reserve, "B", wallet.ReservedElsewhere)
	g.all(wallet.Confirm, "A", wallet.Done)
	g.all(wallet.Confirm, "A", wallet.Repeated)
	g.all(wallet.Reserve, "B", wallet.Used)
	require.Equal(t, []int{groupUsers}, jajeongtest.Column[int](g.Deployment, `
		SELECT COUNT(*) FROM user_coupon u JOIN coupon_order o ON o.order_id = u.order_id AND o.user_coupon_id = u.id AND o.user_id = u.user_id
		WHERE u.status = 'USED' AND u.seq = 2 AND o.state = 'USED' AND o.order_id = CONCAT('A-', u.user_id) AND o.amount_won = 12000 AND o.discount_won = 5000`))
	require.Equal(t, []int{groupUsers}, jajeongtest.Column[int](g.Deployment, "SELECT COUNT(*) FROM coupon_order"))
	for seq, kind := range map[int]string{1: "RESERVED", 2: "USED"} {
		require.Equal(t, []int{groupUsers}, jajeongtest.Column[int](g.Deployment, fmt.Sprintf(`
			SELECT COUNT(*) FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id AND u.order_id = l.order_id
			WHERE l.seq = %d AND l.kind = '%s' AND l.amount_won = 12000 AND l.discount_won = 5000 AND l.actor = 'checkout'`, seq, kind)))
	}
	require.Equal(t, []int{2 * groupUsers}, jajeongtest.Column[int](g.Deployment, "SELECT COUNT(*) FROM coupon_log"))

	g.all(wallet.Refund, "A", wallet.Done)
	g.all(wallet.Reserve, "A", wallet.OrderRefunded)
	g.all(wallet.Reserve, "B", wallet.Done)
	g.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6) WHERE state = 'RESERVED'")
	g.all(wallet.Reserve, "C", wallet.Done)
	g.all(wallet.Confirm, "B", wallet.ReservationLost)
	g.all(wallet.Confirm, "C", wallet.Done)
}

func TestStore_OneOrderForManyCoupons(t *testing.T) {
	t.Parallel()
	g := newGrouped(t)
	other := g.AddQueue(1, groupUsers+1)
	g.SettleNow()
	var won atomic.Int64
	var calls sync.WaitGroup
	for range 20 {
		for _, user := range []coupon.UserID{1, 2, groupUsers + 1} {
			calls.Go(func() {
				id := g.coupon
				if user > groupUsers {
					id = other
				}
				d, err := g.store.Redeem(t.Context(), id, wallet.Call{Verb: wallet.Reserve, Actor: "checkout", OrderID: "A", User: user, AmountWon: 12_000, TTL: time.Minute})
				if err == nil && d.Code == wallet.Done {
					won.Add(1)
				}
			})
		}
	}
	calls.Wait()
	require.EqualValues(t, 1, won.Load())
	require.Equal(t, []int{1}, jajeongtest.Column[int](g.Deployment, "SELECT COUNT(*) FROM user_coupon WHERE order_id = 'A'"))
	require.Equal(t, []int{1}, jajeongtest.Column[int](g.Deployment, "SELECT COUNT(*) FROM coupon_log"))
}

// A client that stopped with the lock of its coupon stops nobody else.
func TestStore_LockedCouponsDelayTheirOwnCallsOnly(t *testing.T) {
	t.Parallel()
	g := newGrouped(t)
	tx, err := g.db.Pool().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	const locked = 4
	for user := range locked {
		_, err = tx.ExecContext(t.Context(), "SELECT id FROM user_coupon WHERE coupon_id = ? AND user_id = ? FOR UPDATE", g.coupon, user+1)
		require.NoError(t, err)
	}
	late := make(chan wallet.Decision, locked)
	var calls sync.WaitGroup
	for user := range coupon.UserID(locked) {
		calls.Go(func() {
			d, err := g.ask(t.Context(), wallet.Reserve, user+1, fmt.Sprintf("A-%d", user+1))
			assert.NoError(t, err)
			late <- d
		})
	}
	const others = 16
	for user := coupon.UserID(locked + 1); user <= locked+others; user++ {
		d, err := g.ask(t.Context(), wallet.Reserve, user, fmt.Sprintf("A-%d", user))
		require.NoError(t, err)
		require.Equal(t, wallet.Done, d.Code)
		require.Empty(t, late, "it did not wait for a call that waits for a lock")
	}
	require.NoError(t, tx.Rollback())
	calls.Wait()
	for range locked {
		require.Equal(t, wallet.Done, (<-late).Code)
	}
}
