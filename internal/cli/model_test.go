package cli

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/catalog"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/testenv"
)

// modestCases of about 30 steps are enough to notice what is broken and few enough for every `make test`.
const modestCases = 30

// Whatever happens to coupons, in whatever order: the servers show exactly what the model in memory says they must.
// Every case has coupons and users of its own in one deployment, so that a case costs a fraction of a second.
func TestModelOfWhateverHappensToCoupons(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, testenv.RedisFor(t), testenv.MySQLFor(t), jajeongtest.SomeUserTable(t))
	w.refuseOddUsers()
	testenv.Build(t, "./cmd/settle") // before rapid measures how long a case takes
	pod := w.catalog()
	cases, steps, failing := 0, 0, false
	for range testenv.Rounds(1, 20) {
		if deadline, limited := t.Deadline(); limited && time.Until(deadline) < 2*time.Minute {
			break // rapid ends a check early before the test's time is up, but wants one case of each
		}
		rapid.Check(t, func(rt *rapid.T) {
			if cases++; cases > modestCases && !testenv.Soaking() && !failing {
				return // of the 100 cases of a check the rest is empty; what fails is shrunk for as long as it takes
			}
			defer func() { failing = failing || rt.Failed() }()
			m := newMachine(rt, w, pod, cases)
			defer m.leave()
			defer func() { steps += m.steps }()
			rt.Repeat(m.actions())
			m.compare(rt, "at the end")
			m.verify(rt)
			m.explains(rt, between(m.base+1, m.base+modelUsers)...)
		})
	}
	t.Logf("%d steps", steps)
}

// Everything in a case is small, so that things meet: seats run out, users apply again, runs find each other's traces.
const (
	modelUsers   = 7
	maxSeats     = 4
	usersPerCase = 100 // ids of a case: no other case has them
)

// machine does to the servers what it does to the model, and compares.
type machine struct {
	*world
	pod     *catalog.Catalog
	base    coupon.UserID // below the ids of this case's users
	users   map[coupon.UserID]person
	coupons []*modelCoupon
	steps   int
	unclean map[coupon.CouponID]bool // coupons of which Redis may not have heard all, as of the last preview

	lastNight time.Time // its cutoff
}

func newMachine(t *rapid.T, w *world, pod *catalog.Catalog, number int) *machine {
	m := &machine{world: w, pod: pod, base: coupon.UserID(number * usersPerCase), users: map[coupon.UserID]person{}}
	for user := range coupon.UserID(modelUsers - 1) { // the last is not known to the other team
		m.users[m.base+user+1] = person{status: active}
		w.users(m.base + user + 1)
	}
	for _, name := range []string{"A", "B"} {
		seats := rapid.IntRange(1, maxSeats).Draw(t, "seats of "+name)
		now := w.now().Truncate(time.Microsecond)
		closes := now.Add(time.Hour)
		id := w.couponBetween(seats, now.Add(-time.Hour), closes)
		m.coupons = append(m.coupons, &modelCoupon{name: name, id: id, facts: newFacts(seats), closesAt: coupon.ArrivalAt(closes)})
		t.Logf("coupon %s has %d seats", name, seats)
	}
	return m
}

// leave takes this case's coupons out of what is due and out of the catalog, so that the next case has its own only.
func (m *machine) leave() {
	for _, c := range m.coupons {
		m.exec(`UPDATE coupon SET finalised_at = UTC_TIMESTAMP(6), apply_opens_at = '2020-01-01', apply_closes_at = '2020-01-02'
			WHERE id = ?`, c.id)
	}
}

func (m *machine) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){ // each is as likely as any other; some come twice
		"somebody applies":             m.somebodyApplies,
		"several apply":                m.severalApply,
		"several more apply":           m.severalApply,
		"settle":                       m.settleSomething,
		"settle again":                 m.settleSomething,
		"settle and accept gaps":       m.settleAcceptingGaps,
		"a night":                      m.night,
		"a night again":                m.night,
		"rows are refused to a night":  m.oddNight,
		"canaries go first":            m.canaries,
		"settle by the program":        m.settleByTheProgram,
		"crash":                        m.crash,
		"crash again":                  m.crash,
		"the process is killed":        m.processIsKilled,
		"retry what is under review":   m.retry,
		"drop what is under review":    m.drop,
		"a user's status changes":      m.statusChanges,
		"the database refuses a user":  m.databaseRefusesAUser,
		"a row is refused often":       m.rowIsRefusedOften,
		"seats are added or taken":     m.seatsAreAddedOrTaken,
		"a coupon is given by hand":    m.couponIsGivenByHand,
		"the clock steps back":         m.clockStepsBack,
		"the door shuts":               m.doorShuts,
		"Redis is backed up":           m.redisIsBackedUp,
		"Redis loses a coupon":         m.redisLosesACoupon,
		"Redis falls back to a backup": m.redisFallsBack,
	}
	for name, act := range actions {
		actions[name] = func(t *rapid.T) {
			act(t)
			m.steps++
		}
	}
	return actions
}

func (m *machine) someCoupon(t *rapid.T) *modelCoupon {
	return m.coupons[rapid.IntRange(0, len(m.coupons)-1).Draw(t, "coupon")]
}

func (m *machine) someUser(t *rapid.T) coupon.UserID {
	return m.base + coupon.UserID(rapid.Uint64Range(1, modelUsers).Draw(t, "user"))
}

// name is how a user is called in logs: the same in every try of a sequence.
func (m *machine) name(user coupon.UserID) string { return fmt.Sprintf("user %d", user-m.base) }

func (m *machine) somebodyApplies(t *rapid.T) {
	m.applies(t, m.someCoupon(t), m.someUser(t))
}

func (m *machine) severalApply(t *rapid.T) {
	c := m.someCoupon(t)
	order := rapid.Permutation(between(1, modelUsers)).Draw(t, "order")
	for _, user := range order[:rapid.IntRange(2, modelUsers).Draw(t, "users")] {
		m.applies(t, c, m.base+user)
	}
}

// applies lets a user apply and demands the answer that the model gives.
func (m *machine) applies(t *rapid.T, c *modelCoupon, user coupon.UserID) {
	t.Logf("%s applies for %s: %s", m.name(user), c.name, m.asks(t, c, user))
}

// asks says what the door answers.
func (m *machine) asks(t *rapid.T, c *modelCoupon, user coupon.UserID) candidates.Code {
	want, standing := c.answer(user, c.closed)
	receipt, err := m.store.Apply(m.t.Context(), c.id, user)
	require.NoError(m.t, err)
	if receipt.Code != want {
		m.disagree(t, "the door of %s answers %s to %s, want %s", c.name, receipt.Code, m.name(user), want)
	}
	switch want {
	case candidates.Accepted:
		if receipt.Arrival <= c.highest || receipt.Arrival < c.settledTo || receipt.Arrival < coupon.ArrivalAt(receipt.Now) {
			m.disagree(t, "the arrival comes before one of earlier, or before a cutoff that has been settled")
		}
		c.highest = receipt.Arrival
		c.line[applied{user, receipt.Arrival}] = fact{stands: waiting}
		c.promised++
	case candidates.Duplicate:
		if place := c.placeOf(standing); receipt.Arrival != standing.arrival || receipt.Position != place {
			m.disagree(t, "the door names another arrival or place than %d", place)
		}
	case candidates.UnderReview:
		if receipt.Arrival != standing.arrival {
			m.disagree(t, "the door names another arrival")
		}
	}
	return receipt.Code
}

// knock lets everybody apply who would not be accepted: each must hear where the application stands.
func (m *machine) knock(t *rapid.T) {
	for _, c := range m.coupons {
		for user := m.base + 1; user <= m.base+modelUsers; user++ {
			if want, _ := c.answer(user, c.closed); want != candidates.Accepted {
				m.asks(t, c, user)
			}
		}
	}
}

// compare demands that the servers show what the model says, of every coupon.
func (m *machine) compare(t *rapid.T, when string) {
	for _, c := range m.coupons {
		want, found := c.told(m.name), m.see(c.id).told(m.name)
		if want != found {
			t.Logf("%s, coupon %s must be:\n%sbut is:\n%s", when, c.name, want, found)
			m.disagree(t, "coupon %s is not what it must be", c.name)
		}
	}
}

// verify demands that the checker finds what the model knows of, and nothing else.
func (m *machine) verify(t *rapid.T) {
	checker := &ledger.Ledger{Store: m.store, Users: m.directory}
	for _, c := range m.coupons {
		verdict, err := checker.Check(m.t.Context(), m.db, c.id)
		require.NoError(m.t, err)
		m.agreeOn(t, c, verdict)
	}
}

func (m *machine) verifyByTheProgram(t *rapid.T) {
	args := []string{"verify", "--output=json"}
	for _, c := range m.coupons {
		args = append(args, fmt.Sprintf("--coupon=%d", c.id))
	}
	_, stdout, stderr := m.world.settle(args...)
	var report ledger.Summary
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Coupons) != len(m.coupons) {
		t.Logf("%s%s", stdout, stderr)
		m.disagree(t, "verify brings no report")
	}
	for i, c := range m.coupons {
		m.agreeOn(t, c, report.Coupons[i])
	}
}

func (m *machine) agreeOn(t *rapid.T, c *modelCoupon, verdict *ledger.Verdict) {
	found := []ledger.Code(nil)
	for _, f := range verdict.Findings {
		found = append(found, f.Code)
	}
	if want := c.findings(m.users); fmt.Sprint(want) != fmt.Sprint(found) {
		t.Logf("%s: %v", c.name, verdict.Findings)
		m.disagree(t, "verify finds %v of %s, want %v", found, c.name, want)
	}
}

// disagree ends the case. The words must be the same in every try of a sequence, so that rapid knows it for the same
// failure: no ids, no arrivals.
func (m *machine) disagree(t *rapid.T, format string, args ...any) {
	t.Helper()
	for _, c := range m.coupons {
		t.Logf("the model has of %s, %d promised:\n%s", c.name, c.promised, c.told(m.name))
	}
	t.Fatalf(format, args...)
}
