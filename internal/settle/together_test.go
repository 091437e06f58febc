package settle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// request is one application.
type request struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

// storm is a deployment in which users apply, are blocked and get seats while runs settle.
type storm struct {
	*jajeongtest.Deployment
	users  coupon.UserID
	scarce coupon.CouponID // a coupon to which seats are added, but never enough
	plenty coupon.CouponID // a coupon that ends with seats for all users

	settler *settle.Settler
	binary  string
	chance  *rand.Rand

	refused  atomic.Int64 // by a Redis that was full
	mu       sync.Mutex
	promised map[coupon.CouponID]map[request]bool // by coupon: every application that was accepted
	reports  []*settle.Report
}

// visit is a user who applies for a coupon.
type visit struct {
	couponID coupon.CouponID
	user     coupon.UserID
}

func (s *storm) coupons() []coupon.CouponID { return []coupon.CouponID{s.scarce, s.plenty} }

// steady users are never blocked and exist from the beginning. Other users may lose a place for a while.
func steady(user coupon.UserID) bool { return user%5 != 0 }

// newborn users do not exist before the storm is over; nor are they steady.
func newborn(user coupon.UserID) bool { return user%25 == 0 }

func newStorm(t *testing.T, users coupon.UserID) *storm {
	d := jajeongtest.NewOnPrivateRedis(t)
	s := &storm{Deployment: d, users: users, promised: map[coupon.CouponID]map[request]bool{}, settler: d.Settler(),
		binary: testenv.Build(t, "./cmd/settle"), chance: testenv.Random(t)}
	s.scarce, s.plenty = s.AddCoupon(5), s.AddCoupon(int(users)/2)
	s.AddUsers(slices.DeleteFunc(between(1, users), newborn)...)
	for _, couponID := range s.coupons() {
		s.promised[couponID] = map[request]bool{}
	}
	return s
}

// batch makes users apply, blocks and unblocks some, and adds seats. Sometimes Redis is full for a while.
func (s *storm) batch(n int, work []visit) {
	if full, over := n%6 == 2, n%6 == 3; full || over {
		s.limitMemory(full)
	}
	for _, k := range work {
		s.visit(k)
	}
	ids := make([]coupon.UserID, 6)
	for i := range ids {
		ids[i] = 5 * (1 + coupon.UserID(s.chance.Int64N(int64(s.users/5))))
	}
	s.do(s.UserTable.Update(jajeongtest.Blocked, ids[:4]...))
	s.do(s.UserTable.Update(jajeongtest.Withdrawn, ids[4:]...))
	s.do(s.UserTable.Update(jajeongtest.Active, ids[:3]...))
	if n%3 == 0 {
		for _, couponID := range s.coupons() {
			assert.NoError(s.T, s.AddSeats(couponID, 10))
		}
	}
}

// limitMemory leaves Redis no memory, or lets it have all.
func (s *storm) limitMemory(full bool) {
	maxMemory := "0"
	if full {
		maxMemory = "1"
	}
	assert.NoError(s.T, s.Redis.ConfigSet(context.Background(), "maxmemory", maxMemory).Err())
}

// do is an exec for goroutines that are not the test's own.
func (s *storm) do(query string, args ...any) {
	_, err := s.DB.Exec(query, args...)
	assert.NoError(s.T, err)
}

// visits are all users for all coupons, twice each, in random order.
func (s *storm) visits() (all []visit) {
	for _, couponID := range s.coupons() {
		for range 2 {
			for _, user := range between(1, s.users) {
				all = append(all, visit{couponID, user})
			}
		}
	}
	s.chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (s *storm) visit(k visit) candidates.Code {
	receipt, err := s.Store.Apply(context.Background(), k.couponID, k.user)
	if redis.HasErrorPrefix(err, "OOM") {
		s.refused.Add(1)
		return ""
	}
	assert.NoError(s.T, err)
	if receipt.Code == candidates.Accepted {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.promised[k.couponID][request{k.user, receipt.Arrival}] = true
	}
	return receipt.Code
}

// run runs the engine in this process.
func (s *storm) run(order settle.Order) {
	report, err := s.Settle(order)
	if assert.NoError(s.T, err) && assert.Empty(s.T, report.Classes()) {
		s.keep(report)
	}
}

// program runs a verb of the built program, which must exit with 0.
func (s *storm) program(args ...string) (stdout []byte, ok bool) {
	var stderr bytes.Buffer
	cmd := exec.Command(s.binary, append(args, s.Flags(s.Job)...)...)
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	return stdout, assert.NoError(s.T, err, "%s%s", stdout, &stderr)
}

// runProgram runs the built program.
func (s *storm) runProgram() {
	report := new(settle.Report)
	stdout, ok := s.program("run", "--cutoff=now", "--operator=kim", "--reason=test", "--output=json")
	if ok && assert.NoError(s.T, json.Unmarshal(stdout, report), string(stdout)) {
		s.keep(report)
	}
}

func (s *storm) keep(report *settle.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, report)
}

// drop ends the newest entry under review, unless another run settles it first.
func (s *storm) drop(couponID coupon.CouponID) {
	members, err := s.Redis.ZRange(context.Background(), s.Key("dlq", couponID), -1, -1).Result()
	if !assert.NoError(s.T, err) || len(members) == 0 {
		return
	}
	order := jajeongtest.Manual()
	order.Reason = dropping
	report, err := s.settler.Drop(context.Background(), couponID, order, members)
	gone := []coupon.Class{coupon.Setup} // another run has settled the entry
	if err != nil {
		assert.Equal(s.T, gone, []coupon.Class{mysqltx.ClassOf(err)}, err)
	} else if classes := report.Classes(); len(classes) > 0 {
		assert.Equal(s.T, gone, classes, report.Coupons[0].Error)
	} else {
		s.keep(report)
	}
}

const dropping = "a drop"

// always is a timetable that fires immediately.
type always struct{}

func (always) Next(t time.Time, _ *time.Location) time.Time { return t }

// keepSettling is a scheduler for which every instant is a midnight.
func (s *storm) keepSettling(times int, blow func()) {
	scheduler, err := schedule.New(schedule.Config{
		Timetable: always{}, Zone: jajeongtest.InZone(time.UTC), Clock: s.settler.Clock, Logger: zap.NewNop(),
		LastNight: func(context.Context, time.Time) (time.Time, error) { return time.Time{}, nil },
		Kept:      func(context.Context) (bool, error) { return true, nil },
		Settle: func(ctx context.Context, _ time.Time) (bool, error) {
			blow()
			report, err := s.settler.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, CutoffNow: true})
			if assert.NoError(s.T, err) && assert.NoError(s.T, report.Err()) {
				s.keep(report)
			}
			return true, nil
		},
		Away: func(error) bool { return false },
		Wait: func(context.Context, time.Duration) error {
			if times--; times <= 0 {
				return context.Canceled
			}
			return nil
		},
	})
	if assert.NoError(s.T, err) {
		assert.NoError(s.T, scheduler.Run(context.Background()))
	}
}

func TestSettle_KeepsInvariantsInConcurrentStorm(t *testing.T) {
	t.Parallel()
	each := testenv.Rounds(3, 60) // runs of every kind
	s := newStorm(t, coupon.UserID(testenv.Rounds(300, 6000)))
	kinds := []func(){
		func() { s.run(jajeongtest.Manual()) },
		func() { s.run(jajeongtest.Manual()) },
		s.runProgram,
		func() { s.run(settle.Order{Trigger: coupon.Cron}) },
		func() { s.keep(s.Retry(s.scarce)) },
		func() { s.keep(s.Retry(s.plenty)) },
		func() { s.drop(s.scarce); s.drop(s.plenty) },
		func() { s.program("verify") },
	}
	gusts := make(chan struct{}, each*(len(kinds)+1)) // so that no run waits for its batch
	blow := func() { gusts <- struct{}{} }
	var runs, weather sync.WaitGroup
	for _, kind := range kinds {
		runs.Go(func() {
			for range each {
				blow()
				kind()
			}
		})
	}
	runs.Go(func() { s.keepSettling(each, blow) })
	var next atomic.Int64
	visits := s.visits()
	for range 4 {
		weather.Go(func() {
			for range gusts {
				n := int(next.Add(1))
				s.batch(n, visits[(n-1)*len(visits)/cap(gusts):n*len(visits)/cap(gusts)])
			}
		})
	}
	runs.Wait()
	close(gusts)
	weather.Wait()
	require.False(t, t.Failed())
	require.Positive(t, s.refused.Load(), "Redis was full")
	t.Logf("%d runs; %d and %d accepted, %d refused by a full Redis; %d and %d rejected", len(s.reports),
		len(s.promised[s.scarce]), len(s.promised[s.plenty]), s.refused.Load(),
		len(s.Outcome(s.scarce, "REJECTED")), len(s.Outcome(s.plenty, "REJECTED")))

	s.calm()
	s.requireEverybodyAccountedFor()
	s.requireFirstCome()
	s.requireSeatsAndRecords()
	s.requireNoSecondAcceptance()
	s.Verify()
}

// calm lets everybody exist and be active, adds the seats that plenty is to have, and runs until nothing changes.
func (s *storm) calm() {
	s.T.Helper()
	s.limitMemory(false)
	s.AddUsers(slices.DeleteFunc(between(1, s.users), func(user coupon.UserID) bool { return !newborn(user) })...)
	s.SetStatus(jajeongtest.Active)
	require.NoError(s.T, s.AddSeats(s.plenty, int64(s.users)))
	const maxRuns = 10
	for range maxRuns {
		before := s.Snapshot()
		for _, couponID := range s.coupons() {
			s.keep(s.Retry(couponID))
		}
		s.run(jajeongtest.Manual())
		if slices.Equal(before, s.Snapshot()) {
			return
		}
	}
	s.T.Fatalf("something still changes after %d runs", maxRuns)
}

// requests are applications that MySQL knows.
func (s *storm) requests(query string, args ...any) map[request]bool {
	s.T.Helper()
	rows, err := s.DB.Query(query, args...)
	require.NoError(s.T, err)
	defer rows.Close()
	found := map[request]bool{}
	for rows.Next() {
		var user coupon.UserID
		var at time.Time
		require.NoError(s.T, rows.Scan(&user, &at))
		r := request{user, coupon.ArrivalAt(at)}
		require.NotContains(s.T, found, r, "twice")
		found[r] = true
	}
	require.NoError(s.T, rows.Err())
	return found
}

const (
	seatedQuery  = "SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL"
	outcomeQuery = "SELECT user_id, applied_at FROM application_outcome WHERE coupon_id = ? AND outcome = ?"
)

// requireEverybodyAccountedFor: every application that was accepted is in exactly one place, and no other is anywhere.
func (s *storm) requireEverybodyAccountedFor() {
	s.T.Helper()
	for _, couponID := range s.coupons() {
		require.Empty(s.T, s.Waiting(couponID), "all arrived before the last cutoff")
		places := map[request]string{}
		put := func(place string, all map[request]bool) {
			for r := range all {
				require.Empty(s.T, places[r], "coupon %d: %+v is %s too", couponID, r, place)
				places[r] = place
			}
		}
		put("issued", s.requests(seatedQuery, couponID))
		for _, outcome := range []string{"NOT_SELECTED", "REJECTED", "ALREADY_ISSUED"} {
			put(outcome, s.requests(outcomeQuery, couponID, outcome))
		}
		reviewed := map[request]bool{}
		for member, arrival := range s.UnderReview(couponID) {
			user, err := strconv.ParseUint(member, 10, 64)
			require.NoError(s.T, err)
			reviewed[request{coupon.UserID(user), arrival}] = true
		}
		put("under review", reviewed)

		for r := range s.promised[couponID] {
			require.NotEmpty(s.T, places[r], "coupon %d: %+v was accepted and is lost", couponID, r)
			delete(places, r)
		}
		require.Empty(s.T, places, "coupon %d: these were not accepted", couponID)
	}
}

// requireFirstCome: of the users who were never blocked, exactly those with the lowest arrivals have seats, whenever
// seats were added. A run that gives a seat has read all earlier applications, waiting or not selected, because its
// cutoff is later than the winner. Only a user who was blocked for a while may have lost a place.
func (s *storm) requireFirstCome() {
	s.T.Helper()
	for _, couponID := range s.coupons() {
		seated := s.requests(seatedQuery, couponID)
		var last coupon.Arrival
		holds := map[coupon.UserID]bool{}
		for r := range seated {
			last = max(last, r.arrival)
			holds[r.user] = true
		}
		for r := range s.promised[couponID] {
			if steady(r.user) && !holds[r.user] {
				require.Greater(s.T, r.arrival, last, "coupon %d: user %d came before the last who got a seat",
					couponID, r.user)
			}
		}
		for r := range s.requests(outcomeQuery, couponID, "NOT_SELECTED") {
			require.Greater(s.T, r.arrival, last, "coupon %d: user %d", couponID, r.user)
		}
		for r := range s.requests(outcomeQuery, couponID, "REJECTED") {
			require.False(s.T, steady(r.user), "coupon %d: user %d", couponID, r.user)
		}
		for r := range s.requests(outcomeQuery, couponID, "ALREADY_ISSUED") {
			require.True(s.T, holds[r.user], "coupon %d: user %d", couponID, r.user)
		}
		for member, arrival := range s.UnderReview(couponID) {
			user, _ := strconv.ParseUint(member, 10, 64)
			require.False(s.T, steady(coupon.UserID(user)), "coupon %d: user %d", couponID, user)
			require.Less(s.T, arrival, last, "coupon %d: user %d has no place to be first in line for", couponID, user)
		}
	}
	require.Empty(s.T, s.Outcome(s.plenty, "NOT_SELECTED"), "there are seats for everybody")
	require.Empty(s.T, s.UnderReview(s.plenty), "there are seats for everybody")
}

// requireSeatsAndRecords: seats are 1 to issued_count, and what runs said, what they recorded and what is there agree.
func (s *storm) requireSeatsAndRecords() {
	s.T.Helper()
	for _, couponID := range s.coupons() {
		var total, counted uint64
		require.NoError(s.T, s.DB.QueryRow("SELECT total_quantity, issued_count FROM coupon WHERE id = ?",
			couponID).Scan(&total, &counted))
		if counted < total { // more seats were added than applications arrived: every user has a seat
			require.Empty(s.T, s.Outcome(couponID, "NOT_SELECTED"))
			require.Empty(s.T, s.Waiting(couponID))
		}
		require.Equal(s.T, jajeongtest.Between(1, counted),
			s.IDs("SELECT position FROM user_coupon WHERE coupon_id = ? ORDER BY position", couponID))
		require.Len(s.T, s.IDs("SELECT DISTINCT user_id FROM user_coupon WHERE coupon_id = ?", couponID), int(counted))
		var issued, already uint64
		require.NoError(s.T,
			s.DB.QueryRow("SELECT SUM(issued_count), SUM(already_issued_count) FROM settlement WHERE coupon_id = ?",
				couponID).Scan(&issued, &already))
		require.Equal(s.T, counted, issued)
		require.Len(s.T, s.Outcome(couponID, "ALREADY_ISSUED"), int(already))
		require.Empty(s.T, s.IDs("SELECT run_id FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL", couponID))
	}
	for _, report := range s.reports {
		for _, c := range report.Coupons {
			require.Equal(s.T, c.Status == coupon.Settled, s.recorded(report.Run, c), "run %d said %+v", report.Run, c)
		}
	}
	require.Empty(s.T,
		s.IDs("SELECT id FROM settlement_run WHERE (status <> 'SUCCEEDED' OR finished_at IS NULL) AND reason <> ?",
			dropping))
}

// recorded is whether a run has a record of a coupon, which must be what the run said; of promises, that none is
// missing.
func (s *storm) recorded(run coupon.RunID, said settle.Result) bool {
	s.T.Helper()
	rows, err := s.DB.Query(`SELECT issued_count, under_review_count, ended_count, already_issued_count,
		not_selected_count,
		COALESCE(first_arrival, 0), COALESCE(last_arrival, 0), COALESCE(winners_digest, '')
		FROM settlement s WHERE run_id = ? AND coupon_id = ?`, run, said.Coupon)
	require.NoError(s.T, err)
	defer rows.Close()
	require.Zero(s.T, said.Gap, "run %d, coupon %d", run, said.Coupon)
	if !rows.Next() {
		return false
	}
	is := said
	require.NoError(s.T, rows.Scan(&is.Issued, &is.UnderReview, &is.Rejected, &is.AlreadyIssued, &is.NotSelected,
		&is.FirstArrival, &is.LastArrival, &is.WinnersDigest))
	require.Equal(s.T, said, is, "run %d", run)
	return true
}

// requireNoSecondAcceptance: another application of the same user is not accepted.
func (s *storm) requireNoSecondAcceptance() {
	s.T.Helper()
	for _, couponID := range s.coupons() {
		for r := range s.requests(seatedQuery, couponID) {
			require.Equal(s.T, candidates.AlreadyIssued, s.visit(visit{couponID, r.user}))
		}
		for r := range s.requests(outcomeQuery, couponID, "NOT_SELECTED") {
			require.Equal(s.T, candidates.SoldOut, s.visit(visit{couponID, r.user}))
		}
	}
}
