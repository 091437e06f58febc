package main

import (
	"slices"
	"sync"

	"github.com/jajeong/jajeong/internal/coupon"
)

// referee counts from the answers alone: an order has used a coupon if every step was granted. It does not read the tables of
// a contender, which know only the last order.
type referee struct {
	mu   sync.Mutex
	used map[issued][]string
}

type issued struct {
	coupon coupon.CouponID
	user   coupon.UserID
}

func newReferee() *referee { return &referee{used: map[issued][]string{}} }

func (r *referee) note(w want) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := issued{w.coupon, w.user}
	if !slices.Contains(r.used[key], w.order) {
		r.used[key] = append(r.used[key], w.order)
	}
}

// count returns how many coupons were used, and how many of them by two or more orders.
func (r *referee) count() (used, twice int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, orders := range r.used {
		if len(orders) > 1 {
			twice++
		}
	}
	return len(r.used), twice
}
