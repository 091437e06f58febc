package coupon

import "time"

// UserCouponID identifies an issued coupon: the primary key of table user_coupon, from 1.
type UserCouponID uint64

// UserCouponStatus is user_coupon.status, or what StateAt makes of it. Only StateAt gives EXPIRED.
type UserCouponStatus string

const (
	CouponIssued   UserCouponStatus = "ISSUED"
	CouponReserved UserCouponStatus = "RESERVED" // an order has it, and is not confirmed
	CouponUsed     UserCouponStatus = "USED"     // an order has it, and is confirmed
	CouponRevoked  UserCouponStatus = "REVOKED"  // an operator took it back
	CouponExpired  UserCouponStatus = "EXPIRED"
)

func (s *UserCouponStatus) Scan(value any) error {
	return scan(s, value, CouponIssued, CouponReserved, CouponUsed, CouponRevoked)
}

// StateAt returns what a stored status means at an instant of MySQL's clock. A reservation that ran out and the end of
// validity are no rows: they are comparisons. expires is exclusive.
func StateAt(stored UserCouponStatus, reservedUntil, expires, now time.Time) UserCouponStatus {
	switch {
	case stored == CouponUsed, stored == CouponRevoked, stored == CouponReserved && now.Before(reservedUntil):
		return stored
	case !now.Before(expires):
		return CouponExpired
	default:
		return CouponIssued
	}
}

// OrderState is coupon_order.state. The order has the coupon while it is RESERVED or USED.
type OrderState string

const (
	OrderReserved OrderState = "RESERVED"
	OrderUsed     OrderState = "USED"
	OrderReleased OrderState = "RELEASED" // the reservation was given back, or another order took it after it ran out
	OrderRefunded OrderState = "REFUNDED"
)

func (s *OrderState) Scan(value any) error {
	return scan(s, value, OrderReserved, OrderUsed, OrderReleased, OrderRefunded)
}

// LogKind is coupon_log.kind: what happened to an issued coupon.
type LogKind string

const (
	LogReserved LogKind = "RESERVED"
	LogUsed     LogKind = "USED"
	LogReleased LogKind = "RELEASED"
	LogRefunded LogKind = "REFUNDED"
	LogGranted  LogKind = "GRANTED" // an operator gave it, without an application
	LogRevoked  LogKind = "REVOKED"
	LogReissued LogKind = "REISSUED" // an operator gave a revoked coupon back
	LogExtended LogKind = "EXTENDED" // an operator moved the end of its validity
)

func (k *LogKind) Scan(value any) error {
	return scan(k, value, LogReserved, LogUsed, LogReleased, LogRefunded, LogGranted, LogRevoked, LogReissued,
		LogExtended)
}
