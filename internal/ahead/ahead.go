// Package ahead works beside a loop: it reads the next pages or items before they are used, or ends the work on the
// last one.
package ahead

import (
	"context"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// result is what one read returned, or the panic that ended it.
type result[T any] struct {
	value    T
	err      error
	panicked any
}

func call[T any](read func() (T, error)) (r result[T]) {
	defer func() {
		if p := recover(); p != nil {
			r.panicked = fmt.Sprintf("%v, beside the loop:\n%s", p, debug.Stack())
		}
	}()
	r.value, r.err = read()
	return r
}

// Pages ranges over pages and reads up to two of them ahead, so that Redis and MySQL work at the same time. A nil page
// or an error ends the range. Leaving the range cancels the current read and waits for its end.
func Pages[T any](ctx context.Context, read func(ctx context.Context) (*T, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		results := make(chan result[*T], 1)
		quit := make(chan struct{})
		go func() {
			defer close(results)
			for {
				r := call(func() (*T, error) { return read(ctx) })
				select {
				case results <- r:
				case <-quit:
					return
				}
				if r.panicked != nil || r.err != nil || r.value == nil {
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
			if r.err == nil && r.value == nil {
				return
			}
			if !yield(r.value, r.err) || r.err != nil {
				return
			}
		}
	}
}

// Beside runs work in a goroutine of its own. wait returns its result, or panics if work has panicked.
func Beside[T any](work func() (T, error)) (wait func() (T, error)) {
	done := make(chan result[T], 1)
	go func() { done <- call(work) }()
	return sync.OnceValues(func() (T, error) {
		r := <-done
		if r.panicked != nil {
			panic(r.panicked)
		}
		return r.value, r.err
	})
}

// Items reads each item, up to n at the same time, and ranges over the results in the order of the items. An error does
// not end the range. Leaving the range cancels the current reads and waits for their end.
func Items[I, T any](ctx context.Context, n int, items []I,
	read func(ctx context.Context, item I) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var left atomic.Bool
		var next atomic.Int64
		var readers sync.WaitGroup
		defer readers.Wait()
		defer cancel()
		defer left.Store(true)
		results := make([]chan result[T], len(items))
		for i := range results {
			results[i] = make(chan result[T], 1)
		}
		for range min(max(n, 1), len(items)) {
			readers.Go(func() {
				for i := next.Add(1) - 1; int(i) < len(items) && !left.Load(); i = next.Add(1) - 1 {
					results[i] <- call(func() (T, error) { return read(ctx, items[i]) })
				}
			})
		}
		for _, found := range results {
			r := <-found
			if r.panicked != nil {
				panic(r.panicked)
			}
			if !yield(r.value, r.err) {
				return
			}
		}
	}
}
