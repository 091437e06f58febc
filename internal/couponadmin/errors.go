package couponadmin

import (
	"errors"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// ChangeUnknown is a change whose reply to COMMIT was lost, and that could not be looked up. A repetition could make the
// change twice.
type ChangeUnknown struct {
	Coupon coupon.CouponID // 0: a new coupon
	err    error
}

func (e *ChangeUnknown) Error() string { return e.In(text.English) }

// In implements text.Localized.
func (e *ChangeUnknown) In(l text.Language) string {
	if e.Coupon == 0 {
		return l.Sprintf(text.CreationUnknown, e.err)
	}
	return l.Sprintf(text.ChangeUnknown, e.Coupon, e.err)
}

func (e *ChangeUnknown) Unwrap() error { return e.err }

// changeUnknown turns a lost COMMIT into a *ChangeUnknown.
func changeUnknown(couponID coupon.CouponID, err error) error {
	if unknown := new(mysqltx.CommitUnknown); errors.As(err, &unknown) {
		return &coupon.Error{Class: coupon.Infrastructure, Err: &ChangeUnknown{couponID, unknown.Err}}
	}
	return err
}

var errReplyLost = &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("the reply to COMMIT was lost")}
