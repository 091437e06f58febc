package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// reader follows links and buttons of pages, and counts the clicks since the search.
type reader struct {
	visitor
	page   string
	clicks int
}

var anchor = regexp.MustCompile(`<a href="([^"]*)"[^>]*>([^<]*)</a>`)

// find types into the search box.
func (r *reader) find(typed string) *reader {
	r.t.Helper()
	r.clicks = 0
	_, r.page, _ = r.ask(http.MethodGet, "/search?q="+url.QueryEscape(typed), nil)
	return r
}

// click follows the link with this text, if its address has the part.
func (r *reader) click(text, part string) *reader {
	r.t.Helper()
	_, main, _ := strings.Cut(r.page, "<main")
	for _, found := range anchor.FindAllStringSubmatch(main, -1) {
		href := html.UnescapeString(found[1])
		if strings.Contains(found[2], text) && strings.Contains(href, part) {
			r.clicks++
			status, page, _ := r.ask(http.MethodGet, href, nil)
			require.Equal(r.t, http.StatusOK, status, href)
			r.page = page
			return r
		}
	}
	require.Fail(r.t, "no link "+text, main)
	return r
}

func (r *reader) sees(what ...string) {
	r.t.Helper()
	require.LessOrEqual(r.t, r.clicks, 3)
	for _, one := range what {
		require.Contains(r.t, r.page, one)
	}
}

// The questions of the handbook ("What people ask customer service") are answered within three clicks from the search
// box.
func TestTickets_AreAnsweredWithinThreeClicks(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 9)...)
	waits, decided := d.AddCoupon(3), d.AddCoupon(2)
	d.Apply(waits, 7)
	d.Apply(decided, 1, 2, 7, 8)
	d.SetStatus(jajeongtest.Blocked, 2)
	d.SettleNow(decided) // users 1 and 7 have one; 2 is under review; 8 found no seat
	cs := &reader{visitor: visitor{t, "http://" + behindProxy(d).Console, "park", "team-cs"}}
	person := func(user coupon.UserID) *reader {
		// A coupon or a run has the number, too.
		if cs.find(user.Member()); !strings.Contains(cs.page, fmt.Sprintf("<h1>고객 %d번", user)) {
			cs.click("고객", "/people/")
		}
		return cs
	}
	of := func(user coupon.UserID, id coupon.CouponID) *reader {
		return person(user).click(id.String(), fmt.Sprint("/coupons/", id))
	}
	of(7, waits).sees("신청하셨", "정산")                           // the screen froze: did I apply?
	of(7, decided).click("회수", "/do/revoke").sees("회수", "사유") // please take it back
	of(2, decided).sees("검토")                                 // my account was closed, or blocked by mistake
	of(2, decided).click("재시도", "/do/retry").sees("재시도")      // you blocked my account
	of(2, decided).click("거절", "/do/drop").sees("거절")         // decided to end it
	person(7).sees("사용 가능", fmt.Sprint(decided))              // which coupons do I have?
	lastDay := time.Now().AddDate(0, 0, 60)
	of(7, decided).click("유효 기한", "/do/extend-user").sees("유효한 마지막 날") // it has expired
	_, cs.page, _ = cs.ask(http.MethodGet, fmt.Sprintf("/do/extend-user?coupon=%d&user=7&until=%s", decided,
		lastDay.Format(time.DateOnly)), nil)
	cs.sees(lastDay.AddDate(0, 0, 1).Format(time.DateOnly)+" 00:00:00 KST", "사유")
	person(7).sees("settle user forget")                  // delete what you have stored
	of(8, decided).sees("선정되지 않으셨습니다")                    // why did I get none?
	of(8, decided).click("지급", "/do/grant").sees("쿠폰 지급") // give one all the same
	d.Exec("INSERT INTO coupon_order (order_id, user_coupon_id, user_id, amount_won, discount_won, state, "+
		"reserved_until) SELECT '주문/2:가', id, 7, 1000, 0, 'RELEASED', UTC_TIMESTAMP(6) FROM user_coupon WHERE "+
		"coupon_id = ? AND user_id = 7", decided)
	cs.find("주문/2:가").sees("고객 7번") // was my coupon used twice? one order leads to the page at once
	d.Exec("DELETE FROM coupon_order")
	// The form of the customer's page.
	_, cs.page, _ = person(9).ask(http.MethodGet, fmt.Sprintf("/search?user=9&coupon=%d", decided), nil)
	// The coupon is not in my wallet.
	cs.sees("기록이 없습니다")
}
