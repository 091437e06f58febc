package ops

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"

	"github.com/jajeong/jajeong/internal/text"
)

// minProxyBits is the prefix of the widest network without public addresses, fc00::/7.
const minProxyBits = 7

// Proxies are the networks of a setting with trusted proxies.
type Proxies []netip.Prefix

// ParseProxies parses networks and single addresses. wrong is the message about one that is neither.
func ParseProxies(networks []string, wrong text.Message) (proxies Proxies, err error) {
	var problems []error
	for _, one := range networks {
		var address netip.Addr
		prefix, err := netip.ParsePrefix(one)
		if err != nil {
			if address, err = netip.ParseAddr(one); err == nil {
				prefix, err = address.Prefix(address.BitLen())
			}
		}
		if err != nil || address.Zone() != "" || prefix.Addr().Is4In6() || prefix != prefix.Masked() {
			problems = append(problems, text.UsageErrorf(wrong, one))
		}
		proxies = append(proxies, prefix)
	}
	return proxies, errors.Join(problems...)
}

// Have reports whether an address is in one of the networks.
func (p Proxies) Have(address netip.Addr) bool {
	return slices.ContainsFunc(p, func(one netip.Prefix) bool { return one.Contains(address) })
}

// Sent reports whether a request came from one of the networks.
func (p Proxies) Sent(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && p.Have(peer.Addr().Unmap().WithZone(""))
}

// ArePublic reports whether a network is so wide that it has public addresses.
func (p Proxies) ArePublic() bool {
	return slices.ContainsFunc(p, func(one netip.Prefix) bool { return one.Bits() < minProxyBits })
}
