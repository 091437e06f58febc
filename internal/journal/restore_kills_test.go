package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// scene is a coupon with people of every kind, of which Redis has just lost everything. It has no pods.
type scene struct {
	*jajeongtest.Deployment
	id      coupon.CouponID
	waiting map[string]coupon.Arrival
}

// newScene has winners 1 and 2, 3 and 4 who were not selected, 5 who was rejected, 6 to 8 who wait and of whom 8 has
// applied again meanwhile, and 9 who was handed over. Of the accepted, one is unknown.
func newScene(d *jajeongtest.Deployment) *scene {
	d.T.Helper()
	s := &scene{d, d.AddCoupon(2), map[string]coupon.Arrival{}}
	d.Apply(s.id, 1, 2, 3, 4, 5)
	d.Journal(s.id)
	d.SettleNow(s.id)
	d.Drop(s.id, "5")
	for _, member := range []string{"6", "7", "8", "9"} {
		at := d.Now()
		d.ApplyAt(s.id, member, at)
		s.waiting[member] = coupon.ArrivalAt(at)
	}
	require.NoError(d.T, d.Redis.HSet(d.T.Context(), d.Key("state", s.id), "last", d.Now().UnixMicro()).Err())
	d.AddPromises(s.id, 1)
	d.Journal(s.id)
	d.Exec("DELETE FROM line_journal WHERE coupon_id = ? AND user_id = 9", s.id)
	lose(d, s.id)
	c := coupon.Window{Coupon: s.id, Version: 1, Opens: d.Now().Add(-time.Hour), Closes: d.Now().Add(time.Hour)}
	_, _, err := d.Store.Publish(d.T.Context(), c, 0)
	require.NoError(d.T, err)
	d.Apply(s.id, 8)
	handOver(d, s.id, "9", s.waiting["9"])
	d.Exec("UPDATE journal SET asked = 1 WHERE coupon_id = ?", s.id)
	return s
}

// trace is a trace of what happens from now on: nobody is told anything any more.
func (s *scene) trace() *jajeongtest.Trace {
	trace := s.Trace(s.id, jajeongtest.HandOverTime)
	trace.Unanswered(jajeongtest.Between[coupon.UserID](1, 9)...)
	return trace
}

// requireWhole demands the only right end of a restore, whatever has happened on the way.
func (s *scene) requireWhole(t *testing.T) {
	t.Helper()
	d := s.For(t)
	d.PodsDie()
	require.Equal(t, s.waiting, d.Arrivals(s.id), "rows %v", rows(d, s.id))
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5, 6, 7, 8, 9}, rows(d, s.id))
	require.Len(t, marks(d, s.id), 2)
	for user, want := range map[coupon.UserID]candidates.Code{1: "ALREADY_ISSUED", 2: "ALREADY_ISSUED", 5: "REJECTED"} {
		require.Equal(t, want, d.Answer(s.id, user), "user %d", user)
	}
	require.Zero(t, d.Redis.Exists(t.Context(), d.Key("returned", s.id)).Val())
	require.Zero(t, journalField(d, s.id, "asked"))
	require.EqualValues(t, 9, d.Look(s.id).Accepted)
	requireRestored(d, s.id, 0)
	require.EqualValues(t, 1, journalField(d, s.id, "unfound"))
	require.Equal(t, []audit.Payload{audit.UnknownPromises{Accepted: 10, Known: 9}},
		d.Payloads(s.id, audit.PromiseUnknown), "once")
}

// restoreThrough restores with something that happens at the n-th step. It reports whether there was such a step.
func (s *scene) restoreThrough(t *testing.T, n int, happens func() error) (reached bool) {
	t.Helper()
	restorer, step := s.For(t).Restorer(), 0
	restorer.Line = stumbling{restorer.Line, func(context.Context, string, bool) (err error) {
		if step++; step == n {
			reached, err = true, happens()
		}
		return err
	}}
	_, err := restorer.Restore(t.Context(), journal.Order{Coupon: s.id})
	if err != nil && !errors.Is(err, promise.ErrTakenOver) {
		require.ErrorIs(t, err, errCrash)
	}
	return reached
}

func stepByStep(t *testing.T, happens func(s *scene) error) {
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3, 4, 6, 7, 8, 9)
	n := 1
	for ; ; n++ {
		s := newScene(d)
		trace := s.trace()
		reached := s.restoreThrough(t, n, func() error {
			trace.Look()
			return happens(s)
		})
		trace.Look()
		s.Restore(s.id)
		trace.Check()
		s.requireWhole(t)
		if !reached {
			break
		}
	}
	require.Greater(t, n, 20, "steps")
}

// A process is killed at any step, or Redis does not answer there. The next restore comes to the same end.
func TestRestore_IsSafeToKillAtEachStep(t *testing.T) {
	t.Parallel()
	stepByStep(t, func(*scene) error { return errCrash })
}

// Another server with the same data takes over at any step. The next restore comes to the same end.
func TestRestore_IsSafeToRepeatIfAnotherServerTakesOver(t *testing.T) {
	t.Parallel()
	stepByStep(t, func(s *scene) error {
		s.FailOver(s.id)
		return nil
	})
}

// The reply to each COMMIT is lost in turn. What was found is recorded once.
func TestRestore_AfterLostCommits(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3, 4, 6, 7, 8, 9)
	var commits, drops atomic.Int32
	_, through := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if bytes.HasSuffix(turn.Request, []byte("COMMIT")) && commits.Add(1) == drops.Load() {
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	})
	for n := int32(1); ; n++ {
		s := newScene(d)
		restorer := through.Restorer()
		commits.Store(0)
		drops.Store(n)
		_, err := restorer.Restore(t.Context(), journal.Order{Coupon: s.id})
		require.NoError(t, err)
		made := commits.Load()
		s.requireWhole(t)
		require.Equal(t, []audit.Payload{audit.Restored{Back: 3, Moved: 1}},
			d.Payloads(s.id, audit.ApplicationsRestored))
		if made < n {
			require.EqualValues(t, 5, n, "adopt, enter, restore and end")
			break
		}
	}
}

// killSessions ends the sessions that have transactions.
func killSessions(d *jajeongtest.Deployment) {
	for _, session := range d.IDs("SELECT trx_mysql_thread_id FROM information_schema.innodb_trx x " +
		"JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id WHERE p.db = DATABASE()") {
		d.Exec(fmt.Sprint("KILL ", session))
	}
}

// The session that has the coupon's lock is killed between two pages. The restore begins again with the lock.
func TestRestore_BeginsAgainWithoutItsSession(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1, 2)
	lose(d, id)
	restorer := d.Restorer()
	restorer.Line = stumbling{restorer.Line, once("Enter", func() { killSessions(d) })}
	_, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, d.Waiting(id))
	require.Equal(t, []audit.Payload{audit.Restored{Back: 2}}, d.Payloads(id, audit.ApplicationsRestored))
	requireRestored(d, id, 0)
}

// Another server takes over before the end is noted. It is not noted there.
func TestRestore_FailsIfAnotherServerTakesOver(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1)
	d.FailOver(id)
	restorer := d.Restorer()
	restorer.Line = stumbling{restorer.Line, func(_ context.Context, call string, after bool) error {
		if call == "EndRestore" && !after {
			d.FailOver(id)
		}
		return nil
	}}
	_, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
	require.ErrorIs(t, err, promise.ErrTakenOver)
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	require.False(t, d.Look(id).Restored)
}

// However many calls of Redis lie between two statements, the session does not end meanwhile.
func TestRestore_EndsNoSessionWhileRedisIsSlow(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	users := jajeongtest.Between[coupon.UserID](1, 900)
	id := d.AddQueue(1000, users...)
	d.Journal(id)
	d.SettleNow()
	loseSettlement(d, users[:600]...)
	d.FailOver(id)
	handOver(d, id, "1", coupon.ArrivalAt(d.Now()))
	restorer, limited := d.Restorer(), map[string]bool{}
	restorer.Line = stumbling{restorer.Line, func(ctx context.Context, call string, after bool) error {
		if before, known := limited[call]; !after {
			limited[call] = isLimited(ctx) && (before || !known)
		}
		return nil
	}}
	done, err := restorer.Restore(t.Context(), journal.Order{Coupon: id})
	require.NoError(t, err)
	require.EqualValues(t, 900, done.Back)
	require.EqualValues(t, 300, done.FromMarks)
	for _, call := range []string{"Absent", "Enter", "Marked", "TakeReturned", "EndRestore"} {
		require.True(t, limited[call], call)
	}
}

// isLimited reports whether a call that begins now has time, and no more than a session may be silent.
func isLimited(ctx context.Context) bool {
	silent, cancel := mysqltx.Meanwhile(ctx)
	defer cancel()
	latest, _ := silent.Deadline()
	ends, limited := ctx.Deadline()
	return limited && ends.Equal(latest) && ctx.Err() == nil
}

// The queue is deleted in an epoch that was restored, and users apply again: they are counted twice. Whoever has moved
// to their first arrival counts once, although the restore was killed at any step.
func TestRestore_LaterInAnEpochIsSafeToKillAtEachStep(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(1, 2, 3)
	n := 1
	for reached := true; reached; n++ {
		s := &scene{Deployment: d, id: d.AddCoupon(5)}
		d.Apply(s.id, 1, 2, 3)
		d.Journal(s.id)
		s.waiting = d.Arrivals(s.id)
		s.Restore(s.id)
		d.PodsDie()
		require.NoError(t, d.Redis.Del(t.Context(), d.Queue(s.id)).Err())
		d.Apply(s.id, 1, 2)
		reached = s.restoreThrough(t, n, func() error { return errCrash })
		s.Restore(s.id)
		require.Equal(t, s.waiting, d.Arrivals(s.id))
		requireRestored(d, s.id, 0)
	}
	require.Greater(t, n, 10, "steps")
}
