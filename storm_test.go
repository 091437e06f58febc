package jajeong_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// Eight `settle serve`, two nightly runs and an operator's run settle the same coupons while users apply and seats are
// added. All processes are killed again and again, each at a random moment, and now and then all of them together.
func TestStorm_KilledProcessesLoseNobodyAndIssueInOrder(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	crowd := coupon.UserID(s.users.Add(2 * lineLimit))
	s.apply(s.limited, slices.DeleteFunc(jajeongtest.Between(crowd-2*lineLimit+1, crowd),
		func(user coupon.UserID) bool { return unknown(user) || blocked(user) })...)
	took := s.nightlyTakes()
	for range 8 {
		s.keepKilling(s.serving, max(3*time.Second, 10*took))
	}
	for range 2 {
		s.keepKilling(s.nightly, max(time.Second, 4*took))
	}
	s.keepKilling(s.manual, max(time.Second, 4*took))
	for range 4 {
		s.in.Go(s.keepApplying)
	}
	s.in.Go(s.keepRushing)
	s.in.Go(s.keepAddingSeats)
	s.in.Go(s.keepKillingAll)
	testenv.Eventually(t, "processes are killed, also all at once, lines are full, and runs of each kind begin",
		func() bool {
			immediate := s.runs("IMMEDIATE")
			return t.Failed() || s.kills.Load() >= s.mostKills && s.killedAll.Load() && s.full.Load() > 0 &&
				// Without applicants there are no more immediate runs.
				(immediate > s.mostKills/2 || immediate > 0 && s.users.Load() > s.mostUsers) &&
				s.runs("CRON") > 0 && s.runs("MANUAL") > 0
		})
	s.stop()
	s.in.Wait()
	require.False(t, t.Failed())

	s.calm()
	s.requireEverybodyAccountedFor()
	s.requireFirstCome()
	t.Logf("%d applications accepted, %d answered LINE_FULL; %d immediate, %d nightly and %d manual runs; %d "+
		"processes killed",
		s.promised(), s.full.Load(), s.runs("IMMEDIATE"), s.runs("CRON"), s.runs("MANUAL"), s.kills.Load())
}

// Users by their ids. Only the coupon hostile has applications of users who are unknown or blocked, and only rows of
// the coupon refusing are refused.
func unknown(user coupon.UserID) bool { return user%50 == 1 }
func blocked(user coupon.UserID) bool { return user%50 == 2 }
func refused(user coupon.UserID) bool { return user%50 == 3 }

// lineLimit is how many wait for the coupon limited.
const lineLimit = 10

// storm is a deployment with programs that are killed.
type storm struct {
	*jajeongtest.Deployment
	binary string
	folder string // for time zones
	env    []string
	over   context.Context
	stop   context.CancelFunc // ends over
	in     sync.WaitGroup
	chance *rand.Rand

	small, huge, hostile, refusing, limited, nights coupon.CouponID

	users     atomic.Uint64 // the last who has applied
	mostUsers uint64
	kills     atomic.Int64
	mostKills int64        // after so many the storm may end
	killedAll atomic.Bool  // all together, once at least
	full      atomic.Int64 // answers LINE_FULL
	mu        sync.Mutex
	alive     map[*exec.Cmd]bool
	accepted  map[coupon.CouponID]map[application]bool
}

type application struct {
	user    coupon.UserID
	arrival coupon.Arrival
}

func newStorm(t *testing.T) *storm {
	d := jajeongtest.New(t)
	most := uint64(testenv.Rounds(12_000, 400_000))
	s := &storm{Deployment: d, binary: testenv.Build(t, "./cmd/settle"), folder: t.TempDir(),
		env: append(d.Environment(), "ISSUE_INTERVAL=50ms"), mostUsers: most,
		mostKills: int64(testenv.Rounds(40, 2_000)),
		chance:    testenv.Random(t), alive: map[*exec.Cmd]bool{}, accepted: map[coupon.CouponID]map[application]bool{}}
	d.AddUsers(slices.DeleteFunc(jajeongtest.Between(1, coupon.UserID(most)), unknown)...)
	d.Exec("UPDATE " + d.UserTable.Table + " SET status = 'BLOCKED' WHERE id % 50 = 2")
	const everybody = 1_000_000
	s.small, s.huge, s.hostile = d.AddImmediate(5), d.AddImmediate(everybody), d.AddImmediate(everybody)
	s.refusing, s.limited, s.nights = d.AddImmediate(everybody), d.AddImmediate(100), d.AddCoupon(20)
	d.Exec("UPDATE coupon SET line_limit = ?, version = version + 1 WHERE id = ?", lineLimit, s.limited)
	d.Refresh()
	for _, couponID := range s.coupons() {
		s.accepted[couponID] = map[application]bool{}
	}
	d.Exec(`CREATE TRIGGER refuses BEFORE INSERT ON user_coupon FOR EACH ROW IF NEW.coupon_id = ` +
		s.refusing.String() +
		` AND NEW.user_id % 50 = 3 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an odd user'; END IF`)
	s.over, s.stop = context.WithCancel(testenv.Patient(t))
	t.Cleanup(s.stop)
	return s
}

func (s *storm) coupons() []coupon.CouponID {
	return []coupon.CouponID{s.small, s.huge, s.hostile, s.refusing, s.limited, s.nights}
}

// keepApplying lets users apply, some of them twice.
func (s *storm) keepApplying() {
	for user := s.users.Add(1); user <= s.mostUsers; user = s.users.Add(1) {
		if !s.wait(s.upTo(6*time.Millisecond)) || !s.mayApply(user) {
			return
		}
		couponID := s.coupons()[s.chance.IntN(6)]
		if id := coupon.UserID(user); unknown(id) || blocked(id) {
			couponID = s.hostile
		}
		for range 1 + s.chance.IntN(5)/4 {
			s.apply(couponID, coupon.UserID(user))
		}
	}
	<-s.over.Done()
}

// keepRushing lets so many users apply for one coupon at once that a run does not issue them all.
func (s *storm) keepRushing() {
	const rush, together = 3000, 250
	for s.wait(s.upTo(time.Duration(testenv.Rounds(4, 10)) * time.Second)) {
		to := s.users.Add(rush)
		if to > s.mostUsers || !s.mayApply(to) {
			return
		}
		for users := range slices.Chunk(jajeongtest.Between(coupon.UserID(to-rush+1), coupon.UserID(to)), together) {
			s.apply(s.huge, slices.DeleteFunc(users,
				func(user coupon.UserID) bool { return unknown(user) || blocked(user) })...)
		}
	}
}

func (s *storm) apply(couponID coupon.CouponID, users ...coupon.UserID) {
	var receipts []candidates.Receipt
	err := testenv.InTime(s.T, func() (err error) {
		receipts, err = s.Store.ApplyAll(context.WithoutCancel(s.over), couponID, users)
		return err
	})
	if !assert.NoError(s.T, err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, receipt := range receipts {
		switch receipt.Code {
		case candidates.Accepted, candidates.Duplicate:
			s.accepted[couponID][application{users[i], receipt.Arrival}] = true
		case candidates.LineFull:
			s.full.Add(1)
		}
	}
}

// mayApply waits until the storm is so far on that the user may apply: there are applications from its beginning to
// its end.
func (s *storm) mayApply(user uint64) bool {
	for uint64(s.kills.Load()+1)*s.mostUsers < user*uint64(s.mostKills) {
		if !s.wait(10 * time.Millisecond) {
			return false
		}
	}
	return true
}

// upTo is a random time.
func (s *storm) upTo(longest time.Duration) time.Duration {
	return time.Duration(s.chance.Int64N(int64(longest)))
}

// wait waits unless the storm is over.
func (s *storm) wait(d time.Duration) bool {
	select {
	case <-s.over.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// keepAddingSeats adds seats to the coupons that are sold out.
func (s *storm) keepAddingSeats() {
	admin := s.CouponAdmin()
	ctx := context.WithoutCancel(s.over)
	for s.wait(s.upTo(time.Second)) {
		for couponID, most := range map[coupon.CouponID]int{s.small: 5, s.limited: 150, s.nights: 20} {
			more := 1 + s.chance.IntN(most)
			assert.NoError(s.T, testenv.InTime(s.T, func() error {
				_, err := admin.AddSeats(ctx, couponID, more)
				return err
			}))
		}
		var waiting int64
		assert.NoError(s.T, testenv.InTime(s.T, func() (err error) {
			waiting, err = s.Redis.ZCard(ctx, s.Queue(s.limited)).Result()
			return err
		}))
		assert.LessOrEqual(s.T, waiting, int64(lineLimit))
	}
}

// command is one start of a program.
type command func() (cmd *exec.Cmd, stays bool)

func (s *storm) program(access jajeongtest.Access, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(s.binary, append(args, s.Flags(access)...)...)
	cmd.Env = append(slices.Clone(s.env), env...)
	return cmd
}

func (s *storm) serving() (cmd *exec.Cmd, stays bool) {
	return s.program(s.Job, nil, "serve", "--tasks=issue"), true
}

// nightly is the run of a night that has just ended, by clocks of its own.
func (s *storm) nightly() (cmd *exec.Cmd, stays bool) {
	zone := []string{"ZONEINFO=" + s.zoneOf(time.Now().Add(-time.Second))}
	return s.program(s.Job, zone, "run"), false
}

// nightlyTakes measures an undisturbed run on this machine. Processes live long enough to do something.
func (s *storm) nightlyTakes() time.Duration {
	s.T.Helper()
	began := time.Now()
	s.mustRun(func() *exec.Cmd { cmd, _ := s.nightly(); return cmd })
	return time.Since(began)
}

func (s *storm) mustRun(command func() *exec.Cmd) {
	s.T.Helper()
	code, output := s.RunToEnd(command)
	require.Zero(s.T, code, output)
}

func (s *storm) manual() (cmd *exec.Cmd, stays bool) {
	couponID := s.coupons()[s.chance.IntN(6)]
	return s.program(s.Operator, nil, "run", "--cutoff=now", "--coupon="+couponID.String(),
		"--operator=kim", "--reason=storm", "--yes"), false
}

// zoneOf is a folder of time zones in which it was midnight in Seoul at that second.
func (s *storm) zoneOf(midnight time.Time) (folder string) {
	const day = 24 * 60 * 60
	east := int32(day-midnight.Unix()%day) % day // seconds
	file := append([]byte("TZif"), make([]byte, 40)...)
	file[39], file[43] = 1, 4 // one zone, four bytes of names
	file = binary.BigEndian.AppendUint32(file, uint32(east))
	file = append(file, 0, 0, 'M', 'O', 'M', 0)
	folder, err := os.MkdirTemp(s.folder, "zone")
	if assert.NoError(s.T, err) {
		assert.NoError(s.T, os.Mkdir(filepath.Join(folder, "Asia"), 0o700))
		assert.NoError(s.T, os.WriteFile(filepath.Join(folder, "Asia", "Seoul"), file, 0o600))
	}
	return folder
}

// keepKilling starts a program again and again, and kills it after a random time.
func (s *storm) keepKilling(start command, longest time.Duration) {
	s.in.Go(func() {
		for more := longest / 100; s.over.Err() == nil; longest += more { // this machine may become slower
			s.runAndKill(start, s.upTo(longest))
		}
	})
}

func (s *storm) runAndKill(start command, after time.Duration) {
	cmd, stays := start()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if !assert.NoError(s.T, cmd.Start()) {
		return
	}
	s.note(cmd, true)
	defer s.note(cmd, false)
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() && status.Signal() == syscall.SIGKILL {
		s.kills.Add(1)
		return
	}
	assert.False(s.T, stays, "%v has ended with %d: %s", cmd.Args[1:3], status.ExitStatus(), &stderr)
	assert.Contains(s.T, []int{0, 1}, status.ExitStatus(), "%v: %s", cmd.Args[1:3], &stderr) // 1 is safe to run again
}

// note keeps the processes that keepKillingAll kills.
func (s *storm) note(cmd *exec.Cmd, alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if alive {
		s.alive[cmd] = true
	} else {
		delete(s.alive, cmd)
	}
}

// keepKillingAll kills all processes at the same time.
func (s *storm) keepKillingAll() {
	for s.wait(s.upTo(time.Duration(testenv.Rounds(5, 8)) * time.Second)) {
		s.mu.Lock()
		for cmd := range s.alive {
			_ = cmd.Process.Kill()
		}
		if len(s.alive) > 1 {
			s.killedAll.Store(true)
		}
		s.mu.Unlock()
	}
}

// calm lets one process of each kind complete everything, and demands that `settle verify` finds nothing.
func (s *storm) calm() {
	s.T.Helper()
	s.Start(s.env, "./cmd/settle", append([]string{"serve", "--tasks=issue"}, s.Flags(s.Job)...)...)
	testenv.Eventually(s.T, "a settle serve issues and cleans up everything", func() bool {
		for _, couponID := range s.coupons()[:5] {
			if len(s.Waiting(couponID)) > 0 {
				return false
			}
		}
		return s.Number(`SELECT COUNT(*) FROM coupon c WHERE cadence = 'IMMEDIATE' AND issued_count < total_quantity
			AND EXISTS (SELECT 1 FROM application_outcome o WHERE o.coupon_id = c.id
				AND o.outcome = 'NOT_SELECTED')`) == 0
	})
	testenv.Eventually(s.T, "nightly runs settle everything", func() bool {
		s.mustRun(func() *exec.Cmd { cmd, _ := s.nightly(); return cmd })
		return len(s.Waiting(s.nights)) == 0
	})
	require.Zero(s.T, s.Number("SELECT COUNT(*) FROM settlement WHERE cleaned_at IS NULL"))
	s.mustRun(func() *exec.Cmd { return s.program(s.Operator, nil, "verify") })
}

func (s *storm) runs(trigger string) int64 {
	return s.Number("SELECT COUNT(*) FROM settlement_run WHERE trigger_kind = ?", trigger)
}

func (s *storm) promised() (n int) {
	for _, of := range s.accepted {
		n += len(of)
	}
	return n
}

const (
	issuedQuery      = "SELECT user_id, applied_at FROM user_coupon WHERE coupon_id = ? ORDER BY position"
	notSelectedQuery = "SELECT user_id, applied_at FROM application_outcome WHERE coupon_id = ? AND outcome = " +
		"'NOT_SELECTED'"
)

// requireEverybodyAccountedFor: every accepted application is in exactly one place, and no other is anywhere.
func (s *storm) requireEverybodyAccountedFor() {
	s.T.Helper()
	for _, couponID := range s.coupons() {
		found := map[application]bool{}
		add := func(a application) {
			require.False(s.T, found[a], "coupon %d: %+v is in two places", couponID, a)
			require.True(s.T, s.accepted[couponID][a], "coupon %d: %+v was not accepted", couponID, a)
			found[a] = true
		}
		for _, a := range s.recorded(issuedQuery, couponID) {
			add(a)
		}
		for _, a := range s.recorded(notSelectedQuery, couponID) {
			add(a)
		}
		for member, arrival := range s.UnderReview(couponID) {
			a := application{coupon.ParseUserID(member), arrival}
			require.False(s.T, s.eligible(couponID, a.user), "coupon %d: %+v is under review", couponID, a)
			add(a)
		}
		require.Len(s.T, found, len(s.accepted[couponID]), "coupon %d lost applications", couponID)
	}
}

// requireFirstCome: seats are in the order of arrivals, and nobody who could get one was passed over.
func (s *storm) requireFirstCome() {
	s.T.Helper()
	for _, couponID := range s.coupons() {
		last, holds := coupon.Arrival(0), map[application]bool{}
		for _, a := range s.recorded(issuedQuery, couponID) {
			require.Greater(s.T, a.arrival, last, "coupon %d: %+v", couponID, a)
			require.True(s.T, s.eligible(couponID, a.user), "coupon %d: %+v", couponID, a)
			last, holds[a] = a.arrival, true
		}
		require.NotEmpty(s.T, holds, "coupon %d", couponID)
		for a := range s.accepted[couponID] {
			if s.eligible(couponID, a.user) && a.arrival < last {
				require.True(s.T, holds[a], "coupon %d: %+v was passed over", couponID, a)
			}
		}
	}
}

func (s *storm) eligible(couponID coupon.CouponID, user coupon.UserID) bool {
	return !unknown(user) && !blocked(user) && !(refused(user) && couponID == s.refusing)
}

func (s *storm) recorded(query string, couponID coupon.CouponID) (all []application) {
	s.T.Helper()
	rows, err := s.DB.Query(query, couponID)
	require.NoError(s.T, err)
	defer rows.Close()
	for rows.Next() {
		var user coupon.UserID
		var at time.Time
		require.NoError(s.T, rows.Scan(&user, &at))
		all = append(all, application{user, coupon.ArrivalAt(at)})
	}
	require.NoError(s.T, rows.Err())
	return all
}
