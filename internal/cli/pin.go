package cli

import (
	"regexp"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/text"
)

// pinFlags are the flags of a verb whose preview has a digest: with it, the verb changes what the preview showed, or
// nothing.
type pinFlags struct {
	ExpectDigest digest `placeholder:"DIGEST" form:"-"`
}

// expected returns an error if what would be changed now has another digest.
func (f pinFlags) expected(now string) error { return approval.Expected(string(f.ExpectDigest), now) }

// expect is for settle.Order.
func (f pinFlags) expect(id coupon.CouponID) map[coupon.CouponID]string {
	if f.ExpectDigest == "" {
		return nil
	}
	return map[coupon.CouponID]string{id: string(f.ExpectDigest)}
}

// digest is one that a preview has printed.
type digest string

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (d *digest) UnmarshalText(given []byte) error {
	if len(given) > 0 && !digestForm.Match(given) { // an empty flag has a message of its own
		return text.Errorf(text.WantDigest)
	}
	*d = digest(given)
	return nil
}
