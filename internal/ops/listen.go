package ops

import (
	"net"
	"net/netip"

	"go.uber.org/zap"
)

// ListenAdmin opens the admin port, and warns if the internet may reach it.
func ListenAdmin(address string, logger *zap.Logger) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok {
		if public := publicOf(at.AddrPort().Addr(), net.InterfaceAddrs); public.IsValid() {
			logger.Warn(
				"the admin port listens on a public address: whoever reaches it reads metrics and profiles. Set a "+
					"private address, or close the port in the firewall",
				zap.Stringer("admin", at), zap.Stringer("public", public))
		}
	}
	return listener, nil
}

// shared is the address space of RFC 6598, which clusters use inside.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// IsInside reports whether the internet does not reach an address, because it is private, shared or of this machine.
func IsInside(address netip.Addr) bool {
	address = address.Unmap()
	return address.IsPrivate() || address.IsLoopback() || shared.Contains(address)
}

// publicOf returns the public address by which a listener is reached; the zero Addr if there is none. A listener
// without an address is reached by those of every interface.
func publicOf(at netip.Addr, interfaces func() ([]net.Addr, error)) netip.Addr {
	all := []netip.Addr{at}
	if at.IsUnspecified() {
		all = nil
		found, _ := interfaces() // without them, there is nothing to say
		for _, one := range found {
			if prefix, err := netip.ParsePrefix(one.String()); err == nil {
				all = append(all, prefix.Addr())
			}
		}
	}
	for _, one := range all {
		if one = one.Unmap(); one.IsGlobalUnicast() && !IsInside(one) {
			return one
		}
	}
	return netip.Addr{}
}
