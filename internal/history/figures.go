package history

// CouponFigures is a coupon with its counts in Redis.
type CouponFigures struct {
	Coupon
	Left    int64  `json:"left"`
	Waiting *int64 `json:"waiting"` // null: Redis could not be reached
	DLQ     *int64 `json:"dlq"`
}

// CouponDetails is everything about one coupon.
type CouponDetails struct {
	CouponFigures
	Outcomes Outcomes     `json:"outcomes"`
	SoldOut  *bool        `json:"soldOut"` // whether new applications are answered SOLD_OUT; null: Redis could not be reached
	Review   []DLQGroup   `json:"review"`
	Audit    []AuditEntry `json:"deeds"`
}
