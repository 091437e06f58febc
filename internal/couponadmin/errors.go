package couponadmin

import (
	"errors"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// changeUnknown replaces the text of a lost COMMIT that could not be looked up: a repetition could make the change twice, and
// no run finds out. couponID 0 is a new coupon.
func changeUnknown(couponID coupon.CouponID, err error) error {
	unknown := new(mysqltx.CommitUnknown)
	switch {
	case !errors.As(err, &unknown):
		return err
	case couponID == 0:
		err = text.Errorf(text.CreationUnknown, unknown.Err)
	default:
		err = text.Errorf(text.ChangeUnknown, couponID, unknown.Err)
	}
	return &coupon.Error{Class: coupon.Infrastructure, Err: err}
}

var errReplyLost = &coupon.Error{Class: coupon.Infrastructure, Err: errors.New("the reply to COMMIT was lost")}
