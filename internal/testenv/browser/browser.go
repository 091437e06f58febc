// Package browser drives pages in headless Chromium.
package browser

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/testenv/process"
)

// chromium starts the browser of all pages of this process. It ends with the shared servers.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path, err := process.Find("chromium", "chromium-browser", "google-chrome")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.Flag("accept-lang", "ko")) // as most users' browsers
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox does not work for root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	testenv.StopWithShared(func() error {
		defer stop()
		defer cancel()
		return chromedp.Cancel(ctx)
	})
	return ctx, chromedp.Do(ctx) // the browser ends with the first context that it gets
})

// Page is a page without the cookies of other pages.
type Page struct {
	T *testing.T
	context.Context
}

// Open opens an empty page, which is closed at the end of the test.
func Open(t *testing.T) Page {
	t.Helper()
	testenv.NeedsServers(t)
	parent, err := chromium()
	require.NoError(t, err)
	ctx, closePage := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); closePage() })
	require.NoError(t, chromedp.Do(ctx)) // the page ends with the first context that it gets
	t.Cleanup(func() {
		if t.Failed() {
			text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
			t.Log("the page says:", text, err)
		}
	})
	return Page{t, ctx}
}

// patient ends with the page, or with the test's time.
func (p Page) patient() (context.Context, context.CancelFunc) {
	if deadline, ok := testenv.Patient(p.T).Deadline(); ok {
		return context.WithDeadline(p, deadline)
	}
	return context.WithCancel(p)
}

func (p Page) Run(steps ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	require.NoError(p.T, chromedp.Do(ctx, steps...))
}

// Read evaluates an expression in the page. It waits for a promise.
func Read[T any](p Page, expression string) T {
	p.T.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.T, err, expression)
	return value
}
