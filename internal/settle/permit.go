package settle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// ticket is what the run presents for a coupon.
func (r run) ticket(id coupon.CouponID) approval.Ticket {
	return approval.Ticket{Approval: r.Approvals[id], Person: r.Person}
}

// permit refuses a run by hand that needs an approval and has none. A run that would decide about no application needs
// none. A retry needs it if it would issue to applications that are not under review; it cannot have one.
func (s *settlement) permit(ctx context.Context, tx *sql.Tx, done issued) error {
	if s.run.rules.asksForOthers && done.seated.others > 0 {
		needed, err := s.run.ticket(s.coupon.ID).Needed(ctx, tx, approval.Run)
		if err == nil && needed {
			err = text.UsageErrorf(text.RetryNeedsRun, done.seated.others)
		}
		return err
	}
	if !s.run.rules.asksApproval || !done.changed() && done.account.Waiting+done.account.UnderReview == 0 {
		return nil
	}
	plan, ticket := s.approvalPlan(done), s.run.ticket(s.coupon.ID)
	if ticket.Approval == 0 && done.account.Gap() <= 0 { // nothing is written off, whatever the order allows
		plan.Action = approval.Run
	}
	return ticket.Use(ctx, tx, plan, s.run.origin())
}

// approvalPlan is what an operator asks approval for: the winners and the gap up to a cutoff.
func (s *settlement) approvalPlan(done issued) approval.Plan {
	gap := max(done.account.Gap(), 0)
	action := approval.Run
	if s.run.AcceptGap {
		action = approval.AcceptGap
	}
	return approval.Plan{Action: action, Coupon: s.coupon.ID, Pin: done.pin,
		Arguments: map[string]string{"cutoff": s.run.cutoff.UTC().Format(time.RFC3339Nano)},
		Changes: []approval.Change{{What: "winners", To: fmt.Sprint(done.seated.winners.count)},
			{What: "written off", To: fmt.Sprint(gap)}, {What: "digest", To: done.pin}}}
}

// ListDigest is sha256:… of members and arrivals, whatever their order.
func ListDigest(entries []coupon.Application) string {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b coupon.Application) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Member, b.Member))
	})
	list := sha256.New()
	for _, e := range entries {
		fmt.Fprintf(list, "%d %q\n", e.Arrival, e.Member)
	}
	return sum([sha256.Size]byte(list.Sum(nil)))
}

// DropPlan plans a drop of DLQ entries. chosen says how they were chosen, as Order.Chosen does.
func DropPlan(id coupon.CouponID, chosen map[string]string, entries []coupon.Application) approval.Plan {
	plan := approval.Plan{Action: approval.Drop, Coupon: id, Arguments: chosen}
	if user := coupon.ParseUserID(chosen["user"]); user > 0 { // a person, who may be forgotten
		plan.User, plan.Arguments = user, nil
	}
	plan.Changes = []approval.Change{
		{What: "entries", To: fmt.Sprint(len(entries))}, {What: "list", To: ListDigest(entries)}}
	return plan
}
