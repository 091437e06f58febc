package view

import (
	"fmt"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/text"
)

// maxUnknown bounds the winners that Restored prints; JSON has all of them.
const maxUnknown = 50

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
	switch {
	case r.FromMarks == 0:
	case dryRun:
		v.Println(text.RestoreWouldFromMarks, r.FromMarks)
	default:
		v.Println(text.RestoreFromMarks, r.FromMarks)
	}
	if n := len(r.Unknown); n > 0 {
		shown := strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Unknown[:min(n, maxUnknown)]), " ", ", "), "[]")
		if n > maxUnknown {
			shown += ", …"
		}
		v.Println(text.RestoreUnknown, n, shown)
	}
	switch {
	case r.Missing > 0:
		v.Println(text.RestoreMissing, r.Missing, r.Accepted)
	case dryRun:
		v.Println(text.RestoreWouldMissNothing)
	default:
		v.Println(text.RestoreNothingMissing)
	}
	if dryRun {
		output.Digest(v.W, r.Plan.Digest())
	}
}
