package settle_test

import (
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// scene is a night with every kind of application, small enough for a thousand repetitions.
//
// full: an earlier settlement issued four of the first seven, and did not select three. Since then user 6 was blocked,
// user 7 got the coupon by hand, and seats were added: 12 are free. Users 8 to 49 have applied, 8 is in the DLQ as
// retryable and 9 as held. Of the others 12 and 30 do not exist, 15 and 25 are blocked, 18 and 35 have the coupon by
// hand, and two members are not user ids.
//
// roomy: three applicants and one unknown user, for ten seats. over: closed, three applicants for two seats.
type scene struct {
	*jajeongtest.Deployment
	full, roomy, over coupon.CouponID
	arrivals          map[coupon.CouponID]map[string]coupon.Arrival // of all members of the queues
}

// ending is the result of a coupon of a scene.
type ending struct {
	Issued, NotSelected, AlreadyIssued, Rejected []coupon.UserID
	Seats                                        []uint64 // of those issued
	Waiting                                      []string
	Review                                       map[string]string         // cause
	Arrivals                                     map[string]coupon.Arrival // of those under review
	DoorIssued, DoorRejected                     int64                     // sizes of the sets issued and rejected
	Sold, Finalised                              bool
	CountedIssued, CountedNot, CountedAlready    int // by all settlements' records
}

// stage is some deployments for scenes, one after the other on each. A deployment takes longer to make than a scene.
type stage chan *jajeongtest.Deployment

// newStage makes deployments for as many scenes at a time. Its scenes are subtests of t.
func newStage(t *testing.T, n int, newDeployment func(testing.TB) *jajeongtest.Deployment) stage {
	t.Helper()
	st := make(stage, n)
	for range n {
		d := newDeployment(t)
		d.AddUsers(slices.DeleteFunc(between(1, 49), func(id coupon.UserID) bool { return id == 12 || id == 30 })...)
		d.AddUsers(60, 61, 62, 70, 71, 72)
		st <- d
	}
	return st
}

// scene sets a scene in a free deployment until the end of the test.
func (st stage) scene(t *testing.T) *scene {
	t.Helper()
	return newScene(st.free(t))
}

// free is a free deployment until the end of the test.
func (st stage) free(t *testing.T) *jajeongtest.Deployment {
	t.Helper()
	free := <-st
	t.Cleanup(func() { st <- free })
	return free.For(t)
}

// finaliseAll finalises the coupons of a shared deployment, so that later runs do not settle them.
func finaliseAll(d *jajeongtest.Deployment) {
	d.T.Helper()
	d.Exec("UPDATE coupon SET finalised_at = NOW(6) WHERE finalised_at IS NULL")
}

// oneScene is a scene in a deployment of its own.
func oneScene(t *testing.T) *scene { return newStage(t, 1, jajeongtest.NewOnPrivateRedis).scene(t) }

// newcomer is the first user in the queue of full when seats were added.
const newcomer = 8

var byHand = []coupon.UserID{7, 18, 35}

// newScene sets a new scene. The scenes before it are finalised.
func newScene(d *jajeongtest.Deployment) *scene {
	d.T.Helper()
	finaliseAll(d)
	d.SetStatus(jajeongtest.Active)
	d.SetStatus(jajeongtest.Blocked, 15)
	d.SetStatus(jajeongtest.Withdrawn, 25)
	now := d.Now()
	s := &scene{Deployment: d, full: d.AddCoupon(4), roomy: d.AddCoupon(10),
		over: d.AddCouponBetween(2, now.Add(-2*time.Hour), now.Add(-time.Hour))}

	d.Apply(s.full, between(1, newcomer-1)...)
	earlier := d.Now()
	d.Apply(s.full, between(newcomer, 13)...)
	d.ApplyAt(s.full, "abc", d.Now())
	d.Apply(s.full, between(14, 49)...)
	d.ApplyAt(s.full, "x-1", d.Now())
	d.Apply(s.roomy, between(60, 63)...)
	for i, member := range []string{"70", "71", "72"} {
		d.ApplyAt(s.over, member, now.Add(-90*time.Minute).Add(time.Duration(i)*time.Second))
	}
	s.arrivals = map[coupon.CouponID]map[string]coupon.Arrival{s.full: d.Arrivals(s.full), s.roomy: d.Arrivals(s.roomy),
		s.over: d.Arrivals(s.over)}

	first := jajeongtest.Manual(s.full)
	first.CutoffNow, first.Cutoff = false, earlier
	d.SettleAs(first)
	d.MoveToReview(s.full, "8", coupon.Failure{Cause: "BY_HAND", Retryable: true})
	d.MoveToReview(s.full, "9", coupon.Failure{Cause: "BY_HAND"})
	d.SetStatus(jajeongtest.Blocked, 6)
	d.InsertGranted(s.full, byHand...)
	d.SetSeats(s.full, len(d.Issued(s.full))+12)
	d.Exec("UPDATE coupon SET issued_count = issued_count + ? WHERE id = ?", len(byHand), s.full)
	d.Refresh()
	return s
}

// expected are the results of full, roomy and over, no matter where runs were interrupted.
func (s *scene) expected() [3]ending {
	notSelected := slices.DeleteFunc(between(23, 49),
		func(id coupon.UserID) bool { return id == 25 || id == 30 || id == 35 })
	full := ending{
		Issued: []coupon.UserID{1, 2, 3, 4, 5, 8, 10, 11, 13, 14, 16, 17, 19, 20, 21, 22},
		// 5 to 7 were taken by hand.
		Seats:       slices.Concat(jajeongtest.Between[uint64](1, 4), jajeongtest.Between[uint64](8, 19)),
		NotSelected: notSelected, AlreadyIssued: byHand, Rejected: []coupon.UserID{6},
		Waiting: []string{}, Review: map[string]string{
			"9": "BY_HAND", "12": "UNKNOWN_USER", "15": "INACTIVE_USER", "25": "INACTIVE_USER", "30": "UNKNOWN_USER",
			"abc": "MALFORMED_USER_ID", "x-1": "MALFORMED_USER_ID",
		},
		DoorIssued: 4 + 12 + 2, DoorRejected: 1, Sold: true, // not 7, who was not selected before
		CountedIssued: 4 + 12, CountedNot: 3 + len(notSelected), CountedAlready: len(byHand),
	}
	roomy := ending{
		Issued: between(60, 62), Seats: jajeongtest.Between[uint64](1, 3), NotSelected: []coupon.UserID{},
		AlreadyIssued: []coupon.UserID{}, Rejected: []coupon.UserID{},
		Waiting: []string{}, Review: map[string]string{"63": "UNKNOWN_USER"}, DoorIssued: 3, CountedIssued: 3,
	}
	over := ending{
		Issued: between(70, 71), Seats: jajeongtest.Between[uint64](1, 2), NotSelected: []coupon.UserID{72},
		AlreadyIssued: []coupon.UserID{}, Rejected: []coupon.UserID{},
		Waiting: []string{}, Review: map[string]string{}, Sold: true, Finalised: true, CountedIssued: 2, CountedNot: 1,
	}
	endings := [3]ending{full, roomy, over}
	for i, couponID := range s.coupons() {
		endings[i].Arrivals = map[string]coupon.Arrival{}
		for member := range endings[i].Review {
			endings[i].Arrivals[member] = s.arrivals[couponID][member]
		}
	}
	return endings
}

func (s *scene) coupons() []coupon.CouponID { return []coupon.CouponID{s.full, s.roomy, s.over} }

// found are the results in the servers.
func (s *scene) found() (endings [3]ending) {
	s.T.Helper()
	for i, couponID := range s.coupons() {
		e := ending{
			Issued: jajeongtest.Column[coupon.UserID](s.Deployment,
				"SELECT user_id FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL ORDER BY position",
				couponID),
			Seats:         s.Deployment.Seats(couponID),
			NotSelected:   s.Outcome(couponID, "NOT_SELECTED"),
			AlreadyIssued: s.Outcome(couponID, "ALREADY_ISSUED"),
			Rejected:      s.Outcome(couponID, "REJECTED"),
			Waiting:       s.Waiting(couponID),
			Review:        map[string]string{},
			Arrivals:      s.UnderReview(couponID),
		}
		for member := range e.Arrivals {
			e.Review[member] = s.Reason(couponID, member).Cause
		}
		ctx := s.T.Context()
		issued, rejected := s.Redis.ZCard(ctx, s.Key("issued", couponID)),
			s.Redis.SCard(ctx, s.Key("rejected", couponID))
		require.NoError(s.T, errors.Join(issued.Err(), rejected.Err()))
		e.DoorIssued, e.DoorRejected = issued.Val(), rejected.Val()
		e.Sold = s.Redis.HGet(ctx, s.Key("state", couponID), "sold").Val() == "1"
		var finalised sql.NullTime
		require.NoError(s.T, s.DB.QueryRow("SELECT finalised_at FROM coupon WHERE id = ?", couponID).Scan(&finalised))
		e.Finalised = finalised.Valid
		require.NoError(s.T, s.DB.QueryRow(`SELECT COALESCE(SUM(issued_count), 0), COALESCE(SUM(not_selected_count), 0),
			COALESCE(SUM(already_issued_count), 0) FROM settlement WHERE coupon_id = ?`, couponID).
			Scan(&e.CountedIssued, &e.CountedNot, &e.CountedAlready))
		endings[i] = e
	}
	return endings
}

// mustBeSettled demands the expected results and every invariant, without warnings.
func (s *scene) mustBeSettled() {
	s.T.Helper()
	want, found := s.expected(), s.found()
	for i, couponID := range s.coupons() { // a restore marks those, too, who have the coupon by hand
		all := s.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", couponID)
		if found[i].DoorIssued == all {
			want[i].DoorIssued = all
		}
	}
	require.Equal(s.T, want, found)
	s.Verify(s.coupons()...)
}
