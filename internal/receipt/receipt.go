// Package receipt signs and checks receipts. An applicant gets a receipt with ACCEPTED and DUPLICATE. It proves the
// arrival of an application, also when every server has lost it.
//
// docs/receipts.md has the format. It is final: a receipt cannot be taken back.
package receipt

import (
	"encoding/base64"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
)

// Receipt has the claims of a receipt.
type Receipt struct {
	Coupon   coupon.CouponID `json:"coupon"`
	User     coupon.UserID   `json:"user"`
	Arrival  coupon.Arrival  `json:"arrival"`  // µs since 1970
	Position int64           `json:"position"` // position in the queue when the receipt was signed, from 1
	SignedAt int64           `json:"iat"`      // s since 1970, by the Redis clock
}

// valid reports whether Append can have signed r.
func (r Receipt) valid() bool {
	return r.Coupon > 0 && r.User > 0 && r.Arrival > 0 && r.Arrival <= coupon.MaxArrival && r.Position > 0 &&
		r.SignedAt > 0
}

// MaxToken is the length of the longest receipt, in bytes.
const MaxToken = 315

// Append appends the signed receipt to a slice: a compact JWS. The first key signs whose time has not ended. Without
// such a key, signed is false and the slice is as before.
func (k *Keys) Append(to []byte, r Receipt) (with []byte, signed bool) {
	for _, key := range k.file.Keys() {
		if r.SignedAt <= key.until {
			return key.append(to, r), true
		}
	}
	return to, false
}

// append builds the token by hand: the library takes six times as long, and users wait for this answer.
func (k *key) append(to []byte, r Receipt) []byte {
	s := k.signers.Get().(*signer)
	defer k.signers.Put(s)
	payload := strconv.AppendUint(append(s.buffer[:0], `{"coupon":`...), uint64(r.Coupon), 10)
	payload = strconv.AppendUint(append(payload, `,"user":`...), uint64(r.User), 10)
	payload = strconv.AppendInt(append(payload, `,"arrival":`...), int64(r.Arrival), 10)
	payload = strconv.AppendInt(append(payload, `,"position":`...), r.Position, 10)
	payload = strconv.AppendInt(append(payload, `,"iat":`...), r.SignedAt, 10)
	payload = append(payload, '}')

	begin := len(to)
	to = base64.RawURLEncoding.AppendEncode(append(to, k.header...), payload)
	s.mac.Reset()
	s.mac.Write(to[begin:])
	s.buffer = s.mac.Sum(payload[:0])
	return base64.RawURLEncoding.AppendEncode(append(to, '.'), s.buffer)
}
