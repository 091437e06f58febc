package wallet_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/wallet"
)

// connectThrough opens the pool of the wallet's account through a proxy.
func (s *shop) connectThrough(rule faultproxy.Rule) {
	s.T.Helper()
	dsn, err := mysql.ParseDSN(s.Wallet.MySQLDSN)
	require.NoError(s.T, err)
	proxy := faultproxy.New(s.T, rule, dsn.Addr)
	s.connect(strings.Replace(s.Wallet.MySQLDSN, "("+dsn.Addr+")", "("+proxy.Addr+")", 1))
}

// cut is what happens to a request to MySQL.
type cut struct {
	action  faultproxy.Action
	commits bool // COMMIT is the only request that is counted
}

// A connection is cut after every request of a call to MySQL, and before its COMMIT. The call repeated answers the
// state.
func TestRedeem_RepeatedAfterLostReply(t *testing.T) {
	t.Parallel()
	const users = 60
	s := newShop(t, users)
	var blow atomic.Pointer[cut]
	var left atomic.Int64
	s.connectThrough(func(turn faultproxy.Turn) faultproxy.Action {
		if cut := blow.Load(); cut != nil && (!cut.commits || bytes.HasSuffix(turn.Request, []byte("COMMIT"))) &&
			left.Add(-1) == 0 {
			return cut.action
		}
		return faultproxy.Pass()
	})
	life := []op{{verb: wallet.Reserve, amount: 12_000, ttl: 1}, {verb: wallet.Confirm}, {verb: wallet.Refund},
		{verb: wallet.Reserve, order: 1, amount: 12_000}, {verb: wallet.Reserve, order: 2, amount: 12_000, ttl: 1},
		{verb: wallet.Release, order: 2}}
	user, struck := coupon.UserID(0), 0
	for _, cut := range []cut{{faultproxy.DropRequest(nil), true}, {faultproxy.DropReply(nil), false}} {
		for turn := int64(1); ; turn++ {
			user++
			hits := 0
			for _, c := range life {
				left.Store(turn)
				blow.Store(&cut)
				code, err := s.call(t.Context(), user, c)
				blow.Store(nil)
				hit := left.Load() <= 0
				if hit {
					hits++
				}
				if err != nil { // unknown whether it was done: the next call tells
					code, err = s.call(t.Context(), user, c)
					require.NoError(t, err)
				}
				require.Contains(t, []wallet.Code{wallet.Done, wallet.Repeated}, code, "%v, turn %d", c, turn)
				code, err = s.call(t.Context(), user, c)
				require.NoError(t, err)
				require.Equal(t, wallet.Repeated, code, "%v, turn %d", c, turn)
				if hit {
					s.requireSame(user, nil)
				}
			}
			struck += hits
			if hits == 0 {
				break
			}
		}
	}
	require.Greater(t, struck, 6*len(life))
	t.Logf("passed: %d cuts", struck)
}
