package cli

import (
	"cmp"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// actions are the actions of audit_event.
var actions = map[audit.Action]text.Message{
	"GAP_HELD":             text.ActionGapHeld,
	"GAP_ACCEPTED":         text.ActionGapAccepted,
	"DLQ_RETRIED":          text.ActionRetried,
	"DLQ_DROPPED":          text.ActionDropped,
	"SETTLED_BY_HAND":      text.ActionSettledByHand,
	"COUPON_CREATED":       text.ActionCouponCreated,
	"COUPON_CLOSED":        text.ActionCouponClosed,
	"COUPON_EXTENDED":      text.ActionCouponExtended,
	"COUPON_PAUSED":        text.ActionCouponPaused,
	"COUPON_RESUMED":       text.ActionCouponResumed,
	"COUPON_SEATS_CHANGED": text.ActionSeatsChanged,
	"COUNT_HELD":           text.ActionCountHeld,
	"COUPON_RECOUNTED":     text.ActionRecounted,
	"COUPON_UNFINALISED":   text.ActionUnfinalised,
}

var statuses = map[history.CouponStatus]text.Message{
	history.Scheduled: text.CouponScheduled,
	history.Open:      text.CouponOpen,
	history.Paused:    text.CouponPaused,
	history.Closed:    text.CouponClosed,
	history.Finalised: text.CouponFinalised,
}

var causes = map[coupon.Cause]text.Message{
	coupon.CauseUnknownUser:  text.CauseUnknownUser,
	coupon.CauseInactiveUser: text.CauseInactiveUser,
	coupon.CauseMalformed:    text.CauseMalformed,
	coupon.CausePassedOver:   text.CausePassedOver,
	coupon.CauseBadRow:       text.CauseBadRow,
	coupon.CauseDatabaseAway: text.CauseDatabaseAway,
}

// codes are the statuses and triggers of runs and the results of coupons.
var codes = map[string]text.Message{
	string(coupon.Settled):      text.ResultSettled,
	string(coupon.Unchanged):    text.ResultUnchanged,
	string(coupon.NotDue):       text.ResultNotDue,
	string(coupon.HeldBack):     text.ResultHeld,
	string(coupon.Busy):         text.ResultBusy,
	string(coupon.Failed):       text.ResultFailed,
	string(coupon.RunRunning):   text.RunRunning,
	string(coupon.RunSucceeded): text.RunSucceeded,
	string(coupon.RunAbandoned): text.RunAbandoned,
	string(coupon.Cron):         text.TriggerCron,
	string(coupon.Manual):       text.TriggerManual,
	string(coupon.DLQRetry):     text.TriggerRetry,
}

// code translates a code for people; one of another version of the program stays as it is.
func (p *program) code(code string) string {
	if m, ok := codes[code]; ok {
		return m.In(p.language)
	}
	return output.Printable(code)
}

// action translates an action; one of another version of the program stays as it is.
func (p *program) action(action audit.Action) string {
	if m, ok := actions[action]; ok {
		return m.In(p.language)
	}
	return output.Printable(string(action))
}

// cause translates a cause; it is empty for one of another version of the program.
func (p *program) cause(cause string) string { return causes[coupon.Cause(cause)].In(p.language) }

// causeAndCode is a cause with its code.
func (p *program) causeAndCode(cause string) string {
	if words := p.cause(cause); words != "" {
		return words + " (" + cause + ")"
	}
	return cmp.Or(output.Printable(cause), "?")
}
