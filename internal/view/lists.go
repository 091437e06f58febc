package view

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// ListGranted prints what became of the users of a list.
func (v View) ListGranted(l *couponadmin.ListGrant) { v.list(text.ListGranted, l) }

// ListPlanned prints what would become of them.
func (v View) ListPlanned(l *couponadmin.ListGrant) {
	v.list(text.ListPlanned, l)
	if l.Plan.Action != "" {
		if l.Plan.CostWon > 0 { // of the whole list, as an approval has it
			v.Println(text.ListCost, output.Grouped(fmt.Sprint(l.Plan.CostWon)))
		}
		output.Plan(v.W, l.Plan.Digest(), l.Plan.CostWon)
	}
}

func (v View) list(m text.Message, l *couponadmin.ListGrant) {
	if name := output.Printable(l.Coupon.Name); l.Granted == 0 {
		v.Println(text.ListNothing, l.Coupon.ID, name, l.Users)
	} else {
		v.Println(m, l.Coupon.ID, name, l.Users, l.Granted)
	}
	t := v.table(text.ColumnListed, text.ColumnNew, text.ColumnHeld, text.ColumnRevoked, text.ColumnUnknown,
		text.ColumnInactive)
	t.AppendRow(table.Row{l.Users, l.Granted, l.Held, l.Revoked, l.Unknown, l.Inactive})
	t.Render()
	if len(l.NotGiven) == 0 {
		return
	}
	v.Println(text.ListNotGiven, l.Revoked+l.Unknown+l.Inactive, len(l.NotGiven))
	t = v.table(text.ColumnUser, text.ColumnCause)
	for _, n := range l.NotGiven {
		t.AppendRow(table.Row{n.User, output.Word(v.Language, n.Why)})
	}
	t.Render()
}
