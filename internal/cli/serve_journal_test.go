package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// serveJournal runs replicas of `settle serve --tasks journal`, and ends them at the end of the test.
func (w *world) serveJournal(replicas int, args ...string) {
	w.T.Helper()
	for range replicas {
		r := w.begin(append([]string{"serve", "--tasks=journal"}, args...)...)
		w.T.Cleanup(func() {
			r.stop()
			r.end()
			require.Zero(w.T, r.code, r.stderr.String())
		})
	}
}

func (w *world) awaitJournalled(id coupon.CouponID, applications int) {
	w.T.Helper()
	testenv.Eventually(w.T, "the line is journalled", func() bool {
		return w.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id) >= int64(applications)
	})
}

func (w *world) awaitLine(id coupon.CouponID, want []string) {
	w.T.Helper()
	testenv.Eventually(w.T, "everybody stands again", func() bool { return slices.Equal(w.Waiting(id), want) })
}

func membersOf(users []coupon.UserID) (all []string) {
	for _, user := range users {
		all = append(all, user.Member())
	}
	return all
}

// Whatever Redis loses of a coupon, replicas of settle serve put the applications back, and nobody else has to act.
func TestServe_PutsBackWhatRedisHasLost(t *testing.T) {
	t.Parallel()
	users := between(1, 700)
	for name, lose := range map[string]func(w *world, id coupon.CouponID){
		"everything":      func(w *world, id coupon.CouponID) { w.LoseRedis(id) },
		"the queue":       func(w *world, id coupon.CouponID) { w.Redis.Del(w.T.Context(), w.Queue(id)) },
		"the state":       func(w *world, id coupon.CouponID) { w.Redis.Del(w.T.Context(), w.Key("state", id)) },
		"some by hand":    func(w *world, id coupon.CouponID) { w.Redis.ZRem(w.T.Context(), w.Queue(id), 5, 600, 700) },
		"state and queue": func(w *world, id coupon.CouponID) { w.Redis.Del(w.T.Context(), w.Queue(id), w.Key("state", id)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.AddUsers(users...)
			id := w.AddCoupon(100)
			w.serveJournal(2)
			for _, user := range users {
				w.Answer(id, user)
			}
			w.awaitJournalled(id, len(users))
			w.Refresh()
			w.PodsDie()
			lose(w, id)
			w.awaitLine(id, membersOf(users))
			w.SettleNow()
			require.Equal(t, users[:100], w.Issued(id))
			w.verify()
		})
	}
}

// Redis falls back to before the first application, and no promise has reached MySQL: only the journal knows that there were any.
func TestServe_PutsBackWhatNoCountKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := between(1, 50)
	w.AddUsers(users...)
	id := w.AddCoupon(10)
	before, err := w.Redis.Dump(t.Context(), w.Key("state", id)).Result()
	require.NoError(t, err)
	w.serveJournal(1)
	w.Apply(id, users...)
	w.awaitJournalled(id, len(users))
	w.PodsDie()
	w.LoseRedis(id)
	require.NoError(t, w.Redis.RestoreReplace(t.Context(), w.Key("state", id), 0, before).Err())
	w.awaitLine(id, membersOf(users))
	w.SettleNow()
	require.Equal(t, users[:10], w.Issued(id))
	w.verify()
}

// Receipts have brought back who was missing after a restore. As many who are lost later are not taken for these.
func TestServe_PutsBackAsManyAsWereMissingBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := between(1, 20)
	w.AddUsers(users...)
	id := w.AddCoupon(10)
	w.Apply(id, users[:19]...)
	w.Journal(id)
	w.Apply(id, users[19])
	young := w.Arrivals(id)["20"]
	w.Refresh()
	w.PodsDie()
	w.LoseRedis(id)
	w.serveJournal(1)
	testenv.Eventually(t, "the restore ends", func() bool { return w.Redis.HGet(t.Context(), w.Key("state", id), "missing").Val() == "1" })
	_, err := w.Store.PutBack(t.Context(), id, []candidates.Answer{{User: 20, Arrival: young}})
	require.NoError(t, err)
	testenv.Eventually(t, "none is missing", func() bool { return w.Redis.HGet(t.Context(), w.Key("state", id), "missing").Val() == "0" })
	w.awaitJournalled(id, len(users))
	require.NoError(t, w.Redis.ZRem(t.Context(), w.Queue(id), "5").Err())
	w.PodsDie()
	w.awaitLine(id, membersOf(users))
	w.SettleNow()
	require.Equal(t, users[:10], w.Issued(id))
	w.verify()
}

// Who has the coupon is answered so again although somebody deleted the marks.
func TestServe_MarksUsersAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 5)...)
	id := w.AddCoupon(3)
	w.serveJournal(1)
	w.Apply(id, between(1, 5)...)
	w.SettleNow()
	require.NoError(t, w.Redis.Del(t.Context(), w.Key("issued", id)).Err())
	testenv.Eventually(t, "the marks are back", func() bool { return w.Redis.SCard(t.Context(), w.Key("issued", id)).Val() == 3 })
	w.verify()
}

// Rows are bounded in a second, and none is left out.
func TestServe_JournalKeepsToItsRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddCoupon(5)
	w.ApplyLine(id, between(1, 12_000)...)
	require.NoError(t, w.Redis.HSet(t.Context(), w.Key("state", id), "last", w.Now().UnixMicro()).Err())
	began := time.Now()
	w.serveJournal(1, "--journal-rows-per-second=3000")
	w.awaitJournalled(id, 12_000)
	require.Greater(t, time.Since(began), 2*time.Second, "5,000 rows at once, and the others at the rate")
	require.EqualValues(t, 12_000, w.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", id))
}

// At the lowest rate, a transaction fits into its time limit, and a long line keeps no other waiting.
func TestServe_JournalGoesOnAtTheLowestRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long, short := w.AddCoupon(5), w.AddCoupon(5)
	w.ApplyLine(long, between(1, 6_000)...)
	w.Apply(short, 1)
	require.NoError(t, w.Redis.HSet(t.Context(), w.Key("state", long), "last", w.Now().UnixMicro()).Err())
	const perSecond = 100
	began := time.Now()
	w.serveJournal(1, fmt.Sprintf("--journal-rows-per-second=%d", perSecond))
	w.awaitJournalled(short, 1)
	w.awaitJournalled(long, 300)
	rows := w.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = ?", long)
	require.LessOrEqual(t, rows, int64(perSecond*(time.Since(began).Seconds()+1)), "a second's rows at once, and the others at the rate")
}

// While MySQL is away, the log says so once, and the journal goes on afterwards.
func TestServe_JournalWaitsForMySQL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(between(1, 20)...)
	id := w.AddCoupon(5)
	w.Apply(id, between(1, 10)...)
	r := w.begin("serve", "--tasks=journal")
	w.awaitJournalled(id, 10)
	w.Exec("RENAME TABLE line_journal TO away")
	w.Apply(id, between(11, 20)...)
	testenv.Eventually(t, "a failure is logged", func() bool { return strings.Contains(r.stderr.String(), "journal not written") })
	w.Exec("RENAME TABLE away TO line_journal")
	w.awaitJournalled(id, 20)
	testenv.Eventually(t, "the recovery is logged", func() bool { return strings.Contains(r.stderr.String(), "journal written again") })
	r.stop()
	r.end()
	require.Zero(t, r.code)
	require.Equal(t, 1, strings.Count(r.stderr.String(), "journal not written"), r.stderr.String())
	require.Equal(t, 1, strings.Count(r.stderr.String(), "journal written again"), r.stderr.String())
}
