package console_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// request asks a console of the development user for a page.
func request(t *testing.T, at string, cookies ...*http.Cookie) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	require.NoError(t, err)
	for _, one := range cookies {
		r.AddCookie(one)
	}
	return r
}

// The console counts what it refuses, and the jobs that run and end.
func TestMetrics(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddCoupon(5)
	d.AddUsers(1)
	d.ApplyLine(id, 1)
	d.MoveToReview(id, "1", coupon.Failure{Cause: coupon.CauseBadRow})
	p := behindProxy(d, "--admin-listen=127.0.0.1:0")
	site := "http://" + p.Console
	counted := func() map[string]string {
		_, text := body(t, request(t, "http://"+p.Admin+"/metrics"))
		all := map[string]string{}
		for _, found := range regexp.MustCompile(`(?m)^jajeong_console_(\S+) (\S+)$`).FindAllStringSubmatch(text, -1) {
			all[found[1]] = found[2]
		}
		return all
	}
	want := map[string]string{"jobs_running": "0"}
	for _, result := range []string{"done", "failed", "refused", "held"} {
		want[fmt.Sprintf("jobs_total{result=%q}", result)] = "0"
	}
	for _, result := range []string{"signed_in", "failed", "no_role", "unavailable"} {
		want[fmt.Sprintf("sign_ins_total{result=%q}", result)] = "0"
	}
	for _, reason := range []string{"right", "jobs", "origin", "no_role", "dev_user", "proxy", "session"} {
		want[fmt.Sprintf("refused_total{reason=%q}", reason)] = "0"
	}
	require.Equal(t, want, counted(), "all begin at zero")

	visitor{t, site, "kim", "all"}.ask(http.MethodGet, "/dlq", nil)
	visitor{t, site, "kim", "all"}.ask(http.MethodPost, "/approvals/1/approve", nil)
	visitor{t, site, "kim", "nobody"}.ask(http.MethodGet, "/", nil)
	visitor{t, site, "", "team-ops"}.ask(http.MethodGet, "/", nil)
	foreign := request(t, site+"/do/pause")
	foreign.Method = http.MethodPost
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	status, _ := body(t, foreign)
	require.Equal(t, http.StatusForbidden, status)
	want[`refused_total{reason="right"}`], want[`refused_total{reason="no_role"}`],
		want[`refused_total{reason="proxy"}`], want[`refused_total{reason="origin"}`] = "2", "1", "1", "1"
	require.Equal(t, want, counted())

	ops := visitor{t, site, "choi", "team-ops"}
	release := d.Lock(id) // the retry waits for the coupon's row
	_, preview, _ := ops.ask(http.MethodGet, fmt.Sprintf("/do/retry?coupon=%d&cause=BAD_ROW&cutoff=now", id), nil)
	_, _, at := ops.askOnce(http.MethodPost, "/do/retry", fill(preview, "INC-9"))
	want["jobs_running"] = "1"
	require.Equal(t, want, counted())
	release()
	_, done, _ := ops.ask(http.MethodGet, at, nil)
	require.Contains(t, done, "끝났습니다")
	_, preview, _ = ops.ask(http.MethodGet, fmt.Sprintf("/do/grant?coupon=%d&user=1", id), nil)
	form := fill(preview, "CS-1")
	form.Set("coupon", id.String())
	form.Set("user", "2") // nobody
	form.Set("digest", "sha256:"+strings.Repeat("0", 64))
	form.Set("job", strings.Repeat("j", 26))
	_, refused, _ := ops.ask(http.MethodPost, "/do/grant", form)
	require.NotContains(t, refused, "끝났습니다")
	want["jobs_running"], want[`jobs_total{result="done"}`], want[`jobs_total{result="refused"}`] = "0", "1", "1"
	testenv.Eventually(t, "the jobs are counted",
		func() bool { return counted()[`jobs_total{result="refused"}`] == "1" })
	require.Equal(t, want, counted())
}
