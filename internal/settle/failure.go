package settle

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// setupError is wrong use or wrong setup.
func setupError(format string, args ...any) error {
	return &coupon.Error{Class: coupon.Setup, Err: fmt.Errorf(format, args...)}
}

func invariant(err error) error { return &coupon.Error{Class: coupon.Invariant, Err: err} }

// GapHeld holds a coupon because accepted applications are missing and no operator has accepted the loss.
type GapHeld struct {
	Gap     int64
	Account ledger.Account
}

func (e *GapHeld) Error() string { return e.In(text.English) }

// In implements text.Localized.
func (e *GapHeld) In(l text.Language) string {
	return l.Sprintf(text.GapHeld, e.Gap, e.Account.Accepted, e.Account)
}

// CountHeld: the coupon's row says that other numbers of coupons were issued than there are. Who would count on it gives too many
// or too few.
type CountHeld struct {
	Coupon                coupon.CouponID
	Counted, Found, Seats int64 // issued_count, rows of user_coupon, total_quantity
}

func (e *CountHeld) Error() string { return e.In(text.English) }

// In implements text.Localized.
func (e *CountHeld) In(l text.Language) string {
	return l.Sprintf(text.CountHeld, e.Coupon, e.Counted, e.Found, e.Seats)
}

// Advice returns what to do about an error; it is empty where the error's text says it.
func Advice(err error) text.Message {
	if errors.As(err, new(*coupon.Error)) {
		return text.Message{}
	}
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		switch numbered.Number {
		case 1146, 1054:
			return text.AdviseMigrate
		case 1044, 1045, 1049, 1142, 1698:
			return text.AdviseGrants
		}
	}
	var redis interface{ RedisRefuses() bool } // of its adapter
	switch {
	case errors.As(err, &redis) && redis.RedisRefuses():
		return text.AdviseRedis
	case mysqltx.ClassOf(err) == coupon.Infrastructure:
		return text.AdviseRunAgain
	default:
		return text.Message{}
	}
}

// errBusy: another session held the coupon's row, or altered its tables, for longer than a settlement waits.
var errBusy = text.RetryableErrorf(text.CouponBusy)
