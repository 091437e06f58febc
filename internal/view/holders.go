package view

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// HolderChanged prints done if the coupon of a user was changed, and already if there was nothing to change. It adds
// until when the coupon is valid, unless it is revoked or used.
func (v View) HolderChanged(c *couponadmin.HolderChange, done, already text.Message) {
	if c.Changed {
		already = done
	}
	v.Println(already, c.After.ID, output.Printable(c.After.Name), c.User)
	switch c.State {
	case coupon.CouponIssued, coupon.CouponReserved:
		v.Println(text.ValidBefore, c.ExpiresAt)
	case coupon.CouponExpired:
		v.Println(text.ExpiredBefore, c.ExpiresAt)
	case coupon.CouponUsed:
		v.Println(text.UsedFor, output.Printable(c.OrderID))
	default:
	}
}

// Winners prints winners as a table.
func (v View) Winners(winners []history.Winner) {
	t := v.table(text.ColumnPlace, text.ColumnUser, text.ColumnAppliedAt, text.ColumnIssuedAt, text.ColumnValidUntil,
		text.ColumnStatus)
	for _, w := range winners {
		place := any(w.Position)
		if w.ByHand {
			place = v.Sprintf(text.ColumnIssuedByHand)
		}
		t.AppendRow(table.Row{place, w.User, v.instantOr(w.AppliedAt), v.Instant(w.IssuedAt), v.Instant(w.ExpiresAt),
			v.state(w.State)})
	}
	t.Render()
}

func (v View) instantOr(t *time.Time) string {
	if t == nil {
		return ""
	}
	return v.Instant(*t)
}

func (v View) state(s coupon.UserCouponStatus) string {
	return output.Word(v.Language, string(s))
}

// WinnersCSV writes a row for each winner that each visits. asOf is the instant of the states.
func (v View) WinnersCSV(each func(visit func(w history.Winner, asOf time.Time) error) error) (err error) {
	return errorOr(output.CSV(v.W, func(row func(cells ...any)) {
		row(v.Cells(text.CSVCouponID, text.CSVPosition, text.ColumnUser, text.CSVAppliedAt, text.CSVIssuedAt,
			text.CSVExpiresAt, text.CSVState, text.CSVGivenByHand, text.CSVStatesAsOf, text.CSVTimeZone)...)
		err = each(func(w history.Winner, asOf time.Time) error {
			row(w.Coupon, w.Position, w.User, v.SheetTime(w.AppliedAt), v.SheetTime(&w.IssuedAt),
				v.SheetTime(&w.ExpiresAt), string(w.State), w.ByHand, v.SheetTime(&asOf), v.Zone.String())
			return nil
		})
	}), &err)
}

func errorOr(writing error, reading *error) error {
	if *reading != nil {
		return *reading
	}
	return writing
}
