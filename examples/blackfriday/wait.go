package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

// wait tells a terminal each second what is not ready yet.
type wait struct {
	*screen
	began time.Time
	end   func() // of the telling

	mu   sync.Mutex
	left []string
}

func (s *screen) newWait(names ...string) *wait {
	stop, told := make(chan struct{}), make(chan struct{})
	w := &wait{screen: s, began: time.Now(), left: names, end: sync.OnceFunc(func() {
		close(stop)
		<-told
	})}
	go func() {
		defer close(told)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticks.C:
				w.passing(text.DemoWorking, int(time.Since(w.began).Seconds()), w.names())
			}
		}
	}()
	return w
}

func (w *wait) names() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.left, ", ")
}

// over says that something is ready.
func (w *wait) over(name string, m text.Message, what string) {
	w.mu.Lock()
	w.left = slices.DeleteFunc(w.left, func(left string) bool { return left == name })
	w.mu.Unlock()
	w.say(m, what, seconds(time.Since(w.began)))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
