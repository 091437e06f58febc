package settle_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
)

// A page is classified before it locks the coupon. What others commit in between counts.
func TestCloseOut_SeesWhatOthersChangeBetweenPages(t *testing.T) {
	t.Parallel()
	type found struct{ notSelected, alreadyIssued, rejected []coupon.UserID }
	partRecorded := func(d *jajeongtest.Deployment, id coupon.CouponID) {
		d.Exec(`INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at)
			SELECT coupon_id, 3, ?, 'NOT_SELECTED', run_id, settled_at FROM settlement WHERE coupon_id = ?`,
			d.Arrivals(id)["3"].Time(), id)
		d.Exec("UPDATE settlement SET not_selected_count = 1 WHERE coupon_id = ?", id)
		d.Exec("UPDATE settled SET concluded = 1 WHERE coupon_id = ?", id)
	}
	others := []coupon.UserID{2, 3, 4}
	shared := jajeongtest.New(t)
	shared.AddUsers(1, 2, 3, 4)
	for name, test := range map[string]struct {
		change  func(d *jajeongtest.Deployment, id coupon.CouponID)
		want    found
		counts  settle.Counts // of the run
		waiting []string      // after the run
	}{
		"nothing": {func(*jajeongtest.Deployment, coupon.CouponID) {},
			found{notSelected: others}, settle.Counts{Read: 5, Issued: 1, NotSelected: 3, UnderReview: 1}, nil},
		"another run has recorded the page": {func(d *jajeongtest.Deployment, id coupon.CouponID) { d.SettleNow(id) },
			found{notSelected: others}, settle.Counts{Read: 1, Issued: 1}, nil},
		"a part of the page is recorded": {partRecorded,
			found{notSelected: others}, settle.Counts{Read: 5, Issued: 1, NotSelected: 3, UnderReview: 1}, nil},
		"a part of the page is recorded, and a seat is added": {func(d *jajeongtest.Deployment, id coupon.CouponID) {
			partRecorded(d, id)
			d.SetSeats(id, 2)
		}, found{notSelected: []coupon.UserID{3}}, settle.Counts{Read: 3, Issued: 1, NotSelected: 1, UnderReview: 1},
			[]string{"2", "4"}},
		"a user gets the coupon by hand": {func(d *jajeongtest.Deployment, id coupon.CouponID) {
			d.InsertGranted(id, 3)
			require.NoError(d.T, d.AddSeats(id, 1))
			d.Exec("UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", id)
		}, found{notSelected: []coupon.UserID{2, 4}, alreadyIssued: []coupon.UserID{3}},
			settle.Counts{Read: 5, Issued: 1, AlreadyIssued: 1, NotSelected: 2, UnderReview: 1}, nil},
		"a seat is added": {func(d *jajeongtest.Deployment, id coupon.CouponID) { d.SetSeats(id, 2) },
			found{}, settle.Counts{Read: 2, Issued: 1, UnderReview: 1}, []string{"2", "3", "4"}},
		"a seat is added and given": {func(d *jajeongtest.Deployment, id coupon.CouponID) {
			d.SetSeats(id, 2)
			d.SettleNow(id)
		}, found{notSelected: []coupon.UserID{3, 4}}, settle.Counts{Read: 1, Issued: 1}, nil},
		"an unknown user is added": {func(d *jajeongtest.Deployment, _ coupon.CouponID) {
			d.AddUsers(8)
			d.T.Cleanup(func() { d.RemoveUser(8) })
		},
			found{notSelected: []coupon.UserID{2, 3, 4, 8}}, settle.Counts{Read: 5, Issued: 1, NotSelected: 4}, nil},
		"a DLQ entry is dropped": {func(d *jajeongtest.Deployment, id coupon.CouponID) { d.Drop(id, "9") },
			found{notSelected: others, rejected: []coupon.UserID{9}},
			settle.Counts{Read: 5, Issued: 1, NotSelected: 3, UnderReview: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := shared.For(t)
			id := d.AddCoupon(1)
			d.Apply(id, 1, 2, 3, 4, 8, 9) // no users 8 and 9 exist
			d.MoveToReview(id, "9", coupon.Failure{Cause: coupon.CauseUnknownUser, Note: "x"})
			between := sync.OnceFunc(func() { test.change(d, id) })
			s := d.Settler(func(s *settle.Settler) {
				s.Hook = func(_ coupon.CouponID, step settle.Step) {
					if step == settle.StepCloseOut {
						between()
					}
				}
			})
			report, err := s.RunOnce(t.Context(), jajeongtest.Manual(id))
			require.NoError(t, err)
			require.Empty(t, report.Classes())
			require.Equal(t, test.counts, report.Total.Counts)
			require.ElementsMatch(t, test.want.notSelected, d.Outcome(id, "NOT_SELECTED"))
			require.ElementsMatch(t, test.want.alreadyIssued, d.Outcome(id, "ALREADY_ISSUED"))
			require.ElementsMatch(t, test.want.rejected, d.Outcome(id, "REJECTED"))
			require.ElementsMatch(t, test.waiting, d.Waiting(id))
			d.SettleNow(id)
			require.Empty(t, d.Waiting(id))
			d.Verify(id)
		})
	}
}
