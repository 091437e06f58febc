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
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// replay publishes a selection again, to a sink of its own, and returns the ids in order.
func (s *shop) replay(selection events.Selection) []string {
	s.T.Helper()
	sink := &memory{server: "a", room: -1}
	done, err := (&events.Replay{Selection: selection, Sink: sink, Rows: s.DB, Progress: func(int) {}}).
		Run(s.T.Context())
	require.NoError(s.T, err)
	require.Len(s.T, sink.got, done.Events)
	counted, err := (&events.Replay{Selection: selection, Rows: s.DB, Progress: func(int) {}}).Run(s.T.Context())
	require.NoError(s.T, err)
	require.Equal(s.T, "a", done.Server)
	done.Server = ""
	require.Equal(s.T, counted, done)
	return sink.ids()
}

func TestReplay_RepeatsWhatTheRelayPublished(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	users := jajeongtest.Between[coupon.UserID](1, 1200)
	slices.SortFunc(users, func(a, b coupon.UserID) int { return int(a%77) - int(b%77) })
	s.AddUsers(users...)
	big, small := s.line(1000, users...), s.line(3, 1, 2, 3)
	s.SettleNow()
	first := s.Runs(big)[0]
	s.SetSeats(big, 1100)
	s.SettleNow(big)
	s.reserve(small, 2, "A-1")
	s.reserve(big, users[1050], "A-2")
	s.publish()

	require.Equal(t, s.idsOf(big), s.replay(events.Selection{Coupon: big}), "seats in order, the change last")
	require.ElementsMatch(t, s.sink.ids(), s.replay(events.Selection{From: time.Unix(0, 0)}))
	ofFirst := s.replay(events.Selection{Run: first})
	require.Equal(t, append(s.issuedIDs(big)[:1000],
		append(s.issuedIDs(small), s.changeID(small, 2, 1))...), ofFirst)
	require.Equal(t, s.issuedIDs(big)[1000:], s.replay(events.Selection{Coupon: big, Run: s.Runs(big)[1]})[:100])

	s.Exec("UPDATE settlement SET first_user_coupon_id = NULL") // as before the events were turned on
	require.Equal(t, s.idsOf(big), s.replay(events.Selection{Coupon: big}))
	require.Empty(t, s.replay(events.Selection{Coupon: 999}))
	require.Empty(t, s.replay(events.Selection{To: time.Unix(1, 0)}))
}

func TestReplay_ByTime(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(1, 2)
	early := s.line(1, 1)
	s.SettleNow()
	late := s.line(1, 2)
	s.SettleNow(late)
	s.reserve(early, 1, "A-1")
	s.Exec("UPDATE user_coupon SET issued_at = '2026-01-01 00:00:00' WHERE coupon_id = ?", early)
	s.Exec("UPDATE settlement SET settled_at = '2026-01-01 00:00:00' WHERE coupon_id = ?", early)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	changed := s.changeID(early, 1, 1)
	require.Equal(t, s.issuedIDs(early), s.replay(events.Selection{From: at, To: at.Add(time.Microsecond)}))
	require.Empty(t, s.replay(events.Selection{From: at.Add(-time.Hour), To: at}))
	require.Equal(t, append([]string{changed}, s.issuedIDs(late)...),
		s.replay(events.Selection{From: at.Add(time.Hour)}))
	require.Equal(t, []string{changed}, s.replay(events.Selection{Coupon: early, From: at.Add(time.Hour)}))
}

func TestReplay_ToSinksThatFail(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID := s.longLine(1200, 1200)
	s.SettleNow()
	issued := s.issuedIDs(couponID)
	to := func(sink events.Sink) *events.Replay {
		return &events.Replay{Selection: events.Selection{Coupon: couponID}, Sink: sink, Rows: s.DB,
			Progress: func(int) {}, Full: func(error) {}}
	}
	t.Run("a failover, and no room for a while", func(t *testing.T) {
		sink := &memory{server: "a", room: 700, err: fmt.Errorf("sink: %w", events.ErrFull)}
		replay, waited := to(sink), 0
		replay.Full = func(err error) { require.ErrorIs(t, err, events.ErrFull) }
		replay.Progress = func(n int) {
			if n == 500 {
				sink.server = "b"
			}
		}
		replay.Wait = func(context.Context, time.Duration) error {
			waited++
			sink.room = -1
			return nil
		}
		done, err := replay.Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1200, done.Events)
		require.Equal(t, 1, waited)
		require.Equal(t, issued, sink.ids())
	})
	t.Run("it goes away", func(t *testing.T) {
		done, err := to(&memory{server: "a", room: 600, err: errSinkAway}).Run(t.Context())
		require.ErrorIs(t, err, errSinkAway)
		require.Equal(t, 600, done.Events)
	})
	t.Run("it stays full", func(t *testing.T) {
		replay, waited := to(&memory{server: "a", room: 2, err: fmt.Errorf("sink: %w", events.ErrFull)}),
			time.Duration(0)
		replay.Wait = func(_ context.Context, d time.Duration) error {
			waited += d
			require.Less(t, waited, time.Hour)
			return nil
		}
		done, err := replay.Run(t.Context())
		require.ErrorIs(t, err, events.ErrFull)
		require.Equal(t, 10*time.Minute, waited)
		require.Equal(t, 2, done.Events)
		require.Equal(t, 1, done.Coupons)
	})
	t.Run("its server keeps changing", func(t *testing.T) {
		_, err := to(&restless{memory: memory{server: "a"}, t: t}).Run(t.Context())
		require.ErrorIs(t, err, events.ErrMayHaveLost)
	})
	t.Run("stopped, it ends the page", func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		sink := &stopping{memory{server: "a", room: -1}, stop}
		done, err := to(sink).Run(ctx)
		require.Error(t, err)
		require.Equal(t, 500, done.Events)
		require.Equal(t, issued[:500], sink.ids())
	})
}

// restless is a sink whose server changes with every publication.
type restless struct {
	memory
	tries int
	t     *testing.T
}

func (r *restless) Publish(context.Context, events.Place, []events.Message) (int, string, error) {
	r.tries++
	require.Less(r.t, r.tries, 1000)
	return 0, "", events.ErrMayHaveLost
}

// stopping is a sink in which the end of ctx comes in the middle of a publication.
type stopping struct {
	memory
	stop context.CancelCauseFunc
}

func (s *stopping) Publish(ctx context.Context, at events.Place, messages []events.Message) (int, string, error) {
	s.stop(errStopped)
	if ctx.Err() != nil {
		return 0, "", ctx.Err()
	}
	return s.memory.Publish(ctx, at, messages)
}

var errStopped = errors.New("stopped")

func TestReplay_OfCouponsGivenByHand(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID := s.AddQueue(3, 1, 2, 3)
	s.SettleNow()
	s.Exec("INSERT INTO user_coupon (coupon_id, user_id, expires_at, seq) VALUES (?, 900, '2038-01-01', 2)", couponID)
	row := s.rowOf(couponID, 900)
	for i, kind := range []coupon.LogKind{coupon.LogGranted, coupon.LogExtended} {
		s.Exec("INSERT INTO coupon_log (user_coupon_id, seq, kind, expires_at, actor, at) VALUES (?, ?, ?, NOW(6), "+
			"'kim', NOW(6))", row, i+1, string(kind))
	}
	s.publish()
	want := append(s.issuedIDs(couponID), s.changeID(couponID, 900, 1), s.changeID(couponID, 900, 2))
	require.Equal(t, want, s.sink.ids())
	require.Equal(t, want, s.replay(events.Selection{Coupon: couponID}))
	require.Equal(t, s.issuedIDs(couponID), s.replay(events.Selection{Run: s.Runs(couponID)[0]}), "no run issued it")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	status := func() events.Status {
		all, err := events.ReadStatus(t.Context(), s.DB)
		require.NoError(t, err)
		require.Len(t, all, 1)
		return all[0]
	}
	require.Zero(t, status().Issued)
	require.NotNil(t, status().On)
	require.Nil(t, status().Since)
	couponID := s.longLine(300, 300)
	other := s.line(5, 1, 2, 3, 4, 5)
	s.SettleNow()
	s.reserve(couponID, 1, "A-1")
	s.sink.room = 70
	_, err := s.relay.Round(t.Context())
	require.ErrorIs(t, err, errSinkAway)
	now := status()
	require.Equal(t, 305-70, now.Issued)
	require.Equal(t, 1, now.Changes)
	require.NotNil(t, now.Since)
	require.Contains(t, []coupon.CouponID{couponID, other}, now.Coupon)
	s.sink.room = -1
	s.publish()
	now = status()
	require.Zero(t, now.Issued+now.Changes+now.Settlements)
	require.Nil(t, now.Since)
}
