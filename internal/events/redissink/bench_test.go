package redissink

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/testenv"
)

// BenchmarkPublish reports how long a page of 600-byte events holds Redis (µs), beside the time that a caller waits. While old
// events expire, a page also removes trimSize of them.
func BenchmarkPublish(b *testing.B) {
	page := make([]events.Message, pageSize)
	for i := range page {
		page[i].Body = fmt.Appendf(nil, "%0600d", i)
	}
	for _, expiring := range []bool{false, true} {
		b.Run(fmt.Sprintf("expiring=%t", expiring), func(b *testing.B) {
			server := testenv.PrivateRedis(b, testenv.RedisOptions{})
			settings := connect.RedisSettings{RedisAddrs: []string{server.Addr()}}
			rdb, err := settings.Open()
			if err != nil {
				b.Fatal(err)
			}
			s, err := New(rdb, Options{Stream: stream, Retention: 24 * time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			look, err := s.Look(b.Context(), events.Place{})
			if err != nil {
				b.Fatal(err)
			}
			at := look.Place
			if expiring {
				appendOld(b, rdb, page, b.N*trimSize/pageSize+1)
			}
			rdb.ConfigResetStat(b.Context())
			b.ResetTimer()
			for range b.N {
				if _, at.Last, err = s.Publish(b.Context(), at, page); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			stats := rdb.Info(context.Background(), "commandstats").Val()
			for line := range strings.Lines(stats) {
				if _, rest, ok := strings.Cut(line, "cmdstat_evalsha:"); ok {
					var calls, usec int64
					var each float64
					if _, err := fmt.Sscanf(rest, "calls=%d,usec=%d,usec_per_call=%f", &calls, &usec, &each); err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(each, "redis-µs/page")
				}
			}
		})
	}
}

func appendOld(b *testing.B, rdb redis.UniversalClient, page []events.Message, pages int) {
	old := time.Now().Add(-25 * time.Hour).UnixMilli()
	for n := range pages {
		_, err := rdb.Pipelined(b.Context(), func(p redis.Pipeliner) error {
			for i, m := range page {
				p.XAdd(b.Context(), &redis.XAddArgs{Stream: stream, ID: fmt.Sprintf("%d-%d", old, 1+n*len(page)+i), Values: []any{"event", m.Body}})
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
