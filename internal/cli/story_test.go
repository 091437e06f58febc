package cli

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/wallet"
)

// storyShop makes the calls of a checkout and the acts of an operator on the coupons of a world.
type storyShop struct {
	*world
	coupon   coupon.CouponID
	checkout *mysqltx.DB
	operator *mysqltx.DB
}

// newShop has a coupon of 5,000 won with two seats, for which the users 1 to 3 apply.
func newShop(w *world) *storyShop {
	w.T.Helper()
	now := w.Now()
	w.AddUsers(between(1, 9)...)
	s := &storyShop{world: w, coupon: w.AddCouponBetween(2, now.Add(-time.Hour), now.Add(48*time.Hour))}
	w.Exec("UPDATE coupon SET discount_won = 5000")
	w.Apply(s.coupon, 1, 2, 3)
	w.SettleNow()
	pool, err := w.Wallet.Open(connect.Patient, zap.NewNop())
	require.NoError(w.T, err)
	w.T.Cleanup(func() { _ = pool.Close() })
	s.checkout, s.operator = mysqltx.NewBrief(pool), mysqltx.NewBrief(w.as("jajeong_operator"))
	return s
}

func (s *storyShop) calls(user coupon.UserID, verb wallet.Verb, order string) {
	s.T.Helper()
	d, err := wallet.Redeem(s.T.Context(), s.checkout, s.coupon,
		wallet.Call{Verb: verb, Actor: "checkout", OrderID: order, User: user, AmountWon: 12_000, TTL: 15 * time.Minute})
	require.NoError(s.T, err)
	require.Equal(s.T, wallet.Done, d.Code)
}

// acts makes an operator's act with its audit event.
func (s *storyShop) acts(user coupon.UserID, call wallet.Call, action audit.Action, reason string) {
	s.T.Helper()
	call.Actor = "kim"
	change := audit.HolderChange{}
	require.NoError(s.T, s.operator.Do(s.T.Context(), func(ctx context.Context, tx *sql.Tx, _ int) error {
		f, found, err := wallet.LockForOperator(ctx, tx, s.coupon, user)
		require.NoError(s.T, err)
		require.True(s.T, found)
		d := wallet.Decide(f, call)
		require.Equal(s.T, wallet.Done, d.Code)
		if call.Verb == wallet.Extend {
			change.Expires = audit.ChangedTime(f.Coupon.ExpiresAt, d.Coupon.ExpiresAt)
		}
		return wallet.Write(ctx, tx, f, d, call.Actor)
	}))
	s.audits(user, action, reason, change)
}

func (s *storyShop) audits(user coupon.UserID, action audit.Action, reason string, payload audit.Payload) {
	s.T.Helper()
	require.NoError(s.T, s.Audit(audit.Origin{At: s.Now().UTC(), Actor: "kim", Reason: reason}, action, s.coupon, audit.Entry{User: user, Payload: payload}))
}

// grants gives a coupon by hand.
func (s *storyShop) grants(user coupon.UserID, reason string) {
	s.T.Helper()
	now := s.Now().UTC()
	s.Exec("UPDATE coupon SET total_quantity = total_quantity + 1, issued_count = issued_count + 1 WHERE id = ?", s.coupon)
	s.Exec("INSERT INTO user_coupon (coupon_id, user_id, position, issued_at, expires_at, seq) VALUES (?, ?, 0, ?, ?, 1)", s.coupon, user, now, now.AddDate(0, 0, 30))
	id := s.Number("SELECT id FROM user_coupon WHERE user_id = ?", user)
	require.NoError(s.T, s.operator.Do(s.T.Context(), func(ctx context.Context, tx *sql.Tx, _ int) error {
		return wallet.Log(ctx, tx, coupon.UserCouponID(id), 0, now, "kim", wallet.Entry{Kind: coupon.LogGranted, ExpiresAt: now.AddDate(0, 0, 30), Seats: 1})
	}))
	s.audits(user, audit.CouponGranted, reason, audit.HolderChange{})
}

// runsOut ends the reservation of an order.
func (s *storyShop) runsOut(order string) {
	s.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6) WHERE order_id = ?", order)
}

// expires ends the validity of a user's coupon.
func (s *storyShop) expires(user coupon.UserID) {
	s.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6) WHERE user_id = ?", user)
}

// A coupon goes through everything that can happen to it. The story tells each step once, in order.
func TestExplain_StoryOfAnIssuedCoupon(t *testing.T) {
	t.Parallel()
	s := newShop(newWorld(t))
	kinds := []explain.EventKind{explain.EventOpens, explain.EventApplied, explain.EventLastSeated, explain.EventRun, explain.EventAudit, explain.EventIssued}
	tells := func(state explain.Note, planned []explain.EventKind, more ...explain.EventKind) {
		t.Helper()
		kinds = append(kinds, more...)
		x := s.explain(s.coupon, 2)
		require.Equal(t, append(kinds[:len(kinds):len(kinds)], planned...), kindsOf(x))
		require.Contains(t, x.Conclusion.Notes, state)
		require.False(t, x.Facts.UserCoupon.AsOf.IsZero())
	}
	both := []explain.EventKind{explain.EventCloses, explain.EventExpires}
	tells(explain.NoteUsable, both)
	s.calls(2, wallet.Reserve, "A-1")
	tells(explain.NoteReserved, append([]explain.EventKind{explain.EventRanOut}, both...), explain.EventReserved)
	s.calls(2, wallet.Release, "A-1")
	tells(explain.NoteUsable, both, explain.EventReleased)
	s.calls(2, wallet.Reserve, "A-1")
	s.runsOut("A-1")
	tells(explain.NoteUsable, both, explain.EventReserved, explain.EventRanOut)
	s.calls(2, wallet.Reserve, "A-2")
	tells(explain.NoteReserved, append([]explain.EventKind{explain.EventRanOut}, both...), explain.EventReleased, explain.EventReserved)
	s.runsOut("A-2")
	s.calls(2, wallet.Confirm, "A-2") // the price was promised
	tells(explain.NoteUsed, both[:1], explain.EventRanOut, explain.EventUsed)
	require.Regexp(t, "It was used once, for order A-2 at [^,]+ KST, with a discount of 5,000 won.", s.must(s.coupon, 2, explain.StateIssued, explain.NoteUsed))
	s.calls(2, wallet.Refund, "A-2")
	tells(explain.NoteRefunded, both, explain.EventRefunded)
	s.acts(2, wallet.Call{Verb: wallet.Extend, ExpiresAt: s.Now().UTC().AddDate(0, 2, 0)}, audit.CouponUserExtended, "T-1")
	tells(explain.NoteUsable, both, explain.EventExtended)
	s.acts(2, wallet.Call{Verb: wallet.Revoke}, audit.CouponRevoked, "T-2")
	tells(explain.NoteRevoked, both[:1], explain.EventRevoked)
	require.Contains(t, s.must(s.coupon, 2, explain.StateIssued, explain.NoteRefunded, explain.NoteRevoked), "because of: T-2.")
	s.acts(2, wallet.Call{Verb: wallet.Reissue}, audit.CouponReissued, "T-3")
	tells(explain.NoteUsable, both, explain.EventReissued)

	var reasons []string
	for _, entry := range s.explain(s.coupon, 2).Facts.UserCoupon.Log {
		if entry.Reason != "" {
			reasons = append(reasons, entry.Reason)
		}
	}
	require.Equal(t, []string{"T-1", "T-2", "T-3"}, reasons)
}

// A reservation that was given back, confirmed or refunded in time did not run out.
func TestExplain_NothingRunsOutThatEndedBefore(t *testing.T) {
	t.Parallel()
	s := newShop(newWorld(t))
	for _, verb := range []wallet.Verb{wallet.Reserve, wallet.Confirm, wallet.Refund} {
		s.calls(1, verb, "B-1")
	}
	s.calls(1, wallet.Reserve, "B-2")
	s.calls(1, wallet.Release, "B-2")
	require.NotContains(t, s.happened(s.coupon, 1), explain.EventRanOut)
}

func TestGoldenStory(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "story", func(*world) {}, func(p *spoken) {
		s := newShop(p.world)
		says := func(user string, more ...string) {
			p.says(append([]string{"explain", "--coupon=1", "--user=" + user}, more...)...)
		}
		s.calls(1, wallet.Reserve, "A-1")
		says("1")
		s.runsOut("A-1")
		s.calls(1, wallet.Reserve, "A-2")
		s.calls(1, wallet.Confirm, "A-2")
		says("1")
		s.calls(1, wallet.Refund, "A-2")
		says("1")
		s.calls(1, wallet.Reserve, "A-3")
		s.calls(1, wallet.Release, "A-3")
		s.expires(1)
		says("1")
		says("1", "--output=json")
		s.acts(1, wallet.Call{Verb: wallet.Extend, ExpiresAt: s.Now().UTC().AddDate(0, 2, 0)}, audit.CouponUserExtended, "C-11: our shop was away")
		says("1")

		s.acts(2, wallet.Call{Verb: wallet.Revoke}, audit.CouponRevoked, "C-12: bought by a robot")
		s.acts(2, wallet.Call{Verb: wallet.Reissue}, audit.CouponReissued, "C-13: it was a person")
		says("2")
		s.expires(2)
		says("2")

		says("3")
		s.acts(2, wallet.Call{Verb: wallet.Revoke, FreeSeat: true}, audit.CouponRevoked, "C-14: left the shop")
		s.Exec("UPDATE coupon SET total_quantity = total_quantity + 1")
		says("2")
		says("3")
		s.SettleNow()
		says("3")
		s.grants(4, "C-15: asked for by a manager")
		says("4")
	})
}
