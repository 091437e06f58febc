package kafkasink

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// readTimeout bounds each question to the brokers, and the wait for the next records.
	readTimeout = 10 * time.Second
	// readRecords is the number of records of a page.
	readRecords = 500
	// readBytes bounds what a broker sends at once.
	readBytes = 4 << 20
)

// Read reads each partition from the first record that came to it at since or later, by the clock of the broker or the
// relay, whichever the topic keeps, to the last one that it had at the call. It belongs to no group of consumers.
func (s *Sink) Read(ctx context.Context, since time.Time, visit func(page [][]byte) error) (from time.Time, err error) {
	if err := s.lock(ctx); err != nil {
		return time.Time{}, err
	}
	defer s.unlock()
	var starts, ends kadm.ListedOffsets
	err = s.ask(ctx, func(ctx context.Context, admin *kadm.Client) (err error) {
		if starts, err = listed(admin.ListOffsetsAfterMilli(ctx, max(0, since.UnixMilli()), s.topic)); err == nil {
			ends, err = listed(admin.ListEndOffsets(ctx, s.topic))
		}
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	if err := s.consume(ctx, starts, ends, visit); err != nil {
		return time.Time{}, err
	}
	err = s.ask(ctx, func(ctx context.Context, admin *kadm.Client) (err error) {
		from, err = s.coveredFrom(ctx, admin) // after the reading: old records may have left the topic meanwhile
		return err
	})
	return from, err
}

func (s *Sink) ask(ctx context.Context, question func(ctx context.Context, admin *kadm.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := s.bounded(ctx, func(ctx context.Context, client *kgo.Client) error {
		return question(ctx, kadm.NewClient(client))
	})
	if err != nil {
		return fmt.Errorf("read the ends of topic %s: %w", s.topic, s.classify(err))
	}
	return nil
}

func listed(offsets kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if err == nil {
		err = offsets.Error()
	}
	return offsets, err
}

func (s *Sink) consume(ctx context.Context, starts, ends kadm.ListedOffsets, visit func(page [][]byte) error) error {
	left := map[int32]int64{} // by partition: the offset at which its reading ends
	at := map[int32]kgo.Offset{}
	for partition, end := range ends[s.topic] {
		start, ok := starts.Lookup(s.topic, partition)
		if !ok {
			return &Error{fmt.Errorf("read topic %s: no broker knows where partition %d begins", s.topic, partition)}
		}
		if start.Offset < end.Offset {
			left[partition], at[partition] = end.Offset, kgo.NewOffset().At(start.Offset)
		}
	}
	if len(left) == 0 {
		return nil
	}
	// Without fetch sessions, there is none to end at a broker that does not answer.
	client, err := kgo.NewClient(append(slices.Clone(s.options), kgo.DisableFetchSessions(),
		kgo.FetchMaxBytes(readBytes),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: at}))...)
	if err != nil {
		return fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	for len(left) > 0 {
		page, err := s.next(ctx, client, left)
		if err == nil {
			err = visit(page)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// next returns the next records before the ends, and removes the partitions that have no more.
func (s *Sink) next(ctx context.Context, client *kgo.Client, left map[int32]int64) (page [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	fetches := client.PollRecords(ctx, readRecords)
	if failed := fetches.Errors(); len(failed) > 0 {
		return nil, fmt.Errorf("read topic %s: %w", s.topic, s.classify(failed[0].Err))
	}
	for _, record := range fetches.Records() {
		end, open := left[record.Partition]
		if open && record.Offset < end {
			page = append(page, record.Value)
		}
		if record.Offset >= end-1 {
			delete(left, record.Partition)
		}
	}
	return page, nil
}

// coveredFrom returns since when the topic has everything that came to it. Partitions lose their first records at
// different times: the last of these times counts. If none has lost any, it is when the first record came.
func (s *Sink) coveredFrom(ctx context.Context, admin *kadm.Client) (from time.Time, err error) {
	begins, err := listed(admin.ListStartOffsets(ctx, s.topic))
	if err != nil {
		return time.Time{}, err
	}
	firsts, err := listed(admin.ListOffsetsAfterMilli(ctx, 0, s.topic))
	if err != nil {
		return time.Time{}, err
	}
	trimmed := false
	for partition, first := range firsts[s.topic] {
		begin, _ := begins.Lookup(s.topic, partition)
		came, has, lost := time.UnixMilli(first.Timestamp), first.Timestamp >= 0, begin.Offset > 0
		switch {
		case lost && !has: // the partition lacks something, and has no record that would say since when
			return time.Time{}, nil
		case lost && (!trimmed || came.After(from)):
			from, trimmed = came, true
		case has && !trimmed && (from.IsZero() || came.Before(from)):
			from = came
		}
	}
	return from, nil
}
