package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/ledger"
)

// noon is when the facts of these tests are looked up; the user applied an hour before.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func hence(d time.Duration) *time.Time { at := noon.Add(d); return &at }

// blank are the facts about a user of whom nothing is on record, with a coupon that is open.
func blank() *ledger.Facts {
	return &ledger.Facts{
		CouponID: 42, UserID: 7, At: noon, UserKnown: true, UserActive: true, UserStatus: "ACTIVE",
		Coupon:  &ledger.CouponFacts{Name: "심야 쿠폰", Seats: 100, Issued: 60, OpensAt: *hence(-2 * time.Hour), ClosesAt: *hence(2 * time.Hour)},
		Door:    &ledger.DoorFacts{Known: true, OpensAt: hence(-2 * time.Hour), ClosesAt: hence(2 * time.Hour), Waiting: 9},
		Account: &ledger.Account{},
	}
}

type change func(f *ledger.Facts)

func with(changes ...change) *ledger.Facts {
	f := blank()
	for _, c := range changes {
		c(f)
	}
	return f
}

// application is one of an hour ago, or so much later.
func application(later time.Duration, set func(a *ledger.Application)) change {
	at := noon.Add(-time.Hour + later)
	a := ledger.Application{Arrival: at.UnixMicro(), AppliedAt: at}
	set(&a)
	return func(f *ledger.Facts) { f.Applications = append(f.Applications, a) }
}

func stands(place ledger.Place) func(a *ledger.Application) {
	return func(a *ledger.Application) { a.Stands, a.Position, a.SettlesAt = place, 3, hence(3*time.Hour) }
}

func reviewed(cause string, place ledger.Place) change {
	return application(0, func(a *ledger.Application) {
		stands(place)(a)
		a.Position, a.Review = 0, &candidates.Reason{Cause: cause, Retryable: place == ledger.InRetryable, Attempts: 1}
	})
}

func outcome(was string) func(a *ledger.Application) {
	return func(a *ledger.Application) { a.Outcome, a.Run, a.RecordedAt = was, 5, hence(-10*time.Minute) }
}

func both(some ...func(a *ledger.Application)) func(a *ledger.Application) {
	return func(a *ledger.Application) {
		for _, s := range some {
			s(a)
		}
	}
}

func refused(reason string) func(a *ledger.Application) {
	return both(outcome("REJECTED"), func(a *ledger.Application) { a.Reason = reason })
}

func holds(run uint64, status string, expires *time.Time) change {
	return func(f *ledger.Facts) {
		f.Held = &ledger.HeldCoupon{Seat: 3, IssuedAt: *hence(-10 * time.Minute), ExpiresAt: expires, Run: run, Status: status}
	}
}

func night(status string, settled bool) change {
	return func(f *ledger.Facts) {
		f.Runs = append(f.Runs, ledger.RunFacts{ID: uint64(len(f.Runs) + 1), Trigger: "CRON", Status: status, Settled: settled,
			Cutoff: *hence(-time.Minute)})
	}
}

var (
	queued    = application(0, stands(ledger.InQueue))
	later     = application(time.Minute, stands(ledger.InQueue))
	overdue   = application(0, both(stands(ledger.InQueue), func(a *ledger.Application) { a.SettlesAt = hence(0) }))
	notChosen = application(0, outcome("NOT_SELECTED"))
	issued    = application(0, outcome("ISSUED"))
	dropped   = application(0, both(refused("INACTIVE_USER: says the operator"), func(a *ledger.Application) { a.Dropped = true }))
	full      = change(func(f *ledger.Facts) { f.Coupon.Issued = 100 })
	noMySQL   = change(func(f *ledger.Facts) {
		f.Coupon, f.Account, f.UserKnown, f.UserActive, f.UserStatus, f.NoMySQL = nil, nil, false, false, "", "away"
	})
	noRedis    = change(func(f *ledger.Facts) { f.Door, f.Account, f.NoRedis = nil, nil, "away" })
	gap        = change(func(f *ledger.Facts) { f.Gap = 2 })
	writtenOff = change(func(f *ledger.Facts) { f.Coupon.WrittenOff = 2 })
	finalised  = change(func(f *ledger.Facts) { f.Coupon.FinalisedAt = hence(-time.Minute) })
	swept      = change(func(f *ledger.Facts) { f.Door = &ledger.DoorFacts{} })
	nobody     = change(func(f *ledger.Facts) { f.UserKnown, f.UserActive, f.UserStatus = false, false, "" })
	isBlocked  = change(func(f *ledger.Facts) { f.UserActive, f.UserStatus = false, "BLOCKED" })
	markedYes  = change(func(f *ledger.Facts) { f.MarkedIssued = true })
	markedNo   = change(func(f *ledger.Facts) { f.MarkedRejected = true })
)

func window(opens, closes time.Duration) change {
	return func(f *ledger.Facts) { f.Door.OpensAt, f.Door.ClosesAt = hence(opens), hence(closes) }
}

func notes(n ...ledger.Note) []ledger.Note { return append([]ledger.Note{}, n...) }

func TestConclusions(t *testing.T) {
	t.Parallel()
	states, noted := map[ledger.State]bool{}, map[ledger.Note]bool{}
	for _, c := range []struct {
		name  string
		facts *ledger.Facts
		state ledger.State
		notes []ledger.Note
	}{
		{"both servers away", with(noMySQL, noRedis), ledger.StateUnknown, nil},
		{"MySQL away, nothing in Redis", with(noMySQL), ledger.StateUnknown, nil},
		{"MySQL away, waiting: perhaps settled", with(noMySQL, queued), ledger.StateAppliedUnseen, nil},
		{"MySQL away, under review", with(noMySQL, reviewed("BAD_ROW", ledger.InHeld)), ledger.StateAppliedUnseen, nil},
		{"MySQL away, issued and still standing", with(noMySQL, queued, markedYes), ledger.StateIssuedUnseen, nil},
		{"MySQL away, rejected", with(noMySQL, markedNo), ledger.StateRejectedUnseen, nil},
		{"MySQL away, rejected and applied again", with(noMySQL, markedNo, queued), ledger.StateAppliedUnseen, nil},
		{"Redis away, nothing in MySQL", with(noRedis), ledger.StateUnknown, nil},
		{"Redis away, nothing in MySQL, lost ones", with(noRedis, writtenOff), ledger.StateUnknown, nil},
		{"Redis away, holds", with(noRedis, issued, holds(5, "ISSUED", nil)), ledger.StateIssued, notes(ledger.NoteUsable)},
		{"Redis away, not selected", with(noRedis, full, notChosen), ledger.StateNotSelected, notes(ledger.NoteLaterUnknown)},
		{"Redis away, dropped", with(noRedis, dropped), ledger.StateRejectedByPerson, notes(ledger.NoteLaterUnknown)},

		{"not open yet", with(window(time.Hour, 2*time.Hour)), ledger.StateNeverNotOpen, nil},
		{"open", blank(), ledger.StateNeverOpen, nil},
		{"opens this instant", with(window(0, time.Hour)), ledger.StateNeverOpen, nil},
		{"closes this instant", with(window(-time.Hour, 0)), ledger.StateNeverClosed, nil},
		{"closed and sold out", with(window(-time.Hour, 0), func(f *ledger.Facts) { f.Door.Sold = true }), ledger.StateNeverClosed, nil},
		{"paused", with(func(f *ledger.Facts) { f.Door.Paused = true }), ledger.StateNeverPaused, nil},
		{"sold out", with(full, func(f *ledger.Facts) { f.Door.Sold = true }), ledger.StateNeverSoldOut, nil},
		{"sold out, and seats added", with(func(f *ledger.Facts) { f.Door.Sold = true }), ledger.StateNeverAdded, nil},
		{"the door has not heard of a pause", with(func(f *ledger.Facts) { f.Coupon.Paused = true }), ledger.StateNeverOpen, nil},
		{"finalised and swept", with(finalised, swept, func(f *ledger.Facts) { f.Coupon.ClosesAt = noon }), ledger.StateNeverClosed, nil},
		{"not published yet", with(swept, func(f *ledger.Facts) { f.Coupon.OpensAt = *hence(time.Hour) }), ledger.StateNeverNotOpen, nil},
		{"Redis has forgotten the coupon", with(swept), ledger.StateNotSure, nil},
		{"the coupon's row was held", with(func(f *ledger.Facts) { f.Account, f.NoAccount = nil, "busy" }), ledger.StateNotSure, nil},
		{"some were lost", with(gap), ledger.StateMaybeLost, nil},
		{"some were lost and written off", with(writtenOff), ledger.StateMaybeLost, nil},
		{"some were lost, nobody knows the user", with(gap, nobody), ledger.StateMaybeLost, notes(ledger.NoteAccountUnknown)},
		{"nobody knows the user", with(nobody), ledger.StateNoSuchUser, nil},
		{"the door says issued, nothing is", with(markedYes, gap), ledger.StateContradiction, nil},
		{"the door says rejected, nothing is", with(markedNo), ledger.StateContradiction, nil},

		{"waiting", with(queued), ledger.StateWaiting, nil},
		{"waiting, the account is blocked", with(queued, isBlocked), ledger.StateWaiting, notes(ledger.NoteAccountInactive)},
		{"waiting, nobody knows the user", with(queued, nobody), ledger.StateWaiting, notes(ledger.NoteAccountUnknown)},
		{"waiting and under review", with(reviewed("PASSED_OVER", ledger.InRetryable), later), ledger.StateWaiting, notes(ledger.NoteAlsoUnderReview)},
		{"waiting, dropped before", with(dropped, later), ledger.StateWaiting, notes(ledger.NoteEarlierRejected)},
		{"waiting, a run at work", with(queued, night("RUNNING", false)), ledger.StateWaitingSettling, nil},
		{"waiting, a run that has died", with(queued, night("ABANDONED", false)), ledger.StateWaiting, nil},
		{"waiting, arrived behind the run's cutoff", with(application(59*time.Minute+time.Nanosecond, stands(ledger.InQueue)), night("RUNNING", false)), ledger.StateWaiting, nil},
		{"waiting, held coupon", with(overdue, gap), ledger.StateWaitingHeld, nil},
		{"waiting for a coupon that is over", with(overdue, finalised), ledger.StateWaitingOver, nil},
		{"left over", with(overdue), ledger.StateWaitingOverdue, nil},
		{"left over by a run that failed", with(overdue, night("FAILED", false)), ledger.StateWaitingRunFailed, nil},
		{"left over by a run that held it", with(overdue, night("HELD", false)), ledger.StateWaitingRunFailed, nil},
		{"left over by a run that died", with(overdue, night("ABANDONED", false)), ledger.StateWaitingRunFailed, nil},
		{"left over by a run that failed, and by one that did not", with(overdue, night("FAILED", false), night("SUCCEEDED", true)), ledger.StateWaitingOverdue, nil},
		{"left over by a run that failed elsewhere", with(overdue, night("FAILED", true)), ledger.StateWaitingOverdue, nil},
		{"left over by a run that failed, no seat left", with(full, overdue, night("FAILED", false)), ledger.StateWaitingRunFailed, notes(ledger.NoteNoSeatLeft)},
		{"waiting, no seat left: the state tells", with(full, queued), ledger.StateWaiting, nil},
		{"waiting, not selected before", with(notChosen, later), ledger.StateWaiting, notes(ledger.NoteEarlierNotSelected)},

		{"unknown user", with(nobody, reviewed("UNKNOWN_USER", ledger.InHeld)), ledger.StateReviewUnknownUser, notes(ledger.NotePersonDecides)},
		{"unknown user, known since", with(reviewed("UNKNOWN_USER", ledger.InRetryable)), ledger.StateReviewUnknownUser, notes(ledger.NoteTriedAgain, ledger.NoteAccountActive)},
		{"inactive user", with(isBlocked, reviewed("INACTIVE_USER", ledger.InHeld)), ledger.StateReviewInactiveUser, notes(ledger.NotePersonDecides)},
		{"passed over", with(reviewed("PASSED_OVER", ledger.InRetryable)), ledger.StateReviewPassedOver, notes(ledger.NoteTriedAgain)},
		{"bad row", with(reviewed("BAD_ROW", ledger.InRetryable)), ledger.StateReviewBadRow, notes(ledger.NoteTriedAgain)},
		{"bad row, finalised", with(reviewed("BAD_ROW", ledger.InRetryable), finalised), ledger.StateReviewBadRow, notes(ledger.NoteCouponOver)},
		{"bad row, no seat left", with(full, reviewed("BAD_ROW", ledger.InRetryable)), ledger.StateReviewBadRow, notes(ledger.NoteTriedAgain, ledger.NoteNoSeatLeft)},
		{"a person decides, no seat left", with(full, isBlocked, reviewed("INACTIVE_USER", ledger.InHeld)), ledger.StateReviewInactiveUser, notes(ledger.NotePersonDecides, ledger.NoteNoSeatLeft)},
		{"bad row, blocked since", with(isBlocked, reviewed("BAD_ROW", ledger.InRetryable)), ledger.StateReviewBadRow, notes(ledger.NoteTriedAgain, ledger.NoteAccountInactive)},
		{"database away", with(reviewed("DATABASE_AWAY", ledger.InRetryable)), ledger.StateReviewDatabaseAway, notes(ledger.NoteTriedAgain)},
		{"database away, held coupon", with(gap, reviewed("DATABASE_AWAY", ledger.InRetryable)), ledger.StateReviewDatabaseAway, notes(ledger.NoteCouponHeld)},
		{"under review of a coupon that is over", with(finalised, reviewed("DATABASE_AWAY", ledger.InRetryable)), ledger.StateReviewDatabaseAway, notes(ledger.NoteCouponOver)},
		{"by hand", with(reviewed("MALFORMED_USER_ID", ledger.InHeld)), ledger.StateReviewOther, notes(ledger.NotePersonDecides)},
		{"no reason can be read", with(application(0, stands(ledger.InHeld))), ledger.StateReviewOther, notes(ledger.NotePersonDecides)},

		{"issued", with(issued, holds(5, "ISSUED", hence(time.Hour))), ledger.StateIssued, notes(ledger.NoteUsable)},
		{"issued, expires this instant", with(issued, holds(5, "ISSUED", hence(0))), ledger.StateIssued, notes(ledger.NoteExpired)},
		{"used before it expired", with(issued, holds(5, "USED", hence(0))), ledger.StateIssued, notes(ledger.NoteUsed)},
		{"expired early", with(issued, holds(5, "EXPIRED", hence(time.Hour))), ledger.StateIssued, notes(ledger.NoteExpired)},
		{"revoked", with(issued, holds(5, "REVOKED", hence(-time.Hour))), ledger.StateIssued, notes(ledger.NoteRevoked)},
		{"issued, Redis has not heard", with(application(0, both(stands(ledger.InQueue), outcome("ISSUED"))), holds(5, "ISSUED", nil)),
			ledger.StateIssued, notes(ledger.NoteUsable, ledger.NoteShownOld)},
		{"issued, Redis has heard half", with(markedYes, application(0, both(stands(ledger.InQueue), outcome("ISSUED"))), holds(5, "ISSUED", nil)),
			ledger.StateIssued, notes(ledger.NoteUsable)},
		{"issued although some were lost", with(gap, issued, holds(5, "ISSUED", nil)), ledger.StateIssued, notes(ledger.NoteUsable)},
		{"issued, applied again", with(issued, application(time.Minute, outcome("ALREADY_ISSUED")), holds(5, "ISSUED", nil)),
			ledger.StateIssued, notes(ledger.NoteUsable, ledger.NoteAppliedAgain)},
		{"issued, waits again", with(issued, later, holds(5, "ISSUED", nil)), ledger.StateIssued, notes(ledger.NoteUsable, ledger.NoteAlsoStanding)},
		{"given by hand", with(holds(0, "ISSUED", nil)), ledger.StateIssuedByHand, notes(ledger.NoteUsable)},
		{"given by hand, not selected", with(notChosen, holds(0, "ISSUED", nil)), ledger.StateIssuedByHand, notes(ledger.NoteUsable, ledger.NoteEarlierNotSelected)},

		{"not selected", with(full, notChosen), ledger.StateNotSelected, nil},
		{"not selected, held coupon without seats", with(full, gap, notChosen), ledger.StateNotSelected, nil},
		{"not selected, still in Redis", with(full, application(0, both(stands(ledger.InQueue), outcome("NOT_SELECTED")))), ledger.StateNotSelected, notes(ledger.NoteShownOld)},
		{"not selected, its record half taken back", with(full, application(0, both(stands(ledger.InRetryable), outcome("NOT_SELECTED")))), ledger.StateNotSelected, notes(ledger.NoteShownOld)},
		{"not selected, dropped before", with(full, dropped, application(time.Minute, outcome("NOT_SELECTED"))), ledger.StateNotSelected, notes(ledger.NoteEarlierRejected)},
		{"seats were added", with(notChosen), ledger.StateSeatsFree, nil},
		{"seats were added, held coupon", with(notChosen, gap), ledger.StateSeatsFree, notes(ledger.NoteCouponHeld)},
		{"seats were added, blocked since", with(notChosen, isBlocked), ledger.StateSeatsFree, notes(ledger.NoteAccountInactive)},
		{"seats were added to a coupon that is over", with(notChosen, finalised), ledger.StateSeatsFreeOver, nil},
		{"dropped", with(dropped), ledger.StateRejectedByPerson, nil},
		{"dropped, not selected before", with(notChosen, application(time.Minute, both(refused("x"), func(a *ledger.Application) { a.Dropped = true }))), ledger.StateRejectedByPerson, notes(ledger.NoteEarlierNotSelected)},
		{"refused on return: inactive", with(application(0, refused("INACTIVE_USER: user 7 is BLOCKED"))), ledger.StateRejectedInactive, nil},
		{"refused on return: unknown", with(application(0, refused("UNKNOWN_USER: there is no user 7"))), ledger.StateRejectedUnknown, nil},
		{"refused on return: bad row", with(application(0, refused("BAD_ROW: Error 1644"))), ledger.StateRejectedBadRow, nil},
		{"rejected for another reason", with(application(0, refused(""))), ledger.StateRejectedOther, nil},
		{"held the coupon once", with(application(0, outcome("ALREADY_ISSUED"))), ledger.StateHolderNoMore, nil},
		{"held the coupon once, not selected before", with(full, notChosen, application(time.Minute, outcome("ALREADY_ISSUED"))), ledger.StateNotSelected, nil},
	} {
		got := ledger.Conclude(c.facts)
		require.Equal(t, c.state, got.State, c.name)
		require.Equal(t, notes(c.notes...), got.Notes, c.name)
		states[got.State] = true
		for _, n := range got.Notes {
			noted[n] = true
		}
	}
	for _, s := range ledger.States {
		require.Contains(t, states, s, "no case")
	}
	for _, n := range ledger.Notes {
		require.Contains(t, noted, n, "no case")
	}
}
