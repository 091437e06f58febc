package events

// PublishAtMost sets how many coupons a round publishes at most.
func (r *Relay) PublishAtMost(coupons int) { r.most, r.room = coupons, coupons }
