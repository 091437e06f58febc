package walletapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv/openapi"
	"github.com/jajeong/jajeong/internal/wallet"
	"github.com/jajeong/jajeong/internal/walletapi"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// shop is a deployment with the wallet API in the process of the test, under the account of wallet-api.
type shop struct {
	*jajeongtest.Deployment
	server *httptest.Server
	client *http.Client // checks each response against the contract
}

func newShop(t *testing.T) *shop {
	t.Helper()
	d := jajeongtest.New(t)
	store := wallet.NewStore(d.WalletPool())
	d.AddUsers(7)
	s := &shop{Deployment: d}
	options := walletapi.Options{Redeem: store.Redeem, List: store.List,
		Keys: keysOf(t, "checkout", "k1", "till", "k2", "Checkout", "k3")}
	s.server = httptest.NewServer(newHandler(options))
	t.Cleanup(s.server.Close)
	s.client = &http.Client{Transport: openapi.Wallet.Transport(t, s.server.Client().Transport)}
	return s
}

// issue issues a coupon with a discount of 5,000 won to user 7.
func (s *shop) issue() coupon.CouponID {
	id := s.AddCoupon(1)
	s.Exec("UPDATE coupon SET discount_won = 5000 WHERE id = ?", id)
	s.Apply(id, 7)
	s.SettleNow()
	return id
}

// reply is a response. Its members are those that tests look at.
type reply struct {
	Status                                           int `json:"-"`
	Code, State, CouponState, OrderID, Until, Detail string
	AmountWon, DiscountWon, FinalWon, MinimumWon     int64
	ReservedUntil, ValidUntil, Now                   string
	CouponID                                         coupon.CouponID
	UserID                                           coupon.UserID
	Next                                             string
	Coupons                                          []map[string]any
}

func (s *shop) send(method, path, body string, headers ...string) (r reply) {
	request, err := http.NewRequest(method, s.server.URL+path, strings.NewReader(body))
	require.NoError(s.T, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.T.Error(err)
		return r
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.T.Error(err)
	}
	if len(content) > 0 {
		if err := json.Unmarshal(content, &r); err != nil {
			s.T.Errorf("%v in %s", err, content)
		}
	}
	r.Status = response.StatusCode
	return r
}

// call makes a call of the checkout: read, reserve, release, confirm or refund.
func (s *shop) call(what, order string, body ...any) reply {
	return s.callAs("k1", what, order, body...)
}

// callAs makes a call with a service key.
func (s *shop) callAs(key, what, order string, body ...any) reply {
	method, path, text := "POST", "/v1/orders/"+url.PathEscape(order)+"/coupon", ""
	switch what {
	case "read":
		method = "GET"
	case "reserve":
		method, text = "PUT", fmt.Sprintf(`{"couponId":%v,"userId":%v,"amountWon":%v}`, body...)
	case "release":
		method = "DELETE"
	default:
		path += "/" + what
	}
	return s.send(method, path, text, "Authorization", "Bearer "+key, "Accept-Language", "en")
}

func (s *shop) wallet(user coupon.UserID, query string) reply {
	return s.send("GET", "/v1/wallet/coupons"+query, "", "X-User-ID", fmt.Sprint(user))
}

// reads demands that the state of an order is what a call has just answered, but for the clock, and that asking changes
// nothing.
func (s *shop) reads(order string, was reply) {
	s.T.Helper()
	rows := s.rows()
	is := s.call("read", order)
	require.GreaterOrEqual(s.T, is.Now, was.Now)
	was.Status, was.Now = http.StatusOK, is.Now
	require.Equal(s.T, was, is)
	require.Equal(s.T, http.StatusOK, s.send("HEAD", "/v1/orders/"+url.PathEscape(order)+"/coupon", "", "Authorization",
		"Bearer k1").Status)
	require.Equal(s.T, rows, s.rows())
}

// rows are what calls of the checkout can change.
func (s *shop) rows() []string {
	return jajeongtest.Column[string](s.Deployment, `
SELECT CONCAT_WS('|', 'order', order_id, user_coupon_id, amount_won, discount_won, state, reserved_until)
    FROM coupon_order
UNION ALL SELECT CONCAT_WS('|', 'coupon', id, status, order_id, seq, expires_at) FROM user_coupon
UNION ALL SELECT CONCAT_WS('|', 'log', user_coupon_id, seq, kind, order_id, actor) FROM coupon_log ORDER BY 1`)
}

// Every call is made three times, as after lost replies: it answers its state, which can also be asked for.
func TestOrders_FromReservationToRefund(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.issue()
	require.Equal(t, 204, s.call("release", "A-1").Status)
	require.Equal(t, 404, s.call("confirm", "A-1").Status)
	require.Equal(t, 404, s.call("refund", "A-1").Status)
	require.Equal(t, "ORDER_NOT_FOUND", s.call("read", "A-1").Code)
	for i, status := range []int{201, 200, 200} {
		r := s.call("reserve", "A-1", id, 7, 12_000)
		require.Equal(t, status, r.Status, i)
		require.Equal(t, []any{"A-1", id, coupon.UserID(7)}, []any{r.OrderID, r.CouponID, r.UserID})
		require.Equal(t, []string{"RESERVED", "RESERVED"}, []string{r.State, r.CouponState})
		require.Equal(t, []int64{12_000, 5000, 7000}, []int64{r.AmountWon, r.DiscountWon, r.FinalWon})
		require.NotEmpty(t, r.ReservedUntil)
		s.reads("A-1", r)
	}
	for order, want := range map[string]string{"A-1": "ORDER_DIFFERS", "A-2": "RESERVED_ELSEWHERE"} {
		r := s.call("reserve", order, id, 7, 12_001)
		require.Equal(t, want, r.Code)
		require.Equal(t, order == "A-2", r.Until != "")
		require.Equal(t, order == "A-2", r.OrderID == "A-1", "the service has reserved for A-1 itself")
	}
	for _, other := range []string{"k2", "k3"} {
		r := s.callAs(other, "reserve", "A-2", id, 7, 12_000)
		require.Equal(t, []string{"RESERVED_ELSEWHERE", ""}, []string{r.Code, r.OrderID},
			"the order of another service")
		require.NotEmpty(t, r.Until)
	}
	s.Exec("UPDATE coupon SET minimum_won = 20000 WHERE id = ?", id)
	s.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6)")
	r := s.call("reserve", "A-2", id, 7, 12_000)
	require.Equal(t, []any{"BELOW_MINIMUM", int64(20_000)}, []any{r.Code, r.MinimumWon})
	s.Exec("UPDATE coupon SET minimum_won = 0 WHERE id = ?", id)
	require.Equal(t, "NOT_OWNED", s.call("reserve", "A-2", id, 8, 12_000).Code)
	require.Equal(t, "NOT_USED", s.call("refund", "A-1").Code)
	for range 3 {
		r := s.call("confirm", "A-1")
		require.Equal(t, []any{200, "USED", "USED"}, []any{r.Status, r.State, r.CouponState})
		s.reads("A-1", r)
	}
	require.Equal(t, "USED", s.call("release", "A-1").Code)
	require.Equal(t, "USED", s.call("reserve", "A-2", id, 7, 12_000).Code)
	for range 3 {
		r := s.call("refund", "A-1")
		require.Equal(t, []any{200, "REFUNDED", "ISSUED"}, []any{r.Status, r.State, r.CouponState})
		s.reads("A-1", r)
	}
	require.Equal(t, "ORDER_REFUNDED", s.call("reserve", "A-1", id, 7, 12_000).Code)
	require.Equal(t, 201, s.call("reserve", "A-2", id, 7, 3000).Status)
	for range 3 {
		r := s.call("release", "A-2")
		require.Equal(t, []any{200, "RELEASED", int64(0)}, []any{r.Status, r.State, r.FinalWon})
		s.reads("A-2", r)
	}
	require.Equal(t, "RESERVATION_LOST", s.call("confirm", "A-2").Code)
	require.Equal(t, []string{"checkout"}, jajeongtest.Column[string](s.Deployment,
		"SELECT DISTINCT actor FROM coupon_log"))
}

func TestOrders_RefundAfterExpiryTellsSo(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	id := s.issue()
	require.Equal(t, 201, s.call("reserve", "A-1", id, 7, 12_000).Status)
	s.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6)")
	s.Exec("UPDATE coupon_order SET reserved_until = UTC_TIMESTAMP(6)")
	r := s.call("reserve", "A-1", id, 7, 12_000)
	require.Equal(t, []any{200, "RESERVED", "EXPIRED"}, []any{r.Status, r.State, r.CouponState},
		"the order has it, though it ran out")
	require.Equal(t, "EXPIRED", s.call("reserve", "A-2", id, 7, 12_000).Code)
	require.Equal(t, 200, s.call("confirm", "A-1").Status, "the price was promised")
	require.Equal(t, "EXPIRED", s.call("refund", "A-1").CouponState)
	require.Equal(t, "EXPIRED", s.wallet(7, "").Coupons[0]["state"])
}

// An id is what the shop made it, letter for letter: others that look the same to a dictionary are other orders.
func TestOrders_IDsAreComparedByteByByte(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	const order = "주문/2026:11-É?#%가"
	id := s.issue()
	for _, step := range []string{"reserve", "confirm", "refund"} {
		r := s.call(step, order, id, 7, 12_000)
		require.Less(t, r.Status, 300, "%s: %s", step, r.Code)
		require.Equal(t, order, r.OrderID)
		s.reads(order, r)
	}
	for _, other := range []string{"주문/2026:11-é?#%가", "주문/2026:11-E?#%가", "주문/2026:11-É?#%각", "주문:2026/11-É?#%가"} {
		require.Equal(t, "ORDER_NOT_FOUND", s.call("read", other).Code, other)
	}
	require.Equal(t, 201, s.call("reserve", strings.ToLower(order), id, 7, 12_000).Status)
	held := s.call("reserve", "B", id, 7, 12_000)
	require.Equal(t, []string{"RESERVED_ELSEWHERE", strings.ToLower(order)}, []string{held.Code, held.OrderID})
	require.Equal(t, strings.ToLower(order), s.wallet(7, "").Coupons[0]["orderId"])
	for _, wrong := range []string{"a/../b", "a ", "\u1112\u1161\u11ab", "a\xff"} {
		require.Equal(t, "INVALID_ORDER_ID", s.call("reserve", wrong, id, 7, 12_000).Code, "%q", wrong)
	}
}

func TestWallet_ByPages(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	require.Empty(t, s.wallet(7, "").Coupons)
	require.NotEmpty(t, s.wallet(7, "").Now)
	var ids []coupon.CouponID
	for range 5 {
		ids = append(ids, s.issue())
	}
	s.Exec("UPDATE coupon SET discount_won = 0, discount_percent = 10, discount_max_won = 9000, minimum_won = 100 "+
		"WHERE id = ?", ids[0])
	s.Exec("UPDATE user_coupon SET status = 'REVOKED' WHERE coupon_id = ?", ids[1])
	require.Equal(t, 201, s.call("reserve", "A-1", ids[4], 7, 12_000).Status)

	var found []coupon.CouponID
	var states []any
	query := "?limit=2"
	for pages := 1; ; pages++ {
		page := s.wallet(7, query)
		require.Equal(t, 200, page.Status)
		for _, one := range page.Coupons {
			found = append(found, coupon.CouponID(one["couponId"].(float64)))
			states = append(states, one["state"])
		}
		if page.Next == "" {
			require.Equal(t, 3, pages)
			require.Equal(t, 10.0, page.Coupons[0]["discountPercent"])
			require.NotContains(t, page.Coupons[0], "discountWon")
			break
		}
		query = "?limit=2&before=" + page.Next
	}
	require.Equal(t, []coupon.CouponID{ids[4], ids[3], ids[2], ids[1], ids[0]}, found)
	require.Equal(t, []any{"RESERVED", "ISSUED", "ISSUED", "REVOKED", "ISSUED"}, states)
	first := s.wallet(7, "").Coupons
	require.Len(t, first, 5)
	require.Equal(t, "A-1", first[0]["orderId"])
	require.Empty(t, s.wallet(8, "").Coupons)
	require.Equal(t, 200, s.send("HEAD", "/v1/wallet/coupons", "", "X-User-ID", "7").Status)
	for _, wrong := range []string{"?limit=0", "?limit=101", "?limit=x", "?limit=1&limit=2",
		"?limit=01", "?limit=3&before=638%", "?limit=1;x=2", "?before=0", "?before=x", "?before=1&before=2",
		"?before="} {
		require.Equal(t, "INVALID_PAGE", s.wallet(7, wrong).Code, wrong)
	}
}
