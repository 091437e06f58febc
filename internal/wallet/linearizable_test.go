package wallet_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/wallet"
)

// shop has some coupons of each user, and calls as wallet-api and as operators do.
type shop struct {
	*jajeongtest.Deployment
	db, operators *mysqltx.DB
	pods          []*wallet.Store // of wallet-api
	redeemed      atomic.Int64    // calls, which go to each pod in turn
	coupons       [modelCoupons]coupon.CouponID
}

func newShop(t *testing.T, users int) *shop {
	t.Helper()
	s := &shop{Deployment: jajeongtest.New(t)}
	everybody := jajeongtest.Between(coupon.UserID(1), coupon.UserID(users))
	s.AddUsers(everybody...)
	for i := range s.coupons {
		s.coupons[i] = s.AddCoupon(users)
		s.Apply(s.coupons[i], everybody...)
	}
	s.Exec("UPDATE coupon SET discount_won = ?, minimum_won = ?", modelDiscount, modelMinimum)
	s.SettleNow()
	s.connect(s.Wallet.MySQLDSN)
	s.operators = mysqltx.New(s.DB)
	return s
}

// connect opens the pool of the wallet's account.
func (s *shop) connect(dsn string) {
	s.T.Helper()
	settings := s.Wallet
	settings.MySQLDSN = dsn
	pool, err := settings.Open(connect.Patient, zap.NewNop())
	testenv.Opened(s.T, pool, err)
	s.db, s.pods = mysqltx.NewBrief(pool), []*wallet.Store{wallet.NewStore(pool), wallet.NewStore(pool)}
}

func (s *shop) order(user coupon.UserID, n int) string { return fmt.Sprintf("O-%d-%d", user, n) }

// liveFor is the time of a reservation that does not run out during a test.
const liveFor = time.Hour

// call is a call of the model. A reservation with ttl 0 has run out at once.
func (s *shop) call(ctx context.Context, user coupon.UserID, c op) (wallet.Code, error) {
	call := wallet.Call{Verb: c.verb, Actor: "test", OrderID: s.order(user, c.order), User: user, AmountWon: c.amount,
		FreeSeat: c.freeSeat}
	if c.ttl > 0 {
		call.TTL = liveFor
	}
	if c.verb < wallet.Revoke {
		d, err := s.redeem(ctx, s.coupons[c.coupon], call)
		return d.Code, err
	}
	var d wallet.Decision
	err := s.operators.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error {
		if _, err := tx.ExecContext(ctx, "SELECT id FROM coupon WHERE id = ? FOR UPDATE",
			s.coupons[c.coupon]); err != nil {
			return err
		}
		f, _, err := wallet.LockForOperator(ctx, tx, s.coupons[c.coupon], user)
		if err != nil {
			return err
		}
		d = wallet.Decide(f, call)
		return wallet.Write(ctx, tx, f, d, "operator")
	})
	return d.Code, err
}

// redeem makes a call in one of two pods, or by a transaction of its own.
func (s *shop) redeem(ctx context.Context, couponID coupon.CouponID, call wallet.Call) (wallet.Decision, error) {
	if n := s.redeemed.Add(1) % int64(len(s.pods)+1); n < int64(len(s.pods)) {
		return s.pods[n].Redeem(ctx, couponID, call)
	}
	return wallet.Redeem(ctx, s.db, couponID, call)
}

// requireSame compares the rows of a user with a model, and the rows with their logs.
func (s *shop) requireSame(user coupon.UserID, m *model) {
	s.T.Helper()
	for i, couponID := range s.coupons {
		status := s.requireReplayed(user, couponID)
		if m != nil {
			require.Equal(s.T, m.status(i), status)
		}
	}
}

// requireReplayed demands invariants 7 to 9 of a user's coupon.
func (s *shop) requireReplayed(user coupon.UserID, couponID coupon.CouponID) (status coupon.UserCouponStatus) {
	s.T.Helper()
	var id, seq uint64
	var order string
	require.NoError(s.T,
		s.DB.QueryRow(
			"SELECT id, status, COALESCE(order_id, ''), seq FROM user_coupon WHERE coupon_id = ? AND user_id = ?",
			couponID, user).Scan(&id, &status, &order, &seq))
	rows, err :=
		s.DB.Query(
			"SELECT seq, kind, COALESCE(order_id, ''), COALESCE(amount_won, 0), COALESCE(discount_won, 0), seats "+
				"FROM coupon_log WHERE user_coupon_id = ? ORDER BY seq", id)
	require.NoError(s.T, err)
	defer rows.Close()
	var log []wallet.Entry
	for rows.Next() {
		var e wallet.Entry
		var n int
		require.NoError(s.T, rows.Scan(&n, &e.Kind, &e.OrderID, &e.AmountWon, &e.DiscountWon, &e.Seats))
		log = append(log, e)
		require.Equal(s.T, len(log), n, "no gaps")
	}
	require.NoError(s.T, rows.Err())
	require.EqualValues(s.T, len(log), seq)
	follows, holder, _, used, _ := replay(s.T, epoch, log)
	require.Equal(s.T, []any{status, order, status == coupon.CouponUsed}, []any{follows, holder, used == 1})
	having := jajeongtest.Column[string](s.Deployment,
		"SELECT order_id FROM coupon_order WHERE user_coupon_id = ? AND state IN ('RESERVED', 'USED')", id)
	if order == "" {
		require.Empty(s.T, having)
	} else {
		require.Equal(s.T, []string{order}, having)
	}
	return status
}

// someOp has no call that depends on the time: a reservation is live for long, or has run out at once.
func someOp(r *rand.Rand) op {
	verbs := []wallet.Verb{wallet.Reserve, wallet.Reserve, wallet.Reserve, wallet.Confirm, wallet.Confirm,
		wallet.Release, wallet.Release, wallet.Refund, wallet.Read, wallet.Revoke, wallet.Reissue, wallet.Reissue}
	return op{verb: verbs[r.IntN(len(verbs))], order: r.IntN(modelOrders), coupon: r.IntN(modelCoupons),
		amount: []int64{12_000, 12_000, 12_000, 13_000, 999}[r.IntN(5)], ttl: int64(r.IntN(2)) * 10}
}

func newModel() *model {
	m := &model{}
	for c := range m.expires {
		m.expires[c] = 1
	}
	return m
}

var linearizable = porcupine.Model{
	Init: func() any { return *newModel() },
	Step: func(state, input, output any) (bool, any) {
		m := state.(model)
		code := m.apply(0, input.(op))
		return code == output.(wallet.Code), m
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " → ", output) },
}

// Several clients make calls about the orders and coupons of one user at once. The results must be as if the calls came
// one after the other, and the rows must add up.
func TestWalletHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	const clients, acts, spare = 8, 8, 30
	histories := testenv.Rounds(10, 2_000)
	s, r := newShop(t, histories+spare), testenv.Random(t)
	codes := map[wallet.Code]int{}
	lacking := func() bool {
		return slices.ContainsFunc([]wallet.Code{wallet.Done, wallet.Repeated, wallet.OrderHasCoupon,
			wallet.ReservedElsewhere, wallet.ReservationLost, wallet.Used},
			func(code wallet.Code) bool { return codes[code] == 0 })
	}
	user := coupon.UserID(0)
	// Ten lack no code as a rule.
	for user < coupon.UserID(histories) || lacking() && user < coupon.UserID(histories+spare) {
		user++
		var clock atomic.Int64
		var mu sync.Mutex
		var history []porcupine.Operation
		var group sync.WaitGroup
		for client := range clients {
			group.Go(func() {
				for range acts {
					c, began := someOp(r), clock.Add(1)
					code, err := s.call(t.Context(), user, c)
					ended := clock.Add(1)
					mu.Lock()
					if err != nil {
						t.Errorf("user %d: %v: %v", user, c, err)
					}
					codes[code]++
					history = append(history, porcupine.Operation{ClientId: client, Input: c, Output: code, Call: began,
						Return: ended})
					mu.Unlock()
				}
			})
		}
		group.Wait()
		require.False(t, t.Failed())
		require.True(t, porcupine.CheckOperations(linearizable, history), "user %d: %v", user, history)
		s.requireSame(user, nil)
	}
	require.False(t, lacking(), "%v", codes)
	t.Logf("passed: %d histories of %d operations: %v", user, clients*acts, codes)
}
