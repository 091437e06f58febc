package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/browser"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	others = 500
	// ofServer is how far the answers of apply-api may be from the clock of Redis: half of its longest question.
	ofServer = 250 * time.Millisecond
)

// open signs a user in and opens the page of a coupon.
func open(t *testing.T, gateway string, couponID coupon.CouponID, user coupon.UserID) browser.Page {
	t.Helper()
	p := browser.Open(t)
	signIn(p, gateway, couponID, user)
	return p
}

func signIn(p browser.Page, gateway string, couponID coupon.CouponID, user coupon.UserID) {
	p.T.Helper()
	p.Run(chromedp.Navigate(fmt.Sprintf("%s/?coupon=%d", gateway, couponID)),
		chromedp.WaitVisible("#user"), chromedp.SendKeys("#user", user.Member()), chromedp.Click("#sign-in button"),
		chromedp.WaitNotVisible("#sign-in"))
}

// element and button are expressions in the page; theButton is the selector.
const (
	element   = "document.querySelector('jajeong-coupon')"
	theButton = "jajeong-coupon button"
	button    = "document.querySelector('" + theButton + "')"
)

// apply presses the button as soon as it opens.
func apply(page browser.Page) {
	page.T.Helper()
	page.Run(chromedp.WaitVisible(theButton + "[aria-disabled=false]"))
	press(page)
}

// press presses the button by the keyboard: a click misses it if the page moves in between.
func press(page browser.Page) {
	page.T.Helper()
	page.Run(chromedp.Focus(theButton), chromedp.KeyEvent("\r"))
}

// awaitOpening returns when the button opened, in milliseconds on the page's clock.
func awaitOpening(page browser.Page) float64 {
	page.T.Helper()
	return browser.Read[float64](page, `new Promise(opened => {
		const e = `+element+`, look = () => { if (e.ready) opened(Date.now() + e.ahead) }
		e.addEventListener('jajeong', look)
		look()
	})`)
}

// details are those of a coupon.
type details struct {
	Status  string
	OpensAt time.Time
}

// detailsOf returns what an API knows of a coupon.
func detailsOf(t *testing.T, api string, id coupon.CouponID) (known details) {
	t.Helper()
	response, err := http.Get(fmt.Sprintf("http://%s/v1/coupons/%d", api, id))
	require.NoError(t, err)
	defer response.Body.Close()
	require.NoError(t, json.NewDecoder(response.Body).Decode(&known))
	return known
}

// sees returns what a person reads.
func sees(page browser.Page) string {
	return strings.Join(strings.Fields(browser.Read[string](page, "document.querySelector('main').innerText")), " ")
}

// clockPrecision is how far the page's clock may be from the answers that it got.
func clockPrecision(page browser.Page) time.Duration {
	page.T.Helper()
	const timer = 2 * time.Millisecond // of browsers
	const trips = "Math.max(...performance.getEntriesByType('resource').filter(e => e.name.endsWith('/time')).map(e " +
		"=> e.duration))"
	return time.Duration(browser.Read[float64](page, trips)*float64(time.Millisecond))/2 + timer
}

func awaitText(page browser.Page, text string) {
	page.T.Helper()
	testenv.Eventually(page.T, "the page says: "+text, func() bool { return strings.Contains(sees(page), text) })
}

// The page counts down, the button opens by the clock of Redis, hundreds of others rush in, the place moves, and the
// outcome appears without a reload. In between, Redis is killed and started again.
func TestPage_FromTheCountdownToTheOutcome(t *testing.T) {
	t.Parallel()
	redis := testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true})
	here := jajeongtest.RedisAt(t, redis.Addr())
	here.Prefix = "page:"
	d := jajeongtest.NewWith(t, jajeongtest.Options{Redis: here})
	const user, ahead = coupon.UserID(others + 1), 20
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, user)...)
	id := d.AddCouponBetween(ahead+1, d.Now().Add(12*time.Hour), d.Now().Add(13*time.Hour))
	d.Exec("UPDATE coupon SET name = '블랙프라이데이 5천원', discount_won = 5000, minimum_won = 30000 WHERE id = ?", id)
	immediate := d.AddCoupon(1)
	d.Exec("UPDATE coupon SET cadence = 'IMMEDIATE' WHERE id = ?", immediate)
	pod := d.Start(append(d.Environment(), "MAX_CONNECTIONS=4096"), "./cmd/apply-api", d.Flags(d.API)...)
	gateway := httptest.NewServer(newGateway("http://"+pod.Apply, "http://"+pod.Live))
	t.Cleanup(gateway.Close)

	page := open(t, gateway.URL, id, user)
	awaitText(page, "블랙프라이데이 5천원 5,000원 할인 · 30,000원 이상 구매 시")
	testenv.Eventually(t, "the page counts down",
		func() bool { return regexp.MustCompile(`\d\d:\d\d:\d\d`).MatchString(sees(page)) })
	require.Equal(t, "true", browser.Read[string](page, button+".ariaDisabled"))
	countdown := browser.Read[moment](page, readMoment)
	before := d.Now()
	shown := time.UnixMicro(browser.Read[int64](page, "Math.round((Date.now() + "+element+".ahead) * 1000)"))
	precision := clockPrecision(page) + ofServer
	require.WithinRange(t, shown, before.Add(-precision), d.Now().Add(precision))

	opens := d.Now().Add(10 * time.Second)
	d.Exec("UPDATE coupon SET apply_opens_at = ?, version = version + 1 WHERE id = ?", opens, id)
	testenv.Eventually(t, "the pod knows the new opening",
		func() bool { return detailsOf(t, pod.Apply, id).OpensAt.Equal(opens.Truncate(time.Microsecond)) })
	browser.Read[int](page, element+".refresh(), 0")
	require.GreaterOrEqual(t, awaitOpening(page), float64(opens.UnixMicro())/1000)
	testenv.Eventually(t, "the window opens in Redis", func() bool { return d.Now().After(opens) })

	rush(t, pod.Apply, id, 1, ahead)
	press(page)
	awaitText(page, fmt.Sprintf("대기 순번 %d번 신청이 접수되었습니다. 결과는 이 화면에 표시됩니다.", ahead+1))
	rush(t, pod.Apply, id, ahead+1, others)
	waiting := browser.Read[moment](page, readMoment)

	// Somebody ahead leaves the queue: the place moves.
	d.SetStatus(jajeongtest.Blocked, 1)
	d.MoveToReview(id, "1", coupon.Failure{Cause: coupon.CauseInactiveUser})
	awaitText(page, fmt.Sprintf("대기 순번 %d번", ahead))

	require.NoError(t, redis.Kill())
	awaitText(page, "확인이 지연되고 있습니다")
	require.Contains(t, sees(page), fmt.Sprintf("대기 순번 %d번", ahead))
	require.NoError(t, redis.Restart(t.Context()))
	testenv.Eventually(t, "the page is up to date", func() bool { return !strings.Contains(sees(page), "지연") })
	require.Contains(t, sees(page), fmt.Sprintf("대기 순번 %d번", ahead))

	d.SettleByProgram(id)
	awaitText(page, "쿠폰이 발급되었습니다.")
	requirePicture(t, countdown, waiting, browser.Read[moment](page, readMoment))
	require.Equal(t, 1, browser.Read[int](page, "performance.getEntriesByType('navigation').length"))
	require.Equal(t, "navigate", browser.Read[string](page, "performance.getEntriesByType('navigation')[0].type"),
		"no reload")

	loser := open(t, gateway.URL, id, others)
	awaitText(loser, "이번에는 쿠폰을 받지 못하셨습니다")

	// A coupon that is issued at once tells its outcome within the page, too.
	d.Start(d.Environment(), "./cmd/settle", append([]string{"serve", "--tasks=issue,journal"}, d.Flags(d.Job)...)...)
	winner := open(t, gateway.URL, immediate, 2)
	apply(winner)
	awaitText(winner, "쿠폰이 발급되었습니다.")
	require.Equal(t, 1, browser.Read[int](winner, "performance.getEntriesByType('navigation').length"), "no reload")
	testenv.Eventually(t, "the pod knows that the coupon is sold out",
		func() bool { return detailsOf(t, pod.Apply, immediate).Status == "SOLD_OUT" })
	late := open(t, gateway.URL, immediate, 3)
	awaitText(late, "쿠폰이 모두 소진되었습니다.")
}

// rush lets users apply at the same time.
func rush(t *testing.T, api string, id coupon.CouponID, first, last coupon.UserID) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 200}
	defer transport.CloseIdleConnections()
	var applying sync.WaitGroup
	places := make(chan struct{}, 200)
	for user := first; user <= last; user++ {
		applying.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			for { // no answer in time: the user presses again
				answer := jajeongtest.Ask(transport, api, http.MethodPost, "", id, user)
				if answer.HTTP != 0 && answer.HTTP != http.StatusServiceUnavailable || t.Context().Err() != nil {
					assert.Contains(t, []int{http.StatusAccepted, http.StatusOK}, answer.HTTP, "%+v", answer)
					return
				}
			}
		})
	}
	applying.Wait()
	require.False(t, t.Failed())
}

// The gateway alone says who a user is.
func TestGateway_BelievesNoClient(t *testing.T) {
	t.Parallel()
	var heard []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		heard = append(heard, strings.Join(r.Header.Values("X-User-ID"), ","))
	}))
	t.Cleanup(api.Close)
	gateway := newGateway(api.URL, api.URL)
	ask := func(cookie string) string {
		request := httptest.NewRequest(http.MethodGet, "/v1/live/coupons/1/me", nil)
		request.Header.Set("X-User-ID", "1")
		request.Header.Set("Cookie", cookie)
		gateway.ServeHTTP(httptest.NewRecorder(), request)
		return heard[len(heard)-1]
	}
	signIn := httptest.NewRequest(http.MethodPost, "/sign-in", strings.NewReader("user=7"))
	signIn.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	recorder := httptest.NewRecorder()
	gateway.ServeHTTP(recorder, signIn)
	cookie := recorder.Result().Cookies()[0]
	require.True(t, cookie.HttpOnly)

	require.Equal(t, "7", ask(cookie.String()))
	require.Empty(t, ask(""))
	require.Empty(t, ask("session=7"))
	require.Empty(t, ask(strings.Replace(cookie.String(), "session=7", "session=8", 1)))
}
