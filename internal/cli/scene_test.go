package cli

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// scene is a night with something of everything, small enough to be played a thousand times.
//
// full: four of the first seven were issued by an earlier settlement, three were not selected. Since then 6 was blocked, 7
// was given the coupon by hand, and seats were added: 12 are free. Users 8 to 49 stand in line, 8 in the DLQ to be tried
// again and 9 there until a person decides. Of the others 12 and 30 do not exist, 15 and 25 are blocked, 18 and 35 hold
// the coupon by hand, and two members are no user ids.
//
// roomy: three applicants and one who does not exist, for ten seats. over: its door is shut; three for two seats.
type scene struct {
	*world
	full, roomy, over uint64
	arrivals          map[uint64]map[string]int64 // of everybody who stood in Redis before
}

// ending is what has become of a coupon of a scene.
type ending struct {
	Issued, NotSelected, AlreadyIssued, Rejected []uint64
	Seats                                        []uint64 // of those issued
	Waiting                                      []string
	Review                                       map[string]string // cause
	Arrivals                                     map[string]int64  // of those under review
	DoorIssued, DoorRejected                     int64             // how many the door answers at once
	Sold, Finalised                              bool
	CountedIssued, CountedNot, CountedAlready    int // by all settlements' records
}

// stage is a few worlds on which scenes are played, one after the other on each: a world takes longer to make than a
// scene to play.
type stage chan *world

// newStage has so many worlds; as many tests run at once. Its scenes are subtests of t.
func newStage(t *testing.T, worlds int, newWorld func(*testing.T) *world) stage {
	t.Helper()
	st := make(stage, worlds)
	for range worlds {
		w := newWorld(t)
		w.populate()
		st <- w
	}
	return st
}

// scene sets a scene in a world that is free; the world is free again as the test ends.
func (st stage) scene(t *testing.T) *scene {
	t.Helper()
	free := <-st
	t.Cleanup(func() { st <- free })
	w := *free
	w.t = t
	return w.setScene()
}

// newcomer is the first who stood in the line of full when seats were added.
const newcomer = 8

var byHand = []uint64{7, 18, 35}

// populate makes the users of all scenes of a world.
func (w *world) populate() {
	w.t.Helper()
	w.users(slices.DeleteFunc(between(1, 49), func(id uint64) bool { return id == 12 || id == 30 })...)
	w.users(60, 61, 62, 70, 71, 72)
}

// setScene sets a new scene; those before it are over and no run looks at them.
func (w *world) setScene() *scene {
	w.t.Helper()
	w.exec("UPDATE coupon SET finalised_at = NOW(6) WHERE finalised_at IS NULL")
	w.setStanding(active)
	w.setStanding("BLOCKED", 15)
	w.setStanding("WITHDRAWN", 25)
	now := w.now()
	s := &scene{world: w, full: w.coupon(4), roomy: w.coupon(10), over: w.couponBetween(2, now.Add(-2*time.Hour), now.Add(-time.Hour))}

	w.apply(s.full, between(1, newcomer-1)...)
	earlier := w.now()
	w.apply(s.full, between(newcomer, 13)...)
	w.stand(s.full, "abc", w.now())
	w.apply(s.full, between(14, 49)...)
	w.stand(s.full, "x-1", w.now())
	w.apply(s.roomy, between(60, 63)...)
	for i, member := range []string{"70", "71", "72"} {
		w.stand(s.over, member, now.Add(-90*time.Minute).Add(time.Duration(i)*time.Second))
	}
	s.arrivals = map[uint64]map[string]int64{s.full: w.arrivals(s.full), s.roomy: w.arrivals(s.roomy), s.over: w.arrivals(s.over)}

	code, _, stderr := w.settle("run", "--cutoff="+earlier.Format(time.RFC3339Nano), fmt.Sprintf("--coupon=%d", s.full), "--operator=kim", "--reason=the first seats")
	require.Zero(w.t, code, stderr)
	s.review("8", true)
	s.review("9", false)
	w.setStanding("BLOCKED", 6)
	for _, user := range byHand {
		w.exec("INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, ?)", s.full, user)
	}
	w.exec("UPDATE coupon SET issued_count = issued_count + ?, total_quantity = issued_count + 12 WHERE id = ?", len(byHand), s.full)
	w.refresh() // writes the promises down
	return s
}

func (s *scene) review(member string, retryable bool) {
	s.t.Helper()
	moved, err := s.store.Review(s.t.Context(), s.full, 0, time.Time{}, []coupon.Failure{{
		Application: coupon.Application{Member: member, Arrival: s.arrivals[s.full][member], Source: coupon.SourceQueue},
		Cause:       "BY_HAND", Retryable: retryable,
	}})
	require.NoError(s.t, err)
	require.EqualValues(s.t, 1, moved)
}

// expected is what becomes of full, roomy and over, however often and wherever a run was broken off.
func (s *scene) expected() [3]ending {
	notSelected := slices.DeleteFunc(between(23, 49), func(id uint64) bool { return id == 25 || id == 30 || id == 35 })
	full := ending{
		Issued:      []uint64{1, 2, 3, 4, 5, 8, 10, 11, 13, 14, 16, 17, 19, 20, 21, 22},
		Seats:       slices.Concat(between(1, 4), between(8, 19)), // 5 to 7 were taken by hand
		NotSelected: notSelected, AlreadyIssued: byHand, Rejected: []uint64{6},
		Waiting: []string{}, Review: map[string]string{
			"9": "BY_HAND", "12": "UNKNOWN_USER", "15": "INACTIVE_USER", "25": "INACTIVE_USER", "30": "UNKNOWN_USER",
			"abc": "MALFORMED_USER_ID", "x-1": "MALFORMED_USER_ID",
		},
		DoorIssued: 4 + 12 + 2, DoorRejected: 1, Sold: true, // 7 was told by no run: its place in line was settled before
		CountedIssued: 4 + 12, CountedNot: 3 + len(notSelected), CountedAlready: len(byHand),
	}
	roomy := ending{
		Issued: between(60, 62), Seats: between(1, 3), NotSelected: []uint64{}, AlreadyIssued: []uint64{}, Rejected: []uint64{},
		Waiting: []string{}, Review: map[string]string{"63": "UNKNOWN_USER"}, DoorIssued: 3, CountedIssued: 3,
	}
	over := ending{
		Issued: between(70, 71), Seats: between(1, 2), NotSelected: []uint64{72}, AlreadyIssued: []uint64{}, Rejected: []uint64{},
		Waiting: []string{}, Review: map[string]string{}, Sold: true, Finalised: true, CountedIssued: 2, CountedNot: 1,
	}
	endings := [3]ending{full, roomy, over}
	for i, couponID := range s.coupons() {
		endings[i].Arrivals = map[string]int64{}
		for member := range endings[i].Review {
			endings[i].Arrivals[member] = s.arrivals[couponID][member]
		}
	}
	return endings
}

func (s *scene) coupons() []uint64 { return []uint64{s.full, s.roomy, s.over} }

// found is what has become of them.
func (s *scene) found() (endings [3]ending) {
	s.t.Helper()
	for i, couponID := range s.coupons() {
		e := ending{
			Issued:        s.ids("SELECT user_id FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL ORDER BY position", couponID),
			Seats:         s.ids("SELECT position FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL ORDER BY position", couponID),
			NotSelected:   s.outcome(couponID, "NOT_SELECTED"),
			AlreadyIssued: s.outcome(couponID, "ALREADY_ISSUED"),
			Rejected:      s.outcome(couponID, "REJECTED"),
			Waiting:       s.waiting(couponID),
			Review:        map[string]string{},
			Arrivals:      s.underReview(couponID),
		}
		for member := range e.Arrivals {
			e.Review[member] = s.reason(couponID, member).Cause
		}
		ctx, line := s.t.Context(), "{"+s.queue(couponID)+"}"
		issued, rejected := s.rdb.SCard(ctx, "issued:"+line), s.rdb.SCard(ctx, "rejected:"+line)
		require.NoError(s.t, errors.Join(issued.Err(), rejected.Err()))
		e.DoorIssued, e.DoorRejected = issued.Val(), rejected.Val()
		e.Sold = s.rdb.HGet(ctx, "state:"+line, "sold").Val() == "1"
		var finalised sql.NullTime
		require.NoError(s.t, s.db.QueryRow("SELECT finalised_at FROM coupon WHERE id = ?", couponID).Scan(&finalised))
		e.Finalised = finalised.Valid
		require.NoError(s.t, s.db.QueryRow(`SELECT COALESCE(SUM(issued_count), 0), COALESCE(SUM(not_selected_count), 0),
			COALESCE(SUM(already_issued_count), 0) FROM settlement WHERE coupon_id = ?`, couponID).
			Scan(&e.CountedIssued, &e.CountedNot, &e.CountedAlready))
		endings[i] = e
	}
	return endings
}

// mustBeSettled demands the expected end, and that every invariant holds without so much as a warning.
func (s *scene) mustBeSettled() {
	s.t.Helper()
	require.Equal(s.t, s.expected(), s.found())
	s.mustVerify()
}

func (s *scene) mustVerify() {
	s.t.Helper()
	code, stdout, stderr := s.settle(append([]string{"verify", "--output=json"}, s.only()...)...)
	require.Zero(s.t, code, "%s%s", stdout, stderr)
	require.NotContains(s.t, stdout, `"code"`, "warnings too")
}

// only are flags that restrict a verb to the scene's coupons.
func (s *scene) only() (flags []string) {
	for _, couponID := range s.coupons() {
		flags = append(flags, fmt.Sprintf("--coupon=%d", couponID))
	}
	return flags
}

// newWiredWorld has a Redis of its own: a wire leads to one server, which TEST_REDIS_ADDRS need not be.
func newWiredWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, handle(t, testenv.PrivateRedis(t, testenv.RedisOptions{}).Addr()), testenv.MySQLFor(t), someShape(t))
}

// wiresTo puts wires before the MySQL and the Redis of a world and returns the flags that lead through them.
func (w *world) wiresTo(rule faultproxy.Rule) (wires []*faultproxy.Proxy, servers []string) {
	w.t.Helper()
	dsn, err := mysql.ParseDSN(w.servers[0][len("--mysql-dsn="):])
	require.NoError(w.t, err)
	wires = faultproxy.NewGroup(w.t, rule, dsn.Addr, w.servers[1][len("--redis-addrs="):])
	dsn.Addr = wires[toMySQL].Addr
	return wires, append([]string{"--mysql-dsn=" + dsn.FormatDSN(), "--redis-addrs=" + wires[toRedis].Addr}, w.servers[2:]...)
}

// The places of the wires.
const (
	toMySQL = iota
	toRedis
)

// The earlier settlement and the end are as the tests with a scene take them to be.
func TestASceneSettlesUndisturbed(t *testing.T) {
	t.Parallel()
	s := newStage(t, 1, newWiredWorld).scene(t)
	before := s.found()
	require.Equal(t, between(1, 4), before[0].Issued)
	require.Equal(t, between(5, 7), before[0].NotSelected)
	require.Len(t, before[0].Waiting, 49-newcomer+1-2+2)
	require.Equal(t, map[string]string{"8": "BY_HAND", "9": "BY_HAND"}, before[0].Review)
	s.mustVerify()
	s.settleNow()
	s.mustBeSettled()
	s.settleNow()
	s.mustBeSettled()
}
