package candidates

import (
	"slices"
	"strconv"
	"strings"
)

// couponKey is how the queue of a coupon begins, behind the prefix of the deployment.
const couponKey = "candidates:coupon:"

// keys names everything a coupon has in Redis. A hash tag keeps it all in one Cluster slot: a key without braces
// hashes whole, so `{candidates:coupon:42}` lands beside `candidates:coupon:42`.
type keys struct {
	queue    string // ZSET: user id → arrival
	state    string // HASH: accepted, last, opens, closes, status, sold, version, version_at, twice, final, and of the epoch run_id, since, base, base_twice
	issued   string // SET: users who hold the coupon
	rejected string // SET: users whose application was rejected for good
	dlq      string // ZSET: as queue
	reason   string // HASH: user id → JSON Reason
}

// namespace builds every key of one deployment.
type namespace struct{ prefix string }

func (n namespace) coupon(id uint64) keys {
	queue := n.prefix + couponKey + strconv.FormatUint(id, 10)
	tag := "{" + queue + "}"
	return keys{
		queue:    queue,
		state:    "state:" + tag,
		issued:   "issued:" + tag,
		rejected: "rejected:" + tag,
		dlq:      "dlq:" + tag,
		reason:   "dlq:reason:" + tag,
	}
}

// catalog is the snapshot of all coupons for pods that cannot reach MySQL.
func (n namespace) catalog() string { return n.prefix + "catalog:coupons" }

// globbing is what a pattern of Redis takes for more than itself.
var globbing = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// pattern fits every key of every coupon, and perhaps some of another deployment.
func (n namespace) pattern() string { return "*" + globbing.Replace(n.prefix) + couponKey + "*" }

// couponOf is whose key that is; false for one that is none of this deployment's.
func (n namespace) couponOf(name string) (id uint64, ok bool) {
	queue := name
	if _, tagged, found := strings.Cut(name, ":{"); found {
		queue = strings.TrimSuffix(tagged, "}")
	}
	digits, ok := strings.CutPrefix(queue, n.prefix+couponKey)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, false
	}
	k := n.coupon(id)
	return id, slices.Contains([]string{k.queue, k.state, k.issued, k.rejected, k.dlq, k.reason}, name)
}
