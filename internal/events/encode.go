package events

import (
	"strconv"
	"time"
)

// Message encodes the event as encoding/json encodes Event, in a fifth of the time: a settlement has a million of them.
func (i *Issued) Message() Message {
	user := key(i.User)
	b := make([]byte, 0, 512)
	b = append(b, `{"specversion":"1.0","type":"`+IssuedType+`","source":"`...)
	b = append(append(b, source(i.Coupon)...), `","id":"`...)
	b = append(append(b, issuedID(i.User)...), `","subject":"`...)
	b = append(append(b, user...), `","partitionkey":"`...)
	b = append(append(b, user...), `","sequence":0,"time":`...)
	b = appendTime(b, i.IssuedAt)
	b = append(b, `,"datacontenttype":"application/json","data":{"couponId":`...)
	b = append(strconv.AppendUint(b, uint64(i.Coupon), 10), `,"userId":`...)
	b = append(strconv.AppendUint(b, uint64(i.User), 10), `,"userCouponId":`...)
	b = append(strconv.AppendUint(b, uint64(i.UserCoupon), 10), `,"position":`...)
	b = append(strconv.AppendInt(b, int64(i.Position), 10), `,"appliedAt":`...)
	b = append(appendTime(b, i.AppliedAt), `,"issuedAt":`...)
	b = append(appendTime(b, i.IssuedAt), `,"expiresAt":`...)
	b = appendTime(b, i.ExpiresAt)
	b = strconv.AppendUint(append(b, `,"runId":`...), uint64(i.Run), 10)
	return Message{Key: user, Body: append(b, '}', '}')}
}

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}
