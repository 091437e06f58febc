package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// CouponStatus is how a coupon stands by MySQL's clock; the door goes by that of Redis.
type CouponStatus string

// In the order in which they are asked for: a finalised coupon is nothing else.
const (
	Finalised CouponStatus = "FINALISED"
	Closed    CouponStatus = "CLOSED"
	Paused    CouponStatus = "PAUSED"
	Scheduled CouponStatus = "SCHEDULED"
	Open      CouponStatus = "OPEN"
)

// Coupon is a row of coupon. Times are UTC.
type Coupon struct {
	ID            uint64       `json:"id"`
	Name          string       `json:"name"`
	Status        CouponStatus `json:"status"`
	TotalQuantity int64        `json:"totalQuantity"`
	IssuedCount   int64        `json:"issuedCount"`
	OpensAt       time.Time    `json:"opensAt"`
	ClosesAt      time.Time    `json:"closesAt"`
	Paused        bool         `json:"paused"`
	FinalisedAt   *time.Time   `json:"finalisedAt"`
	CampaignID    *uint64      `json:"campaignId"`
	ValidityDays  int64        `json:"validityDays"`
	DiscountWon   int64        `json:"discountWon"`
	UpdatedAt     time.Time    `json:"updatedAt"`
}

// Left is how many seats are free.
func (c Coupon) Left() int64 { return max(0, c.TotalQuantity-c.IssuedCount) }

const (
	statusOfCoupon = `CASE WHEN finalised_at IS NOT NULL THEN 'FINALISED' WHEN apply_closes_at <= UTC_TIMESTAMP(6) THEN 'CLOSED'
     WHEN status = 'PAUSED' THEN 'PAUSED' WHEN apply_opens_at > UTC_TIMESTAMP(6) THEN 'SCHEDULED' ELSE 'OPEN' END`
	couponColumns = "id, name, " + statusOfCoupon + `, total_quantity, issued_count, apply_opens_at, apply_closes_at, status = 'PAUSED',
       finalised_at, campaign_id, validity_days, discount_won, updated_at`
	listCouponsSQL = "SELECT " + couponColumns + ` FROM coupon
WHERE id > ? AND (? = '' OR ` + statusOfCoupon + ` = ?) ORDER BY id LIMIT ?`
	couponSQL = "SELECT " + couponColumns + " FROM coupon WHERE id = ?"
)

// List returns up to limit coupons behind after, by id; of that status alone unless it is empty.
func (h History) List(ctx context.Context, status CouponStatus, after uint64, limit int) ([]Coupon, error) {
	return h.coupons(ctx, listCouponsSQL, after, status, status, limit)
}

// Coupon returns one; ErrNoCoupon when there is none.
func (h History) Coupon(ctx context.Context, id uint64) (Coupon, error) {
	found, err := h.coupons(ctx, couponSQL, id)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("coupon %d: %w", id, ErrNoCoupon)
	}
	if err != nil {
		return Coupon{}, err
	}
	return found[0], nil
}

func (h History) coupons(ctx context.Context, query string, args ...any) ([]Coupon, error) {
	found := []Coupon{}
	err := h.each(ctx, func(rows *sql.Rows) error {
		var c Coupon
		err := rows.Scan(&c.ID, &c.Name, &c.Status, &c.TotalQuantity, &c.IssuedCount, &c.OpensAt, &c.ClosesAt, &c.Paused,
			&c.FinalisedAt, &c.CampaignID, &c.ValidityDays, &c.DiscountWon, &c.UpdatedAt)
		found = append(found, c)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read coupons: %w", err)
	}
	return found, nil
}

func (h History) each(ctx context.Context, visit func(rows *sql.Rows) error, query string, args ...any) error {
	rows, err := h.DB.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Outcomes are what MySQL has recorded of a coupon's applications.
type Outcomes struct {
	Issued        int64 `json:"issued"` // by a run
	ByHand        int64 `json:"givenByHand"`
	NotSelected   int64 `json:"notSelected"`
	Rejected      int64 `json:"rejected"`
	AlreadyIssued int64 `json:"alreadyIssued"`
	Accepted      int64 `json:"accepted"`   // promises, each once, as far as MySQL has heard
	WrittenOff    int64 `json:"writtenOff"` // lost promises that an operator has accepted
}

const outcomesSQL = `
SELECT (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NOT NULL),
       (SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND run_id IS NULL),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'NOT_SELECTED'),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'REJECTED'),
       (SELECT COUNT(*) FROM application_outcome WHERE coupon_id = ? AND outcome = 'ALREADY_ISSUED'),
       COALESCE(MAX(CAST(accepted AS SIGNED) - CAST(twice AS SIGNED)), 0), COALESCE(MAX(written_off), 0) FROM promise WHERE coupon_id = ?`

// Outcomes counts them.
func (h History) Outcomes(ctx context.Context, id uint64) (o Outcomes, err error) {
	err = h.DB.QueryRowContext(ctx, outcomesSQL, id, id, id, id, id, id).
		Scan(&o.Issued, &o.ByHand, &o.NotSelected, &o.Rejected, &o.AlreadyIssued, &o.Accepted, &o.WrittenOff)
	if err != nil {
		return o, fmt.Errorf("count outcomes of coupon %d: %w", id, err)
	}
	return o, nil
}

// Deed is what somebody did to a coupon.
type Deed struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"`
	Reason string    `json:"reason"`
	Detail string    `json:"detail"`
}

const deedsSQL = `
SELECT e.at, e.actor, e.action, e.reason, e.detail FROM audit_event e
JOIN audit_head h ON h.coupon_id = e.coupon_id AND e.seq BETWEEN 1 AND h.seq
WHERE e.coupon_id = ? AND e.user_id IS NULL ORDER BY e.seq DESC LIMIT ?`

// Deeds are the last that were done to a coupon as a whole, the newest first, as far as they stand in its audit chain.
func (h History) Deeds(ctx context.Context, id uint64, limit int) ([]Deed, error) {
	deeds := []Deed{}
	err := h.each(ctx, func(rows *sql.Rows) error {
		var d Deed
		err := rows.Scan(&d.At, &d.Actor, &d.Action, &d.Reason, &d.Detail)
		deeds = append(deeds, d)
		return err
	}, deedsSQL, id, limit)
	if err != nil {
		return nil, fmt.Errorf("read what was done to coupon %d: %w", id, err)
	}
	return deeds, nil
}
