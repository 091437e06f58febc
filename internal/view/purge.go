package view

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/text"
)

// PurgePlan lists the coupons that a purge takes, and those that it leaves.
func (v View) PurgePlan(p *privacy.PurgePlan) {
	if len(p.Continued) > 0 {
		v.Println(text.PurgeContinues, len(p.Continued), strings.Trim(fmt.Sprint(p.Continued), "[]"))
	}
	switch {
	case len(p.Taken) > 0:
		v.Println(text.PurgeTakes, len(p.Taken))
		v.purgeCandidates(p.Taken, false)
	case len(p.Continued) == 0:
		v.Println(text.PurgeNone)
	}
	v.purgeLeft(p.Left)
}

// Purged prints what a purge did. The coupons that its plan left are known already.
func (v View) Purged(plan *privacy.PurgePlan, done *privacy.PurgeResult) {
	v.Println(text.PurgeDone, len(done.Purged))
	v.purgeLeft(done.Left[len(plan.Left):])
}

func (v View) purgeLeft(left []privacy.PurgeCandidate) {
	if len(left) > 0 {
		v.Println(text.PurgeLeaves, len(left))
		v.purgeCandidates(left, true)
	}
}

func (v View) purgeCandidates(all []privacy.PurgeCandidate, why bool) {
	columns := []text.Message{text.ColumnCoupon, text.ColumnName, text.ColumnClosesAt, text.ColumnIssued}
	if why {
		columns = append(columns, text.ColumnWhyLeft)
	}
	t := v.table(columns...)
	for _, c := range all {
		row := table.Row{c.Coupon, output.Printable(c.Name), v.Instant(c.ClosesAt), c.Issued}
		if why {
			row = append(row, whyLeft[c.Why].In(v.Language))
		}
		t.AppendRow(row)
	}
	t.Render()
}

var whyLeft = map[privacy.WhyLeft]text.Message{
	privacy.NotFinalised: text.WhyNotFinalised, privacy.CleanUpPending: text.WhyCleanUp,
	privacy.StillValid: text.WhyStillValid, privacy.FoundWrong: text.WhyFoundWrong, privacy.InRedis: text.WhyInRedis,
}
