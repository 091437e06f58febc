package verify

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
)

// A change needs an approval if every version of the policy between the beginning of its run and its event names it: a
// run asks the policy in between.
func TestNamed(t *testing.T) {
	t.Parallel()
	run := func(n uint64) *uint64 { return &n }
	none, runs, both := policyVersion{}, policyVersion{runsAfter: 10, eventsAfter: 100,
		actions: []string{"run", "drop"}}, policyVersion{runsAfter: 20, eventsAfter: 200,
		actions: []string{"drop", "run"}}
	relaxed := policyVersion{runsAfter: 30, eventsAfter: 300, actions: []string{"drop"}}
	all := []policyVersion{none, runs, both, relaxed}
	for name, c := range map[string]struct {
		event approvedEvent
		want  bool
	}{
		"before the first version":              {approvedEvent{id: 100}, false},
		"after it":                              {approvedEvent{id: 101}, true},
		"after the relaxation":                  {approvedEvent{id: 301}, false},
		"a run before, its event before":        {approvedEvent{id: 99, run: run(10)}, false},
		"a run before, its event after":         {approvedEvent{id: 101, run: run(10)}, false},
		"a run after":                           {approvedEvent{id: 101, run: run(11)}, true},
		"a run across two that name it":         {approvedEvent{id: 201, run: run(11)}, true},
		"a run that waits for the relaxation":   {approvedEvent{id: 301, run: run(21)}, false},
		"a run that ends before it":             {approvedEvent{id: 300, run: run(21)}, true},
		"a run that is counted after its event": {approvedEvent{id: 150, run: run(31)}, true},
	} {
		require.Equal(t, c.want, c.event.named(all, []string{"run"}, 0), name)
	}
	require.False(t, approvedEvent{id: 150}.named(all, []string{"grant"}, 0))
	require.False(t, approvedEvent{id: 150}.named(nil, []string{"run"}, 0))
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	for rule, want := range map[string][4]bool{ // at a cost of 0, of 5, of 6, and of more than can be said
		"create": {true, true, true, true}, "create:5": {false, false, true, true}, "create:0": {false, true, true, true},
		"create:": {true, true, true, true}, "run": {}, "create-more": {},
	} {
		for i, cost := range []int64{0, 5, 6, -1} {
			require.Equal(t, want[i], needs(rule, []string{"create"}, cost), "%s at %d", rule, cost)
		}
	}
}

// The cost of an event is that of the seats it adds.
func TestCost(t *testing.T) {
	t.Parallel()
	after := promised{5, coupon.Discount{DiscountPercent: 10, DiscountMaxWon: 5000}}
	cheaper := coupon.Discount{DiscountWon: 100, MinimumWon: 1}
	created := func(seats, won int64) audit.NewCoupon {
		return audit.NewCoupon{Seats: seats, Cadence: coupon.Nightly, Discount: coupon.Discount{DiscountWon: won}}
	}
	for name, c := range map[string]struct {
		action  audit.Action
		payload audit.Payload
		want    int64
	}{
		"a new coupon":      {audit.CouponCreated, created(10, 700), 7000},
		"more seats":        {audit.CouponSeats, audit.CouponChange{Seats: audit.Changed(3, 5)}, 10_000},
		"fewer seats":       {audit.CouponSeats, audit.CouponChange{Seats: audit.Changed(9, 5)}, 0},
		"a higher discount": {audit.CouponEdited, audit.CouponChange{Discount: audit.Changed(cheaper, after.Discount)}, 24_500},
		"more of a higher discount": {audit.CouponEdited, audit.CouponChange{Seats: audit.Changed(1, 5),
			Discount: audit.Changed(cheaper, after.Discount)}, 24_900},
		"a lower discount": {audit.CouponEdited, audit.CouponChange{
			Discount: audit.Changed(coupon.Discount{DiscountWon: 9000}, after.Discount)}, 0},
		"a close": {audit.CouponClosed, audit.CouponChange{}, 0},
		"a grant": {audit.CouponGranted, audit.HolderChange{}, 5000},
	} {
		detail, err := json.Marshal(c.payload)
		require.NoError(t, err)
		e, is := approvedEvent{action: c.action, detail: audit.Detail(detail)}, after
		if n, isNew := c.payload.(audit.NewCoupon); isNew {
			is = promised{n.Seats, n.Discount}
		}
		require.Equal(t, c.want, e.cost(e.before(is), is), name)
	}
	most := promised{1 << 32, coupon.Discount{DiscountWon: coupon.MaxWon}}
	require.EqualValues(t, -1, approvedEvent{}.cost(promised{}, most), "more than any amount")
}

// Whatever a policy can name, verify asks an approval for.
func TestApprovalRules_HaveEveryAction(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for _, rule := range approvalRules {
		for _, action := range rule.named {
			named[action] = true
		}
	}
	for _, action := range approval.Actions {
		require.True(t, named[string(action)], action)
	}
	require.Len(t, named, len(approval.Actions))
}
