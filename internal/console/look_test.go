package console_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

func TestLook(t *testing.T) {
	d := jajeongtest.New(t)
	id := d.AddQueue(3, 1, 2, 3, 4, 5, 6, 7)
	d.MoveToReview(id, "2", coupon.Failure{Cause: coupon.CauseBadRow, Message: "Incorrect string value"})
	d.AddQueue(30, 11, 12)
	d.Exec("UPDATE coupon SET name = '블랙프라이데이 5천원' WHERE id = ?", id)
	p := d.Start(d.Environment(), "./cmd/settle", append([]string{"console", "--listen=127.0.0.1:0", "--console-dev-user=kim"}, d.Flags(d.Operator)...)...)
	path, err := process.Find("chromium")
	require.NoError(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, cancel := chromedp.NewContext(allocator)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx))
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d.SettleNow(id)
	for name, path := range map[string]string{"tonight": "/", "coupons": "/coupons", "coupon": fmt.Sprint("/coupons/", id), "runs": "/runs", "run": "/runs/1", "dlq": "/dlq", "dlq1": fmt.Sprint("/dlq/", id), "person": "/people/1",
		"explain": fmt.Sprintf("/people/5/coupons/%d", id), "seats": fmt.Sprintf("/do/add-seats?coupon=%d&seats=2", id), "rerun": fmt.Sprintf("/do/run?coupon=%d&date=2026-11-22", id+1), "approvals": "/approvals", "report": "/report?month=2026-11", "drop": fmt.Sprintf("/do/drop?coupon=%d&cause=BAD_ROW", id)} {
		for size, width := range map[string]int64{"wide": 1280, "phone": 390} {
			require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate("http://"+p.Console+path)))
			shot, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(fmt.Sprintf("/tmp/look/%s-%s.png", name, size), shot, 0o644))
		}
	}
}
