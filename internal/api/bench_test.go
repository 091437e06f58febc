package api_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/api"
	"github.com/jajeong/jajeong/internal/candidates"
)

// nowhere discards responses.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n *nowhere) WriteHeader(int)             {}

// BenchmarkApply measures this package only: no connection, no Redis.
func BenchmarkApply(b *testing.B) {
	at := time.Now()
	handler := api.New(api.Options{
		Applier: applier(func(_ context.Context, _, user uint64) (candidates.Receipt, error) {
			return candidates.Receipt{Code: candidates.Accepted, Arrival: at.UnixMicro(), Position: int64(user)}, nil
		}),
		Coupons: coupons{}, SettlesAt: nextMidnight, Zone: seoul, Limits: api.Limits{InFlight: 1000, UserRate: 5},
		Logger: zap.NewNop(), Metrics: prometheus.NewRegistry(), Now: time.Now,
	})
	request, err := http.NewRequest(http.MethodPost, "/v1/coupons/42/applications", nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Body = http.NoBody
	user := 0
	b.ReportAllocs()
	for b.Loop() {
		user++
		request.Header["X-User-Id"] = []string{strconv.Itoa(user)}
		handler.ServeHTTP(&nowhere{http.Header{}}, request)
	}
}
