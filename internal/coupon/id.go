package coupon

import (
	"strconv"
	"time"
)

// CouponID identifies a coupon: the primary key of table coupon, from 1.
type CouponID = uint64

// UserID identifies a user of the shop, from 1. 0 is no user.
type UserID = uint64

// RunID identifies a run: the primary key of table settlement_run, from 1. 0 is no run.
type RunID = uint64

// Arrival is the place of an application in its coupon's queue: microseconds since 1970 by the clock of the coupon's Redis
// shard, strictly increasing for each coupon. 0 is no arrival.
type Arrival = int64

// MaxArrival is the highest arrival that a Redis score, a double, holds exactly: in the year 2255.
const MaxArrival Arrival = 1<<53 - 1

func ArrivalAt(t time.Time) Arrival { return t.UnixMicro() }

// ParseUserID reads a member of the queue as a user id in canonical decimal; 0 for anything else.
func ParseUserID(member string) UserID {
	id, err := strconv.ParseUint(member, 10, 64)
	if err != nil || member[0] < '1' || member[0] > '9' {
		return 0
	}
	return id
}

// Member is a user id as it is stored in Redis.
func Member(user UserID) string { return strconv.FormatUint(user, 10) }
