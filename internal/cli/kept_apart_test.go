package cli

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// settler is what the verbs wire, for tests that replace a part of it.
func (w *world) settler() *settle.Settler {
	zone, err := time.LoadLocation("Asia/Seoul")
	require.NoError(w.t, err)
	return &settle.Settler{
		DB: settle.NewDatabase(w.as("jajeong_settle"), zap.NewNop()), Clock: w.store, Door: w.store, Line: w.store, DLQ: w.store, Catalog: catalog.Snapshot{Store: w.store}, Auditor: &ledger.Ledger{Store: w.store, Users: w.directory}, Users: w.directory,
		Zone: zone, Now: time.Now, Logger: zap.NewNop(), Metrics: settle.NewMetrics(time.Now), Parallel: 4, Grace: time.Second,
	}
}

// panicky is an auditor with a bug that only one coupon meets.
type panicky struct {
	settle.Auditor
	couponID uint64
}

func (p panicky) Account(ctx context.Context, tx *sql.Tx, couponID uint64) (ledger.Account, error) {
	if couponID == p.couponID {
		panic("index out of range")
	}
	return p.Auditor.Account(ctx, tx, couponID)
}

func TestAPanicFailsItsCouponAloneAndLetsItsRowGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hurt, whole := w.coupon(5), w.coupon(5)
	w.users(1)
	w.apply(hurt, 1)
	w.apply(whole, 1)
	s := w.settler()
	s.Auditor = panicky{s.Auditor, hurt}

	report, err := s.RunOnce(t.Context(), settle.Order{Trigger: coupon.Manual, CutoffNow: true})
	require.NoError(t, err)
	require.Equal(t, coupon.Failed, report.Coupons[0].Status)
	require.Contains(t, report.Coupons[0].Error, "index out of range")
	require.Equal(t, []uint64{1}, w.issued(whole))

	w.settleNow() // the row is free again
	require.Equal(t, []uint64{1}, w.issued(hurt))
	w.verify()
}

func TestACouponThatFailsKeepsNoNightFromTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.settler()
	last := settle.DefaultCutoff(w.now(), s.Zone)
	broken := w.couponBetween(5, last.Add(-96*time.Hour), last.Add(48*time.Hour))
	whole := w.couponBetween(5, last.Add(-96*time.Hour), last.Add(48*time.Hour))
	w.users(1, 2)
	w.stand(whole, "1", last.Add(-30*time.Hour)) // in the night before the last
	w.stand(whole, "2", last.Add(-time.Hour))
	state := "state:{" + w.queue(broken) + "}"
	require.NoError(t, w.rdb.Del(t.Context(), state).Err())
	require.NoError(t, w.rdb.Set(t.Context(), state, "taken by something else", 0).Err())
	w.exec("INSERT INTO settlement_run (cutoff, status, finished_at) VALUES (?, 'SUCCEEDED', ?)", last.AddDate(0, 0, -2).UTC(), last.UTC())

	timetable, err := settle.ParseSchedule("0 0 * * *", s.Zone)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	(&settle.Scheduler{
		Timetable: timetable, Zone: s.Zone, Clock: s.Clock, LastNight: s.LastNight, Logger: zap.NewNop(),
		Settle: func(ctx context.Context, cutoff time.Time) error {
			report, err := s.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, Cutoff: cutoff})
			if err != nil {
				return err
			}
			return report.Err()
		},
		Wait: func(context.Context, time.Duration) error { stop(); return context.Canceled },
	}).Run(ctx)
	require.Equal(t, []uint64{1, 2}, w.issued(whole))
	nights := w.ids("SELECT DISTINCT run_id FROM user_coupon WHERE coupon_id = ? ORDER BY run_id", whole)
	require.Len(t, nights, 2, "each in its own night")
}

func TestALossIsMendedByAPodThatLivesAlthoughNobodyAppliesAgain(t *testing.T) {
	t.Parallel()
	l := newLosing(t, testenv.RedisFor(t))
	l.apply(l.hurt, between(51, 90)...)
	for _, user := range between(51, 90) {
		require.NoError(t, l.rdb.ZRem(t.Context(), l.queue(l.hurt), user).Err())
	}
	require.NoError(t, l.rdb.HSet(t.Context(), "state:{"+l.queue(l.hurt)+"}", "accepted", 50).Err())
	l.refresh()
	testenv.Eventually(t, 20*time.Second, "everybody is back", func() bool { return l.rdb.ZCard(t.Context(), l.queue(l.hurt)).Val() == 90 })
	l.settleNow()
	require.Equal(t, between(1, 90), l.issued(l.hurt))
}

func TestACouponThatBeginsWithoutSeatsIsNotSoldOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(0)
	w.refresh()
	w.exec("UPDATE coupon SET total_quantity = 100 WHERE id = ?", couponID)
	w.refresh()
	w.apply(couponID, 1)
}

func TestAStaleCatalogDoesNotShutTheDoorAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.now()
	couponID := w.coupon(1)
	w.users(1, 2)
	w.apply(couponID, 1)
	w.settleNow()
	w.refresh()
	var version int64
	require.NoError(t, w.db.QueryRow("SELECT version FROM coupon WHERE id = ?", couponID).Scan(&version))
	w.exec("UPDATE coupon SET total_quantity = 10 WHERE id = ?", couponID)
	w.settleNow()
	_, _, err := w.store.Publish(t.Context(), coupon.Window{
		Coupon: couponID, Version: version, Opens: now.Add(-time.Hour), Closes: now.Add(time.Hour), Sold: true,
	}, coupon.Promise{})
	require.NoError(t, err)
	w.apply(couponID, 2)
}

func TestWhatWasRolledBackIsNotCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(5)
	w.users(1, 2, 3)
	w.apply(couponID, 1, 2, 3)
	w.exec("CREATE TRIGGER refuses BEFORE INSERT ON settlement FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'")
	code, report := w.settleNowCode()
	require.Equal(t, 2, code)
	require.Empty(t, w.issued(couponID))
	require.Zero(t, report.Total.Issued)
	require.Equal(t, 5, report.Coupons[0].SeatsLeft)
	require.Equal(t, []string{"1", "2", "3"}, w.waiting(couponID))
}

// A person's run with a later cutoff died after its commit; the nightly run with an earlier one finishes the coupon.
func TestAnEarlierCutoffMarksALaterSettlementCleanOnlyWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.settler()
	midnight := settle.DefaultCutoff(w.now(), s.Zone)
	w.users(1)
	for name, c := range map[string]struct {
		closes time.Time
		clean  bool
	}{
		"over":    {midnight.Add(-time.Hour), true},
		"goes on": {midnight.Add(48 * time.Hour), false},
	} {
		couponID := w.couponBetween(5, midnight.Add(-48*time.Hour), c.closes)
		w.stand(couponID, "1", midnight.Add(-2*time.Hour))
		line, err := w.rdb.ZRangeWithScores(t.Context(), w.queue(couponID), 0, -1).Result()
		require.NoError(t, err)
		w.settleNow()
		require.NoError(t, w.rdb.ZAdd(t.Context(), w.queue(couponID), line...).Err())
		w.exec("UPDATE settlement SET cleaned_at = NULL WHERE coupon_id = ?", couponID)
		w.exec("UPDATE coupon SET finalised_at = NULL WHERE id = ?", couponID)

		code, _, stderr := w.settle("run")
		require.Zero(t, code, stderr)
		require.Empty(t, w.waiting(couponID), name)
		require.Equal(t, c.clean, len(w.ids("SELECT run_id FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL", couponID)) == 0, name)
	}
}

func TestAHeldApplicationThatAlsoWaitsStaysHeldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	couponID := w.coupon(1)
	w.users(1, 2)
	w.apply(couponID, 1, 2)
	page, _, err := w.store.Page(t.Context(), couponID, coupon.Cursor{}, w.now())
	require.NoError(t, err)
	_, err = w.store.Review(t.Context(), couponID, 0, time.Time{}, []coupon.Failure{{Application: page[1], Cause: "BY_HAND"}})
	require.NoError(t, err)
	w.rdb.Do(t.Context(), "ZADD", w.queue(couponID), page[1].Arrival, "2")
	w.settleNow()
	require.Empty(t, w.waiting(couponID))
	require.Equal(t, "BY_HAND", w.reason(couponID, "2").Cause)
	w.verify()
}
