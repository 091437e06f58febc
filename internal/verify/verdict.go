package verify

import (
	"fmt"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/durability"
	"github.com/jajeong/jajeong/internal/seal"
)

// Code identifies a kind of finding. Other programs rely on the values, which never change.
type Code string

// Violations. The number in each comment is the broken invariant.
const (
	Oversold     Code = "OVERSOLD"      // 1: more coupons than seats
	CountWrong   Code = "COUNT_WRONG"   // 1: issued_count is not the number of coupons
	SeatWrong    Code = "SEAT_WRONG"    // 1: a seat is missing, given twice, or above the total
	HeldTwice    Code = "HELD_TWICE"    // 2: one user has two coupons
	SettledTwice Code = "SETTLED_TWICE" // 2: one application has both a coupon and another outcome
	PassedOver   Code = "PASSED_OVER"   // 3: a later arrival got a seat, an eligible one did not
	OrderWrong   Code = "ORDER_WRONG"   // 3: within a run, a later arrival has an earlier seat
	PromiseLost  Code = "PROMISE_LOST"  // 4: accepted applications cannot be found, or stand behind their arrival
	NeverSettled Code = "NEVER_SETTLED" // 4: no run will settle these applications
	Expiring     Code = "EXPIRING"      // 4: applications in Redis expire too early
	LineRewound  Code = "LINE_REWOUND"  // 5: the next arrival could be lower than an earlier one
	ArrivalWrong Code = "ARRIVAL_WRONG" // 5: a run or the journal has an arrival that no application can have
	NightAhead   Code = "NIGHT_AHEAD"   // 5: a run ended before its cutoff
	// 6: a record differs from the coupons and outcomes of its run.
	RecordWrong   Code = "RECORD_WRONG"
	RecordMissing Code = "RECORD_MISSING" // 6: a run has coupons or outcomes, but no record
	RunMissing    Code = "RUN_MISSING"    // 6: a record names a run that does not exist
	// 6: a run moved more applications to the DLQ than its record says.
	ReviewUncounted Code = "REVIEW_UNCOUNTED"
	StillStanding   Code = "STILL_STANDING" // 6: a settled application is in Redis after its clean-up
	// 6: Redis answers ALREADY_ISSUED to a user without the coupon.
	MarkedWithoutCoupon    Code = "MARKED_WITHOUT_COUPON"
	MarkedWithoutRejection Code = "MARKED_WITHOUT_REJECTION" // 6: Redis answers REJECTED to a user who was not rejected
	// 6: a mark has another arrival than the user's coupon, or a user with a coupon from a run has no mark.
	MarkWrong Code = "MARK_WRONG"
	// 6: a DLQ entry without a reason, or a reason without an entry.
	ReasonMissing     Code = "REASON_MISSING"
	ValidityWrong     Code = "VALIDITY_WRONG"     // 6: a coupon has a wrong time of issue or expiry
	OutcomeWrong      Code = "OUTCOME_WRONG"      // 6: an outcome has values that no run writes
	RunWrong          Code = "RUN_WRONG"          // 6: a run contradicts its audit events or itself
	SeatsUnexplained  Code = "SEATS_UNEXPLAINED"  // 6: total_quantity is not what the audit events add up to
	CouponUnexplained Code = "COUPON_UNEXPLAINED" // 6: a user has a coupon from no run that no operator gave
	SumWrong          Code = "SUM_WRONG"          // 6: a sum in table settled is not that of rows or audit events
	CouponMissing     Code = "COUPON_MISSING"     // 6: rows name coupons that do not exist
	DoorDiffers       Code = "DOOR_DIFFERS"       // 6: a window was published, but Redis has another
	AuditChanged      Code = "AUDIT_CHANGED"      // 6: an audit event was changed
	AuditRemoved      Code = "AUDIT_REMOVED"      // 6: audit events were removed
	AuditInserted     Code = "AUDIT_INSERTED"     // 6: an audit event was not written by the program
	SealBroken        Code = "SEAL_BROKEN"        // 6: rows of a sealed coupon have changed
	// 7: an issued coupon was used more or less often than its status says.
	UsedTwice     Code = "USED_TWICE"
	OrderMismatch Code = "ORDER_MISMATCH" // 8: user_coupon and coupon_order disagree
	LogMissing    Code = "LOG_MISSING"    // 9: rows of coupon_log are missing
	// 9: an issued coupon or an order does not follow from coupon_log.
	LogWrong Code = "LOG_WRONG"
	// 10: a change that the policy names was made without an approval.
	ApprovalMissing Code = "APPROVAL_MISSING"
	// 10: an approval was not given by another person, or not used once as given.
	ApprovalWrong Code = "APPROVAL_WRONG"
	ZoneWrong     Code = "ZONE_WRONG" // 10: the zone of the nights is not that of the policy
)

// Warnings. They break no invariant; the number is the invariant that they are about.
const (
	Excess Code = "EXCESS" // 4: more applications than promises; Redis was written by hand
	// 4: a new Redis server and the journal together knew fewer promises than the journal had seen.
	PromiseUnknown Code = "PROMISE_UNKNOWN"
	// 5: the last arrival is more than 5 s ahead of the Redis clock. A violation if nobody has it: somebody wrote it.
	ClockAhead Code = "CLOCK_AHEAD"
	// 6: the clean-up of a settlement is pending.
	CleanUpToDo Code = "CLEAN_UP_TO_DO"
	// 6: no audit event tells who created the coupon; its seats count from its first event.
	CreatedBySQL Code = "CREATED_BY_SQL"
)

type Finding struct {
	Invariant int    `json:"invariant"` // its number in DESIGN §2
	Code      Code   `json:"code"`
	Warning   bool   `json:"warning,omitempty"`
	Count     int64  `json:"count"` // what was found, or the signed difference of two counts
	Detail    string `json:"detail"`

	Users []coupon.UserID `json:"users,omitempty"` // the users that were found; 100 at most
}

// OfCreation reports whether the finding is the lasting warning about a coupon that SQL has created.
func (f Finding) OfCreation() bool { return f.Code == CreatedBySQL }

// lasts reports whether a warning stays for ever, so that a coupon with it is sealed nevertheless.
func (f Finding) lasts() bool { return f.OfCreation() || f.Code == PromiseUnknown }

type Verdict struct {
	Coupon        coupon.CouponID `json:"coupon"`
	Name          string          `json:"name"`
	TotalQuantity int64           `json:"totalQuantity"`
	IssuedCount   int64           `json:"issuedCount"` // issued_count of the coupon's row
	Coupons       int64           `json:"coupons"`     // number of rows in user_coupon
	Account       Account         `json:"account"`
	Gap           int64           `json:"gap"`
	Uses          Uses            `json:"uses"`
	Approvals     int64           `json:"approvals"` // number of audit events that name an approval
	AuditHead     audit.Head      `json:"auditHead"` // a copy reveals later changes of the events
	Findings      []Finding       `json:"findings"`

	began       time.Time  // when the check began, by the clock of MySQL
	otherWindow bool       // Redis had another window than the row; CheckWindows looks again
	seal        *seal.Seal // of the rows as they were checked; nil: it cannot be sealed now
}

// Uses counts what was compared about the coupons after they were issued.
type Uses struct {
	Used    int64 `json:"used"`    // issued coupons with the status USED
	Orders  int64 `json:"orders"`  // rows of coupon_order
	LogRows int64 `json:"logRows"` // rows of coupon_log
}

// Violated reports whether an invariant is broken. Warnings do not count.
func (v *Verdict) Violated() bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return !f.Warning })
}

func (v *Verdict) find(invariant int, code Code, count int64, format string, args ...any) {
	warning := slices.Contains([]Code{Excess, PromiseUnknown, ClockAhead, CleanUpToDo, CreatedBySQL}, code)
	v.Findings = append(v.Findings, Finding{Invariant: invariant, Code: code, Warning: warning, Count: count,
		Detail: fmt.Sprintf(format, args...)})
}

// findAny adds a finding if n is above zero. n is also the first argument of the format.
func (v *Verdict) findAny(invariant int, code Code, n int64, format string, args ...any) {
	if n > 0 {
		v.find(invariant, code, n, format, append([]any{n}, args...)...)
	}
}

type Summary struct {
	Violated  bool       `json:"violated"`
	Coupons   []*Verdict `json:"coupons"`
	Strays    []Finding  `json:"strays"`              // about missing coupons; only if all coupons are checked
	Unchecked []string   `json:"unchecked,omitempty"` // one line for each coupon whose check failed
	Sealed    *Sealed    `json:"sealed,omitempty"`    // what a check of all coupons has left out
	Total     Total      `json:"total"`

	// Variables of MySQL that may let it lose what it commits: warnings; only if all coupons are checked.
	Durability []durability.Finding `json:"durability,omitempty"`
}

type Total struct {
	Checked     int     `json:"checked"`
	Seats       int64   `json:"seats"`
	Coupons     int64   `json:"coupons"`
	Account     Account `json:"account"`
	Gap         int64   `json:"gap"`
	AuditEvents uint64  `json:"auditEvents"`
	Uses        Uses    `json:"uses"`
	Approvals   int64   `json:"approvals"`
}

func (s *Summary) Add(v *Verdict) {
	s.Coupons = append(s.Coupons, v)
	t := &s.Total
	t.Checked++
	t.Seats += v.TotalQuantity
	t.Coupons += v.Coupons
	t.Gap += v.Gap
	t.AuditEvents += v.AuditHead.Seq
	t.Uses.Used += v.Uses.Used
	t.Uses.Orders += v.Uses.Orders
	t.Uses.LogRows += v.Uses.LogRows
	t.Approvals += v.Approvals
	t.Account.add(v.Account)
}

// Violations returns, for each broken invariant, the number of findings that are not warnings.
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
