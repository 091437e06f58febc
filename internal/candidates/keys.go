package candidates

import (
	"slices"
	"strconv"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
)

// couponKey stands between the deployment's prefix and the coupon id in the name of a queue.
const couponKey = "candidates:coupon:"

// keys are the names of a coupon's keys. A Cluster keeps all of them in one slot, because it hashes the part within
// braces, or else the whole name: in each case the name of the queue.
type keys struct {
	queue    string // ZSET: user id → arrival
	state    string // HASH: docs/design.md, section 3, lists the fields
	issued   string // ZSET: user id → arrival, of users with an issued coupon; 0: given by hand
	rejected string // SET: users with a rejected application
	dlq      string // ZSET: user id → arrival
	reason   string // HASH: user id → JSON Reason
	returned string // ZSET: user id → arrival, of users whom pods hand over to a restore
}

// namespace builds the key names of one deployment.
type namespace struct{ prefix string }

// queue returns only the first key of a coupon: a look at many coupons needs no other.
func (n namespace) queue(id coupon.CouponID) string { return n.prefix + couponKey + id.String() }

func (n namespace) coupon(id coupon.CouponID) keys {
	queue := n.queue(id)
	return keys{
		queue:    queue,
		state:    "state:{" + queue + "}",
		issued:   "issued:{" + queue + "}",
		rejected: "rejected:{" + queue + "}",
		dlq:      "dlq:{" + queue + "}",
		reason:   "dlq:reason:{" + queue + "}",
		returned: "returned:{" + queue + "}",
	}
}

func (n namespace) catalog() string { return n.prefix + "catalog:coupons" }

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// pattern returns a Redis pattern for the keys of all coupons. It may also match keys of other deployments.
func (n namespace) pattern() string { return "*" + globEscaper.Replace(n.prefix) + couponKey + "*" }

// couponOf returns the coupon to which a key belongs. ok is false if the key is none of this deployment.
func (n namespace) couponOf(name string) (id coupon.CouponID, ok bool) {
	queue := name
	if _, tagged, found := strings.Cut(name, ":{"); found {
		queue = strings.TrimSuffix(tagged, "}")
	}
	digits, ok := strings.CutPrefix(queue, n.prefix+couponKey)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, false
	}
	id = coupon.CouponID(number)
	k := n.coupon(id)
	return id, slices.Contains([]string{k.queue, k.state, k.issued, k.rejected, k.dlq, k.reason,
		k.returned}, name)
}
