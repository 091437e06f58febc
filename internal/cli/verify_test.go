package cli

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/ledger"
)

// sick is a coupon of eight seats for which ten applied before the cutoff, 11 and 12 behind it. Each corruption has
// victims of its own.
type sick struct {
	*world
	coupon uint64
}

// corruption is one thing that is wrong and what must be found. Figures that are compared are said in numbers: two
// corruptions at once may cancel out there.
type corruption struct {
	plant func(s sick)
	codes []ledger.Code

	coupons, counted, seats int // rows in user_coupon, issued_count and total_quantity, more than before
	lost                    int // promises; negative: nobody promised
}

func mustFind(planted ...corruption) []ledger.Code {
	found := map[ledger.Code]bool{}
	var coupons, counted, seats, lost int
	for _, c := range planted {
		for _, code := range c.codes {
			found[code] = true
		}
		coupons, counted, seats, lost = coupons+c.coupons, counted+c.counted, seats+c.seats, lost+c.lost
	}
	found[ledger.Oversold] = coupons > seats // the coupon is sold out to the seat
	found[ledger.CountWrong] = counted != coupons
	found[ledger.PromiseLost] = lost > 0
	found[ledger.Excess] = lost < 0
	maps.DeleteFunc(found, func(_ ledger.Code, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(found))
}

// arrival is when a user's application arrived that got a seat.
func (s sick) arrival(user uint64) (at time.Time) {
	s.t.Helper()
	require.NoError(s.t, s.db.QueryRow("SELECT applied_at FROM user_coupon WHERE coupon_id = ? AND user_id = ?", s.coupon, user).Scan(&at))
	return at
}

func (s sick) redisDo(args ...any) {
	s.t.Helper()
	require.NoError(s.t, s.rdb.Do(s.t.Context(), args...).Err())
}

func (s sick) key(kind string) string { return kind + ":{" + s.queue(s.coupon) + "}" }

const giveByHand = "INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, ?)"

var corruptions = map[string]corruption{
	"an extra row": {coupons: 1,
		plant: func(s sick) { s.exec(giveByHand, s.coupon, 50) }},
	"a missing row": {coupons: -1, lost: 1, codes: []ledger.Code{ledger.RecordWrong, ledger.MarkedWithoutCoupon},
		plant: func(s sick) { s.exec("DELETE FROM user_coupon WHERE coupon_id = ? AND user_id = 2", s.coupon) }},
	"a wrong count": {counted: -3,
		plant: func(s sick) { s.exec("UPDATE coupon SET issued_count = issued_count - 3 WHERE id = ?", s.coupon) }},
	"a skipped candidate": {codes: []ledger.Code{ledger.PassedOver},
		plant: func(s sick) { s.stand(s.coupon, "51", s.now().Add(-30*time.Minute)) }},
	"a duplicate across tables": {lost: -1, codes: []ledger.Code{ledger.SettledTwice, ledger.OutcomeWrong},
		plant: func(s sick) {
			s.exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome) VALUES (?, 3, ?, 'REJECTED')", s.coupon, s.arrival(3))
		}},
	"a lost candidate": {lost: 2,
		plant: func(s sick) { s.redisDo("ZREM", s.queue(s.coupon), 11, 12) }},
	"a DLQ entry also issued": {codes: []ledger.Code{ledger.StillStanding, ledger.ReasonMissing},
		plant: func(s sick) { s.redisDo("ZADD", s.key("dlq"), s.arrival(4).UnixMicro(), 4) }},
	"a seat given past an eligible earlier arrival": {codes: []ledger.Code{ledger.PassedOver, ledger.RecordWrong, ledger.MarkedWithoutCoupon, ledger.OutcomeWrong},
		plant: func(s sick) {
			s.exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome) VALUES (?, 8, ?, 'NOT_SELECTED')", s.coupon, s.arrival(8))
			s.exec(`UPDATE user_coupon c JOIN application_outcome o ON o.coupon_id = c.coupon_id AND o.user_id = 10
				SET c.user_id = 10, c.applied_at = o.applied_at WHERE c.coupon_id = ? AND c.user_id = 8`, s.coupon)
			s.exec("DELETE FROM application_outcome WHERE coupon_id = ? AND user_id = 10", s.coupon)
		}},
	"a user who holds two": {coupons: 1, counted: 1, seats: 1, codes: []ledger.Code{ledger.HeldTwice},
		plant: func(s sick) {
			s.exec("UPDATE coupon SET total_quantity = total_quantity + 1, issued_count = issued_count + 1 WHERE id = ?", s.coupon)
			s.exec(giveByHand, s.coupon, 5)
		}},
	"two seats exchanged": {codes: []ledger.Code{ledger.OrderWrong, ledger.RecordWrong},
		plant: func(s sick) {
			s.exec("UPDATE user_coupon SET position = 13 - position WHERE coupon_id = ? AND user_id IN (6, 7)", s.coupon)
		}},
	"a coupon of a run that never was": {codes: []ledger.Code{ledger.RecordMissing, ledger.RecordWrong},
		plant: func(s sick) {
			s.exec("UPDATE user_coupon SET run_id = 1000000 WHERE coupon_id = ? AND user_id = 1", s.coupon)
		}},
	"one told ALREADY_ISSUED for nothing": {codes: []ledger.Code{ledger.MarkedWithoutCoupon},
		plant: func(s sick) { s.redisDo("SADD", s.key("issued"), 60) }},
	"one from the future": {codes: []ledger.Code{ledger.LineRewound},
		plant: func(s sick) { s.stand(s.coupon, "52", s.now().Add(time.Hour)) }},
	"one written into the queue by hand": {lost: -1,
		plant: func(s sick) {
			require.NoError(s.t, s.rdb.ZAdd(s.t.Context(), s.queue(s.coupon), redis.Z{Score: float64(s.now().UnixMicro()), Member: "53"}).Err())
		}},
	"an audit event that says something else": {codes: []ledger.Code{ledger.AuditChanged},
		plant: func(s sick) {
			s.exec("UPDATE audit_event SET reason = 'TICKET-8' WHERE coupon_id = ? AND seq = 1", s.coupon)
		}},
	"an audit event taken away": {codes: []ledger.Code{ledger.AuditRemoved},
		plant: func(s sick) { s.exec("DELETE FROM audit_event WHERE coupon_id = ? AND seq = 3", s.coupon) }},
	"the last audit event taken away": {codes: []ledger.Code{ledger.AuditRemoved},
		plant: func(s sick) { s.exec("DELETE FROM audit_event WHERE coupon_id = ? AND seq = ?", s.coupon, events) }},
	"an audit event written by hand": {codes: []ledger.Code{ledger.AuditInserted},
		plant: func(s sick) {
			s.exec("INSERT INTO audit_event (actor, action, coupon_id) VALUES ('kim', 'GAP_ACCEPTED', ?)", s.coupon)
		}},
	"nothing": {plant: func(sick) {}},
}

// holds is how often each of these coupons was held: for each there is an audit event, and one for the run that settled it.
const holds, events = 4, 5

// What people and alerts go by is the program: its exit code and what it prints.
func TestVerifyTellsExactlyWhatWasPlanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("ALTER TABLE user_coupon ADD KEY not_once (coupon_id, user_id), DROP KEY user_coupon_once")
	w.exec("ALTER TABLE coupon DROP CONSTRAINT coupon_never_oversold")
	w.users(between(1, 60)...)
	names := slices.Sorted(maps.Keys(corruptions))
	var patients [][]string
	for _, name := range names {
		patients = append(patients, []string{name})
	}
	for n := 2; n <= len(names); n += 2 {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		patients = append(patients, slices.Clone(names[:n]))
	}
	coupons := make([]uint64, len(patients))
	for i := range patients {
		coupons[i] = w.coupon(8)
		w.apply(coupons[i], between(1, 10)...)
	}
	cutoff := w.now()
	promised := func(more int64) {
		for _, coupon := range coupons {
			require.NoError(t, w.rdb.HIncrBy(t.Context(), "state:{"+w.queue(coupon)+"}", "accepted", more).Err())
		}
	}
	promised(1)
	for range holds {
		code, _ := w.settleNowCode()
		require.Equal(t, 3, code)
	}
	promised(-1)
	for _, coupon := range coupons {
		w.apply(coupon, 11, 12)
	}
	code, _, stderr := w.settle("run", "--cutoff="+cutoff.Format(time.RFC3339Nano), "--operator=kim", "--reason=test")
	require.Zero(t, code, stderr)
	w.verify()

	for i, patient := range patients {
		for _, name := range patient {
			corruptions[name].plant(sick{w, coupons[i]})
		}
	}
	code, report := w.verifyCode()
	require.Equal(t, 3, code)
	require.True(t, report.Violated)
	require.Len(t, report.Coupons, len(patients))
	for i, patient := range patients {
		var planted []corruption
		for _, name := range patient {
			planted = append(planted, corruptions[name])
		}
		var found []ledger.Code
		violated := 0
		for _, f := range report.Coupons[i].Findings {
			found = append(found, f.Code)
			if !f.Warning {
				violated = 3
			}
		}
		require.EqualValues(t, events, report.Coupons[i].AuditHead.Seq)
		slices.Sort(found)
		require.Equal(t, mustFind(planted...), slices.Compact(found), "%q", patient)

		code, stdout, stderr := w.settle("verify", fmt.Sprintf("--coupon=%d", coupons[i]))
		require.Equal(t, violated, code, "%q: %s%s", patient, stdout, stderr)
		require.Contains(t, stdout, report.Coupons[i].AuditHead.Hash)
		for _, f := range found {
			require.Contains(t, stdout, string(f), "%q", patient)
		}
	}
}

func TestVerify_ChecksOtherCouponsBesideBrokenOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken, lossy, whole := w.coupon(1), w.coupon(7), w.coupon(1)
	w.users(1, 2)
	w.apply(lossy, 1, 2)
	w.apply(whole, 1)
	require.NoError(t, w.rdb.ZRem(t.Context(), w.queue(lossy), "1").Err())
	state := "state:{" + w.queue(broken) + "}"
	require.NoError(t, w.rdb.Del(t.Context(), state).Err())
	require.NoError(t, w.rdb.Set(t.Context(), state, "a value of another type", 0).Err())
	code, _ := w.settleNowCode()
	require.Equal(t, 2, code, "a key of the wrong type needs an operator, and counts before the gap")

	code, stdout, stderr := w.settle("verify")
	require.Equal(t, 2, code)
	require.Contains(t, stdout, "PROMISE_LOST")
	require.Contains(t, stderr, fmt.Sprintf("coupon %d: ", broken))

	code, verdicts := w.verifyCode()
	require.Equal(t, 2, code)
	require.Len(t, verdicts.Unchecked, 1)
	code, stdout, _ = w.settle("verify", fmt.Sprintf("--coupon=%d", whole), fmt.Sprintf("--coupon=%d", whole))
	require.Zero(t, code)
	require.Contains(t, stdout, "1 coupons for 1 seats")
}

func TestOutput_EscapesControlCharactersInNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coupon := w.coupon(1)
	w.exec("UPDATE coupon SET name = ? WHERE id = ?", "a\x1b[31mred\nnext", coupon)
	for _, verb := range []string{"run", "verify"} {
		_, stdout, _ := w.settle(verb)
		require.NotContains(t, stdout, "\x1b")
		require.NotContains(t, stdout, "red\nnext")
	}
}
