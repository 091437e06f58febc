package events_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/wallet"
)

// verification compares all that the sink has.
func (s *shop) verification() *events.Verification {
	return &events.Verification{From: time.Unix(0, 0), Sink: s.sink, Rows: s.DB, Progress: func(int) {}}
}

func (s *shop) verify() events.Verified {
	s.T.Helper()
	found, err := s.verification().Run(s.T.Context())
	require.NoError(s.T, err)
	return found
}

func missingIDs(found events.Verified) (ids []string) {
	for _, m := range found.Missing {
		ids = append(ids, m.Source+" "+m.ID)
	}
	return ids
}

// MySQL goes back to before a confirmation, a grant and a settlement whose events are published. What was lost is
// named, also while another row has the same seq. What is issued again has the same event, and is not missing.
func TestVerify_NamesWhatMySQLHasLost(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(2)
	couponID := s.AddQueue(2, 1, 3)
	s.SettleNow()
	s.reserve(couponID, 1, "A-1")
	s.redeem(couponID, 1, wallet.Confirm, "A-1")
	s.grant(couponID, 2)
	s.publish()
	s.sink.got = append(s.sink.got, s.sink.got...) // all of it came again
	found := s.verify()
	require.Empty(t, found.Missing)
	require.Equal(t, 2*5, found.Events)
	reserved, confirmed, granted := s.changeID(couponID, 1, 1), s.changeID(couponID, 1, 2), s.changeID(couponID, 2, 1)
	issued := s.issuedIDs(couponID)

	ofTwo := s.rowOf(couponID, 2)
	s.Exec("DELETE FROM coupon_log WHERE user_coupon_id = ? OR seq = 2", ofTwo)
	s.Exec("DELETE FROM user_coupon WHERE id = ?", ofTwo)
	s.Exec("UPDATE user_coupon SET status = 'RESERVED', seq = 1 WHERE order_id = 'A-1'")
	s.Exec("UPDATE coupon_order SET state = 'RESERVED'")
	found = s.verify()
	require.ElementsMatch(t, []string{confirmed, granted}, missingIDs(found))
	m := found.Missing[slices.Index(missingIDs(found), confirmed)]
	require.Equal(t, events.TypeOf(coupon.LogUsed), m.Type)
	require.Equal(t, couponID, m.Coupon)
	require.Equal(t, coupon.UserID(1), m.User)
	require.Equal(t, "A-1", *m.Order)
	require.EqualValues(t, 10_000, *m.Amount)
	require.NotNil(t, m.Discount)
	require.WithinDuration(t, time.Now(), m.Time, time.Minute)
	s.redeem(couponID, 1, wallet.Release, "A-1")
	require.ElementsMatch(t, []string{confirmed, granted}, missingIDs(s.verify()), "the release has another id")

	changes := []string{reserved, confirmed, granted}
	for _, table := range []string{"coupon_log", "coupon_order", "user_coupon", "settlement"} {
		s.Exec("DELETE FROM " + table)
	}
	s.Exec("UPDATE coupon SET issued_count = 0, total_quantity = 2")
	require.ElementsMatch(t, append(issued, changes...), missingIDs(s.verify()))
	s.grant(couponID, 1)
	require.Contains(t, missingIDs(s.verify()), issued[0], "no run has issued it")
	s.Exec("DELETE FROM user_coupon")
	for _, user := range []int{1, 3} { // a later run issues the coupon again
		s.Exec("INSERT INTO user_coupon (coupon_id, user_id, issued_at, expires_at, run_id) VALUES (?, ?, NOW(6), "+
			"'2038-01-01', 99)", couponID, user)
	}
	require.ElementsMatch(t, changes, missingIDs(s.verify()))
}

func TestVerify_SelectsByTheTimeOfTheEvent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID := s.AddQueue(1, 1)
	s.SettleNow()
	s.reserve(couponID, 1, "A-1")
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	s.Exec("UPDATE coupon_log SET at = ?", at)
	s.publish()
	lost := s.changeID(couponID, 1, 1)
	s.Exec("DELETE FROM coupon_log")
	for _, c := range []struct {
		from, to time.Time
		want     []string
	}{
		{at, at.Add(time.Microsecond), []string{lost}},
		{at, time.Time{}, []string{lost}},
		{at.Add(-time.Hour), at, nil},
		{at.Add(time.Microsecond), time.Time{}, nil},
	} {
		v := s.verification()
		v.From, v.To = c.from, c.to
		found, err := v.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.want, missingIDs(found), "%s to %s", c.from, c.to)
		require.Nil(t, found.CoveredFrom)
		require.False(t, found.Complete)
	}
}

// The sink says since when it has everything.
func TestVerify_SaysWhetherTheSinkHasThePeriod(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for covered, complete := range map[time.Time]bool{from: true, from.Add(-1): true, from.Add(1): false} {
		s.sink.coveredFrom = covered
		v := s.verification()
		v.From = from
		found, err := v.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, complete, found.Complete, "%s", covered)
		require.True(t, covered.Equal(*found.CoveredFrom))
	}
}

func TestVerify_LeavesOutPurgedCoupons(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID, other := s.line(1, 1), s.line(1, 1)
	s.AddUsers(1)
	s.SettleNow()
	s.publish()
	s.Exec("INSERT INTO purged_coupon (coupon_id, name, apply_opens_at, apply_closes_at, finalised_at, total_quantity, "+
		"accepted, issued_count, used_count, used_won, revoked_count, not_selected_count, rejected_count, audit_seq, "+
		"audit_hash, actor, reason, purged_at) VALUES (?, '', NOW(6), NOW(6), NOW(6), 1, 1, 1, 0, 0, 0, 0, 0, 0, '', "+
		"'kim', '', NOW(6))", couponID)
	require.Zero(t, s.verify().Purged, "its rows are still there")
	s.Exec("DELETE FROM user_coupon")
	found := s.verify()
	require.Equal(t, s.idOfIssued(other, 1), missingIDs(found))
	require.Equal(t, 1, found.Purged)
	require.Equal(t, 2, found.Events)
}

func (s *shop) idOfIssued(couponID coupon.CouponID, user coupon.UserID) []string {
	return []string{fmt.Sprintf("/coupons/%d issued-%d", couponID, user)}
}

// What is like an event of a coupon, and is none, is counted.
func TestVerify_CountsWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	bodies := [][]byte{nil, []byte("{}"), []byte("null"), []byte("[")}
	for _, c := range [][3]string{
		{"/coupons/1", "issued-0", "2026-11-21T00:00:00Z"}, {"/coupons/1", "issued-07", "2026-11-21T00:00:00Z"},
		{"/coupons/1", "7", "2026-11-21T00:00:00Z"}, {"/coupons/01", "issued-7", "2026-11-21T00:00:00Z"},
		{"1", "issued-7", "2026-11-21T00:00:00Z"}, {"/orders/1", "issued-7", "2026-11-21T00:00:00Z"},
		{"/coupons/1", "7-0-5", "2026-11-21T00:00:00Z"}, {"/coupons/1", "7-1-5-6", "2026-11-21T00:00:00Z"},
		{"/coupons/1", "7-01-5", "2026-11-21T00:00:00Z"}, {"/coupons/1", "7-1-05", "2026-11-21T00:00:00Z"},
		{"/coupons/1", "issued-7-1-5", "2026-11-21T00:00:00Z"}, {"/coupons/1", "issued-7", "yesterday"},
	} {
		bodies = append(bodies, fmt.Appendf(nil, `{"source":%q,"id":%q,"time":%q}`, c[0], c[1], c[2]))
	}
	bodies = append(bodies, []byte(`{"source":"/coupons/1","id":"issued-7"}`))
	good := []byte(`{"source":"/coupons/1","id":"issued-7","time":"2026-11-21T00:00:00Z"}`)
	v := s.verification()
	v.Sink = &others{memory{}, append(bodies, good)}
	found, err := v.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(bodies), found.Unreadable)
	require.Equal(t, 1, found.Events)
	require.Equal(t, s.idOfIssued(1, 7), missingIDs(found))
}

// others is a sink with messages of other programs.
type others struct {
	memory
	bodies [][]byte
}

func (o *others) Read(_ context.Context, _ time.Time, visit func([][]byte) error) (time.Time, error) {
	return time.Time{}, visit(o.bodies)
}

func TestVerify_IsBounded(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.longLine(20, 20)
	s.SettleNow()
	s.publish()
	s.sink.coveredFrom = time.Unix(0, 0)
	s.Exec("DELETE FROM user_coupon")
	for _, c := range []struct {
		most, listed int
		more         bool
	}{{19, 19, true}, {20, 20, false}} {
		v := s.verification()
		v.ListAtMost(c.most)
		found, err := v.Run(t.Context())
		require.NoError(t, err)
		require.Len(t, found.Missing, c.listed)
		require.Equal(t, c.more, found.More)
		require.Equal(t, !c.more, found.Complete, "not all of it was compared")
	}
}

func TestVerify_ReturnsErrors(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddQueue(1, 1)
	s.SettleNow()
	s.publish()
	v := s.verification()
	v.Sink = &away{}
	_, err := v.Run(t.Context())
	require.ErrorIs(t, err, errSinkAway)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errStopped)
	_, err = s.verification().Run(ctx)
	require.True(t, errors.Is(err, context.Canceled) || errors.Is(err, errStopped), "%v", err)
}

// away is a sink that cannot be read.
type away struct{ memory }

func (*away) Read(context.Context, time.Time, func([][]byte) error) (time.Time, error) {
	return time.Time{}, errSinkAway
}

// The rows of a page are found by their keys, however many others there are.
func TestVerify_ReadsNoOtherRow(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID := s.longLine(1000, 1000)
	s.SettleNow()
	for user := range coupon.UserID(20) {
		s.reserve(couponID, user+1, fmt.Sprintf("A-%d", user+1))
	}
	s.publish()
	s.Exec("UPDATE settlement SET settled_at = settled_at - INTERVAL 1 DAY")
	conn, err := s.DB.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	reads := func() (n int) {
		for _, name := range []string{"key", "next", "first", "rnd", "rnd_next", "last", "prev"} {
			var variable string
			var count int
			require.NoError(t, conn.QueryRowContext(t.Context(),
				"SHOW SESSION STATUS LIKE 'Handler_read_"+name+"'").Scan(&variable, &count))
			n += count
		}
		return n
	}
	v := s.verification()
	v.Rows = conn
	s.sink.got = s.sink.got[len(s.sink.got)-27:]
	before := reads()
	found, err := v.Run(t.Context())
	require.NoError(t, err)
	require.Empty(t, found.Missing)
	require.Equal(t, 27, found.Events)
	require.Less(t, reads()-before, 300)
}
