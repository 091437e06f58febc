package events

// PublishAtMost sets how many coupons a round publishes at most.
func (r *Relay) PublishAtMost(coupons int) { r.most, r.room = coupons, coupons }

// ListAtMost sets how many missing events are listed at most.
func (v *Verification) ListAtMost(missing int) { v.most = missing }
