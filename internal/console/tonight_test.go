package console_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// The first page has the figures of coupons that are not finalised, and says what is wrong.
func TestTonight_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	good, held := d.AddQueue(5, 1, 2, 3), d.AddQueue(5, 4)
	d.Exec("UPDATE coupon SET name = '잘되는 쿠폰' WHERE id = ?", good)
	d.MoveToReview(good, "3", coupon.Failure{Cause: coupon.CauseBadRow})
	d.AddPromises(held, 2) // lost
	d.Exec("UPDATE coupon SET apply_opens_at = apply_opens_at - INTERVAL 2 DAY, version = version + 1 WHERE id = ?", held)
	d.SettleAs(jajeongtest.Manual(held), coupon.Invariant)
	kim := visitor{t, "http://" + behindProxy(d).Console, "kim", "all"}
	_, page, _ := kim.ask(http.MethodGet, "/", nil)
	require.Contains(t, page, fmt.Sprintf(`<tr><td><a href="/coupons/%d">%d</a></td><td>잘되는 쿠폰</td><td>신청 중</td><td class="n">5</td><td class="n">2</td><td class="n">1</td><td class="n">0</td>`, good, good))
	require.Contains(t, page, "접수한 신청 2건을 찾을 수 없습니다")
	require.NotContains(t, page, "/people/", "a viewer sees figures without persons")

	for range 6 { // many others
		d.Exec("INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) SELECT name, 1, apply_opens_at, apply_closes_at FROM coupon")
	}
	late := d.AddQueue(5, 5)
	d.AddPromises(late, 3) // lost
	_, page, _ = kim.ask(http.MethodGet, "/", nil)
	require.Contains(t, page, "접수한 신청 3건을 찾을 수 없습니다", "a coupon that misses applications comes first")
	require.Contains(t, page, fmt.Sprintf(`href="/coupons/%d"`, late))
}

// The next page keeps what was chosen.
func TestLists_KeepTheirFilters(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1)
	d.SettleNow(id)
	for range 6 { // 64 runs
		d.Exec(`INSERT INTO settlement_run (trigger_kind, cutoff, status, started_at, heartbeat_at, finished_at, nonce)
SELECT trigger_kind, cutoff, status, started_at, heartbeat_at, finished_at, HEX(UUID_SHORT()) FROM settlement_run`)
	}
	d.Exec("INSERT IGNORE INTO settlement (run_id, coupon_id, settled_at, cleaned_at) SELECT id, ?, finished_at, finished_at FROM settlement_run", id)
	kim := visitor{t, "http://" + behindProxy(d).Console, "kim", "team-finance"}
	_, page, _ := kim.ask(http.MethodGet, fmt.Sprintf("/runs?coupon=%d&status=SUCCEEDED", id), nil)
	require.Regexp(t, fmt.Sprintf(`/runs\?before=\d+&amp;coupon=%d&amp;status=SUCCEEDED`, id), page)
}

// Without a coupon the first page has nothing to complain of.
func TestTonight_WithoutCoupons(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	status, page, _ := visitor{t, "http://" + behindProxy(d).Console, "choi", "team-ops"}.ask(http.MethodGet, "/", nil)
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, page, "Redis")
	require.NotContains(t, page, "Error")
}

// Without Redis the first page says what is not known; without MySQL each page says that a server is away.
func TestPages_WithoutTheirServers(t *testing.T) {
	t.Parallel()
	d, id, _ := world(t)
	start := func(flags ...string) visitor {
		p := d.Start(d.Environment(), "./cmd/settle", append([]string{"console", "--listen=127.0.0.1:0", "--console-trusted-proxies=127.0.0.0/8", "--console-roles=team-ops=operator"}, flags...)...)
		return visitor{t, "http://" + p.Console, "choi", "team-ops"}
	}
	withoutRedis := start("--mysql-dsn="+d.Operator.MySQLDSN, "--redis-addrs=127.0.0.1:1")
	status, page, _ := withoutRedis.ask(http.MethodGet, "/", nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "Redis에 연결할 수 없어")
	require.NotContains(t, page, "아직 없음", "whether the journal has them is not known")
	status, page, _ = withoutRedis.ask(http.MethodGet, fmt.Sprint("/coupons/", id), nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "<td>?</td>", "a figure of Redis")
	withoutMySQL := start("--mysql-dsn=nobody:secret@tcp(127.0.0.1:1)/coupons", "--redis-addrs=127.0.0.1:1")
	for _, path := range []string{"/", "/approvals/1", fmt.Sprint("/coupons/", id), "/search?q=1"} {
		status, page, _ := withoutMySQL.ask(http.MethodGet, path, nil)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
		require.NotContains(t, page, "secret", path)
		require.Contains(t, page, "127.0.0.1:1", "%s names the server", path)
	}
}
