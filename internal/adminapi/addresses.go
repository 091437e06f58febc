package adminapi

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
)

// failuresPerSecond is how many requests of one address may have no valid key. Further ones get 429. A request with a
// valid key always passes: callers may share the address of a load balancer with others.
const failuresPerSecond = 5

// addresses limits requests without a valid key. Networks of IPv6 count as one address, because one host has all of it.
type addresses struct {
	seed  maphash.Seed
	rates *httpapi.UserRates
}

func newAddresses(now time.Time) *addresses {
	return &addresses{maphash.MakeSeed(), httpapi.NewUserRates(failuresPerSecond, now)}
}

// ipv6Network is the prefix that a provider gives to one customer at least.
const ipv6Network = 64

// wait counts a request. It returns after how long the address may send the next one; 0: this one was allowed.
func (a *addresses) wait(r *http.Request, now time.Time) time.Duration {
	var from netip.Addr
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = peer.Addr().Unmap().WithZone("")
	}
	if from.Is6() {
		network, _ := from.Prefix(ipv6Network) // no error: an address of IPv6 has so many bits
		from = network.Addr()
	}
	return a.rates.Wait(coupon.UserID(maphash.Comparable(a.seed, from)), now)
}
