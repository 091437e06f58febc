package systemtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// A pod freezes as it writes to MySQL what it has accepted. Other pods refresh the same coupons, and a run settles
// them.
func TestApply_FrozenPodLetsOthersWork(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddCoupon(2)
	d.AddUsers(1, 2, 3)
	d.Journal(id)
	d.Exec("UPDATE journal SET written_at = UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE") // settle serve is away
	through, s := stopAt(d, toMySQL("UPDATE journal SET accepted"))
	pod := through.Start(d.Environment(), "./cmd/apply-api", through.Flags(through.API)...)
	s.arm(t, pod.Process)
	d.Apply(id, 1, 2)
	s.await(t)
	d.Apply(id, 3)
	require.NoError(t, d.Catalog().Refresh(t.Context()), "it leaves out the row that is locked")
	d.SettleNow() // not BUSY
	s.thaw()
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(id))
	d.Verify()
}

// A wallet-api freezes within the transaction of a reservation. Its session ends, and another one makes the same
// reservation.
func TestWallet_FrozenReservationIsMadeElsewhere(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(2, 1, 2)
	d.SettleNow()
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, fmt.Appendf(nil, "checkout %x\n", sha256.Sum256([]byte(shopKey))), 0o600))
	through, s := stopAt(d, toMySQL("INSERT INTO coupon_log"))
	start := func(d *jajeongtest.Deployment) *testenv.Program {
		return d.Start(d.Environment(), "./cmd/wallet-api", "--mysql-dsn="+d.Wallet.MySQLDSN,
			"--service-keys-file="+keys)
	}
	frozen, other := start(through), start(d)
	s.arm(t, frozen.Process)
	ctx := testenv.Patient(t)
	unanswered := make(chan int, 1)
	go func() { unanswered <- reserve(ctx, frozen.Wallet, "A-1", id, 1) }()
	s.await(t)

	require.Equal(t, http.StatusCreated, reserve(ctx, other.Wallet, "B-1", id, 2), "of another user")
	testenv.Eventually(t, "the other wallet-api reserves", func() bool {
		return reserve(ctx, other.Wallet, "A-1", id, 1) == http.StatusCreated
	})
	s.thaw()
	testenv.Receive(t, "the frozen wallet-api answers, or gives up", unanswered)
	require.Equal(t, http.StatusOK, reserve(ctx, frozen.Wallet, "A-1", id, 1), "the same order again")
	require.Equal(t, http.StatusConflict, reserve(ctx, frozen.Wallet, "A-2", id, 1))
	require.EqualValues(t, 2, d.Number("SELECT COUNT(*) FROM coupon_log"))
	d.Verify()
}

// reserve returns the status of the answer, 0 without one.
func reserve(ctx context.Context, wallet, order string, id coupon.CouponID, user coupon.UserID) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+wallet+"/v1/orders/"+order+"/coupon",
		bytes.NewBufferString(fmt.Sprintf(`{"couponId":%d,"userId":%d,"amountWon":10000}`, id, user)))
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+shopKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}
