package console_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/browser"
)

func csvOf(t *testing.T, users ...coupon.UserID) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "명단.csv")
	var content strings.Builder
	content.WriteString("\uFEFF이름;user_id\r\n")
	for _, user := range users {
		content.WriteString("고객;" + user.Member() + "\r\n")
	}
	require.NoError(t, os.WriteFile(path, []byte(content.String()), 0o600))
	return path
}

// Finance gives a coupon to a list: one person asks with the file, another approves, and the first sends the file
// again. Another list than the approved one is refused, and so is one that is no list.
func TestUpload_OfAListNeedsTheSameFileAgain(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	users := jajeongtest.Between[coupon.UserID](1, 6000)
	d.AddUsers(users...)
	id := d.AddCoupon(1)
	d.Exec("INSERT INTO policy (actions, shared_accounts, persons, zone, set_at, set_by, account, reason, "+
		"runs_after, events_after) VALUES (JSON_ARRAY('grant'), JSON_ARRAY(?), '[]', 'Asia/Seoul', UTC_TIMESTAMP(6), "+
		"'park', '', 'SEC-4', 0, 0)", consoleAccount(d))
	site, _ := openSite(t, d)
	kim, lee := signedIn(t, site, "kim"), signedIn(t, site, "lee")
	said := func(b browser.Page) string {
		return browser.Read[string](b, "(document.querySelector('main') || document.body || {}).innerText || ''")
	}
	says := func(b browser.Page, what string) {
		t.Helper()
		testenv.Eventually(t, "the page says "+what, func() bool { return strings.Contains(said(b), what) })
	}
	choose := func(selector, file string) {
		kim.Run(chromedp.SetUploadFiles(selector, []string{file}))
	}
	few, all := csvOf(t, users[1:]...), csvOf(t, append(users, 99_999)...)
	form := "main a[href='/do/grant?coupon=" + id.String() + "']"
	kim.Run(chromedp.Navigate(site+"/coupons/"+id.String()), chromedp.Click(form), chromedp.WaitVisible("#f-file"))
	kim.Run(chromedp.Click("main form.fields button"))
	says(kim, "파일을 선택하세요")
	page := filepath.Join(t.TempDir(), "x.xlsx")
	require.NoError(t, os.WriteFile(page, []byte("PK\x03\x04"), 0o600))
	choose("#f-file", page)
	kim.Run(chromedp.Click("main form.fields button"))
	says(kim, "CSV UTF-8")
	choose("#f-file", all)
	kim.Run(chromedp.Click("main form.fields button"), chromedp.WaitVisible("#reason"))
	says(kim, "6001명 가운데 6000명에게")
	choose("#again", all)
	kim.Run(chromedp.SendKeys("#reason", "MKT-9"+kb.Enter))
	done := func() {
		t.Helper()
		testenv.Eventually(t, "the page of the job", func() bool {
			return browser.Read[bool](kim, "location.pathname.startsWith('/jobs/') && document.readyState === 'complete'")
		})
	}
	done()
	kim.Run(chromedp.Navigate(site + "/"))
	says(kim, "승인 요청: 쿠폰 지급") // it was asked for, not done

	lee.Run(chromedp.Navigate(site+"/approvals/1"), chromedp.SendKeys("#approve-reason", "FIN-6"),
		chromedp.Click("button.main"), chromedp.WaitVisible(".lead"))
	use := func(file string) {
		kim.Run(chromedp.Navigate(site+"/approvals/1"), chromedp.WaitVisible("#again"))
		choose("#again", file)
		kim.Run(chromedp.Click("button.main"))
		done()
	}
	use(few)
	says(kim, "종료 코드 2")
	require.Zero(t, d.Number("SELECT COUNT(*) FROM user_coupon"))
	use(all)
	says(kim, "6001명 가운데 6000명에게 지급했습니다")
	require.EqualValues(t, 6000, d.Number("SELECT COUNT(*) FROM user_coupon"))
	kim.Run(chromedp.Navigate(site + "/approvals/1"))
	says(kim, "지급을 시작했습니다")
	d.AddUsers(99_999) // the list is not done, as after a stop: its approval still holds
	use(all)
	says(kim, "6001명 가운데 1명에게 지급했습니다")
	d.Verify()
}

// A list has at most 32 MB, and a form without one at most a few KB.
func TestUpload_IsBounded(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddCoupon(1)
	site := "http://" + behindProxy(d).Console
	send := func(path string, megabytes int) (status int, page string) {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		require.NoError(t, form.WriteField("coupon", id.String()))
		file, err := form.CreateFormFile("file", "users.csv")
		require.NoError(t, err)
		_, err = file.Write(bytes.Repeat([]byte("1234567\n"), megabytes<<17))
		require.NoError(t, err)
		require.NoError(t, form.Close())
		request, err := http.NewRequest(http.MethodPost, site+path, &body)
		require.NoError(t, err)
		request.Header.Set("Content-Type", form.FormDataContentType())
		request.Header.Set("X-Forwarded-User", "kim")
		request.Header.Set("X-Forwarded-Groups", "team-ops")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(content)
	}
	status, page := send("/do/grant", 33)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, page, "32")
	status, page = send("/do/grant", 31)
	require.Equal(t, http.StatusUnprocessableEntity, status, page)
	require.Contains(t, page, "1000000")
	status, _ = send("/sign-out", 1)
	require.NotEqual(t, http.StatusOK, status)
}
