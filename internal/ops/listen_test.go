package ops

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPublicOf(t *testing.T) {
	t.Parallel()
	interfaces := func(all ...string) func() ([]net.Addr, error) {
		return func() (found []net.Addr, err error) {
			for _, one := range all {
				address, network, err := net.ParseCIDR(one)
				require.NoError(t, err)
				found = append(found, &net.IPNet{IP: address, Mask: network.Mask})
			}
			return found, nil
		}
	}
	for at, public := range map[string]string{
		"127.0.0.1": "", "10.1.2.3": "", "192.168.1.1": "", "100.64.0.1": "", "fd00::1": "", "fe80::1": "", "::1": "",
		"203.0.113.7": "203.0.113.7", "2001:db8::7": "2001:db8::7", "::ffff:203.0.113.7": "203.0.113.7",
	} {
		found := publicOf(netip.MustParseAddr(at), interfaces("198.51.100.1/24"))
		require.Equal(t, public != "", found.IsValid(), at)
		if public != "" {
			require.Equal(t, public, found.String())
		}
	}
	for _, any := range []string{"0.0.0.0", "::"} {
		require.False(t, publicOf(netip.MustParseAddr(any),
			interfaces("127.0.0.1/8", "10.0.0.9/24", "fe80::1/64")).IsValid())
		require.Equal(t, "198.51.100.1", publicOf(netip.MustParseAddr(any),
			interfaces("10.0.0.9/24", "198.51.100.1/24")).String())
	}
}
