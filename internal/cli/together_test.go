package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/jajeong/jajeong/internal/schedule"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
)

// request is one application by name: who, and when.
type request struct {
	user    uint64
	arrival int64
}

// storm is a world in which everything happens at once. So much of it happens with every run, whatever time that takes.
type storm struct {
	*world
	people uint64
	scarce uint64 // a coupon to which seats are added, but never enough
	plenty uint64 // a coupon that ends with seats for everybody

	refused  atomic.Int64 // by a Redis that was full
	mu       sync.Mutex
	promised map[uint64]map[request]bool // by coupon: every application that was accepted
	reports  []*settle.Report
}

// knock is one user at one door.
type knock struct{ couponID, user uint64 }

func (s *storm) coupons() []uint64 { return []uint64{s.scarce, s.plenty} }

// steady users are never blocked and exist from the beginning. Whoever is not may lose a place for a while.
func steady(user uint64) bool { return user%5 != 0 }

// newborn users do not exist before the storm is over; nor are they steady.
func newborn(user uint64) bool { return user%25 == 0 }

func newStorm(t *testing.T, people uint64) *storm {
	s := &storm{world: newWiredWorld(t), people: people, promised: map[uint64]map[request]bool{}}
	s.scarce, s.plenty = s.coupon(5), s.coupon(int(people)/2)
	s.users(slices.DeleteFunc(between(1, people), newborn)...)
	for _, couponID := range s.coupons() {
		s.promised[couponID] = map[request]bool{}
	}
	return s
}

// gust lets people apply; some of them are blocked, some unblocked, and some seats are added. Now and then Redis is full for
// a while.
func (s *storm) gust(n int, work []knock) {
	if full, over := n%6 == 2, n%6 == 3; full || over {
		s.limitMemory(full)
	}
	for _, k := range work {
		s.knock(k)
	}
	ids := make([]uint64, 6)
	for i := range ids {
		ids[i] = 5 * (1 + rand.N(s.people/5))
	}
	s.do(s.shape.sets("BLOCKED", ids[:4]...))
	s.do(s.shape.sets("WITHDRAWN", ids[4:]...))
	s.do(s.shape.sets(active, ids[:3]...))
	if n%3 == 0 {
		s.do("UPDATE coupon SET total_quantity = total_quantity + 10")
	}
}

// limitMemory leaves Redis no memory, or lets it have all.
func (s *storm) limitMemory(full bool) {
	most := "0"
	if full {
		most = "1"
	}
	assert.NoError(s.t, s.rdb.ConfigSet(context.Background(), "maxmemory", most).Err())
}

// do is an exec for goroutines that are not the test's own.
func (s *storm) do(query string, args ...any) {
	_, err := s.db.Exec(query, args...)
	assert.NoError(s.t, err)
}

// knocks are all users at all doors, twice each, in no order.
func (s *storm) knocks() (all []knock) {
	for _, couponID := range s.coupons() {
		for range 2 {
			for _, user := range between(1, s.people) {
				all = append(all, knock{couponID, user})
			}
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (s *storm) knock(k knock) candidates.Code {
	receipt, err := s.store.Apply(context.Background(), k.couponID, k.user)
	if redis.HasErrorPrefix(err, "OOM") {
		s.refused.Add(1)
		return ""
	}
	assert.NoError(s.t, err)
	if receipt.Code == candidates.Accepted {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.promised[k.couponID][request{k.user, receipt.Arrival}] = true
	}
	return receipt.Code
}

var asKim = []string{"--operator=kim", "--reason=test", "--output=json"}

var runNow = append([]string{"run", "--cutoff=now"}, asKim...)

// here runs the program in this process, and there in one of its own.
func (s *storm) here(args ...string) { s.heard(s.settle(args...)) }

func (s *storm) there(binary string, args ...string) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(binary, append(slices.Clone(args), s.servers...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	s.heard(cmd.ProcessState.ExitCode(), stdout.String(), stderr.String())
}

// heard keeps what a run said it did.
func (s *storm) heard(code int, stdout, stderr string) {
	report := new(settle.Report)
	if assert.Zero(s.t, code, "%s%s", stdout, stderr) && assert.NoError(s.t, json.Unmarshal([]byte(stdout), report), stdout) {
		s.told(report)
	}
}

func (s *storm) told(report *settle.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, report)
}

// retry lets everybody under review be tried again.
func (s *storm) retry(couponID uint64) {
	s.here(append([]string{"dlq", "retry", fmt.Sprintf("--coupon=%d", couponID), "--cutoff=now"}, asKim...)...)
}

// drop ends the newest entry under review, unless somebody else settles it first.
func (s *storm) drop(couponID uint64) {
	members, err := s.rdb.ZRange(context.Background(), "dlq:{"+s.queue(couponID)+"}", -1, -1).Result()
	if !assert.NoError(s.t, err) || len(members) == 0 {
		return
	}
	code, stdout, stderr := s.settle("dlq", "drop", fmt.Sprintf("--coupon=%d", couponID), "--user="+members[0],
		"--operator=kim", "--reason="+dropping, "--output=json")
	if code != exitUse { // or else it is not under review any more
		s.heard(code, stdout, stderr)
	}
}

const dropping = "a drop"

// always is a timetable that fires at once.
type always struct{}

func (always) Next(t time.Time) time.Time { return t }

// keepSettling is a scheduler for which every instant is a midnight.
func (s *storm) keepSettling(times int, blow func()) {
	settler := s.settler()
	scheduler, err := schedule.New(schedule.Config{
		Timetable: always{}, Zone: time.UTC, Clock: settler.Clock, Logger: zap.NewNop(),
		LastNight: func(context.Context, time.Time) (time.Time, error) { return time.Time{}, nil },
		Settle: func(ctx context.Context, _ time.Time) (bool, error) {
			blow()
			report, err := settler.RunOnce(ctx, settle.Order{Trigger: coupon.Cron, CutoffNow: true})
			if assert.NoError(s.t, err) && assert.NoError(s.t, report.Err()) {
				s.told(report)
			}
			return true, nil
		},
		Wait: func(context.Context, time.Duration) error {
			if times--; times <= 0 {
				return context.Canceled
			}
			return nil
		},
	})
	if assert.NoError(s.t, err) {
		scheduler.Run(context.Background())
	}
}

func TestEverythingAtOnceOnTheSameCoupons(t *testing.T) {
	t.Parallel()
	each := testenv.Rounds(6, 60) // runs of every kind
	binary := testenv.Build(t, "./cmd/settle")
	s := newStorm(t, uint64(testenv.Rounds(600, 6000)))
	kinds := []func(){
		func() { s.here(runNow...) },
		func() { s.here(runNow...) },
		func() { s.there(binary, runNow...) },
		func() { s.here("run", "--output=json") }, // the nightly one
		func() { s.retry(s.scarce) },
		func() { s.retry(s.plenty) },
		func() { s.drop(s.scarce); s.drop(s.plenty) },
		func() {
			code, stdout, stderr := s.settle("verify")
			assert.Zero(t, code, "%s%s", stdout, stderr)
		},
	}
	gusts := make(chan struct{}, each*(len(kinds)+1)) // so that no run waits for its gust
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
	knocks := s.knocks()
	for range 4 {
		weather.Go(func() {
			for range gusts {
				n := int(next.Add(1))
				s.gust(n, knocks[(n-1)*len(knocks)/cap(gusts):n*len(knocks)/cap(gusts)])
			}
		})
	}
	runs.Wait()
	close(gusts)
	weather.Wait()
	require.False(t, t.Failed())
	require.Positive(t, s.refused.Load(), "Redis was full")
	t.Logf("%d runs; %d and %d accepted, %d refused by a full Redis; %d and %d rejected", len(s.reports), len(s.promised[s.scarce]), len(s.promised[s.plenty]), s.refused.Load(),
		len(s.outcome(s.scarce, "REJECTED")), len(s.outcome(s.plenty, "REJECTED")))

	s.calm()
	s.requireEverybodyAccountedFor()
	s.requireFirstCome()
	s.requireSeatsAndRecords()
	s.requireTheDoorKnows()
	s.verify()
}

// calm lets everybody exist and be active, adds the seats that plenty is to have, and runs until nothing changes.
func (s *storm) calm() {
	s.t.Helper()
	s.limitMemory(false)
	s.users(slices.DeleteFunc(between(1, s.people), func(user uint64) bool { return !newborn(user) })...)
	s.setStanding(active)
	s.exec("UPDATE coupon SET total_quantity = total_quantity + ? WHERE id = ?", s.people, s.plenty)
	const most = 10
	for range most {
		before := s.everything()
		for _, couponID := range s.coupons() {
			s.retry(couponID)
		}
		s.here(runNow...)
		if slices.Equal(before, s.everything()) {
			return
		}
	}
	s.t.Fatalf("something still changes after %d runs", most)
}

// requests are applications that MySQL knows.
func (s *storm) requests(query string, args ...any) map[request]bool {
	s.t.Helper()
	rows, err := s.db.Query(query, args...)
	require.NoError(s.t, err)
	defer rows.Close()
	found := map[request]bool{}
	for rows.Next() {
		var user uint64
		var at time.Time
		require.NoError(s.t, rows.Scan(&user, &at))
		r := request{user, at.UnixMicro()}
		require.NotContains(s.t, found, r, "twice")
		found[r] = true
	}
	require.NoError(s.t, rows.Err())
	return found
}

const (
	seatedQuery  = "SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL"
	outcomeQuery = "SELECT user_id, applied_at FROM application_outcome WHERE coupon_id = ? AND outcome = ?"
)

// requireEverybodyAccountedFor: every application that was accepted is in exactly one place, and no other is anywhere.
func (s *storm) requireEverybodyAccountedFor() {
	s.t.Helper()
	for _, couponID := range s.coupons() {
		require.Empty(s.t, s.waiting(couponID), "all arrived before the last cutoff")
		places := map[request]string{}
		put := func(place string, all map[request]bool) {
			for r := range all {
				require.Empty(s.t, places[r], "coupon %d: %+v is %s too", couponID, r, place)
				places[r] = place
			}
		}
		put("issued", s.requests(seatedQuery, couponID))
		for _, outcome := range []string{"NOT_SELECTED", "REJECTED", "ALREADY_ISSUED"} {
			put(outcome, s.requests(outcomeQuery, couponID, outcome))
		}
		reviewed := map[request]bool{}
		for member, arrival := range s.underReview(couponID) {
			user, err := strconv.ParseUint(member, 10, 64)
			require.NoError(s.t, err)
			reviewed[request{user, arrival}] = true
		}
		put("under review", reviewed)

		for r := range s.promised[couponID] {
			require.NotEmpty(s.t, places[r], "coupon %d: %+v was accepted and is lost", couponID, r)
			delete(places, r)
		}
		require.Empty(s.t, places, "coupon %d: nobody accepted these", couponID)
	}
}

// requireFirstCome: of those who could take a seat at any time, exactly the lowest arrivals got one, whenever seats were
// added. A run that gives a seat has read everybody who arrived before, waiting or recorded as not selected, since its
// cutoff lies behind the winner. Who was blocked for a while may have lost a place, and only such people.
func (s *storm) requireFirstCome() {
	s.t.Helper()
	for _, couponID := range s.coupons() {
		seated := s.requests(seatedQuery, couponID)
		var last int64
		holds := map[uint64]bool{}
		for r := range seated {
			last = max(last, r.arrival)
			holds[r.user] = true
		}
		for r := range s.promised[couponID] {
			if steady(r.user) && !holds[r.user] {
				require.Greater(s.t, r.arrival, last, "coupon %d: user %d came before the last who got a seat", couponID, r.user)
			}
		}
		for r := range s.requests(outcomeQuery, couponID, "NOT_SELECTED") {
			require.Greater(s.t, r.arrival, last, "coupon %d: user %d", couponID, r.user)
		}
		for r := range s.requests(outcomeQuery, couponID, "REJECTED") {
			require.False(s.t, steady(r.user), "coupon %d: user %d", couponID, r.user)
		}
		for r := range s.requests(outcomeQuery, couponID, "ALREADY_ISSUED") {
			require.True(s.t, holds[r.user], "coupon %d: user %d", couponID, r.user)
		}
		for member, arrival := range s.underReview(couponID) {
			user, _ := strconv.ParseUint(member, 10, 64)
			require.False(s.t, steady(user), "coupon %d: user %d", couponID, user)
			require.Less(s.t, arrival, last, "coupon %d: user %d has no place to be first in line for", couponID, user)
		}
	}
	require.Empty(s.t, s.outcome(s.plenty, "NOT_SELECTED"), "there are seats for everybody")
	require.Empty(s.t, s.underReview(s.plenty), "there are seats for everybody")
}

// requireSeatsAndRecords: seats are 1 to issued_count, and what runs said, what they recorded and what is there agree.
func (s *storm) requireSeatsAndRecords() {
	s.t.Helper()
	for _, couponID := range s.coupons() {
		var total, counted uint64
		require.NoError(s.t, s.db.QueryRow("SELECT total_quantity, issued_count FROM coupon WHERE id = ?", couponID).Scan(&total, &counted))
		if counted < total { // fewer came while it was sold out than seats were added: then nobody is without one
			require.Empty(s.t, s.outcome(couponID, "NOT_SELECTED"))
			require.Empty(s.t, s.waiting(couponID))
		}
		require.Equal(s.t, between(1, counted), s.ids("SELECT position FROM user_coupon WHERE coupon_id = ? ORDER BY position", couponID))
		require.Len(s.t, s.ids("SELECT DISTINCT user_id FROM user_coupon WHERE coupon_id = ?", couponID), int(counted))
		var issued, already uint64
		require.NoError(s.t, s.db.QueryRow("SELECT SUM(issued_count), SUM(already_issued_count) FROM settlement WHERE coupon_id = ?", couponID).Scan(&issued, &already))
		require.Equal(s.t, counted, issued)
		require.Len(s.t, s.outcome(couponID, "ALREADY_ISSUED"), int(already))
		require.Empty(s.t, s.ids("SELECT run_id FROM settlement WHERE coupon_id = ? AND cleaned_at IS NULL", couponID))
	}
	for _, report := range s.reports {
		for _, c := range report.Coupons {
			require.Equal(s.t, c.Status == coupon.Settled, s.recorded(report.Run, c), "run %d said %+v", report.Run, c)
		}
	}
	require.Empty(s.t, s.ids("SELECT id FROM settlement_run WHERE (status <> 'SUCCEEDED' OR finished_at IS NULL) AND reason <> ?", dropping))
}

// recorded is whether a run has a record of a coupon, which must be what the run said; of promises, that none is missing.
func (s *storm) recorded(run uint64, said settle.Result) bool {
	s.t.Helper()
	rows, err := s.db.Query(`SELECT read_count, issued_count, rejected_count, already_issued_count, not_selected_count,
		COALESCE(first_arrival, 0), COALESCE(last_arrival, 0), COALESCE(winners_digest, ''),
		(SELECT COUNT(*) FROM application_outcome WHERE coupon_id = s.coupon_id AND outcome = 'REJECTED' AND run_id = s.run_id)
		FROM settlement s WHERE run_id = ? AND coupon_id = ?`, run, said.Coupon)
	require.NoError(s.t, err)
	defer rows.Close()
	require.Zero(s.t, said.Gap, "run %d, coupon %d", run, said.Coupon)
	if !rows.Next() {
		return false
	}
	is := said
	require.NoError(s.t, rows.Scan(&is.Read, &is.Issued, &is.UnderReview, &is.AlreadyIssued, &is.NotSelected, &is.FirstArrival, &is.LastArrival, &is.WinnersDigest, &is.Rejected))
	is.UnderReview -= is.Rejected // the record counts both
	require.Equal(s.t, said, is, "run %d", run)
	return true
}

// requireTheDoorKnows: asking again is answered at once, and accepts nobody for a second time.
func (s *storm) requireTheDoorKnows() {
	s.t.Helper()
	for _, couponID := range s.coupons() {
		for r := range s.requests(seatedQuery, couponID) {
			require.Equal(s.t, candidates.AlreadyIssued, s.knock(knock{couponID, r.user}))
		}
		for r := range s.requests(outcomeQuery, couponID, "NOT_SELECTED") {
			require.Equal(s.t, candidates.SoldOut, s.knock(knock{couponID, r.user}))
		}
	}
}
