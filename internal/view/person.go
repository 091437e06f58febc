package view

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/text"
)

// outcomes names the outcomes of applications that ended without a coupon.
var outcomes = map[coupon.Outcome]text.Message{
	coupon.OutcomeNotSelected: text.ColumnNotSelected, coupon.OutcomeRejected: text.ColumnRejected,
	coupon.OutcomeAlreadyIssued: text.EventAlreadyHeld,
}

// Person prints a line for each coupon and application of a user.
func (v View) Person(p *privacy.Person) {
	if len(p.Coupons)+len(p.Applications)+len(p.Undecided) == 0 {
		nothing := text.NothingOfUser
		if p.RedisUnknown {
			nothing = text.NothingOfUserInMySQL
		}
		v.Println(nothing, p.User)
		return
	}
	t := v.table(text.ColumnCoupon, text.ColumnName, text.ColumnAppliedAt, text.ColumnResult, text.ColumnValidUntil,
		text.ColumnOrder)
	for _, u := range p.Undecided {
		result := text.StillWaits
		switch {
		case u.Lost:
			result = text.LostByRedis
		case u.UnderReview:
			result = text.ColumnUnderReview
		}
		for _, at := range u.AppliedAt {
			t.AppendRow(table.Row{u.Coupon, output.Printable(u.Name), v.Instant(at), result.In(v.Language), "", ""})
		}
	}
	for _, c := range p.Coupons {
		order := ""
		if c.OrderID != nil {
			order = output.Printable(*c.OrderID)
		}
		t.AppendRow(table.Row{c.Coupon, output.Printable(c.Name), v.when(c.AppliedAt), output.Word(v.Language, c.State),
			v.Instant(c.ExpiresAt), order})
	}
	for _, a := range p.Applications {
		t.AppendRow(table.Row{a.Coupon, output.Printable(a.Name), v.Instant(a.AppliedAt),
			v.Sprintf(outcomes[a.Outcome]), "", ""})
	}
	t.Render()
	usable := 0
	for _, c := range p.Coupons {
		if c.State == coupon.CouponIssued {
			usable++
		}
	}
	v.Println(text.CouponsOfUser, uint64(p.User), len(p.Coupons), usable)
}

func (v View) when(t *time.Time) string {
	if t == nil {
		return "–"
	}
	return v.Instant(*t)
}

// Forgotten prints what was deleted, and what remains and why.
func (v View) Forgotten(f *privacy.Forgotten) {
	if f.Applications+f.AuditEvents == 0 && f.Remains == (privacy.Remains{}) {
		v.Println(text.NothingForgotten)
		return
	}
	v.Println(text.UserForgottenIn, f.Applications, f.AuditEvents)
	for _, r := range []struct {
		n       int
		message text.Message
	}{
		{f.Remains.Coupons, text.RemainCoupons}, {f.Remains.AlreadyIssued, text.RemainAlreadyIssued},
		{f.Remains.NotFinalised, text.RemainNotFinalised}, {f.Remains.AuditEvents, text.RemainAuditEvents},
	} {
		if r.n > 0 {
			v.Println(r.message, r.n)
		}
	}
}
