package handover

import (
	"testing"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/promise"
)

// BenchmarkAnswered remembers batches of 250 answers, and forgets as a pod does that gets 40,000 a second. The time of
// an operation is that of one answer. max-hold-µs is the longest time of a batch.
func BenchmarkAnswered(b *testing.B) {
	const batch, perSecond = 250, 40_000
	_, p := onePod(b)
	var longest time.Duration
	next := coupon.Arrival(1)
	forgetting := make(chan promise.Mark)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for mark := range forgetting {
			p.Journalled(id, mark)
		}
	}()
	n := 0
	for b.Loop() {
		if n++; n%batch != 0 {
			continue
		}
		answers := make([]coupon.Answer, batch)
		for i := range answers {
			answers[i] = coupon.Answer{User: coupon.UserID(next), Arrival: next}
			next++
		}
		began := time.Now()
		p.Answered(id, candidates.Reply{Epoch: "a:1", Answers: answers})
		longest = max(longest, time.Since(began))
		if next%(5*perSecond) < batch { // a refresh
			p.mu.Lock()
			p.clock = p.clock.Add(5 * time.Second)
			p.mu.Unlock()
			forgetting <- promise.Mark{Epoch: "a:1", UpTo: next - 1}
		}
	}
	close(forgetting)
	<-done
	b.ReportMetric(float64(longest.Microseconds()), "max-hold-µs")
	b.ReportMetric(float64(p.remembered.Load()), "remembered")
}
