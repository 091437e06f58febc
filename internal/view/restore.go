package view

import (
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// Restored prints what a restore did, or would do.
func (v View) Restored(id coupon.CouponID, r journal.Restored, dryRun bool) {
	if dryRun {
		v.Println(text.RestoreWould, id, r.Compared, r.Back)
	} else {
		v.Println(text.RestoreDone, id, r.Compared, r.Back, r.Moved)
	}
	if r.Marked > 0 {
		v.Println(text.RestoreMarked, r.Marked)
	}
	if r.FromMarks > 0 {
		v.Println(text.RestoreFromMarks, r.FromMarks)
	}
	if r.Unknown > 0 {
		v.Println(text.RestoreUnknown, r.Unknown)
	}
	if r.Impossible > 0 {
		v.Println(text.RestoreImpossible, r.Impossible)
	}
	switch {
	case r.Missing > 0:
		v.Println(text.RestoreMissing, r.Missing, r.Accepted)
	case dryRun:
		v.Println(text.RestoreWouldMissNothing)
	case r.Unknown == 0:
		v.Println(text.RestoreNothingMissing)
	}
	if dryRun {
		output.Digest(v.W, r.Plan.Digest())
	}
}
