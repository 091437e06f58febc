package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// honours lets an operator honour user 2's arrival of coupon 1.
func honours(d *jajeongtest.Deployment, r *journal.Restorer, arrival coupon.Arrival) (journal.Whereabouts, error) {
	origin := audit.Origin{At: time.Now().UTC().Truncate(time.Microsecond), Actor: "lee", Reason: "CS-310"}
	return r.Honour(d.T.Context(), journal.HonourOrder{Coupon: 1, User: 2, Arrival: arrival, Origin: origin})
}

// A process may crash at each step. The next one carries the order out, and the account adds up.
func TestHonour_IsSafeToKillAndRepeat(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before Redis": false, "after Redis": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(5, 1, 2)
			arrival := d.Arrivals(id)["2"]
			d.PodsDie()
			vanish(d, id, "1", "2")
			d.AcceptGap()
			require.EqualValues(t, 2, d.Number("SELECT written_off FROM settled"))
			r := d.Restorer()
			line := r.Line
			r.Line = stumbling{line, func(_ context.Context, call string, ended bool) error {
				if call == "Enter" && ended == after {
					return errCrash
				}
				return nil
			}}
			_, err := honours(d, r, arrival)
			require.ErrorIs(t, err, errCrash)
			require.EqualValues(t, 1,
				d.Number("SELECT COUNT(*) FROM audit_event WHERE action = 'RECEIPT_HONOURED' AND user_id = 2"))
			require.Equal(t, []coupon.UserID{2}, rows(d, id), "the next restore would enter it, too")

			r.Line = line
			w, err := honours(d, r, arrival)
			require.NoError(t, err)
			want := journal.PutBack
			if after {
				want = journal.Waiting
			}
			require.Equal(t, journal.Whereabouts{Fate: want, Arrival: arrival, Position: 1}, w)
			require.Equal(t, map[string]coupon.Arrival{"2": arrival}, d.Arrivals(1))
			d.Restore(id)
			requireRestored(d, id, 0)
			require.EqualValues(t, 3, d.Look(id).Accepted, "two were written off, and one is back")

			events := d.Number("SELECT COUNT(*) FROM audit_event")
			w, err = honours(d, r, arrival)
			require.NoError(t, err)
			require.Equal(t, journal.Whereabouts{Fate: journal.Waiting, Arrival: arrival, Position: 1}, w)
			require.Equal(t, events, d.Number("SELECT COUNT(*) FROM audit_event"), "twice changes nothing")
		})
	}
}

// Who stands at a later arrival moves to the one that the receipt proves.
func TestHonour_MovesForward(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1, 2)
	arrival := d.Arrivals(id)["1"] - 1
	w, err := honours(d, d.Restorer(), arrival)
	require.NoError(t, err)
	require.Equal(t, journal.Whereabouts{Fate: journal.Moved, Arrival: arrival, Position: 1}, w)
	require.Equal(t, []string{"2", "1"}, d.Waiting(id))
	require.Equal(t, []coupon.UserID{2}, rows(d, id))
}

// Another server takes over before the application is entered: nothing is entered there, and the journal has the row.
func TestHonour_EntersNobodyOnAnotherServer(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(5, 1)
	d.AddUsers(2)
	arrival := d.Arrivals(id)["1"] - 1
	r := d.Restorer()
	r.Line = stumbling{r.Line, func(_ context.Context, call string, after bool) error {
		if call == "Enter" && !after {
			d.FailOver(id)
		}
		return nil
	}}
	_, err := honours(d, r, arrival)
	require.ErrorIs(t, err, promise.ErrTakenOver)
	require.Equal(t, []string{"1"}, d.Waiting(id))
	require.EqualValues(t, 1, d.Restore(id).Back)
	require.Equal(t, arrival, d.Arrivals(id)["2"])
}

// A promise goes before a limit, a pause and the closing.
func TestHonour_IgnoresTheDoor(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1)
	d.AddUsers(2)
	d.Exec("UPDATE coupon SET status = 'PAUSED', line_limit = 1, version = version + 1 WHERE id = ?", id)
	d.SetWindow(id, d.Now().Add(-2*time.Hour), d.Now().Add(-time.Hour))
	d.Refresh()
	arrival := d.Arrivals(id)["1"] - 1
	w, err := honours(d, d.Restorer(), arrival)
	require.NoError(t, err)
	require.Equal(t, journal.Whereabouts{Fate: journal.PutBack, Arrival: arrival, Position: 1}, w)
	d.SettleNow(id)
	require.Equal(t, []coupon.UserID{2}, d.Issued(id))
}

func TestHonour_WaitsForTheCouponsLock(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddQueue(1, 1)
	d.AddUsers(2)
	release := d.Lock(1)
	done := make(chan journal.Whereabouts, 1)
	r := d.Restorer()
	go func() {
		w, _ := honours(d, r, d.Arrivals(1)["1"]-1)
		done <- w
	}()
	d.AwaitLockWait()
	require.Equal(t, []string{"1"}, d.Waiting(1))
	release()
	require.Equal(t, journal.PutBack, (<-done).Fate)
}

// A position is found in Redis; an outcome counts for arrivals below the cutoff of its run.
func TestFind_Outcomes(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2)
	arrival := d.Arrivals(id)["2"]
	d.SettleNow()
	find := func(arrival coupon.Arrival) journal.Whereabouts {
		w, err := d.Restorer().Find(t.Context(), id, 2, arrival)
		require.NoError(t, err)
		return w
	}
	require.Equal(t, journal.Whereabouts{Fate: journal.NotSelected, Arrival: arrival}, find(arrival))
	require.Equal(t, journal.Whereabouts{Fate: journal.NotSelected, Arrival: arrival}, find(arrival-1))
	require.Equal(t, journal.Whereabouts{Fate: journal.NotSelected, Arrival: arrival}, find(arrival+1))
	cutoff := jajeongtest.Column[time.Time](d, "SELECT cutoff FROM settlement_run")[0]
	require.Equal(t, journal.Whereabouts{Fate: journal.Lost}, find(coupon.ArrivalAt(cutoff)))
	_, err := d.Restorer().Find(t.Context(), 9, 2, arrival)
	require.ErrorContains(t, err, "coupon 9 does not exist")
}

// The reply to a COMMIT is lost. The operator still hears what was done, and the order is recorded once.
func TestHonour_AfterLostCommits(t *testing.T) {
	t.Parallel()
	for which := range int32(2) {
		t.Run(fmt.Sprint("commit ", which+1), func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.NewOnPrivateRedis(t)
			d.AddQueue(1, 1)
			d.AddUsers(2)
			var commits atomic.Int32
			_, behind := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
				if bytes.HasSuffix(turn.Request, []byte("COMMIT")) && commits.Add(1) == which+1 {
					return faultproxy.DropReply(nil)
				}
				return faultproxy.Pass()
			})
			w, err := honours(d, behind.Restorer(), d.Arrivals(1)["1"]-1)
			require.NoError(t, err)
			require.Equal(t, journal.PutBack, w.Fate)
			require.Equal(t, []string{"2", "1"}, d.Waiting(1))
			require.EqualValues(t, 1, d.Number("SELECT COUNT(*) FROM audit_event WHERE action = 'RECEIPT_HONOURED'"))
			require.EqualValues(t, 3, commits.Load(), "one was repeated")
		})
	}
}
