package settle

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// setupError is wrong use or wrong setup.
func setupError(format string, args ...any) error {
	return &coupon.Error{Class: coupon.Setup, Err: fmt.Errorf(format, args...)}
}

func invariant(err error) error { return &coupon.Error{Class: coupon.Invariant, Err: err} }

// GapHeld: more applications of a coupon were accepted than can be found, and nobody has approved that these are lost.
type GapHeld struct {
	Gap     int64
	Account ledger.Account
}

func (e *GapHeld) Error() string {
	return fmt.Sprintf("held: %d of %d accepted applications cannot be found (%s); nothing was issued. "+
		"Find out what Redis lost, then release it with --accept-gap --operator and --reason", e.Gap, e.Account.Accepted, e.Account)
}

// CountHeld: the coupon's row says that other numbers of coupons were issued than there are. Who would count on it gives too many
// or too few.
type CountHeld struct {
	Coupon                coupon.CouponID
	Counted, Found, Seats int64 // issued_count, rows of user_coupon, total_quantity
}

func (e *CountHeld) Error() string {
	return fmt.Sprintf("held: issued_count of coupon %d says %d, but there are %d coupons, for %d seats; nothing was issued. "+
		"Find out who wrote to the tables, then set the count right with `settle coupon recount %d --operator … --reason …`",
		e.Coupon, e.Counted, e.Found, e.Seats, e.Coupon)
}

// What Advice says.
const (
	SafeToRunAgain = "It is safe to run again." // of failures of infrastructure; what the servers have lost it does not say
	AdviseMigrate  = "The database lacks a table or column: run `settle migrate`."
	AdviseGrants   = "MySQL refuses this user or database: check MYSQL_DSN and the grants."
	AdviseRedis    = "Redis refuses this user or command: check REDIS_USERNAME, REDIS_PASSWORD, the rights in docs/redis-users.acl and what else uses these keys."
)

// Advice says what to do about an error, in one sentence; empty where its text says it.
func Advice(err error) string {
	if errors.As(err, new(*coupon.Error)) {
		return ""
	}
	var numbered *mysql.MySQLError
	if errors.As(err, &numbered) {
		switch numbered.Number {
		case 1146, 1054:
			return AdviseMigrate
		case 1044, 1045, 1049, 1142, 1698:
			return AdviseGrants
		}
	}
	var redis interface{ RedisRefuses() bool } // of its adapter
	switch {
	case errors.As(err, &redis) && redis.RedisRefuses():
		return AdviseRedis
	case mysqltx.ClassOf(err) == coupon.Infrastructure:
		return SafeToRunAgain
	default:
		return ""
	}
}

// errBusy: somebody else holds the coupon's row, or alters its tables, for longer than a settlement waits.
var errBusy = told(CouponBusy)
