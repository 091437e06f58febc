package explain_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/ledger"
)

// noon is the time of the facts; the user applied an hour before.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func hence(d time.Duration) *time.Time { at := noon.Add(d); return &at }

// blank are the facts about an active user without applications and an open coupon.
func blank() *explain.Facts {
	return &explain.Facts{
		Subject: explain.Subject{CouponID: 42, UserID: 7, At: noon},
		User:    explain.User{UserKnown: true, UserActive: true, UserStatus: "ACTIVE"},
		CouponSide: explain.CouponSide{
			Coupon: &explain.CouponFacts{Name: "심야 쿠폰", Seats: 100, Issued: 60,
				CouponWindow: explain.CouponWindow{OpensAt: *hence(-2 * time.Hour), ClosesAt: *hence(2 * time.Hour)}},
			Published: &explain.PublishedWindow{Known: true, OpensAt: hence(-2 * time.Hour),
				ClosesAt: hence(2 * time.Hour), Waiting: 9},
			Account: &ledger.Account{Line: coupon.Line{Since: 1, Restored: true}},
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

// application adds an application of an hour ago, or that much later.
func application(later time.Duration, set ...func(a *explain.Application)) change {
	at := noon.Add(-time.Hour + later)
	a := explain.Application{Arrival: coupon.ArrivalAt(at), AppliedAt: at}
	for _, s := range set {
		s(&a)
	}
	return func(f *explain.Facts) { f.Applications = append(f.Applications, a) }
}

func placed(place explain.Place) func(a *explain.Application) {
	return func(a *explain.Application) { a.Place, a.Position, a.SettlesAt = place, 3, hence(3*time.Hour) }
}

func reviewed(cause string, place explain.Place) change {
	return application(0, func(a *explain.Application) {
		placed(place)(a)
		a.Position, a.Review = 0, &candidates.Reason{Cause: cause, Retryable: place == explain.InRetryable, Attempts: 1}
	})
}

func outcome(o coupon.Outcome) func(a *explain.Application) {
	return func(a *explain.Application) { a.Outcome, a.Run, a.RecordedAt = o, 5, hence(-10*time.Minute) }
}

func rejected(cause coupon.Cause) func(a *explain.Application) {
	return func(a *explain.Application) {
		outcome("REJECTED")(a)
		a.Cause, a.Note = cause, "BAD_ROW: words of somebody"
	}
}

// decidedAt sets the cutoff of the run that decided the last application.
func decidedAt(later time.Duration) change {
	return func(f *explain.Facts) {
		a := &f.Applications[len(f.Applications)-1]
		a.Cutoff = a.AppliedAt.Add(later)
	}
}

func lost(a *explain.Application) { a.Lost = true }

func hasCoupon(run coupon.RunID, status coupon.UserCouponStatus, expires *time.Time, log ...explain.LogEntry) change {
	return func(f *explain.Facts) {
		f.UserCoupon = &explain.UserCoupon{Seat: 3, IssuedAt: *hence(-10 * time.Minute),
			ExpiresAt: *cmp.Or(expires, hence(time.Hour)), Run: run, Status: status, AsOf: noon, Log: log}
	}
}

// ordered says until when the order that has the coupon has reserved it.
func ordered(until time.Duration) change {
	return func(f *explain.Facts) { f.UserCoupon.Order = &explain.Order{ID: "A-1", ReservedUntil: *hence(until)} }
}

var refund = explain.LogEntry{Seq: 1, Kind: coupon.LogRefunded, OrderID: "A-0"}

// soldOutRun is an earlier run that found no seat for the application.
func soldOutRun(last time.Duration) change {
	return func(f *explain.Facts) {
		f.Runs = append(f.Runs, explain.RunFacts{
			RunIdentity: explain.RunIdentity{ID: 4, Trigger: coupon.Cron, Status: coupon.RunSucceeded,
				Cutoff: *hence(-30 * time.Minute), StartedAt: *hence(-29 * time.Minute)},
			RunRecord: explain.RunRecord{Settled: true, Issued: 3, NotSelected: 1,
				LastArrival: coupon.ArrivalAt(*hence(-time.Hour + last))},
		})
	}
}

func nightlyRun(status coupon.RunStatus, settled bool) change {
	return func(f *explain.Facts) {
		f.Runs = append(f.Runs, explain.RunFacts{
			RunIdentity: explain.RunIdentity{ID: coupon.RunID(len(f.Runs) + 1), Trigger: coupon.Cron, Status: status,
				Cutoff: *hence(-time.Minute)},
			RunRecord: explain.RunRecord{Settled: settled},
		})
	}
}

var (
	queued      = application(0, placed(explain.InQueue))
	later       = application(time.Minute, placed(explain.InQueue))
	overdue     = application(0, placed(explain.InQueue), func(a *explain.Application) { a.SettlesAt = hence(0) })
	notSelected = application(0, outcome("NOT_SELECTED"))
	issued      = application(0, outcome("ISSUED"))
	dropped     = application(0, rejected(""))
	justNow     = application(time.Hour-time.Second, placed(explain.InQueue),
		func(a *explain.Application) { a.SettlesAt = nil })
	immediate = change(func(f *explain.Facts) { f.Coupon.Cadence = coupon.Immediate })
	frozen    = change(func(f *explain.Facts) { f.Coupon.Frozen = true })
	full      = change(func(f *explain.Facts) { f.Coupon.Issued = 100 })
	noMySQL   = change(func(f *explain.Facts) {
		f.Coupon, f.Account, f.UserKnown, f.UserActive, f.UserStatus, f.NoMySQL = nil, nil, false, false, "", "away"
	})
	noRedis        = change(func(f *explain.Facts) { f.Published, f.Account, f.NoRedis = nil, nil, "away" })
	gap            = change(func(f *explain.Facts) { f.Gap = 2 })
	onlyJournalled = change(func(f *explain.Facts) { f.Applications = []explain.Application{{Arrival: 1, Lost: true}} })
	writtenOff     = change(func(f *explain.Facts) { f.Coupon.WrittenOff = 2 })
	finalised      = change(func(f *explain.Facts) { f.Coupon.FinalisedAt = hence(-time.Minute) })
	swept          = change(func(f *explain.Facts) { f.Published = &explain.PublishedWindow{} })
	unknownUser    = change(func(f *explain.Facts) { f.UserKnown, f.UserActive, f.UserStatus = false, false, "" })
	blocked        = change(func(f *explain.Facts) { f.UserActive, f.UserStatus = false, "BLOCKED" })
	markedYes      = change(func(f *explain.Facts) { f.MarkedIssued = true })
	markedNo       = change(func(f *explain.Facts) { f.MarkedRejected = true })
)

func window(opens, closes time.Duration) change {
	return func(f *explain.Facts) { f.Published.OpensAt, f.Published.ClosesAt = hence(opens), hence(closes) }
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
		{"MySQL away, waiting", with(noMySQL, queued), explain.StateAppliedUnseen, nil},
		{"MySQL away, in the DLQ", with(noMySQL, reviewed("BAD_ROW", explain.InHeld)), explain.StateAppliedUnseen, nil},
		{"MySQL away, issued, clean-up pending", with(noMySQL, queued, markedYes), explain.StateIssuedUnseen, nil},
		{"MySQL away, rejected", with(noMySQL, markedNo), explain.StateRejectedUnseen, nil},
		{"MySQL away, rejected and applied again", with(noMySQL, markedNo, queued), explain.StateAppliedUnseen, nil},
		{"Redis away, nothing in MySQL", with(noRedis), explain.StateUnknown, nil},
		{"Redis away, nothing in MySQL, promises lost", with(noRedis, writtenOff), explain.StateUnknown, nil},
		{"Redis away, has the coupon", with(noRedis, issued, hasCoupon(5, "ISSUED", nil)), explain.StateIssued,
			notes(explain.NoteUsable)},
		{"Redis away, not selected", with(noRedis, full, notSelected), explain.StateNotSelected,
			notes(explain.NoteLaterUnknown)},
		{"Redis away, dropped", with(noRedis, dropped), explain.StateRejectedByPerson, notes(explain.NoteLaterUnknown)},

		{"not open yet", with(window(time.Hour, 2*time.Hour)), explain.StateNeverNotOpen, nil},
		{"open", blank(), explain.StateNeverOpen, nil},
		{"opens now", with(window(0, time.Hour)), explain.StateNeverOpen, nil},
		{"closes now", with(window(-time.Hour, 0)), explain.StateNeverClosed, nil},
		{"closed and sold out", with(window(-time.Hour, 0), func(f *explain.Facts) { f.Published.Sold = true }),
			explain.StateNeverClosed, nil},
		{"paused", with(func(f *explain.Facts) { f.Published.Paused = true }), explain.StateNeverPaused, nil},
		{"sold out", with(full, func(f *explain.Facts) { f.Published.Sold = true }), explain.StateNeverSoldOut, nil},
		{"sold out, and seats added", with(func(f *explain.Facts) { f.Published.Sold = true }), explain.StateNeverAdded,
			nil},
		{"line full", with(func(f *explain.Facts) { f.Coupon.LineLimit = 9 }), explain.StateNeverLineFull, nil},
		{"one more may join the line", with(func(f *explain.Facts) { f.Coupon.LineLimit = 10 }), explain.StateNeverOpen,
			nil},
		{"line full, sold out", with(full, func(f *explain.Facts) { f.Coupon.LineLimit, f.Published.Sold = 9, true }),
			explain.StateNeverSoldOut, nil},
		{"paused, not yet in Redis", with(func(f *explain.Facts) { f.Coupon.Paused = true }), explain.StateNeverOpen,
			nil},
		{"finalised and swept", with(finalised, swept, func(f *explain.Facts) { f.Coupon.ClosesAt = noon }),
			explain.StateNeverClosed, nil},
		{"not published yet", with(swept, func(f *explain.Facts) { f.Coupon.OpensAt = *hence(time.Hour) }),
			explain.StateNeverNotOpen, nil},
		{"not in Redis", with(swept), explain.StateNotSure, nil},
		{"a restore is due", with(func(f *explain.Facts) { f.Account.Line.Restored = false }), explain.StateNotSure,
			nil},
		{"users were handed over", with(func(f *explain.Facts) { f.Account.Line.Returned = 1 }), explain.StateNotSure,
			nil},
		{"a restore is due, not open yet", with(func(f *explain.Facts) {
			f.Account.Line, f.Published.OpensAt = coupon.Line{}, hence(time.Minute)
		}), explain.StateNeverNotOpen, nil},
		{"a restore is due, finalised", with(finalised, func(f *explain.Facts) { f.Account.Line = coupon.Line{} }),
			explain.StateNeverOpen, nil},
		{"the coupon's row is locked", with(func(f *explain.Facts) { f.Account, f.NoAccount = nil, "busy" }),
			explain.StateNotSure, nil},
		{"promises lost", with(gap), explain.StateMaybeLost, nil},
		{"promises lost, and this one is in the journal", with(gap, onlyJournalled), explain.StateLost, nil},
		{"not selected, applied again, and lost", with(full, notSelected, application(time.Minute, lost)),
			explain.StateLost, notes(explain.NoteEarlierNotSelected)},
		{"not selected, of which the journal has an old row", with(full, notSelected, application(-time.Minute, lost)),
			explain.StateNotSelected, nil},
		{"dropped, of which the journal has a later row", with(dropped, application(time.Minute, lost)),
			explain.StateRejectedByPerson, nil},
		{"promises lost and written off", with(writtenOff), explain.StateMaybeLost, nil},
		{"promises unknown", with(func(f *explain.Facts) { f.Coupon.Unfound = 1 }), explain.StateMaybeLost, nil},
		{"not selected by a run after the row of the journal", with(full, notSelected, decidedAt(time.Hour),
			application(time.Minute, lost)), explain.StateNotSelected, nil},
		{"promises lost, unknown user", with(gap, unknownUser), explain.StateMaybeLost,
			notes(explain.NoteAccountUnknown)},
		{"unknown user, no application", with(unknownUser), explain.StateNoSuchUser, nil},
		{"marked as issued without a coupon", with(markedYes, gap), explain.StateContradiction, nil},
		{"marked as rejected without an outcome", with(markedNo), explain.StateContradiction, nil},

		{"waiting", with(queued), explain.StateWaiting, nil},
		{"waiting, the account is blocked", with(queued, blocked), explain.StateWaiting,
			notes(explain.NoteAccountInactive)},
		{"waiting, unknown user", with(queued, unknownUser), explain.StateWaiting, notes(explain.NoteAccountUnknown)},
		{"waiting and in the DLQ", with(reviewed("PASSED_OVER", explain.InRetryable), later), explain.StateWaiting,
			notes(explain.NoteAlsoUnderReview)},
		{"waiting, dropped before", with(dropped, later), explain.StateWaiting, notes(explain.NoteEarlierRejected)},
		{"waiting, a run under way", with(queued, nightlyRun("RUNNING", false)), explain.StateWaitingSettling, nil},
		{"waiting, an abandoned run", with(queued, nightlyRun("ABANDONED", false)), explain.StateWaiting, nil},
		{"waiting, arrived after the run's cutoff",
			with(application(59*time.Minute+time.Nanosecond, placed(explain.InQueue)), nightlyRun("RUNNING", false)),
			explain.StateWaiting, nil},
		{"waiting, promises lost", with(overdue, gap), explain.StateWaitingHeld, nil},
		{"waiting, finalised", with(overdue, finalised), explain.StateWaitingOver, nil},
		{"overdue", with(overdue), explain.StateWaitingOverdue, nil},
		{"overdue after a failed run", with(overdue, nightlyRun("FAILED", false)), explain.StateWaitingRunFailed, nil},
		{"overdue after a held run", with(overdue, nightlyRun("HELD", false)), explain.StateWaitingRunFailed, nil},
		{"overdue after an abandoned run", with(overdue, nightlyRun("ABANDONED", false)), explain.StateWaitingRunFailed,
			nil},
		{"overdue after a failed and a successful run",
			with(overdue, nightlyRun("FAILED", false), nightlyRun("SUCCEEDED", true)), explain.StateWaitingOverdue,
			nil},
		{"overdue after a run that failed with other coupons", with(overdue, nightlyRun("FAILED", true)),
			explain.StateWaitingOverdue, nil},
		{"overdue after a failed run, no seat left", with(full, overdue, nightlyRun("FAILED", false)),
			explain.StateWaitingRunFailed, notes(explain.NoteNoSeatLeft)},
		{"waiting, no seat left", with(full, queued), explain.StateWaiting, nil},
		{"immediate, just applied", with(immediate, justNow), explain.StateWaitingImmediate, nil},
		{"immediate, just applied, no seat left", with(immediate, full, justNow), explain.StateWaitingImmediate, nil},
		{"immediate, a run under way", with(immediate, queued, nightlyRun("RUNNING", false)),
			explain.StateWaitingSettling, nil},
		{"immediate, waiting too long", with(immediate, queued), explain.StateWaitingDelayed, nil},
		{"immediate, waiting too long, no seat left", with(immediate, full, queued), explain.StateWaitingDelayed,
			notes(explain.NoteNoSeatLeft)},
		{"immediate, overdue", with(immediate, overdue), explain.StateWaitingOverdue, nil},
		{"immediate, promises lost", with(immediate, gap, justNow), explain.StateWaitingHeld, nil},
		{"immediate and frozen", with(immediate, frozen, justNow), explain.StateWaitingFrozen, nil},
		{"frozen", with(frozen, queued), explain.StateWaitingFrozen, nil},
		{"frozen, a run under way", with(frozen, queued, nightlyRun("RUNNING", false)), explain.StateWaitingFrozen,
			nil},
		{"frozen, promises lost", with(frozen, gap, overdue), explain.StateWaitingFrozen, nil},
		{"frozen and finalised", with(frozen, finalised, overdue), explain.StateWaitingOver,
			notes(explain.NoteCouponFrozen)},
		{"frozen, in the DLQ", with(frozen, gap, reviewed("DATABASE_AWAY", explain.InRetryable)),
			explain.StateReviewDatabaseAway, notes(explain.NoteCouponFrozen)},
		{"frozen, an operator decides", with(frozen, reviewed("BAD_ROW", explain.InHeld)), explain.StateReviewBadRow,
			notes(explain.NotePersonDecides)},
		{"frozen, seats added", with(frozen, gap, notSelected), explain.StateSeatsFree,
			notes(explain.NoteCouponFrozen)},
		{"frozen, issued before", with(frozen, issued, hasCoupon(5, "ISSUED", nil)), explain.StateIssued,
			notes(explain.NoteUsable)},
		{"frozen, no application", with(frozen), explain.StateNeverOpen, nil},

		{"waiting, not selected before", with(notSelected, later), explain.StateWaiting,
			notes(explain.NoteEarlierNotSelected)},

		{"unknown user in the DLQ", with(unknownUser, reviewed("UNKNOWN_USER", explain.InHeld)),
			explain.StateReviewUnknownUser, notes(explain.NotePersonDecides)},
		{"unknown user in the DLQ, known since", with(reviewed("UNKNOWN_USER", explain.InRetryable)),
			explain.StateReviewUnknownUser, notes(explain.NoteTriedAgain, explain.NoteAccountActive)},
		{"inactive user in the DLQ", with(blocked, reviewed("INACTIVE_USER", explain.InHeld)),
			explain.StateReviewInactiveUser, notes(explain.NotePersonDecides)},
		{"passed over", with(reviewed("PASSED_OVER", explain.InRetryable)), explain.StateReviewPassedOver,
			notes(explain.NoteTriedAgain)},
		{"bad row", with(reviewed("BAD_ROW", explain.InRetryable)), explain.StateReviewBadRow,
			notes(explain.NoteTriedAgain)},
		{"bad row, finalised", with(reviewed("BAD_ROW", explain.InRetryable), finalised), explain.StateReviewBadRow,
			notes(explain.NoteCouponOver)},
		{"bad row, no seat left", with(full, reviewed("BAD_ROW", explain.InRetryable)), explain.StateReviewBadRow,
			notes(explain.NoteTriedAgain, explain.NoteNoSeatLeft)},
		{"inactive user in the DLQ, no seat left", with(full, blocked, reviewed("INACTIVE_USER", explain.InHeld)),
			explain.StateReviewInactiveUser, notes(explain.NotePersonDecides, explain.NoteNoSeatLeft)},
		{"bad row, blocked since", with(blocked, reviewed("BAD_ROW", explain.InRetryable)), explain.StateReviewBadRow,
			notes(explain.NoteTriedAgain, explain.NoteAccountInactive)},
		{"database away", with(reviewed("DATABASE_AWAY", explain.InRetryable)), explain.StateReviewDatabaseAway,
			notes(explain.NoteTriedAgain)},
		{"database away, promises lost", with(gap, reviewed("DATABASE_AWAY", explain.InRetryable)),
			explain.StateReviewDatabaseAway, notes(explain.NoteCouponHeld)},
		{"database away, finalised", with(finalised, reviewed("DATABASE_AWAY", explain.InRetryable)),
			explain.StateReviewDatabaseAway, notes(explain.NoteCouponOver)},
		{"added to the DLQ by hand", with(reviewed("MALFORMED_USER_ID", explain.InHeld)), explain.StateReviewOther,
			notes(explain.NotePersonDecides)},
		{"unreadable reason", with(application(0, placed(explain.InHeld))), explain.StateReviewOther,
			notes(explain.NotePersonDecides)},

		{"issued", with(issued, hasCoupon(5, "ISSUED", hence(time.Hour))), explain.StateIssued,
			notes(explain.NoteUsable)},
		{"issued, expires now", with(issued, hasCoupon(5, "ISSUED", hence(0))), explain.StateIssued,
			notes(explain.NoteExpired)},
		{"used before it expired", with(issued, hasCoupon(5, "USED", hence(0))), explain.StateIssued,
			notes(explain.NoteUsed)},
		{"reserved", with(issued, hasCoupon(5, "RESERVED", hence(time.Hour)), ordered(time.Microsecond)),
			explain.StateIssued, notes(explain.NoteReserved)},
		{"reserved, validity over", with(issued, hasCoupon(5, "RESERVED", hence(0)), ordered(time.Microsecond)),
			explain.StateIssued, notes(explain.NoteReserved)},
		{"the reservation runs out now", with(issued, hasCoupon(5, "RESERVED", hence(time.Hour)), ordered(0)),
			explain.StateIssued, notes(explain.NoteUsable)},
		{"ran out, and expired", with(issued, hasCoupon(5, "RESERVED", hence(0)), ordered(0)), explain.StateIssued,
			notes(explain.NoteExpired)},
		{"refunded", with(issued, hasCoupon(5, "ISSUED", hence(time.Hour), refund)), explain.StateIssued,
			notes(explain.NoteRefunded, explain.NoteUsable)},
		{"refunded, expired", with(issued, hasCoupon(5, "ISSUED", hence(0), refund)), explain.StateIssued,
			notes(explain.NoteRefunded, explain.NoteExpired)},
		{"refunded, reserved again", with(issued, hasCoupon(5, "RESERVED", nil, refund), ordered(1000)),
			explain.StateIssued, notes(explain.NoteRefunded, explain.NoteReserved)},
		{"refunded, used again", with(issued, hasCoupon(5, "USED", nil, refund), ordered(0)), explain.StateIssued,
			notes(explain.NoteRefunded, explain.NoteUsed)},
		{"refunded, revoked", with(issued, hasCoupon(5, "REVOKED", nil, refund)), explain.StateIssued,
			notes(explain.NoteRefunded, explain.NoteRevoked)},
		{"issued later", with(soldOutRun(-1000), issued, hasCoupon(5, "ISSUED", nil)), explain.StateIssued,
			notes(explain.NoteSeatLater, explain.NoteUsable)},
		{"passed over at first", with(soldOutRun(1000), issued, hasCoupon(5, "ISSUED", nil)), explain.StateIssued,
			notes(explain.NoteUsable)},
		{"revoked", with(issued, hasCoupon(5, "REVOKED", hence(-time.Hour))), explain.StateIssued,
			notes(explain.NoteRevoked)},
		{"issued, clean-up pending", with(application(0, placed(explain.InQueue), outcome("ISSUED")),
			hasCoupon(5, "ISSUED", nil)), explain.StateIssued, notes(explain.NoteUsable, explain.NoteShownOld)},
		{"issued, clean-up half done", with(markedYes, application(0, placed(explain.InQueue), outcome("ISSUED")),
			hasCoupon(5, "ISSUED", nil)), explain.StateIssued, notes(explain.NoteUsable)},
		{"issued, promises lost", with(gap, issued, hasCoupon(5, "ISSUED", nil)), explain.StateIssued,
			notes(explain.NoteUsable)},
		{"issued, applied again", with(issued, application(time.Minute, outcome("ALREADY_ISSUED")),
			hasCoupon(5, "ISSUED", nil)), explain.StateIssued, notes(explain.NoteUsable, explain.NoteAppliedAgain)},
		{"issued, waits again", with(issued, later, hasCoupon(5, "ISSUED", nil)), explain.StateIssued,
			notes(explain.NoteUsable, explain.NoteAlsoStanding)},
		{"given by hand", with(hasCoupon(0, "ISSUED", nil)), explain.StateIssuedByHand, notes(explain.NoteUsable)},
		{"given by hand, not selected", with(notSelected, hasCoupon(0, "ISSUED", nil)), explain.StateIssuedByHand,
			notes(explain.NoteUsable, explain.NoteEarlierNotSelected)},

		{"not selected", with(full, notSelected), explain.StateNotSelected, nil},
		{"not selected, promises lost, no seat left", with(full, gap, notSelected), explain.StateNotSelected, nil},
		{"not selected, clean-up pending", with(full, application(0, placed(explain.InQueue), outcome("NOT_SELECTED"))),
			explain.StateNotSelected, notes(explain.NoteShownOld)},
		{"not selected, half moved to the DLQ", with(full,
			application(0, placed(explain.InRetryable), outcome("NOT_SELECTED"))), explain.StateNotSelected,
			notes(explain.NoteShownOld)},
		{"not selected, dropped before", with(full, dropped, application(time.Minute, outcome("NOT_SELECTED"))),
			explain.StateNotSelected, notes(explain.NoteEarlierRejected)},
		{"seats added", with(notSelected), explain.StateSeatsFree, nil},
		{"seats added, promises lost", with(notSelected, gap), explain.StateSeatsFree, notes(explain.NoteCouponHeld)},
		{"seats added, blocked since", with(notSelected, blocked), explain.StateSeatsFree,
			notes(explain.NoteAccountInactive)},
		{"seats added after it was finalised", with(notSelected, finalised), explain.StateSeatsFreeOver, nil},
		{"dropped", with(dropped), explain.StateRejectedByPerson, nil},
		{"dropped, not selected before", with(notSelected, application(time.Minute, rejected(""))),
			explain.StateRejectedByPerson, notes(explain.NoteEarlierNotSelected)},
		{"rejected: inactive user", with(application(0, rejected(coupon.CauseInactiveUser))),
			explain.StateRejectedInactive, nil},
		{"rejected: unknown user", with(application(0, rejected(coupon.CauseUnknownUser))),
			explain.StateRejectedUnknown, nil},
		{"rejected: bad row", with(application(0, rejected(coupon.CauseBadRow))), explain.StateRejectedBadRow, nil},
		{"rejected for another reason", with(application(0, rejected("FROM_TOMORROW"))), explain.StateRejectedOther,
			nil},
		{"ALREADY_ISSUED without a coupon", with(application(0, outcome("ALREADY_ISSUED"))), explain.StateHolderNoMore,
			nil},
		{"ALREADY_ISSUED without a coupon, not selected before",
			with(full, notSelected, application(time.Minute, outcome("ALREADY_ISSUED"))), explain.StateNotSelected,
			nil},
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

// With an entry in the queue and an earlier one in the DLQ, Redis lets the user wait: so says apply-api, and so says
// explain, whether MySQL can be reached or not.
func TestConclude_TheQueueGoesBeforeAnEarlierDLQEntry(t *testing.T) {
	t.Parallel()
	for state, facts := range map[explain.State]*explain.Facts{
		explain.StateWaiting:       with(reviewed("BAD_ROW", explain.InHeld), later),
		explain.StateAppliedUnseen: with(noMySQL, reviewed("BAD_ROW", explain.InHeld), later),
	} {
		got := explain.Conclude(facts)
		require.Equal(t, state, got.State)
		require.Equal(t, explain.InQueue, got.Application.Place)
	}
}
