package settle_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/settle"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
)

// many are small coupons that a run with one worker settles in a group. Each has two seats. Users 1 to 4 have applied for each
// but the last, which has no applications.
type many struct {
	*jajeongtest.Deployment
	coupons []coupon.CouponID
}

// many are such coupons in a free deployment until the end of the test. The coupons before them are finalised.
func (st stage) many(t *testing.T) many {
	t.Helper()
	m := many{Deployment: st.free(t)}
	finaliseAll(m.Deployment)
	for range 6 {
		m.coupons = append(m.coupons, m.AddCoupon(2))
	}
	for i, couponID := range m.queues() { // everywhere in another order
		m.Apply(couponID, coupon.UserID(1+i%4), coupon.UserID(1+(i+1)%4), coupon.UserID(1+(i+2)%4), coupon.UserID(1+(i+3)%4))
	}
	return m
}

func (m many) queues() []coupon.CouponID { return m.coupons[:len(m.coupons)-1] }

func (m many) run(d *jajeongtest.Deployment) *settle.Report {
	m.T.Helper()
	report, err := d.Settler(func(s *settle.Settler) { s.Parallel = 1 }).RunOnce(m.T.Context(), jajeongtest.Manual())
	require.NoError(m.T, err)
	return report
}

// requireSettled requires that one of many coupons has the result of an undisturbed run.
func (m many) requireSettled(i int) {
	m.T.Helper()
	first := coupon.UserID(i)
	require.Equal(m.T, []coupon.UserID{1 + first%4, 1 + (first+1)%4}, m.Issued(m.coupons[i]), "coupon %d", i)
	require.Equal(m.T, []uint64{1, 2}, m.Seats(m.coupons[i]))
	require.ElementsMatch(m.T, []coupon.UserID{1 + (first+2)%4, 1 + (first+3)%4}, m.Outcome(m.coupons[i], "NOT_SELECTED"))
	require.Empty(m.T, m.Waiting(m.coupons[i]))
}

// requests counts the requests to MySQL that contain each text.
func requests(texts ...string) (faultproxy.Rule, map[string]int) {
	counts := map[string]int{}
	return func(turn faultproxy.Turn) faultproxy.Action {
		for _, text := range texts {
			if turn.Proxy == jajeongtest.ToMySQL && bytes.Contains(turn.Request, []byte(text)) {
				counts[text]++
			}
		}
		return faultproxy.Pass()
	}, counts
}

const (
	insertsOfMany = "SELECT j.coupon_id, j.user_id"
	insertsOfOne  = " + (j.packed & 32767)"
	marksClean    = "cleaned_at = COALESCE(cleaned_at, VALUES(cleaned_at))"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	st := newStage(t, 2, jajeongtest.NewOnPrivateRedis)
	for name, test := range map[string]func(*testing.T, stage){
		"ShareStatements":                       shareStatements,
		"LostRepliesChangeNothing":              lostRepliesChangeNothing,
		"OneDisturbedCouponDoesNotAffectOthers": oneDisturbedCouponDoesNotAffectOthers,
		"NumberSeatsAfterThoseTaken":            numberSeatsAfterThoseTaken,
		"CloseOutLongerLinesAlone":              closeOutLongerLinesAlone,
		"ShareStatementsOfCouponsWithAPast":     shareStatementsOfCouponsWithAPast,
		"WaitForLocksAlone":                     waitForLocksAlone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, st)
		})
	}
}

func shareStatements(t *testing.T, st stage) {
	m := st.many(t)
	m.SetWindow(m.coupons[4], m.Now().Add(-2*time.Hour), m.Now()) // it is finalised, too
	rule, counts := requests(insertsOfMany, insertsOfOne, marksClean)
	_, proxied := m.Proxied(rule)
	report := m.run(proxied)
	require.Empty(t, report.Classes())
	require.Equal(t, map[string]int{insertsOfMany: 1, marksClean: 1}, counts)
	require.Equal(t, settle.Counts{Read: 20, Issued: 10, NotSelected: 10}, report.Total.Counts)
	require.Equal(t, coupon.Unchanged, report.Coupons[5].Status)
	for i := range m.queues() {
		m.requireSettled(i)
	}
	require.Len(t, m.IDs("SELECT id FROM coupon WHERE id >= ? AND finalised_at IS NOT NULL", m.coupons[0]), 1)
	m.Verify(m.coupons...)
}

// A reply that is lost at any statement of a group changes no result.
func lostRepliesChangeNothing(t *testing.T, st stage) {
	for name, action := range map[string]func(func()) faultproxy.Action{"request": faultproxy.DropRequest, "reply": faultproxy.DropReply} {
		for _, at := range []string{"START TRANSACTION", "FOR UPDATE NOWAIT", "UNION ALL", insertsOfMany, "STRAIGHT_JOIN", "INSERT INTO promise", "INSERT INTO settled", "\x03COMMIT", marksClean} {
			if name == "reply" && at != "\x03COMMIT" && at != marksClean {
				continue // MySQL rolls back, as after a lost request
			}
			t.Run(name+" of "+at, func(t *testing.T) {
				t.Parallel()
				m := st.many(t)
				lost := false
				_, proxied := m.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
					if !lost && turn.Proxy == jajeongtest.ToMySQL && bytes.Contains(turn.Request, []byte(at)) {
						lost = true
						return action(nil)
					}
					return faultproxy.Pass()
				})
				report := m.run(proxied)
				require.True(t, lost)
				require.Empty(t, report.Classes())
				require.Equal(t, settle.Counts{Read: 20, Issued: 10, NotSelected: 10}, report.Total.Counts)
				for i := range m.queues() {
					m.requireSettled(i)
					require.Len(t, m.Runs(m.coupons[i]), 1)
				}
				m.Verify(m.coupons...)
			})
		}
	}
}

// What is wrong with coupon 1 is its own matter.
func oneDisturbedCouponDoesNotAffectOthers(t *testing.T, st stage) {
	for name, c := range map[string]struct {
		disturb func(m many)
		status  coupon.ResultStatus
		issued  []coupon.UserID
	}{
		"frozen":    {func(m many) { m.Exec("UPDATE coupon SET frozen = TRUE WHERE id = ?", m.coupons[1]) }, coupon.Frozen, nil},
		"a gap":     {func(m many) { m.AddPromises(m.coupons[1], 1) }, coupon.HeldBack, nil},
		"the count": {func(m many) { m.Exec("UPDATE coupon SET issued_count = 1 WHERE id = ?", m.coupons[1]) }, coupon.HeldBack, nil},
		"by hand": {func(m many) {
			m.InsertGranted(m.coupons[1], 2)
			m.Exec("UPDATE coupon SET issued_count = 1 WHERE id = ?", m.coupons[1])
		}, coupon.Settled, []coupon.UserID{2, 3}},
		"a refused row": {func(m many) {
			m.Exec("CREATE TRIGGER refuses BEFORE INSERT ON user_coupon FOR EACH ROW IF NEW.coupon_id = " + m.coupons[1].String() +
				" AND NEW.user_id = 2 THEN SIGNAL SQLSTATE '45000'; END IF")
		}, coupon.Settled, []coupon.UserID{3, 4}},
		"an unknown user and a malformed member": {func(m many) {
			m.ApplyAt(m.coupons[1], "99", m.Now().Add(-time.Hour))
			m.ApplyAt(m.coupons[1], "x", m.Now().Add(-time.Hour))
		}, coupon.Settled, []coupon.UserID{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := st.many(t)
			c.disturb(m)
			report := m.run(m.Deployment)
			require.Equal(t, c.status, report.Coupons[1].Status, report.Coupons[1].Error)
			require.Equal(t, append([]coupon.UserID{}, c.issued...), append([]coupon.UserID{}, m.Issued(m.coupons[1])...))
			for i := range m.queues() {
				if i != 1 {
					require.Equal(t, coupon.Settled, report.Coupons[i].Status)
					m.requireSettled(i)
				}
			}
			if c.status == coupon.Settled {
				m.Verify(m.coupons...)
			}
		})
	}
}

// Seats are numbered after those that were taken before.
func numberSeatsAfterThoseTaken(t *testing.T, st stage) {
	m := st.many(t)
	for _, couponID := range m.coupons {
		m.InsertGranted(couponID, 9)
	}
	m.Exec("UPDATE coupon SET issued_count = 1 WHERE id >= ?", m.coupons[0])
	rule, counts := requests(insertsOfMany)
	_, proxied := m.Proxied(rule)
	require.Empty(t, m.run(proxied).Classes())
	require.Equal(t, map[string]int{insertsOfMany: 1}, counts)
	for i, couponID := range m.queues() {
		require.EqualValues(t, 2, m.Number("SELECT position FROM user_coupon WHERE coupon_id = ? AND user_id = ?", couponID, 1+i%4))
	}
	m.Verify(m.coupons...)
}

// A group waits for no lock of a coupon that is not in it, even in a small table, which the server would rather scan.
func TestGroups_LockOnlyTheirCoupons(t *testing.T) {
	t.Parallel()
	m := newStage(t, 1, jajeongtest.NewOnPrivateRedis).many(t)
	other := m.AddCouponBetween(2, m.Now().Add(time.Hour), m.Now().Add(2*time.Hour))
	release := m.Lock(other)
	defer release()
	rule, counts := requests(insertsOfMany, insertsOfOne)
	_, proxied := m.Proxied(rule)
	require.Empty(t, m.run(proxied).Classes())
	require.Equal(t, map[string]int{insertsOfMany: 1}, counts)
}

// The longer lines of a group are closed out alone: a transaction locks one coupon then.
func closeOutLongerLinesAlone(t *testing.T, st stage) {
	m := st.many(t)
	users := between(101, 101+settle.MaxClosedTogether)
	m.AddUsers(users...)
	for _, couponID := range m.queues() {
		m.ApplyLine(couponID, users...)
	}
	var locked []int
	_, proxied := m.Proxied(func(turn faultproxy.Turn) faultproxy.Action {
		if turn.Proxy == jajeongtest.ToMySQL && bytes.Contains(turn.Request, []byte("INSERT INTO application_outcome")) {
			locked = append(locked, m.locked())
		}
		return faultproxy.Pass()
	})
	require.Empty(t, m.run(proxied).Classes())
	require.Equal(t, slices.Repeat([]int{1}, len(m.queues())), locked)
	m.Verify(m.coupons...)
}

// locked counts the coupons that another transaction has locked.
func (m many) locked() (n int) {
	for _, id := range m.coupons {
		if _, err := m.DB.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE NOWAIT", id); err != nil {
			n++
		}
	}
	return n
}

// Coupons with a past share their statements, too: NOT_SELECTED applications get seats that were added, and an entry is in the DLQ.
func shareStatementsOfCouponsWithAPast(t *testing.T, st stage) {
	m := st.many(t)
	m.ApplyAt(m.coupons[1], "99", m.Now().Add(-time.Hour)) // an unknown user
	require.Empty(t, m.run(m.Deployment).Classes())
	for i, couponID := range m.queues() {
		m.requireSettled(i)
		m.SetSeats(couponID, 3)
	}
	rule, counts := requests(insertsOfMany, insertsOfOne)
	_, proxied := m.Proxied(rule)
	require.Empty(t, m.run(proxied).Classes())
	require.Equal(t, map[string]int{insertsOfMany: 1, insertsOfOne: 1}, counts, "coupon 1 reads its entry in the DLQ, and comes later")
	for i, couponID := range m.queues() {
		first := coupon.UserID(i)
		require.Equal(t, []coupon.UserID{1 + first%4, 1 + (first+1)%4, 1 + (first+2)%4}, m.Issued(couponID))
		require.Equal(t, []coupon.UserID{1 + (first+3)%4}, m.Outcome(couponID, "NOT_SELECTED"))
	}
	m.Verify(m.coupons...)
}

// While a member waits for a coupon that another session has locked, no other coupon is locked.
func waitForLocksAlone(t *testing.T, st stage) {
	m := st.many(t)
	release := m.Lock(m.coupons[3])
	ended := make(chan *settle.Report, 1)
	go func() { ended <- m.run(m.Deployment) }()
	m.AwaitLockWait()
	testenv.Eventually(t, "the other coupons are not locked", func() bool {
		return m.locked() == 1
	})
	release()
	require.Empty(t, (<-ended).Classes())
	for i := range m.queues() {
		m.requireSettled(i)
	}
	m.Verify(m.coupons...)
}
