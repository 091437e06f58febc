package ledger

import (
	"fmt"
	"slices"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
)

// Code identifies a kind of finding. Codes are stable.
type Code string

// Violations, by the invariant they break.
const (
	Oversold               Code = "OVERSOLD"                 // 1: more coupons than seats
	CountWrong             Code = "COUNT_WRONG"              // 1: issued_count is not the number of coupons
	SeatWrong              Code = "SEAT_WRONG"               // 1: a run issued a coupon without a seat, a seat twice, or a seat above the total
	HeldTwice              Code = "HELD_TWICE"               // 2: one user has two coupons
	SettledTwice           Code = "SETTLED_TWICE"            // 2: one application has both a coupon and another outcome
	PassedOver             Code = "PASSED_OVER"              // 3: an eligible earlier arrival got no seat and is not in the DLQ
	OrderWrong             Code = "ORDER_WRONG"              // 3: within a run, a later arrival has an earlier seat
	PromiseLost            Code = "PROMISE_LOST"             // 4: accepted applications cannot be found
	NeverSettled           Code = "NEVER_SETTLED"            // 4: applications that no run settles
	Expiring               Code = "EXPIRING"                 // 4: applications in Redis expire too early
	LineRewound            Code = "LINE_REWOUND"             // 5: the next arrival could be lower than one in Redis or one that got a seat
	ArrivalWrong           Code = "ARRIVAL_WRONG"            // 5: a run settled an application without an arrival before its cutoff
	NightAhead             Code = "NIGHT_AHEAD"              // 5: a run ended before its cutoff
	RecordWrong            Code = "RECORD_WRONG"             // 6: a record differs from the coupons and outcomes of its run
	RecordMissing          Code = "RECORD_MISSING"           // 6: coupons or outcomes of a run without a record
	RunMissing             Code = "RUN_MISSING"              // 6: a record of a run that does not exist
	StillStanding          Code = "STILL_STANDING"           // 6: settled and cleaned up, but still in Redis
	MarkedWithoutCoupon    Code = "MARKED_WITHOUT_COUPON"    // 6: Redis answers ALREADY_ISSUED to a user without the coupon
	MarkedWithoutRejection Code = "MARKED_WITHOUT_REJECTION" // 6: Redis answers REJECTED to a user who was not rejected
	ReasonMissing          Code = "REASON_MISSING"           // 6: a DLQ entry without a reason, or a reason without an entry
	ValidityWrong          Code = "VALIDITY_WRONG"           // 6: a coupon with a wrong time of issue or expiry
	OutcomeWrong           Code = "OUTCOME_WRONG"            // 6: an outcome with columns that no run records
	RunWrong               Code = "RUN_WRONG"                // 6: a run differs from its audit events, or its status from its end
	CouponMissing          Code = "COUPON_MISSING"           // 6: rows of coupons that do not exist
	DoorDiffers            Code = "DOOR_DIFFERS"             // 6: Redis has another window than the coupon, although it was published
	AuditChanged           Code = "AUDIT_CHANGED"            // 6: an audit event was changed
	AuditRemoved           Code = "AUDIT_REMOVED"            // 6: audit events were removed
	AuditInserted          Code = "AUDIT_INSERTED"           // 6: an audit event was not written by the program
)

// Warnings. They break no invariant.
const (
	Excess      Code = "EXCESS"         // 4: more applications than promises; Redis was written by hand
	ClockAhead  Code = "CLOCK_AHEAD"    // 5: arrivals are ahead of the Redis clock; beyond 5 s nothing is accepted
	CleanUpToDo Code = "CLEAN_UP_TO_DO" // 6: the clean-up of a settlement is pending
)

// Finding is one violation or warning.
type Finding struct {
	Invariant int    `json:"invariant"` // of DESIGN.md §2
	Code      Code   `json:"code"`
	Warning   bool   `json:"warning,omitempty"`
	Count     int64  `json:"count"` // rows, applications or promises; the signed difference when two counts differ
	Detail    string `json:"detail"`
}

// Verdict is the result of checking one coupon.
type Verdict struct {
	Coupon        coupon.CouponID `json:"coupon"`
	Name          string          `json:"name"`
	TotalQuantity int64           `json:"totalQuantity"`
	IssuedCount   int64           `json:"issuedCount"` // of the coupon's row
	Coupons       int64           `json:"coupons"`     // rows of user_coupon
	Account       Account         `json:"account"`
	Gap           int64           `json:"gap"`
	AuditHead     audit.Head      `json:"auditHead"` // a copy elsewhere binds all audit events up to it
	Findings      []Finding       `json:"findings"`
}

// Violated reports whether an invariant is broken. Warnings do not count.
func (v *Verdict) Violated() bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return !f.Warning })
}

func (v *Verdict) find(invariant int, code Code, count int64, format string, args ...any) {
	warning := code == Excess || code == ClockAhead || code == CleanUpToDo
	v.Findings = append(v.Findings, Finding{invariant, code, warning, count, fmt.Sprintf(format, args...)})
}

// findAny adds a finding if n is above zero. The format begins with n.
func (v *Verdict) findAny(invariant int, code Code, n int64, format string, args ...any) {
	if n > 0 {
		v.find(invariant, code, n, format, append([]any{n}, args...)...)
	}
}

// Summary is the result of a check of several coupons.
type Summary struct {
	Violated  bool       `json:"violated"`
	Coupons   []*Verdict `json:"coupons"`
	Strays    []Finding  `json:"strays"`              // of no existing coupon; looked for only when every coupon is checked
	Unchecked []string   `json:"unchecked,omitempty"` // errors, a line per coupon
	Total     Total      `json:"total"`
}

// Total adds up coupons.
type Total struct {
	Checked     int     `json:"checked"`
	Seats       int64   `json:"seats"`
	Coupons     int64   `json:"coupons"`
	Account     Account `json:"account"`
	Gap         int64   `json:"gap"`
	AuditEvents uint64  `json:"auditEvents"`
}

// Add adds a coupon.
func (s *Summary) Add(v *Verdict) {
	s.Coupons = append(s.Coupons, v)
	t := &s.Total
	t.Checked++
	t.Seats += v.TotalQuantity
	t.Coupons += v.Coupons
	t.Gap += v.Gap
	t.AuditEvents += v.AuditHead.Seq
	a, b := &t.Account, v.Account
	a.Accepted += b.Accepted
	a.Waiting += b.Waiting
	a.UnderReview += b.UnderReview
	a.Issued += b.Issued
	a.Outcomes += b.Outcomes
	a.Twice += b.Twice
	a.WrittenOff += b.WrittenOff
	a.AskedAgain += b.AskedAgain
	a.LastArrival = max(a.LastArrival, b.LastArrival)
}

// Violations counts the findings that are no warnings, by invariant.
func (s *Summary) Violations() map[int]int {
	findings := slices.Clone(s.Strays)
	for _, v := range s.Coupons {
		findings = append(findings, v.Findings...)
	}
	violations := map[int]int{}
	for _, f := range findings {
		if !f.Warning {
			violations[f.Invariant]++
		}
	}
	return violations
}
