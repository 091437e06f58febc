package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/ledger"
)

// noon is when the facts of these tests are looked up; the user applied an hour before.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func hence(d time.Duration) *time.Time { at := noon.Add(d); return &at }

// blank are the facts about a user of whom nothing is on record, with a coupon that is open.
func blank() *explain.Facts {
	return &explain.Facts{
		Subject: explain.Subject{CouponID: 42, UserID: 7, At: noon},
		User:    explain.User{UserKnown: true, UserActive: true, UserStatus: "ACTIVE"},
		CouponSide: explain.CouponSide{
			Coupon:  &explain.CouponFacts{Name: "심야 쿠폰", Seats: 100, Issued: 60, CouponWindow: explain.CouponWindow{OpensAt: *hence(-2 * time.Hour), ClosesAt: *hence(2 * time.Hour)}},
			Door:    &explain.DoorFacts{Known: true, OpensAt: hence(-2 * time.Hour), ClosesAt: hence(2 * time.Hour), Waiting: 9},
			Account: &ledger.Account{},
		},
	}
}

type change func(f *explain.Facts)

func with(changes ...change) *explain.Facts {
	f := blank()
	for _, c := range changes {
		c(f)
	}
	return f
}

// application is one of an hour ago, or so much later.
func application(later time.Duration, set func(a *explain.Application)) change {
	at := noon.Add(-time.Hour + later)
	a := explain.Application{Arrival: at.UnixMicro(), AppliedAt: at}
	set(&a)
	return func(f *explain.Facts) { f.Applications = append(f.Applications, a) }
}

func stands(place explain.Place) func(a *explain.Application) {
	return func(a *explain.Application) { a.Place, a.Position, a.SettlesAt = place, 3, hence(3*time.Hour) }
}

func reviewed(cause string, place explain.Place) change {
	return application(0, func(a *explain.Application) {
		stands(place)(a)
		a.Position, a.Review = 0, &candidates.Reason{Cause: cause, Retryable: place == explain.InRetryable, Attempts: 1}
	})
}

func outcome(was coupon.Outcome) func(a *explain.Application) {
	return func(a *explain.Application) { a.Outcome, a.Run, a.RecordedAt = was, 5, hence(-10*time.Minute) }
}

func both(some ...func(a *explain.Application)) func(a *explain.Application) {
	return func(a *explain.Application) {
		for _, s := range some {
			s(a)
		}
	}
}

func refused(reason string) func(a *explain.Application) {
	return both(outcome("REJECTED"), func(a *explain.Application) { a.Reason = reason })
}

func holds(run uint64, status string, expires *time.Time) change {
	return func(f *explain.Facts) {
		f.UserCoupon = &explain.UserCoupon{Seat: 3, IssuedAt: *hence(-10 * time.Minute), ExpiresAt: expires, Run: run, Status: status}
	}
}

func night(status coupon.RunStatus, settled bool) change {
	return func(f *explain.Facts) {
		f.Runs = append(f.Runs, explain.RunFacts{
			RunIdentity: explain.RunIdentity{ID: uint64(len(f.Runs) + 1), Trigger: coupon.Cron, Status: status, Cutoff: *hence(-time.Minute)},
			RunRecord:   explain.RunRecord{Settled: settled},
		})
	}
}

var (
	queued    = application(0, stands(explain.InQueue))
	later     = application(time.Minute, stands(explain.InQueue))
	overdue   = application(0, both(stands(explain.InQueue), func(a *explain.Application) { a.SettlesAt = hence(0) }))
	notChosen = application(0, outcome("NOT_SELECTED"))
	issued    = application(0, outcome("ISSUED"))
	dropped   = application(0, both(refused("INACTIVE_USER: says the operator"), func(a *explain.Application) { a.Dropped = true }))
	full      = change(func(f *explain.Facts) { f.Coupon.Issued = 100 })
	noMySQL   = change(func(f *explain.Facts) {
		f.Coupon, f.Account, f.UserKnown, f.UserActive, f.UserStatus, f.NoMySQL = nil, nil, false, false, "", "away"
	})
	noRedis    = change(func(f *explain.Facts) { f.Door, f.Account, f.NoRedis = nil, nil, "away" })
	gap        = change(func(f *explain.Facts) { f.Gap = 2 })
	writtenOff = change(func(f *explain.Facts) { f.Coupon.WrittenOff = 2 })
	finalised  = change(func(f *explain.Facts) { f.Coupon.FinalisedAt = hence(-time.Minute) })
	swept      = change(func(f *explain.Facts) { f.Door = &explain.DoorFacts{} })
	nobody     = change(func(f *explain.Facts) { f.UserKnown, f.UserActive, f.UserStatus = false, false, "" })
	isBlocked  = change(func(f *explain.Facts) { f.UserActive, f.UserStatus = false, "BLOCKED" })
	markedYes  = change(func(f *explain.Facts) { f.MarkedIssued = true })
	markedNo   = change(func(f *explain.Facts) { f.MarkedRejected = true })
)

func window(opens, closes time.Duration) change {
	return func(f *explain.Facts) { f.Door.OpensAt, f.Door.ClosesAt = hence(opens), hence(closes) }
}

func notes(n ...explain.Note) []explain.Note { return append([]explain.Note{}, n...) }

func TestConclusions(t *testing.T) {
	t.Parallel()
	states, noted := map[explain.State]bool{}, map[explain.Note]bool{}
	for _, c := range []struct {
		name  string
		facts *explain.Facts
		state explain.State
		notes []explain.Note
	}{
		{"both servers away", with(noMySQL, noRedis), explain.StateUnknown, nil},
		{"MySQL away, nothing in Redis", with(noMySQL), explain.StateUnknown, nil},
		{"MySQL away, waiting: perhaps settled", with(noMySQL, queued), explain.StateAppliedUnseen, nil},
		{"MySQL away, under review", with(noMySQL, reviewed("BAD_ROW", explain.InHeld)), explain.StateAppliedUnseen, nil},
		{"MySQL away, issued and still standing", with(noMySQL, queued, markedYes), explain.StateIssuedUnseen, nil},
		{"MySQL away, rejected", with(noMySQL, markedNo), explain.StateRejectedUnseen, nil},
		{"MySQL away, rejected and applied again", with(noMySQL, markedNo, queued), explain.StateAppliedUnseen, nil},
		{"Redis away, nothing in MySQL", with(noRedis), explain.StateUnknown, nil},
		{"Redis away, nothing in MySQL, lost ones", with(noRedis, writtenOff), explain.StateUnknown, nil},
		{"Redis away, holds", with(noRedis, issued, holds(5, "ISSUED", nil)), explain.StateIssued, notes(explain.NoteUsable)},
		{"Redis away, not selected", with(noRedis, full, notChosen), explain.StateNotSelected, notes(explain.NoteLaterUnknown)},
		{"Redis away, dropped", with(noRedis, dropped), explain.StateRejectedByPerson, notes(explain.NoteLaterUnknown)},

		{"not open yet", with(window(time.Hour, 2*time.Hour)), explain.StateNeverNotOpen, nil},
		{"open", blank(), explain.StateNeverOpen, nil},
		{"opens this instant", with(window(0, time.Hour)), explain.StateNeverOpen, nil},
		{"closes this instant", with(window(-time.Hour, 0)), explain.StateNeverClosed, nil},
		{"closed and sold out", with(window(-time.Hour, 0), func(f *explain.Facts) { f.Door.Sold = true }), explain.StateNeverClosed, nil},
		{"paused", with(func(f *explain.Facts) { f.Door.Paused = true }), explain.StateNeverPaused, nil},
		{"sold out", with(full, func(f *explain.Facts) { f.Door.Sold = true }), explain.StateNeverSoldOut, nil},
		{"sold out, and seats added", with(func(f *explain.Facts) { f.Door.Sold = true }), explain.StateNeverAdded, nil},
		{"the door has not heard of a pause", with(func(f *explain.Facts) { f.Coupon.Paused = true }), explain.StateNeverOpen, nil},
		{"finalised and swept", with(finalised, swept, func(f *explain.Facts) { f.Coupon.ClosesAt = noon }), explain.StateNeverClosed, nil},
		{"not published yet", with(swept, func(f *explain.Facts) { f.Coupon.OpensAt = *hence(time.Hour) }), explain.StateNeverNotOpen, nil},
		{"Redis has forgotten the coupon", with(swept), explain.StateNotSure, nil},
		{"the coupon's row was held", with(func(f *explain.Facts) { f.Account, f.NoAccount = nil, "busy" }), explain.StateNotSure, nil},
		{"some were lost", with(gap), explain.StateMaybeLost, nil},
		{"some were lost and written off", with(writtenOff), explain.StateMaybeLost, nil},
		{"some were lost, nobody knows the user", with(gap, nobody), explain.StateMaybeLost, notes(explain.NoteAccountUnknown)},
		{"nobody knows the user", with(nobody), explain.StateNoSuchUser, nil},
		{"the door says issued, nothing is", with(markedYes, gap), explain.StateContradiction, nil},
		{"the door says rejected, nothing is", with(markedNo), explain.StateContradiction, nil},

		{"waiting", with(queued), explain.StateWaiting, nil},
		{"waiting, the account is blocked", with(queued, isBlocked), explain.StateWaiting, notes(explain.NoteAccountInactive)},
		{"waiting, nobody knows the user", with(queued, nobody), explain.StateWaiting, notes(explain.NoteAccountUnknown)},
		{"waiting and under review", with(reviewed("PASSED_OVER", explain.InRetryable), later), explain.StateWaiting, notes(explain.NoteAlsoUnderReview)},
		{"waiting, dropped before", with(dropped, later), explain.StateWaiting, notes(explain.NoteEarlierRejected)},
		{"waiting, a run at work", with(queued, night("RUNNING", false)), explain.StateWaitingSettling, nil},
		{"waiting, a run that has died", with(queued, night("ABANDONED", false)), explain.StateWaiting, nil},
		{"waiting, arrived behind the run's cutoff", with(application(59*time.Minute+time.Nanosecond, stands(explain.InQueue)), night("RUNNING", false)), explain.StateWaiting, nil},
		{"waiting, held coupon", with(overdue, gap), explain.StateWaitingHeld, nil},
		{"waiting for a coupon that is over", with(overdue, finalised), explain.StateWaitingOver, nil},
		{"left over", with(overdue), explain.StateWaitingOverdue, nil},
		{"left over by a run that failed", with(overdue, night("FAILED", false)), explain.StateWaitingRunFailed, nil},
		{"left over by a run that held it", with(overdue, night("HELD", false)), explain.StateWaitingRunFailed, nil},
		{"left over by a run that died", with(overdue, night("ABANDONED", false)), explain.StateWaitingRunFailed, nil},
		{"left over by a run that failed, and by one that did not", with(overdue, night("FAILED", false), night("SUCCEEDED", true)), explain.StateWaitingOverdue, nil},
		{"left over by a run that failed elsewhere", with(overdue, night("FAILED", true)), explain.StateWaitingOverdue, nil},
		{"left over by a run that failed, no seat left", with(full, overdue, night("FAILED", false)), explain.StateWaitingRunFailed, notes(explain.NoteNoSeatLeft)},
		{"waiting, no seat left: the state tells", with(full, queued), explain.StateWaiting, nil},
		{"waiting, not selected before", with(notChosen, later), explain.StateWaiting, notes(explain.NoteEarlierNotSelected)},

		{"unknown user", with(nobody, reviewed("UNKNOWN_USER", explain.InHeld)), explain.StateReviewUnknownUser, notes(explain.NotePersonDecides)},
		{"unknown user, known since", with(reviewed("UNKNOWN_USER", explain.InRetryable)), explain.StateReviewUnknownUser, notes(explain.NoteTriedAgain, explain.NoteAccountActive)},
		{"inactive user", with(isBlocked, reviewed("INACTIVE_USER", explain.InHeld)), explain.StateReviewInactiveUser, notes(explain.NotePersonDecides)},
		{"passed over", with(reviewed("PASSED_OVER", explain.InRetryable)), explain.StateReviewPassedOver, notes(explain.NoteTriedAgain)},
		{"bad row", with(reviewed("BAD_ROW", explain.InRetryable)), explain.StateReviewBadRow, notes(explain.NoteTriedAgain)},
		{"bad row, finalised", with(reviewed("BAD_ROW", explain.InRetryable), finalised), explain.StateReviewBadRow, notes(explain.NoteCouponOver)},
		{"bad row, no seat left", with(full, reviewed("BAD_ROW", explain.InRetryable)), explain.StateReviewBadRow, notes(explain.NoteTriedAgain, explain.NoteNoSeatLeft)},
		{"a person decides, no seat left", with(full, isBlocked, reviewed("INACTIVE_USER", explain.InHeld)), explain.StateReviewInactiveUser, notes(explain.NotePersonDecides, explain.NoteNoSeatLeft)},
		{"bad row, blocked since", with(isBlocked, reviewed("BAD_ROW", explain.InRetryable)), explain.StateReviewBadRow, notes(explain.NoteTriedAgain, explain.NoteAccountInactive)},
		{"database away", with(reviewed("DATABASE_AWAY", explain.InRetryable)), explain.StateReviewDatabaseAway, notes(explain.NoteTriedAgain)},
		{"database away, held coupon", with(gap, reviewed("DATABASE_AWAY", explain.InRetryable)), explain.StateReviewDatabaseAway, notes(explain.NoteCouponHeld)},
		{"under review of a coupon that is over", with(finalised, reviewed("DATABASE_AWAY", explain.InRetryable)), explain.StateReviewDatabaseAway, notes(explain.NoteCouponOver)},
		{"by hand", with(reviewed("MALFORMED_USER_ID", explain.InHeld)), explain.StateReviewOther, notes(explain.NotePersonDecides)},
		{"no reason can be read", with(application(0, stands(explain.InHeld))), explain.StateReviewOther, notes(explain.NotePersonDecides)},

		{"issued", with(issued, holds(5, "ISSUED", hence(time.Hour))), explain.StateIssued, notes(explain.NoteUsable)},
		{"issued, expires this instant", with(issued, holds(5, "ISSUED", hence(0))), explain.StateIssued, notes(explain.NoteExpired)},
		{"used before it expired", with(issued, holds(5, "USED", hence(0))), explain.StateIssued, notes(explain.NoteUsed)},
		{"expired early", with(issued, holds(5, "EXPIRED", hence(time.Hour))), explain.StateIssued, notes(explain.NoteExpired)},
		{"revoked", with(issued, holds(5, "REVOKED", hence(-time.Hour))), explain.StateIssued, notes(explain.NoteRevoked)},
		{"issued, Redis has not heard", with(application(0, both(stands(explain.InQueue), outcome("ISSUED"))), holds(5, "ISSUED", nil)),
			explain.StateIssued, notes(explain.NoteUsable, explain.NoteShownOld)},
		{"issued, Redis has heard half", with(markedYes, application(0, both(stands(explain.InQueue), outcome("ISSUED"))), holds(5, "ISSUED", nil)),
			explain.StateIssued, notes(explain.NoteUsable)},
		{"issued although some were lost", with(gap, issued, holds(5, "ISSUED", nil)), explain.StateIssued, notes(explain.NoteUsable)},
		{"issued, applied again", with(issued, application(time.Minute, outcome("ALREADY_ISSUED")), holds(5, "ISSUED", nil)),
			explain.StateIssued, notes(explain.NoteUsable, explain.NoteAppliedAgain)},
		{"issued, waits again", with(issued, later, holds(5, "ISSUED", nil)), explain.StateIssued, notes(explain.NoteUsable, explain.NoteAlsoStanding)},
		{"given by hand", with(holds(0, "ISSUED", nil)), explain.StateIssuedByHand, notes(explain.NoteUsable)},
		{"given by hand, not selected", with(notChosen, holds(0, "ISSUED", nil)), explain.StateIssuedByHand, notes(explain.NoteUsable, explain.NoteEarlierNotSelected)},

		{"not selected", with(full, notChosen), explain.StateNotSelected, nil},
		{"not selected, held coupon without seats", with(full, gap, notChosen), explain.StateNotSelected, nil},
		{"not selected, still in Redis", with(full, application(0, both(stands(explain.InQueue), outcome("NOT_SELECTED")))), explain.StateNotSelected, notes(explain.NoteShownOld)},
		{"not selected, its record half taken back", with(full, application(0, both(stands(explain.InRetryable), outcome("NOT_SELECTED")))), explain.StateNotSelected, notes(explain.NoteShownOld)},
		{"not selected, dropped before", with(full, dropped, application(time.Minute, outcome("NOT_SELECTED"))), explain.StateNotSelected, notes(explain.NoteEarlierRejected)},
		{"seats were added", with(notChosen), explain.StateSeatsFree, nil},
		{"seats were added, held coupon", with(notChosen, gap), explain.StateSeatsFree, notes(explain.NoteCouponHeld)},
		{"seats were added, blocked since", with(notChosen, isBlocked), explain.StateSeatsFree, notes(explain.NoteAccountInactive)},
		{"seats were added to a coupon that is over", with(notChosen, finalised), explain.StateSeatsFreeOver, nil},
		{"dropped", with(dropped), explain.StateRejectedByPerson, nil},
		{"dropped, not selected before", with(notChosen, application(time.Minute, both(refused("x"), func(a *explain.Application) { a.Dropped = true }))), explain.StateRejectedByPerson, notes(explain.NoteEarlierNotSelected)},
		{"refused on return: inactive", with(application(0, refused("INACTIVE_USER: user 7 is BLOCKED"))), explain.StateRejectedInactive, nil},
		{"refused on return: unknown", with(application(0, refused("UNKNOWN_USER: there is no user 7"))), explain.StateRejectedUnknown, nil},
		{"refused on return: bad row", with(application(0, refused("BAD_ROW: Error 1644"))), explain.StateRejectedBadRow, nil},
		{"rejected for another reason", with(application(0, refused(""))), explain.StateRejectedOther, nil},
		{"held the coupon once", with(application(0, outcome("ALREADY_ISSUED"))), explain.StateHolderNoMore, nil},
		{"held the coupon once, not selected before", with(full, notChosen, application(time.Minute, outcome("ALREADY_ISSUED"))), explain.StateNotSelected, nil},
	} {
		got := explain.Conclude(c.facts)
		require.Equal(t, c.state, got.State, c.name)
		require.Equal(t, notes(c.notes...), got.Notes, c.name)
		states[got.State] = true
		for _, n := range got.Notes {
			noted[n] = true
		}
	}
	for _, s := range explain.States {
		require.Contains(t, states, s, "no case")
	}
	for _, n := range explain.Notes {
		require.Contains(t, noted, n, "no case")
	}
}
