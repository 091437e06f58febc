package candidates

import "strconv"

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
	queue := n.prefix + "candidates:coupon:" + strconv.FormatUint(id, 10)
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
