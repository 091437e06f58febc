package candidates

import (
	"slices"
	"strconv"
	"strings"

	"github.com/jajeong/jajeong/internal/coupon"
)

// couponKey begins the name of every queue, behind the prefix of the deployment.
const couponKey = "candidates:coupon:"

// keys are the names of a coupon's keys. They share a Cluster slot: a name without braces is hashed whole, so
// `{candidates:coupon:42}` lies beside `candidates:coupon:42`.
type keys struct {
	queue    string // ZSET: user id → arrival
	state    string // HASH: opens, closes, status, sold, version, version_at, final, last, accepted, twice; lua/epoch.lua: run_id, since, base, base_twice; lua/restore.lua: twice:<user id>
	issued   string // SET: users with an issued coupon
	rejected string // SET: users with a rejected application
	dlq      string // ZSET: as queue
	reason   string // HASH: user id → JSON Reason
}

// namespace builds the key names of one deployment.
type namespace struct{ prefix string }

func (n namespace) coupon(id coupon.CouponID) keys {
	queue := n.prefix + couponKey + id.String()
	return keys{
		queue:    queue,
		state:    "state:{" + queue + "}",
		issued:   "issued:{" + queue + "}",
		rejected: "rejected:{" + queue + "}",
		dlq:      "dlq:{" + queue + "}",
		reason:   "dlq:reason:{" + queue + "}",
	}
}

// catalog is the key of the catalog snapshot.
func (n namespace) catalog() string { return n.prefix + "catalog:coupons" }

// globEscaper escapes the wildcards of Redis patterns.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// pattern matches every key of every coupon, and perhaps keys of another deployment.
func (n namespace) pattern() string { return "*" + globEscaper.Replace(n.prefix) + couponKey + "*" }

// couponOf returns the coupon of a key; ok is false for a key outside this deployment.
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
	return id, slices.Contains([]string{k.queue, k.state, k.issued, k.rejected, k.dlq, k.reason}, name)
}
