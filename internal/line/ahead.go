package line

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
)

// Ahead ranges over pages and reads up to two of them ahead, so that Redis and MySQL work at the same time. A nil page
// or an error ends the range. Leaving the range cancels the current read and waits for its end.
func Ahead[T any](ctx context.Context, read func(ctx context.Context) (*T, error)) iter.Seq2[*T, error] {
	type result struct {
		page     *T
		err      error
		panicked any
	}
	return func(yield func(*T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		results := make(chan result, 1)
		quit := make(chan struct{})
		go func() {
			defer close(results)
			for {
				var r result
				func() {
					defer func() {
						if p := recover(); p != nil {
							r.panicked = fmt.Sprintf("%v, reading ahead:\n%s", p, debug.Stack())
						}
					}()
					r.page, r.err = read(ctx)
				}()
				select {
				case results <- r:
				case <-quit:
					return
				}
				if r.panicked != nil || r.err != nil || r.page == nil {
					return
				}
			}
		}()
		defer func() {
			cancel()
			close(quit)
			for range results { // waits until the reading goroutine has ended
			}
		}()
		for r := range results {
			if r.panicked != nil {
				panic(r.panicked) // here, because the settlement recovers the panics of this goroutine
			}
			if r.err == nil && r.page == nil {
				return
			}
			if !yield(r.page, r.err) || r.err != nil {
				return
			}
		}
	}
}
