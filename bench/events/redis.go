package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/events/redissink"
)

const (
	stream, bareStream = "coupon:events", "bare"
	pipelined          = 200 // XADDs of one pipeline
	readEntries        = 1000
)

// streams are the streams of Redis for the relay and for the bare program.
type streams struct{ *stage }

func (s *streams) sink() (events.Sink, error) {
	rdb, err := s.client()
	if err != nil {
		return nil, err
	}
	return redissink.New(rdb, redissink.Options{Stream: stream, Retention: time.Hour})
}

// bare writes by pipelines of XADD on one connection.
func (s *streams) bare(ctx context.Context, messages []events.Message) error {
	rdb, err := s.client()
	if err != nil {
		return err
	}
	defer rdb.Close()
	for first := 0; first < len(messages); first += pipelined {
		pipe := rdb.Pipeline()
		for _, m := range messages[first:min(len(messages), first+pipelined)] {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: bareStream, Values: []any{"event", m.Body}})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *streams) bared(ctx context.Context) (int64, error) {
	rdb, err := s.client()
	if err != nil {
		return 0, err
	}
	defer rdb.Close()
	return rdb.XLen(ctx, bareStream).Result()
}

func (s *streams) read(ctx context.Context) ([][][]byte, error) {
	rdb, err := s.client()
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	var all [][]byte
	for from := "-"; ; {
		page, err := rdb.XRangeN(ctx, stream, from, "+", readEntries).Result()
		if err != nil {
			return nil, err
		}
		for _, entry := range page {
			body, _ := entry.Values["event"].(string)
			all = append(all, []byte(body))
			from = "(" + entry.ID
		}
		if len(page) < readEntries {
			return [][][]byte{all}, nil
		}
	}
}

func (s *streams) remove(ctx context.Context) error {
	rdb, err := s.client()
	if err != nil {
		return err
	}
	defer rdb.Close()
	return rdb.Del(ctx, stream, bareStream).Err()
}

// forgetScripts sets the times that Redis has spent back to zero.
func (s *stage) forgetScripts(ctx context.Context) error {
	rdb, err := s.client()
	if err != nil {
		return err
	}
	defer rdb.Close()
	return rdb.ConfigResetStat(ctx).Err()
}

// scriptTime returns how long a script has held Redis on average.
func (s *stage) scriptTime(ctx context.Context) (time.Duration, error) {
	rdb, err := s.client()
	if err != nil {
		return 0, err
	}
	defer rdb.Close()
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	_, line, _ := strings.Cut(info, "cmdstat_evalsha:")
	var calls, micros int64
	if _, err := fmt.Sscanf(line, "calls=%d,usec=%d", &calls, &micros); err != nil || calls == 0 {
		return 0, fmt.Errorf("read the time of scripts: %q: %w", line, err)
	}
	return time.Duration(micros) * time.Microsecond / time.Duration(calls), nil
}
