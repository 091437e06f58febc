package kafkasink

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/jajeong/jajeong/internal/events"
)

// Lags returns the consumer groups that have committed an offset of the topic, as far as the user may see them. A
// partition without a committed offset counts from its first record.
func (s *Sink) Lags(ctx context.Context) ([]events.Lag, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	var lags []events.Lag
	err := s.bounded(ctx, func(ctx context.Context, client *kgo.Client) (err error) {
		lags, err = s.lags(ctx, kadm.NewClient(client))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read consumer groups of topic %s: %w", s.topic, s.classify(err))
	}
	return lags, nil
}

func (s *Sink) lags(ctx context.Context, admin *kadm.Client) (lags []events.Lag, err error) {
	groups, err := admin.ListGroups(ctx)
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	first, err := listed(admin.ListStartOffsets(ctx, s.topic))
	if err != nil {
		return nil, err
	}
	last, err := listed(admin.ListEndOffsets(ctx, s.topic))
	if err != nil {
		return nil, err
	}
	commits := admin.FetchManyOffsets(ctx, groups.Groups()...)
	for _, group := range slices.Sorted(maps.Keys(commits)) {
		of := commits[group]
		if of.Err != nil {
			return nil, of.Err
		}
		if len(of.Fetched[s.topic]) > 0 {
			lags = append(lags, events.Lag{Group: group, Unread: s.unread(of.Fetched, first, last), Pending: -1})
		}
	}
	return lags, nil
}

func (s *Sink) unread(committed kadm.OffsetResponses, first, last kadm.ListedOffsets) (unread int64) {
	for partition, end := range last[s.topic] {
		start, _ := first.Lookup(s.topic, partition)
		from := start.Offset
		if offset, ok := committed.Lookup(s.topic, partition); ok {
			from = max(from, offset.At)
		}
		unread += max(0, end.Offset-from)
	}
	return unread
}
