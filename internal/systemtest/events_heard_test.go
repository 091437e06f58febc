package systemtest

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/testenv/asyncapi"
)

// eventFact is an event as the test reads it from a body, and as it writes it from rows.
type eventFact struct {
	SpecVersion, Type, Source, ID, Subject string
	Sequence                               int
	Time                                   micros
	Data                                   struct {
		CouponID, UserID, UserCouponID, RunID uint64
		Position                              *int
		AppliedAt, IssuedAt, ExpiresAt        micros
		OrderID                               *string
		AmountWon, DiscountWon                *int64
	}
}

// micros is a time in µs, 0 if it is missing.
type micros int64

// Scan reads a time of MySQL.
func (m *micros) Scan(from any) error {
	if at, ok := from.(time.Time); ok {
		*m = micros(at.UnixMicro())
	}
	return nil
}

func (m *micros) UnmarshalJSON(text []byte) error {
	var at *time.Time
	err := json.Unmarshal(text, &at)
	if at != nil {
		*m = micros(at.UnixMicro())
	}
	return err
}

// parseFact reads the body of an event.
func parseFact(body []byte) (f eventFact, err error) { return f, json.Unmarshal(body, &f) }

// name identifies an event.
func (f *eventFact) name() string { return f.Source + " " + f.ID }

// rows are the events that must exist, by name, from the rows of MySQL alone.
func (m *mall) rows() map[string]eventFact {
	m.T.Helper()
	all := map[string]eventFact{}
	add := func(f eventFact, kind, id string) {
		f.SpecVersion, f.Type, f.ID = "1.0", "kr.jajeong.coupon."+kind+".v1", id
		f.Source, f.Subject = fmt.Sprintf("/coupons/%d", f.Data.CouponID), fmt.Sprint(f.Data.UserID)
		all[f.name()] = f
	}
	rows, err :=
		m.DB.Query(
			"SELECT id, coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id FROM user_coupon " +
				"WHERE run_id IS NOT NULL")
	require.NoError(m.T, err)
	defer rows.Close()
	for rows.Next() {
		var f eventFact
		d := &f.Data
		require.NoError(m.T, rows.Scan(&d.UserCouponID, &d.CouponID, &d.UserID, &d.Position, &d.AppliedAt, &d.IssuedAt,
			&d.ExpiresAt, &d.RunID))
		f.Time = d.IssuedAt
		add(f, "issued", fmt.Sprintf("issued-%d", d.UserID))
	}
	require.NoError(m.T, rows.Err())
	logs, err := m.DB.Query(`SELECT l.user_coupon_id, u.coupon_id, u.user_id, l.seq, LOWER(l.kind), l.order_id,
		l.amount_won, l.discount_won, l.expires_at, l.at
		FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id`)
	require.NoError(m.T, err)
	defer logs.Close()
	for logs.Next() {
		var f eventFact
		var kind string
		d := &f.Data
		require.NoError(m.T, logs.Scan(&d.UserCouponID, &d.CouponID, &d.UserID, &f.Sequence, &kind, &d.OrderID,
			&d.AmountWon, &d.DiscountWon, &d.ExpiresAt, &f.Time))
		add(f, kind, fmt.Sprintf("%d-%d-%d", d.UserID, f.Sequence, f.Time))
	}
	require.NoError(m.T, logs.Err())
	return all
}

// heard is what a consumer has read. One goroutine adds.
type heard struct {
	all, distinct atomic.Int64
	seen          map[string]bool // bodies
	first         []heardEvent    // in the order of reading
	wrong         []string        // what is no event
}

type heardEvent struct {
	partition int32
	body      string
}

func newHeard() *heard { return &heard{seen: map[string]bool{}} }

func (h *heard) add(partition int32, body string) {
	if !h.seen[body] {
		h.seen[body] = true
		h.first = append(h.first, heardEvent{partition, body})
		h.distinct.Add(1)
	}
	h.all.Add(1)
}

// require demands that the first readings are the events of the rows, in order. A repetition with another content is a
// first reading of a name that is known.
func (h *heard) require(t testing.TB, want map[string]eventFact) {
	t.Helper()
	type place struct {
		partition int32
		source    string
	}
	type holder struct{ source, subject string }
	require.Empty(t, h.wrong)
	known, position, next, owner := map[string]bool{}, map[place]int{}, map[holder]int{}, map[holder]int32{}
	for _, e := range h.first {
		f, err := parseFact([]byte(e.body))
		require.NoError(t, err, e.body)
		require.False(t, known[f.name()], "%s came with two contents: %s", f.name(), e.body)
		known[f.name()] = true
		row, exists := want[f.name()]
		require.True(t, exists, "no row has this event: %s", e.body)
		require.Equal(t, row, f, e.body)

		who := holder{f.Source, f.Subject}
		require.Equal(t, next[who], f.Sequence, "events of an issued coupon out of order: %s", e.body)
		next[who]++
		if f.Sequence == 0 {
			where := place{e.partition, f.Source}
			require.Greater(t, *f.Data.Position, position[where], "coupons out of order: %s", e.body)
			position[where], owner[who] = *f.Data.Position, e.partition
		}
		require.Equal(t, owner[who], e.partition, "an issued coupon with two partitions: %s", e.body)
	}
	for name := range want {
		require.True(t, known[name], "%s has not arrived", name)
	}
	require.Len(t, known, len(want))
}

// requireContract compares the events with their contract: all of orders, and one of 50 others, which differ in numbers
// alone.
func (h *heard) requireContract(t testing.TB) {
	t.Helper()
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for events := range slices.Chunk(h.first, 1_000) {
		workers.Go(func() error {
			for i, e := range events {
				f, err := parseFact([]byte(e.body))
				if err == nil && (f.Sequence > 0 || i%50 == 0) {
					err = asyncapi.Conforms([]byte(e.body))
				}
				if err != nil {
					return fmt.Errorf("%w: %s", err, e.body)
				}
			}
			return nil
		})
	}
	require.NoError(t, workers.Wait())
}
