package journal_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// marks are the users marked as issued, and their arrivals.
func marks(d *jajeongtest.Deployment, id coupon.CouponID) map[string]coupon.Arrival {
	d.T.Helper()
	entries, err := d.Redis.ZRangeWithScores(d.T.Context(), d.Key("issued", id), 0, -1).Result()
	require.NoError(d.T, err)
	found := map[string]coupon.Arrival{}
	for _, e := range entries {
		found[e.Member.(string)] = coupon.Arrival(e.Score)
	}
	return found
}

// Whoever has an outcome stays so, also after a server that has lost nothing. Redis answers as before.
func TestRestore_LeavesOutcomesAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(d *jajeongtest.Deployment, id coupon.CouponID){
		"nothing is lost": (*jajeongtest.Deployment).FailOver,
		"all is lost":     func(d *jajeongtest.Deployment, id coupon.CouponID) { lose(d, id) },
		"marks are lost": func(d *jajeongtest.Deployment, id coupon.CouponID) {
			require.NoError(d.T, d.Redis.Del(d.T.Context(), d.Key("issued", id), d.Key("rejected", id)).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(2, 1, 2, 3, 4)
			d.AddUsers(6, 7)
			d.Apply(id, 5) // not a user: under review
			d.Journal(id)
			// All were told a later arrival, too, and those who have a final outcome one after the cutoff.
			tell := "INSERT INTO line_journal (coupon_id, arrival, user_id) "
			d.Exec(tell+"SELECT coupon_id, arrival + 1, user_id FROM line_journal WHERE coupon_id = ?", id)
			d.SettleNow()
			d.Drop(id, "5")
			now := d.Now().UnixMicro()
			d.Exec(tell+"VALUES (?, ?, 1), (?, ?, 2), (?, ?, 5)", id, now, id, now, id, now)
			d.InsertGranted(id, 6)
			d.Exec("UPDATE coupon SET issued_count = issued_count + 1, total_quantity = total_quantity + 1")
			require.Equal(t, []coupon.UserID{3, 4}, d.Outcome(id, "NOT_SELECTED"))
			issued := map[string]coupon.Arrival{"6": 0}
			for _, a := range jajeongtest.Column[coupon.Arrival](d, `SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01',
				applied_at) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL ORDER BY user_id`, id) {
				issued[[]string{"1", "2"}[len(issued)-1]] = a
			}
			d.PodsDie()
			lose(d, id)

			done := d.Restore(id)
			require.False(t, done.Changed(), "%+v", done)
			require.Zero(t, done.Unknown)
			require.Empty(t, d.Waiting(id))
			require.Equal(t, issued, marks(d, id))
			for user, want := range map[coupon.UserID]candidates.Code{1: "ALREADY_ISSUED", 2: "ALREADY_ISSUED",
				5: "REJECTED", 6: "ALREADY_ISSUED", 7: "SOLD_OUT"} {
				require.Equal(t, want, d.Answer(id, user), "user %d", user)
			}
			requireRestored(d, id, 0)
		})
	}
}

// loseSettlement makes MySQL lose all settlements of a coupon, and what the journal has got since.
func loseSettlement(d *jajeongtest.Deployment, kept ...coupon.UserID) {
	d.T.Helper()
	for _, table := range []string{"user_coupon", "coupon_log", "application_outcome", "settlement", "settled",
		"run_coupon", "settlement_run", "audit_event", "audit_head"} {
		d.Exec("DELETE FROM " + table)
	}
	d.Exec("UPDATE coupon SET issued_count = 0")
	d.Exec("DELETE FROM line_journal WHERE user_id NOT IN ("+mysqltx.List("?", len(kept))+")", anys(kept)...)
}

func anys[T any](all []T) (list []any) {
	for _, one := range all {
		list = append(list, one)
	}
	return list
}

// MySQL has lost a settlement. Its winners return, from the journal or from their marks, and get the same seats.
func TestRestore_EntersWinnersOfALostSettlement(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(d *jajeongtest.Deployment, id coupon.CouponID){
		"Redis stays":           func(*jajeongtest.Deployment, coupon.CouponID) {},
		"Redis fails over, too": (*jajeongtest.Deployment).FailOver,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(3, 1, 2, 3, 4)
			before := d.Arrivals(id)
			c := copierOf(d, id)
			c.copy()
			d.SettleNow()
			require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(id))
			loseSettlement(d, 1, 4)
			d.PodsDie()
			change(d, id)
			done := d.Restore(id)
			require.EqualValues(t, 4, done.Back)
			require.EqualValues(t, 2, done.FromMarks)
			require.Zero(t, done.Missing)
			require.Equal(t, before, d.Arrivals(id))
			require.Empty(t, marks(d, id))
			require.Equal(t, []coupon.UserID{1, 2, 3, 4}, rows(d, id), "the rows are there before")
			require.Zero(t, markOf(d, id).UpTo, "the journal may lack others who stand")
			c.copy()
			require.GreaterOrEqual(t, markOf(d, id).UpTo, before["4"])
			requireRestored(d, id, 0)
			require.Equal(t, []audit.Payload{audit.Restored{Back: 2, FromMarks: 2}},
				d.Payloads(id, audit.ApplicationsRestored))
			d.SettleNow()
			require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(id))
		})
	}
}

// MySQL has lost the end of a coupon, and its settlement. The marks outlive the end as long as MySQL may lose it.
func TestRestore_EntersWinnersOfALostEnd(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(d *jajeongtest.Deployment, id coupon.CouponID){
		"Redis stays":           func(*jajeongtest.Deployment, coupon.CouponID) {},
		"Redis fails over, too": (*jajeongtest.Deployment).FailOver,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := jajeongtest.New(t)
			id := d.AddQueue(3, 1, 2, 3)
			arrivals := d.Arrivals(id)
			d.SetWindow(id, d.Now().Add(-time.Hour), d.Now())
			before, err := d.CopyTables(t.Context())
			require.NoError(t, err)
			d.Journal(id)
			settle := func() {
				d.SettleNow()
				require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(id))
				require.Len(t, d.IDs("SELECT id FROM coupon WHERE finalised_at IS NOT NULL"), 1)
				require.Len(t, marks(d, id), 3)
			}
			settle()
			d.PutTablesBack(before)
			d.PodsDie()
			change(d, id)
			require.EqualValues(t, 3, d.Restore(id).FromMarks)
			require.Equal(t, arrivals, d.Arrivals(id))
			settle()

			require.NoError(t, journalOf(d).Clear(t.Context()))
			require.Len(t, marks(d, id), 3, "MySQL may still lose the end")
			d.Exec("UPDATE coupon SET finalised_at = finalised_at - INTERVAL 1 DAY")
			require.NoError(t, journalOf(d).Clear(t.Context()))
			require.Empty(t, marks(d, id))
		})
	}
}

// As many hold the coupon whom Redis does not mark as Redis marks of whom MySQL knows nothing.
func TestRestore_MarksByNameInANewEpoch(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 2, 1, 2, 3)
	d.SettleNow()
	loseSettlement(d, 3)
	d.InsertGranted(id, 8, 9)
	d.PodsDie()
	d.FailOver(id)
	d.Restore(id)
	require.Equal(t, []string{"1", "2", "3"}, d.Waiting(id))
	require.Equal(t, map[string]coupon.Arrival{"8": 0, "9": 0}, marks(d, id))
}

// A server that was replaced is read-only soon, at the first look or at the second. It does not say who has lost a
// settlement.
func TestRestore_EntersNobodyFromMarksOnAReadOnlyServer(t *testing.T) {
	t.Parallel()
	for _, at := range []int32{1, 2} {
		t.Run(fmt.Sprint("look ", at), func(t *testing.T) {
			t.Parallel()
			server := testenv.PrivateMySQL(t, testenv.MySQLOptions{})
			d := jajeongtest.NewWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t, server)})
			id := d.AddQueue(3, 1, 2)
			d.Journal(id)
			d.SettleNow()
			loseSettlement(d, 0)
			d.PodsDie()
			readOnly := func(on int) {
				_, err := d.DB.Exec("SET GLOBAL read_only = ?", on)
				assert.NoError(t, err)
			}
			var looks atomic.Int32
			_, through := d.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
				switch asked := bytes.Contains(turn.Request, []byte("@@global.read_only")); {
				case asked && looks.Add(1) == at:
					readOnly(1)
				case looks.Load() == at: // what follows could be written
					readOnly(0)
				}
				return faultproxy.Pass()
			})
			_, err := through.Restorer().Restore(t.Context(), journal.Order{Coupon: id})
			require.NoError(t, err)
			require.Empty(t, d.Waiting(id))
			require.Empty(t, rows(d, id))
			require.Equal(t, at, looks.Load())
			require.EqualValues(t, 2, d.Restore(id).FromMarks)
			require.Equal(t, []string{"1", "2"}, d.Waiting(id))
		})
	}
}

// MySQL has lost the settlement of a winner, and Redis another application: the counts balance, and the marks tell.
func TestRestore_BelievesMarksAboveTheCoupons(t *testing.T) {
	t.Parallel()
	d, id := journalled(t, 3, 1, 2)
	require.NoError(t, d.Redis.ZAdd(t.Context(), d.Key("issued", id),
		redis.Z{Score: float64(d.Now().UnixMicro()), Member: "7"}).Err())
	require.EqualValues(t, 1, d.Restore(id).FromMarks)
	require.Equal(t, []string{"1", "2", "7"}, d.Waiting(id))
	require.Zero(t, d.Restore(id).FromMarks)
}
