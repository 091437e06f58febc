package line

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
)

// Ahead ranges over pages that are read in the background, up to two of them before they are asked for, so that one
// server works while the other is waited for. A nil page or an error ends it. When the range is left before, the read in
// hand is cancelled and waited for.
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
			for range results { // until the reader has ended
			}
		}()
		for r := range results {
			if r.panicked != nil {
				panic(r.panicked) // in the hands of whoever is responsible for this one
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
