// Package systemtest compares the whole system with a model of its rules, on real servers and in random sequences of
// events.
package systemtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/cli"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// defaultCases is how many cases run without SOAK. A case has about 30 steps.
const defaultCases = 7

// The state on the servers equals the state of the model after every event. All cases share a deployment; each has
// coupons and users of its own.
func TestModelOfWhateverHappensToCoupons(t *testing.T) {
	t.Parallel()
	d := jajeongtest.NewWith(t, jajeongtest.Options{Users: jajeongtest.SomeUserTable(t)})
	d.RefuseOddUsers()
	testenv.Build(t, "./cmd/settle") // before rapid measures the duration of a case
	admin, restorer := d.CouponAdmin(), d.Restorer()
	cases, steps, failing := 0, 0, false
	for range testenv.Rounds(1, 10) {
		if deadline, limited := t.Deadline(); limited && time.Until(deadline) < 2*time.Minute {
			break // rapid ends a check before the deadline, but requires one case of each
		}
		rapid.Check(t, func(rt *rapid.T) {
			if cases++; cases > defaultCases && !testenv.Soaking() && !failing {
				return // the rest of the 100 cases of a check is empty, unless rapid shrinks a failure
			}
			defer func() { failing = failing || rt.Failed() }()
			m := newMachine(rt, d, admin, restorer, cases)
			defer m.leave()
			defer func() { steps += m.steps }()
			rt.Repeat(m.actions())
			m.compare(rt, "at the end")
			m.verify(rt)
			m.checkExplanations(rt, jajeongtest.Between(m.base+1, m.base+modelUsers)...)
		})
	}
	t.Logf("%d steps", steps)
}

// The numbers of a case are small, so that seats run out, users apply again and runs meet.
const (
	modelUsers   = 7
	maxSeats     = 4
	usersPerCase = 100 // user ids that no other case has
)

// machine does everything to the servers and to the model, and compares them.
type machine struct {
	*jajeongtest.Deployment
	admin   *couponadmin.Admin
	journal *journal.Restorer
	pod     *catalog.Catalog
	base    coupon.UserID // below the users of this case
	users   users
	coupons []*couponModel
	steps   int

	lastNight time.Time          // the cutoff of the last nightly run
	servers   [2]*settle.Settler // of the two processes that do the immediate runs
}

func newMachine(t *rapid.T, d *jajeongtest.Deployment, admin *couponadmin.Admin, restorer *journal.Restorer,
	number int) *machine {
	m := &machine{Deployment: d, admin: admin, journal: restorer, base: coupon.UserID(number * usersPerCase),
		users: users{}}
	m.startPod()
	m.servers = [2]*settle.Settler{m.settler(), m.settler()}
	for id := range coupon.UserID(modelUsers - 1) { // the last user is unknown
		m.users[m.base+id+1] = user{status: active}
		d.AddUsers(m.base + id + 1)
	}
	for _, name := range []string{"A", "B"} {
		seats := rapid.IntRange(1, maxSeats).Draw(t, "seats of "+name)
		now := d.Now().Truncate(time.Microsecond)
		closes := now.Add(time.Hour)
		id := d.AddCouponBetween(seats, now.Add(-time.Hour), closes)
		c := &couponModel{name: name, id: id, state: newState(seats), closesAt: coupon.ArrivalAt(closes)}
		m.coupons = append(m.coupons, c)
		t.Logf("coupon %s has %d seats", name, seats)
		if c.lineLimit = rapid.IntRange(0, 4).Draw(t, "line limit"); c.lineLimit > 0 {
			t.Logf("at most %d wait for %s", c.lineLimit, name)
			m.Exec("UPDATE coupon SET line_limit = ?, version = version + 1 WHERE id = ?", c.lineLimit, c.id)
			m.refresh()
		}
		m.setCadence(t, c, rapid.Bool().Draw(t, name+" is immediate"))
	}
	return m
}

// startPod starts a pod without a memory. All pods share a pool of connections.
func (m *machine) startPod() {
	m.PodsDie()
	m.pod = catalog.New(catalog.Options{DB: m.DB, Store: m.Store, Memory: m.Memory(), Logger: zap.NewNop(),
		Now: time.Now})
}

// leave finalises the coupons of this case, so that later cases do not settle them.
func (m *machine) leave() {
	for _, c := range m.coupons {
		m.Exec(`UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6), apply_opens_at = '2020-01-01',
			apply_closes_at = '2020-01-02'
			WHERE id = ?`, c.id)
	}
}

func (m *machine) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){ // equally likely; some are there twice
		"a user applies":               func(t *rapid.T) { m.apply(t, m.someCoupon(t), m.someUser(t)) },
		"several apply":                func(t *rapid.T) { m.severalApply(t, m.someCoupon(t)) },
		"several more apply":           func(t *rapid.T) { m.severalApply(t, m.someCoupon(t)) },
		"settle":                       func(t *rapid.T) { m.execute(t, m.drawRun(t, false), m.inThisProcess) },
		"settle again":                 func(t *rapid.T) { m.execute(t, m.drawRun(t, false), m.inThisProcess) },
		"settle and accept gaps":       func(t *rapid.T) { m.execute(t, m.drawRun(t, true), m.inThisProcess) },
		"settle by the program":        m.settleByProgram,
		"a nightly run":                m.night,
		"another nightly run":          m.night,
		"a nightly run, refused rows":  m.nightWithRefusedRows,
		"an immediate run":             m.immediateRun,
		"another immediate run":        m.immediateRun,
		"several immediate runs":       m.immediateRuns,
		"the cadence changes":          m.cadenceChanges,
		"a coupon is frozen":           m.couponIsFrozen,
		"canaries":                     m.canaries,
		"crash":                        m.crash,
		"crash again":                  m.crash,
		"the process is killed":        m.processIsKilled,
		"retry DLQ entries":            func(t *rapid.T) { m.review(t, retrying) },
		"drop DLQ entries":             func(t *rapid.T) { m.review(t, dropping) },
		"a user's status changes":      m.statusChanges,
		"MySQL refuses rows of a user": m.rowsAreRefused,
		"a refused row nears its end":  m.rowNearsLimit,
		"seats are added or removed":   m.seatsChange,
		"a coupon is given by hand":    m.couponIsGivenByHand,
		"the clock steps back":         m.clockStepsBack,
		"a coupon closes":              m.couponCloses,
		"Redis is backed up":           m.redisIsBackedUp,
		"Redis loses a coupon":         m.redisLosesCoupon,
		"Redis is restored":            m.redisIsRestored,
	}
	for name, act := range actions {
		actions[name] = func(t *rapid.T) {
			act(t)
			m.steps++
		}
	}
	return actions
}

func (m *machine) someCoupon(t *rapid.T) *couponModel {
	return m.coupons[rapid.IntRange(0, len(m.coupons)-1).Draw(t, "coupon")]
}

func (m *machine) someUser(t *rapid.T) coupon.UserID {
	return m.base + coupon.UserID(rapid.Uint64Range(1, modelUsers).Draw(t, "user"))
}

// name names a user in the log, the same in every repetition of a sequence.
func (m *machine) name(user coupon.UserID) string { return fmt.Sprintf("user %d", user-m.base) }

func (m *machine) severalApply(t *rapid.T, c *couponModel) {
	order := rapid.Permutation(jajeongtest.Between[coupon.UserID](1, modelUsers)).Draw(t, "order")
	for _, user := range order[:rapid.IntRange(2, modelUsers).Draw(t, "users")] {
		m.apply(t, c, m.base+user)
	}
}

func (m *machine) apply(t *rapid.T, c *couponModel, user coupon.UserID) {
	t.Logf("%s applies for %s: %s", m.name(user), c.name, m.checkAnswer(t, c, user))
}

// checkAnswer lets a user apply and compares the answer with the model's.
func (m *machine) checkAnswer(t *rapid.T, c *couponModel, user coupon.UserID) candidates.Code {
	want, existing := c.answer(user)
	receipt, err := m.Store.Apply(m.T.Context(), c.id, user)
	require.NoError(m.T, err)
	if receipt.Code != want {
		m.fail(t, "applying for %s answers %s to %s, want %s", c.name, receipt.Code, m.name(user), want)
	}
	switch want {
	case candidates.Accepted:
		if receipt.Arrival <= c.highest || receipt.Arrival < c.settledTo ||
			receipt.Arrival < coupon.ArrivalAt(receipt.Now) {
			m.fail(t, "the arrival is below an earlier one, below a settled cutoff, or below the clock")
		}
		c.highest = receipt.Arrival
		c.applications[applicationKey{user, receipt.Arrival}] = record{place: waiting}
		c.accepted++
	case candidates.Duplicate:
		if position := c.position(existing); receipt.Arrival != existing.arrival || receipt.Position != position {
			m.fail(t, "the answer has another arrival or position than %d", position)
		}
	case candidates.UnderReview, candidates.LineFull:
		if receipt.Arrival != existing.arrival {
			m.fail(t, "the answer has another arrival")
		}
	}
	return receipt.Code
}

// checkAnswers lets all users apply whose applications the model does not accept.
func (m *machine) checkAnswers(t *rapid.T) {
	for _, c := range m.coupons {
		for user := m.base + 1; user <= m.base+modelUsers; user++ {
			if want, _ := c.answer(user); want != candidates.Accepted {
				m.checkAnswer(t, c, user)
			}
		}
	}
}

// compare compares the servers with the model.
func (m *machine) compare(t *rapid.T, when string) {
	for _, c := range m.coupons {
		is := m.readState(c.id)
		c.markAgain(is)
		want, found := c.describe(m.name), is.describe(m.name)
		if want != found {
			t.Logf("%s, coupon %s must be:\n%sbut is:\n%s", when, c.name, want, found)
			m.fail(t, "coupon %s differs from the model", c.name)
		}
	}
}

// markAgain takes over the marks of settled users and holders that a restore has entered again. It does
// nothing else, since the model restores after each loss.
func (s *state) markAgain(is state) {
	for user := range s.byHand {
		s.markedIssued[user] = s.markedIssued[user] || is.markedIssued[user]
	}
	for a, decided := range s.applications {
		switch decided.outcome {
		case issued:
			s.markedIssued[a.user] = s.markedIssued[a.user] || is.markedIssued[a.user]
		case rejected:
			s.markedRejected[a.user] = s.markedRejected[a.user] || is.markedRejected[a.user]
		}
	}
	dropFalse(s.markedIssued)
	dropFalse(s.markedRejected)
}

func dropFalse(marks map[coupon.UserID]bool) {
	maps.DeleteFunc(marks, func(_ coupon.UserID, marked bool) bool { return !marked })
}

// verify compares the findings of the checker with the model's.
func (m *machine) verify(t *rapid.T) {
	checker := &verify.Verifier{Store: m.Store, Users: m.Users}
	for _, c := range m.coupons {
		verdict, err := checker.Check(m.T.Context(), m.DB, c.id)
		require.NoError(m.T, err)
		m.checkVerdict(t, c, verdict)
	}
}

func (m *machine) verifyByProgram(t *rapid.T) {
	args := []string{"verify", "--output=json"}
	for _, c := range m.coupons {
		args = append(args, fmt.Sprintf("--coupon=%d", c.id))
	}
	_, stdout, stderr := m.settle(m.Job, args)
	var report verify.Summary
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Coupons) != len(m.coupons) {
		t.Logf("%s%s", stdout, stderr)
		m.fail(t, "verify prints no report")
	}
	for i, c := range m.coupons {
		m.checkVerdict(t, c, report.Coupons[i])
	}
}

// settle runs the program in this process.
func (m *machine) settle(account jajeongtest.Access, args []string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(m.T.Context(), cli.Process{Args: append(args, m.Flags(account)...), Stdin: &bytes.Buffer{},
		Stdout: &out, Stderr: &errs, Now: time.Now,
		HandOverTime: jajeongtest.HandOverTime})
	return code, out.String(), errs.String()
}

func (m *machine) checkVerdict(t *rapid.T, c *couponModel, verdict *verify.Verdict) {
	found := []verify.Code(nil)
	for _, f := range verdict.Findings {
		if !f.OfCreation() {
			found = append(found, f.Code)
		}
	}
	if want := c.findings(m.users); fmt.Sprint(want) != fmt.Sprint(found) {
		t.Logf("%s: %v", c.name, verdict.Findings)
		m.fail(t, "verify finds %v in %s, want %v", found, c.name, want)
	}
}

// fail ends the case. The message has no ids and no arrivals, so that rapid recognises the failure in a repetition.
func (m *machine) fail(t *rapid.T, format string, args ...any) {
	t.Helper()
	for _, c := range m.coupons {
		t.Logf("the model of %s, %d accepted:\n%s", c.name, c.accepted, c.describe(m.name))
	}
	t.Fatalf(format, args...)
}
