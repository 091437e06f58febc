package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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
	"github.com/jajeong/jajeong/internal/testenv/process"
)

func TestMain(m *testing.M) {
	code := testenv.WithServers{M: m}.Run()
	stopChromium()
	os.Exit(code)
}

const (
	others = 500
	// ofServer is how far the answers of apply-api may be from the clock of Redis: half of its longest question.
	ofServer = 250 * time.Millisecond
)

// stopChromium ends what chromium has started.
var stopChromium = func() {}

// chromium starts the browser of all tests.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path, err := process.Find("chromium", "chromium-browser", "google-chrome")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox does not work for root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	stopChromium = func() { _ = chromedp.Cancel(ctx); cancel(); stop() }
	return ctx, chromedp.Do(ctx) // the browser ends with the first context that it gets
})

// browser is a page in headless Chromium, without the cookies of other pages.
type browser struct {
	t *testing.T
	context.Context
}

// open signs a user in and opens the page of a coupon.
func open(t *testing.T, gateway string, couponID coupon.CouponID, user coupon.UserID) browser {
	t.Helper()
	parent, err := chromium()
	require.NoError(t, err)
	ctx, closePage := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); closePage() })
	require.NoError(t, chromedp.Do(ctx)) // the page ends with the first context that it gets
	b := browser{t, ctx}
	t.Cleanup(func() {
		if t.Failed() {
			text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.querySelector('main').innerText"))
			t.Log("the page says:", text, err)
		}
	})
	b.run(chromedp.Navigate(fmt.Sprintf("%s/?coupon=%d", gateway, couponID)),
		chromedp.WaitVisible("#user"), chromedp.SendKeys("#user", user.Member()), chromedp.Click("#sign-in button"), chromedp.WaitNotVisible("#sign-in"))
	return b
}

// patient ends with the page, or with the test's time.
func (b browser) patient() (context.Context, context.CancelFunc) {
	if deadline, ok := testenv.Patient(b.t).Deadline(); ok {
		return context.WithDeadline(b, deadline)
	}
	return context.WithCancel(b)
}

func (b browser) run(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.patient()
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// read evaluates an expression in the page.
func read[T any](b browser, expression string) T {
	b.t.Helper()
	ctx, cancel := b.patient()
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return value
}

// sees returns what a person reads.
func (b browser) sees() string {
	return strings.Join(strings.Fields(read[string](b, "document.querySelector('main').innerText")), " ")
}

// clockPrecision is how far the page's clock may be from the answers that it got.
func (b browser) clockPrecision() time.Duration {
	b.t.Helper()
	const timer = 2 * time.Millisecond // of browsers
	return time.Duration(read[float64](b, "clockTrip")*float64(time.Millisecond))/2 + timer
}

func (b browser) awaitText(text string) {
	b.t.Helper()
	testenv.Eventually(b.t, "the page says: "+text, func() bool { return strings.Contains(b.sees(), text) })
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
	pod := d.Start(append(d.Environment(), "MAX_CONNECTIONS=4096"), "./cmd/apply-api", d.Flags(d.API)...)
	gateway := httptest.NewServer(newGateway("http://"+pod.Apply, "http://"+pod.Live))
	t.Cleanup(gateway.Close)

	page := open(t, gateway.URL, id, user)
	page.awaitText("블랙프라이데이 5천원 5,000원 할인 · 30,000원 이상 구매 시")
	testenv.Eventually(t, "the page counts down", func() bool { return regexp.MustCompile(`\d\d:\d\d:\d\d`).MatchString(page.sees()) })
	require.True(t, read[bool](page, "document.getElementById('apply').disabled"))
	countdown := read[moment](page, readMoment)
	before := d.Now()
	shown := time.UnixMicro(read[int64](page, "Math.round(serverNow() * 1000)"))
	precision := page.clockPrecision() + ofServer
	require.WithinRange(t, shown, before.Add(-precision), d.Now().Add(precision))

	opens := d.Now().Add(10 * time.Second)
	d.Exec("UPDATE coupon SET apply_opens_at = ?, version = version + 1 WHERE id = ?", opens, id)
	testenv.Eventually(t, "the button opens", func() bool { return !read[bool](page, "document.getElementById('apply').disabled") })
	opened := read[float64](page, "+document.getElementById('apply').dataset.openedAt")
	require.GreaterOrEqual(t, opened, float64(opens.UnixMicro())/1000)
	testenv.Eventually(t, "the window opens in Redis", func() bool { return d.Now().After(opens) })

	rush(t, pod.Apply, id, 1, ahead)
	page.run(chromedp.Click("#apply"))
	page.awaitText(fmt.Sprintf("대기 순번 %d번 신청이 접수되었습니다 지금은 남은 수량 %d장 안의 순번입니다", ahead+1, ahead+1))
	rush(t, pod.Apply, id, ahead+1, others)
	page.awaitText(fmt.Sprintf("%d명이 기다리고 있습니다", others+1))
	waiting := read[moment](page, readMoment)

	// Somebody ahead leaves the queue: the place moves.
	d.SetStatus(jajeongtest.Blocked, 1)
	d.MoveToReview(id, "1", coupon.Failure{Cause: coupon.CauseInactiveUser})
	page.awaitText(fmt.Sprintf("대기 순번 %d번", ahead))

	require.NoError(t, redis.Kill())
	page.awaitText("확인이 지연되고 있습니다")
	require.Contains(t, page.sees(), fmt.Sprintf("대기 순번 %d번", ahead))
	require.NoError(t, redis.Restart(t.Context()))
	testenv.Eventually(t, "the page is up to date", func() bool { return !strings.Contains(page.sees(), "지연") })
	require.Contains(t, page.sees(), fmt.Sprintf("대기 순번 %d번", ahead))

	d.SettleByProgram(id)
	page.awaitText("쿠폰이 발급되었습니다 쿠폰함에서 확인하실 수 있습니다.")
	requirePicture(t, countdown, waiting, read[moment](page, readMoment))
	require.Equal(t, 1, read[int](page, "performance.getEntriesByType('navigation').length"))
	require.Equal(t, "navigate", read[string](page, "performance.getEntriesByType('navigation')[0].type"), "no reload")
	testenv.Eventually(t, "the browser asks no more", func() bool { return read[int](page, "stream.readyState") == 2 })

	loser := open(t, gateway.URL, id, others)
	loser.awaitText("이번에는 쿠폰을 받지 못하셨습니다")
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
