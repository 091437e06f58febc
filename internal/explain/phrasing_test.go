package explain

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// fullFacts have every fact that a state or a note needs.
func fullFacts() *Facts {
	at := time.Date(2026, 11, 20, 5, 0, 3, 123000000, time.UTC)
	closes, expires := at.Add(time.Hour), at.AddDate(0, 0, 30)
	return &Facts{
		Subject: Subject{CouponID: 42, UserID: 7, At: at.Add(time.Minute)},
		CouponSide: CouponSide{
			Coupon: &CouponFacts{Name: "심야 쿠폰", Seats: 103, Issued: 100,
				CouponWindow: CouponWindow{OpensAt: at.Add(-time.Hour), ClosesAt: closes}},
			Gap:       2,
			Published: &PublishedWindow{Known: true, OpensAt: &at, ClosesAt: &closes, Waiting: 250},
		},
		User: User{UserKnown: true, UserActive: true, UserStatus: "ACTIVE"},
		UserCoupon: &UserCoupon{Seat: 12, IssuedAt: closes, ExpiresAt: expires, Run: 5, Status: "ISSUED",
			AsOf:  at.Add(time.Minute),
			Order: &Order{ID: "A-1", AmountWon: 12_000, DiscountWon: 5000, ReservedUntil: closes},
			Log: []LogEntry{{Seq: 1, Kind: coupon.LogRefunded, OrderID: "A-1", At: at},
				{Seq: 2, Kind: coupon.LogRevoked, Actor: "kim", Reason: "C-1", At: at}}},
		Missed: &Missed{Rank: 12, Micros: 1_200_000},
		Applications: []Application{{Arrival: coupon.ArrivalAt(at), AppliedAt: at, Position: 3, SettlesAt: &closes,
			Order:  212,
			Review: &candidates.Reason{Attempts: 3}, Decision: Decision{RecordedAt: &closes}}},
	}
}

func phrasing(l text.Language) Phrasing {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		panic(err)
	}
	return Phrasing{output.Locale{Language: l, Zone: seoul}}
}

var (
	hangul      = regexp.MustCompile(`\p{Hangul}`)
	codePattern = regexp.MustCompile(`[A-Z]{2,}|_|%|\?|Redis|MySQL|DLQ|run `)
	zoned       = regexp.MustCompile(`\d KST`)
)

// Each state and note has a sentence in both languages, without codes and format errors.
func TestEveryConclusionHasASentence(t *testing.T) {
	t.Parallel()
	seen := map[string]State{}
	for _, l := range []text.Language{text.Korean, text.English} {
		p := phrasing(l)
		readable := func(sentence, what string) {
			t.Helper()
			require.NotEmpty(t, sentence, what)
			require.Regexp(t, `[.]$`, sentence, what)
			require.Equal(t, l == text.Korean, hangul.MatchString(sentence), "%s: %s", what, sentence)
			require.NotRegexp(t, codePattern, zoned.ReplaceAllString(sentence, ""), what)
		}
		for _, s := range States {
			f := fullFacts()
			a := &f.Applications[0]
			switch message := stateMessages[s].In(l); {
			case strings.Contains(message, "%d"): // the user, without an application
				a = nil
			case strings.Contains(message, "%s"): // the time of the rejection
				a.Outcome = coupon.OutcomeRejected
			}
			sentence := p.Sentence(f, Conclusion{State: s, Application: a})
			readable(sentence, string(s))
			require.Contains(t, sentence, "7", "the user in %s", s)
			require.NotContains(t, seen, sentence, "%s has the sentence of another state", s)
			seen[sentence] = s
		}
		for _, n := range Notes {
			f := fullFacts()
			readable(p.noted(f, n), string(n))
		}
	}
}

func TestSentences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		facts  func(f *Facts)
		state  State
		notes  []Note
		ko, en string
	}{
		{"not selected", nil, StateNotSelected, nil,
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 212번째로 신청하셨고, 쿠폰 100장이 모두 먼저 신청하신 분들께 발급되어 선정되지 않으셨습니다. " +
				"선정되지 않으신 분들 가운데 12번째이며, 수량이 추가되면 다시 정산할 때 신청하신 순서대로 처리됩니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST as number 212; all coupons (100) went to those who " +
				"applied earlier, so the " +
				"application was not selected. It is number 12 of those not " +
				"selected; if coupons are added and settled, it goes in the order of application."},
		{"not selected, some given by hand", func(f *Facts) { f.Coupon.ByHand, f.Applications[0].Order = 1, 0 },
			StateNotSelected, nil,
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 신청하셨고, 쿠폰 100장이 모두 발급되어 선정되지 않으셨습니다. 마지막으로 쿠폰을 받으신 분은 고객님보다 " +
				"먼저 신청하셨습니다. " +
				"선정되지 않으신 분들 가운데 12번째이며, 수량이 추가되면 다시 정산할 때 신청하신 순서대로 처리됩니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST; all coupons (100) are taken, so the application was " +
				"not selected. " +
				"The last customer who got a coupon had applied earlier. It is number 12 of those not selected; if " +
				"coupons are added and settled, it goes in the order of application."},
		{"the first not selected, seats added", func(f *Facts) { f.Missed.Rank = 1 }, StateSeatsFree, nil,
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 212번째로 신청하셨고, 당시 남은 수량이 없어 선정되지 않으셨습니다. 마지막으로 쿠폰을 받으신 분은 " +
				"고객님보다 먼저 신청하셨습니다. " +
				"선정되지 않으신 분들 가운데 첫 번째이며, 현재 남은 수량이 3장 있어 다음 정산에서 신청하신 순서대로 처리될 예정입니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST as number 212; no coupon was left, so the application " +
				"was not selected. The last customer " +
				"who got a coupon had applied earlier. It is number 1 of those not selected; the next settlement " +
				"will issue the coupons that are left now (3), in the order of application."},
		{"issued", nil, StateIssued, []Note{NoteUsable},
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 212번째로 신청하셨고, 2026-11-20 15:00:03.123 KST에 쿠폰이 발급되었습니다. 전체 " +
				"103장 가운데 12번째로 발급된 쿠폰입니다. " +
				"2026-12-20 14:00:03.123 KST까지 사용하실 수 있습니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST as number 212; the coupon was issued at 2026-11-20 " +
				"15:00:03.123 KST. It is coupon 12 of 103. " +
				"It can be used until 2026-12-20 14:00:03.123 KST."},
		{"waiting", func(f *Facts) { f.Applications[0].Review, f.Applications[0].Order = nil, 0 }, StateWaiting, nil,
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 신청하셨고, 정상적으로 접수되어 대기 중인 신청 250건 가운데 3번째입니다. 현재 남은 수량은 3장입니다. " +
				"정산은 2026-11-20 15:00:03.123 KST에 예정되어 있으며, 신청하신 순서대로 처리됩니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST; the application was received, and is number 3 of 250 " +
				"that are waiting. Coupons left at present: 3. " +
				"The settlement is planned for 2026-11-20 15:00:03.123 KST and goes in the order of application."},
		{"under review", func(f *Facts) { f.Applications[0].Order = 0 }, StateReviewBadRow, []Note{NoteTriedAgain},
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 신청하셨고, 시스템 오류로 쿠폰 정보를 저장하지 못해 현재 검토 중입니다. 지금까지 처리를 3번 시도했습니다. " +
				"다음 정산 대상에 포함되며, 신청하신 순서대로 처리됩니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST; a fault in our system kept the coupon from being " +
				"stored, and the application is under review. " +
				"It has been tried 3 times so far. The next settlement will consider it, in the order of application."},
		{"immediate", func(f *Facts) { f.Coupon.Cadence, f.Applications[0].Order = coupon.Immediate, 0 },
			StateWaitingImmediate, nil,
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 신청하셨고, 정상적으로 접수되어 대기 중인 신청 250건 가운데 3번째입니다. 현재 남은 수량은 3장입니다. " +
				"이 쿠폰은 신청하신 순서대로 바로 처리되니 잠시 후 결과를 확인해 주시기 바랍니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST; the application was received, and is number 3 of 250 " +
				"that are waiting. Coupons left at present: 3. " +
				"Applications for this coupon are settled at once, in the order of application: please look again in " +
				"a moment."},
		{"immediate, delayed", func(f *Facts) { f.Coupon.Cadence, f.Applications[0].Order = coupon.Immediate, 0 },
			StateWaitingDelayed, []Note{NoteNoSeatLeft},
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 신청하셨고, 보통은 신청하시면 바로 처리되지만 지금은 처리가 늦어지고 있습니다. 신청은 접수된 순서 그대로 " +
				"대기 중이며, " +
				"그 전에 처리되지 않으면 2026-11-20 15:00:03.123 KST에 예정된 정산 대상에 포함됩니다. 지금은 남은 수량이 없습니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST; it is usually settled at once, but this is delayed " +
				"at the moment. The application keeps its place; " +
				"if it is not settled before, the settlement planned for 2026-11-20 15:00:03.123 KST will consider " +
				"it. No coupons are left at present."},
		{"immediate, passed over", func(f *Facts) { f.Coupon.Cadence, f.Applications[0].Order = coupon.Immediate, 0 },
			StateReviewPassedOver, []Note{NoteTriedAgain},
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 신청하셨고, 순서가 되었을 때 쿠폰을 발급해 드리지 못해 현재 검토 중입니다. 다음 야간 정산 대상에 " +
				"포함되며, 신청하신 순서대로 처리됩니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST; no coupon could be issued when its turn came, and it " +
				"is under review. " +
				"The next settlement at midnight will consider it, in the order of application."},
		{"frozen, seats added", func(f *Facts) { f.Coupon.ByHand, f.Missed.Micros = 1, 0 }, StateSeatsFree,
			[]Note{NoteCouponFrozen},
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 212번째로 신청하셨고, 당시 남은 수량이 없어 선정되지 않으셨습니다. 선정되지 않으신 분들 가운데 " +
				"12번째이며, " +
				"현재 남은 수량이 3장 있어 다음 정산에서 신청하신 순서대로 처리될 예정입니다. 다만 지금은 이 쿠폰의 발급이 동결되어 있어, 동결이 해제되어야 처리할 수 있습니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST as number 212; no coupon was left, so the application " +
				"was not selected. It is number 12 of those not selected; " +
				"the next settlement will issue the coupons that are left now (3), in the order of application. " +
				"But the issuing of this coupon is stopped at present, so nothing can be settled before it goes on."},
		{"frozen", func(f *Facts) { f.Coupon.Frozen = true }, StateWaitingFrozen, nil,
			"고객번호 7번 고객님은 2026-11-20 14:00:03.123 KST에 212번째로 신청하셨고, 지금은 이 쿠폰의 발급이 동결되어 있습니다. 신청은 접수된 순서 그대로 대기 중이며, " +
				"동결이 해제되어야 처리됩니다.",
			"Customer 7 applied at 2026-11-20 14:00:03.123 KST as number 212; the issuing of this coupon is stopped " +
				"at present. " +
				"The application keeps its place and can be settled only after the issuing goes on."},
		{"promises lost", func(f *Facts) { f.Coupon.WrittenOff = 1 }, StateMaybeLost, nil,
			"고객번호 7번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 다만 접수된 신청 가운데 3건의 기록이 유실되어, 신청하신 적이 없다고 단정할 수는 없습니다.",
			"There is no record that customer 7 applied for this coupon. But records of 3 applications were lost, so " +
				"it is not certain that there was none."},
	} {
		f := fullFacts()
		if c.state != StateReviewBadRow {
			f.Applications[0].Review = nil
		}
		if c.facts != nil {
			c.facts(f)
		}
		conclusion := Conclusion{State: c.state, Notes: c.notes, Application: &f.Applications[0]}
		require.Equal(t, c.ko, phrasing(text.Korean).Sentence(f, conclusion), c.name)
		require.Equal(t, c.en, phrasing(text.English).Sentence(f, conclusion), c.name)
	}
}

func TestImmediateRunsInTheTimeline(t *testing.T) {
	t.Parallel()
	f := fullFacts()
	f.Runs = []RunFacts{{RunIdentity{ID: 5, Trigger: coupon.ImmediateRun, Status: coupon.RunSucceeded},
		RunRecord{Settled: true, Read: 3, Issued: 3}}}
	for l, want := range map[text.Language][2]string{
		text.Korean: {"즉시 실행 #5 (settle serve): 처리 3건, 발급 3건, 미선정 0건", "발급: 12번째 쿠폰, 즉시 실행 #5 (settle serve)"},
		text.English: {"immediate run 5 (settle serve): decided 3, issued 3, not selected 0",
			"issued: seat 12, by immediate run 5 (settle serve)"},
	} {
		p := phrasing(l)
		require.Equal(t, want[0], p.Event(f, Event{At: f.At, Kind: EventRun, Run: 5, Settled: &f.Runs[0]}))
		require.Equal(t, want[1], p.Event(f, Event{At: f.At, Kind: EventIssued, Run: 5}))
		require.NotContains(t, p.Event(f, Event{At: f.At, Kind: EventIssued, Run: 4}), "settle serve")
	}
}

func TestEventsAndActionsAreInBothLanguages(t *testing.T) {
	t.Parallel()
	f := fullFacts()
	for _, l := range []text.Language{text.Korean, text.English} {
		p := phrasing(l)
		for _, k := range EventKinds {
			line := p.Event(f, Event{At: f.At, Kind: k, Run: 5, Settled: &RunFacts{}, Review: &candidates.Reason{},
				Order: "A-1", Entry: &LogEntry{Kind: coupon.LogKind(k)}})
			require.NotEmpty(t, line, k)
			require.NotContains(t, line, "%!")
			require.Equal(t, l == text.Korean, hangul.MatchString(line), "%s: %s", k, line)
		}
		for action := range audit.Payloads {
			require.Equal(t, l == text.Korean, hangul.MatchString(text.Word(l, action)), action)
			require.NotEmpty(t, text.Word(l, action), action)
		}
		for _, cause := range coupon.Causes {
			require.Equal(t, l == text.Korean, hangul.MatchString(text.Word(l, cause)), cause)
			require.NotEmpty(t, text.Word(l, cause), cause)
		}
		require.Equal(t, "FROM_TOMORROW", output.Word(l, "FROM_TOMORROW"))
	}
}

func TestEveryCauseHasItsStates(t *testing.T) {
	t.Parallel()
	for _, cause := range coupon.Causes {
		require.Contains(t, reviewStates, cause)
		require.Contains(t, rejectedStates, cause)
	}
	require.Len(t, reviewStates, len(coupon.Causes))
	require.Len(t, rejectedStates, len(coupon.Causes)+1, "and an operator")
}

// No nightly run is named for an application that settle serve settles, or that no run settles.
func TestDropPlans(t *testing.T) {
	t.Parallel()
	const interval = 5 * time.Second
	for name, c := range map[string]struct {
		facts func(f *Facts)
		kept  bool
	}{
		"nightly":             {func(*Facts) {}, true},
		"immediate, just now": {func(f *Facts) { f.Coupon.Cadence = coupon.Immediate }, false},
		"immediate, a long wait": {func(f *Facts) {
			f.Coupon.Cadence, f.At = coupon.Immediate,
				f.At.Add(time.Microsecond)
		}, true},
		"immediate, in the DLQ": {func(f *Facts) {
			f.Coupon.Cadence, f.Applications[0].Place = coupon.Immediate, InRetryable
		}, true},
		"frozen":        {func(f *Facts) { f.Coupon.Frozen = true }, false},
		"MySQL is away": {func(f *Facts) { f.Coupon = nil }, true},
	} {
		f := fullFacts()
		f.Applications[0].Place, f.At = InQueue, f.Applications[0].AppliedAt.Add(10*interval)
		c.facts(f)
		f.dropPlans(interval)
		require.Equal(t, c.kept, f.Applications[0].SettlesAt != nil, name)
	}
}

func TestHeaderOfAnExplanation(t *testing.T) {
	t.Parallel()
	x := &Explanation{Facts: *fullFacts()}
	x.Facts.Account, x.Conclusion = new(ledger.Account), Conclusion{State: StateNeverOpen}
	printed := func(l text.Language) string {
		var b strings.Builder
		phrasing(l).Print(&b, x)
		return b.String()
	}
	require.NotContains(t, printed(text.English), "frozen")
	require.NotContains(t, printed(text.English), "immediate")
	at := time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC)
	x.Facts.Coupon.Issuing = Issuing{Cadence: coupon.Immediate, LineLimit: 50, Frozen: true,
		Freeze: &history.AuditEntry{At: at, Actor: "choi", Reason: "FIN-8"}}
	require.Contains(t, printed(text.English),
		"settle serve settles applications at once\nline limit: 50\nfrozen since 2026-11-20 14:00:00 KST, by choi: "+
			"FIN-8\n")
	require.Contains(t, printed(text.Korean), "발급이 동결되어 있습니다. 동결 시각 2026-11-20 14:00:00 KST, 처리자 choi, 사유: FIN-8\n")
	x.Facts.Coupon.Freeze = nil
	require.Contains(t, printed(text.Korean), "누가 동결했는지 감사 기록에 없습니다")
}
