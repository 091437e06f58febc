package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// Changed prints done if the coupon was changed, and already if there was nothing to change.
func (v View) Changed(c *couponadmin.Change, done, already text.Message) {
	switch {
	case !c.Changed:
		done = already
	case c.PublishErr != nil:
		done = text.ChangeRecorded
	}
	v.Println(done, c.After.ID, output.Printable(c.After.Name))
}

func (v View) Closed(c *couponadmin.Change) {
	v.Println(text.ClosedNow, c.After.ClosesAt, c.Before.ClosesAt)
}

func (v View) Edited(c *couponadmin.Change) { v.changes(c.Plan) }

func (v View) Extended(c *couponadmin.Change) {
	v.Println(text.ClosesAt, v.WithOffset(c.After.ClosesAt), v.WithOffset(c.Before.ClosesAt))
	accepted := ""
	if !c.Before.ClosesAt.After(c.At) {
		accepted = v.Sprintf(text.OpenAgain)
	}
	v.answer(c, accepted)
}

func (v View) Resumed(c *couponadmin.Change) {
	v.answer(c, v.Sprintf(text.TakesApplications))
}

// answer prints how new applications are answered. It prints nothing if the change may not have reached Redis.
func (v View) answer(c *couponadmin.Change, accepted string) {
	if answer := cmp.Or(v.refusal(c), accepted); answer != "" && c.PublishErr == nil {
		fmt.Fprintln(v.W, answer)
	}
}

// refusal says why new applications are refused. It is empty if they are accepted.
func (v View) refusal(c *couponadmin.Change) string {
	is := c.After
	switch {
	case is.Paused():
		return v.Sprintf(text.NewcomersPaused)
	case !is.ClosesAt.After(c.At):
		return v.Sprintf(text.NewcomersClosed, is.ClosesAt)
	case is.OpensAt.After(c.At):
		return v.Sprintf(text.ApplicationsOpenAt, is.OpensAt)
	case c.SoldOut && is.TotalQuantity == is.IssuedCount:
		return v.Sprintf(text.NewcomersSoldOut)
	case c.SoldOut && is.Frozen:
		return v.Sprintf(text.NewcomersSoldOutUntilRun) + "\n" + v.Sprintf(text.FrozenUntilUnfreeze, is.ID)
	case c.SoldOut && reopensAtOnce(is):
		return v.Sprintf(text.NewcomersSoldOutUntilRun) + "\n" + v.Sprintf(text.SettledWithinSeconds)
	case c.SoldOut:
		return v.Sprintf(text.NewcomersSoldOutUntilRun) + "\n" + v.Sprintf(text.SettleNow, is.ID)
	default:
		return ""
	}
}

// reopensAtOnce reports whether settle serve settles the coupon because it has free seats, although Redis answers
// SOLD_OUT. It does not if no seat is taken.
func reopensAtOnce(c coupon.Coupon) bool { return c.Immediate() && c.IssuedCount > 0 }

func (v View) Recounted(c *couponadmin.Change) {
	v.Println(text.Recounted, c.After.IssuedCount, c.Before.IssuedCount, c.After.TotalQuantity,
		c.After.TotalQuantity-c.After.IssuedCount)
}

// SeatsChanged prints the number of seats and who gets the free ones. night is the time of the next nightly run.
func (v View) SeatsChanged(c *couponadmin.Change, night time.Time) {
	left := c.After.TotalQuantity - c.After.IssuedCount
	closed := !c.After.ClosesAt.After(c.At)
	v.Println(text.SeatsNow, c.After.TotalQuantity, c.Before.TotalQuantity, c.After.IssuedCount, left)
	switch {
	case left == 0:
	case c.After.Frozen:
		v.Println(text.FrozenUntilUnfreeze, c.After.ID)
	case c.NotSelected > 0 && c.After.Immediate():
		v.Println(text.SeatsForNotSelectedAtOnce, c.NotSelected, night)
	case c.NotSelected > 0:
		v.Println(text.SeatsForNotSelected, c.NotSelected, night)
		v.Println(text.SettleNow, c.After.ID)
	case !c.After.FinalisedAt.IsZero():
		v.Println(text.SeatsForNobody)
	case c.After.Immediate() && (closed || !c.SoldOut):
		v.Println(text.SeatsForImmediate, night)
	case closed:
		v.Println(text.SeatsAfterClosing, night)
	case c.PublishErr != nil: // Redis may not have the change, so the answer to new applications is unknown
	case c.SoldOut && reopensAtOnce(c.After):
		v.Println(text.SeatsAfterSoldOutAtOnce, night)
	case c.SoldOut:
		v.Println(text.SeatsAfterSoldOut, night)
		v.Println(text.SettleNow, c.After.ID)
	default:
		v.Println(text.SeatsForQueue, night)
	}
}

func (v View) CadenceChanged(c *couponadmin.Change) {
	v.Println(text.CadenceNow, v.cadence(c.After.Cadence), v.cadence(c.Before.Cadence))
	if c.After.Paused() {
		v.Println(text.WaitToResume)
	}
}

// SettledFromNow says how new applications are settled from now on. night is the time of the next nightly run.
func (v View) SettledFromNow(c *couponadmin.Change, night time.Time) {
	switch {
	case c.After.Finalised():
	case c.After.Frozen:
		v.Println(text.FrozenUntilUnfreeze, c.After.ID)
	case c.After.Immediate():
		v.Println(text.SettledAtOnce)
	default:
		v.Println(text.SettledAtNight, night)
	}
}

func (v View) cadence(c coupon.Cadence) string {
	if c == coupon.Immediate {
		return v.Sprintf(text.CadenceImmediate)
	}
	return v.Sprintf(text.CadenceNightly)
}
