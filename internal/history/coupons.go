// Package history records runs in MySQL, reads runs, coupons, outcomes and audit entries, and groups DLQ entries.
package history

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// CouponStatus is the status of a coupon by the clock of MySQL. If several apply, the first one in the list counts.
type CouponStatus string

const (
	Finalised CouponStatus = "FINALISED"
	Closed    CouponStatus = "CLOSED"
	Paused    CouponStatus = "PAUSED"
	Scheduled CouponStatus = "SCHEDULED"
	Open      CouponStatus = "OPEN"
)

// Coupon is a coupon as `settle coupon list` prints it. Times are UTC.
type Coupon struct {
	ID     coupon.CouponID `json:"id"`
	Key    *string         `json:"clientKey"` // by which it was created; null: by a statement of SQL without one
	Name   string          `json:"name"`
	Status CouponStatus    `json:"status"`

	TotalQuantity int64 `json:"totalQuantity"`
	IssuedCount   int64 `json:"issuedCount"`
	Window
	CampaignID   *uint64 `json:"campaignId"`
	ValidityDays int64   `json:"validityDays"`
	coupon.Discount
	Purging bool `json:"purging,omitzero"` // settle purge has begun with the coupon, and has not ended
	Issuing
}

// Issuing says when a coupon is issued, and to how many at a time.
type Issuing struct {
	Cadence   coupon.Cadence `json:"cadence"`
	Frozen    bool           `json:"frozen"`    // no run issues anything
	LineLimit *int64         `json:"lineLimit"` // while so many wait in the queue, nobody joins it; null: no limit
}

type Window struct {
	OpensAt     time.Time  `json:"opensAt"`
	ClosesAt    time.Time  `json:"closesAt"`
	Paused      bool       `json:"paused"`
	FinalisedAt *time.Time `json:"finalisedAt"`
}

func (c Coupon) Free() int64 { return max(0, c.TotalQuantity-c.IssuedCount) }

const (
	statusOfCoupon = `CASE WHEN finalised_at IS NOT NULL THEN 'FINALISED'
     WHEN apply_closes_at <= UTC_TIMESTAMP(6) THEN 'CLOSED'
     WHEN status = 'PAUSED' THEN 'PAUSED' WHEN apply_opens_at > UTC_TIMESTAMP(6) THEN 'SCHEDULED' ELSE 'OPEN' END`
	couponsSQL = "SELECT id, client_key, name, " + statusOfCoupon + `, total_quantity, issued_count,
       apply_opens_at, apply_closes_at, status = 'PAUSED', finalised_at, campaign_id,
       validity_days, discount_won, discount_percent, discount_max_won, minimum_won,
       cadence, frozen, line_limit, EXISTS (SELECT 1 FROM purged_coupon p WHERE p.coupon_id = coupon.id)
FROM coupon `
	ofCouponFilter = " id > ? AND (? = '' OR " + statusOfCoupon + ` = ?) AND (? = 0 OR campaign_id = ?)
  AND (? = '' OR cadence = ?)
ORDER BY id LIMIT ?`

	listCouponsSQL = couponsSQL + "WHERE" + ofCouponFilter
	// Most coupons are finalised. A page of others must not read them.
	listUnfinishedSQL = couponsSQL + "FORCE INDEX (coupon_due) WHERE finalised_at IS NULL AND" + ofCouponFilter
)

// CouponFilter restricts List. A zero field does not restrict.
type CouponFilter struct {
	Status   CouponStatus
	Campaign uint64
	Cadence  coupon.Cadence
	After    coupon.CouponID // only coupons with higher ids
	Limit    int             // required
}

// List returns the first coupons that pass the filter, by id.
func (r Reader) List(ctx context.Context, f CouponFilter) ([]Coupon, error) {
	query := listCouponsSQL
	if f.Status != "" && f.Status != Finalised {
		query = listUnfinishedSQL
	}
	found, err := mysqltx.Collect(ctx, r.DB, func(c *Coupon) []any {
		return []any{&c.ID, &c.Key, &c.Name, &c.Status, &c.TotalQuantity, &c.IssuedCount, &c.OpensAt, &c.ClosesAt,
			&c.Paused, &c.FinalisedAt, &c.CampaignID, &c.ValidityDays, &c.DiscountWon, &c.DiscountPercent,
			&c.DiscountMaxWon, &c.MinimumWon, &c.Cadence, &c.Frozen, &c.LineLimit, &c.Purging}
	}, query, f.After, f.Status, f.Status, f.Campaign, f.Campaign, f.Cadence, f.Cadence, f.Limit)
	return found, mysqltx.Wrap(err, "read coupons")
}

func (r Reader) Coupon(ctx context.Context, id coupon.CouponID) (Coupon, error) {
	found, err := r.List(ctx, CouponFilter{After: id - 1, Limit: 1})
	if err == nil && (len(found) == 0 || found[0].ID != id) {
		err = text.MissingErrorf(text.NoSuchCoupon, id)
	}
	if err != nil {
		return Coupon{}, err
	}
	return found[0], nil
}

type Outcomes struct {
	Issued        int64 `json:"issued"` // coupons issued by runs
	ByHand        int64 `json:"givenByHand"`
	NotSelected   int64 `json:"notSelected"`
	Rejected      int64 `json:"rejected"`
	AlreadyIssued int64 `json:"alreadyIssued"`
	// Accepted applications, as MySQL knows them; null: it cannot know them all.
	Accepted   *int64 `json:"accepted"`
	WrittenOff int64  `json:"writtenOff"` // lost promises that an operator has accepted
}

const outcomesSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL),
       (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NULL),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED'),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'ALREADY_ISSUED'),
       GREATEST(COALESCE(MAX(s.issued + s.concluded + s.written_off + s.erased), 0),
                (SELECT COALESCE(MAX(j.accepted), 0) FROM journal j WHERE j.coupon_id = ?)),
       COALESCE(MAX(s.written_off), 0)
FROM settled s WHERE s.coupon_id = ?`

func (r Reader) Outcomes(ctx context.Context, id coupon.CouponID) (o Outcomes, err error) {
	err = r.DB.QueryRowContext(ctx, outcomesSQL, id, id, id, id, id, id, id).
		Scan(&o.Issued, &o.ByHand, &o.NotSelected, &o.Rejected, &o.AlreadyIssued, &o.Accepted, &o.WrittenOff)
	return o, mysqltx.Wrap(err, "count outcomes of coupon %d", id)
}

type AuditEntry struct {
	At     time.Time    `json:"at"`
	Actor  string       `json:"actor"`
	Action audit.Action `json:"action"`
	Reason string       `json:"reason"`
	Detail audit.Detail `json:"detail"`

	// A report leaves these out.
	Account string `json:"account,omitempty"` // MySQL account that wrote the event
	// Who the actor is by the sign-in of the console; empty: nobody was signed in.
	SignIn string `json:"signIn,omitempty"`
}

const auditEntriesSQL = "SELECT e.at, e.actor, e.action, e.reason, e.detail, e.account, e.sign_in" + audit.Chained + `
WHERE e.coupon_id = ? AND e.user_hash IS NULL ORDER BY e.seq DESC LIMIT ?`

// maxPages is more than the pages of some lists of a million users.
const maxPages = 1000

// AuditEntries returns the last audit events of a coupon, the newest first, without those about a single user. The
// pages of a list are one entry.
func (r Reader) AuditEntries(ctx context.Context, id coupon.CouponID, limit int) (entries []AuditEntry, err error) {
	all, err := mysqltx.Collect(ctx, r.DB, func(e *AuditEntry) []any {
		return []any{&e.At, &e.Actor, &e.Action, &e.Reason, &e.Detail, &e.Account, &e.SignIn}
	}, auditEntriesSQL, id, limit+maxPages)
	entries = []AuditEntry{} // JSON has no null here
	for _, e := range all {
		if n := len(entries); n > 0 && entries[n-1].follows(e) {
			continue
		}
		if len(entries) == limit {
			break
		}
		entries = append(entries, e)
	}
	return entries, mysqltx.Wrap(err, "read audit entries of coupon %d", id)
}

// follows reports whether the entry is a page of the same list as the one before, and adds that to it.
func (e *AuditEntry) follows(before AuditEntry) bool {
	is, list := e.Detail.Payload(e.Action).(audit.GrantedList)
	was, same := before.Detail.Payload(before.Action).(audit.GrantedList)
	if !list || !same || is.List != was.List || e.Actor != before.Actor || e.Reason != before.Reason ||
		is.Approval != was.Approval || e.SignIn != before.SignIn || e.Account != before.Account ||
		is.Seats == nil || was.Seats == nil || is.Issued == nil || was.Issued == nil {
		return false
	}
	is.Seats.From, is.Issued.From = was.Seats.From, was.Issued.From
	detail, err := audit.Encode(e.Action, is)
	if err == nil {
		e.Detail = detail
	}
	return err == nil
}

const freezeSQL = "SELECT e.at, e.actor, e.action, e.reason, e.detail, e.account, e.sign_in" + audit.Chained + `
WHERE e.coupon_id = ? AND e.action = ? ORDER BY e.seq DESC LIMIT 1`

// Freeze returns the last audit event that froze a coupon, or nil if there is none. The caller knows whether it is
// frozen.
func Freeze(ctx context.Context, q mysqltx.Querier, id coupon.CouponID) (*AuditEntry, error) {
	var e AuditEntry
	err := q.QueryRowContext(ctx, freezeSQL, id, audit.CouponFrozen).Scan(&e.At, &e.Actor, &e.Action, &e.Reason,
		&e.Detail, &e.Account, &e.SignIn)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &e, mysqltx.Wrap(err, "read who froze coupon %d", id)
}

// CouponFigures is a coupon with its counts in Redis.
type CouponFigures struct {
	Coupon
	Left    int64  `json:"left"`
	Waiting *int64 `json:"waiting"` // null: Redis could not be reached
	DLQ     *int64 `json:"dlq"`     // null: Redis could not be reached
}

type CouponDetails struct {
	CouponFigures
	Outcomes Outcomes `json:"outcomes"`
	// Whether new applications are answered SOLD_OUT; null: Redis could not be reached.
	SoldOut *bool `json:"soldOut"`
	// Who froze the coupon; nil: it is not frozen, or the audit log has no record.
	Freeze *AuditEntry  `json:"freeze,omitempty"`
	Review []DLQGroup   `json:"review"` // null: Redis could not be reached
	Audit  []AuditEntry `json:"deeds"`
}
