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

// eventFact is an event as the test reads it from a body, and as it writes it from rows. Times are in µs, and 0 if they are
// missing.
type eventFact struct {
	kind, source, id, subject, order                 string
	sequence, position                               int
	coupon, user, userCoupon, run                    uint64
	amount, discount                                 int64
	at, appliedAt, issuedAt, expiresAt               int64
	hasOrder, hasAmount, hasDiscount, hasPlace, isV1 bool
}

func micros(t *time.Time) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

// parseFact reads the body of an event.
func parseFact(body []byte) (f eventFact, err error) {
	var e struct {
		SpecVersion, Type, Source, ID, Subject string
		Sequence                               int
		Time                                   *time.Time
		Data                                   struct {
			CouponID, UserID, UserCouponID, RunID uint64
			Position                              *int
			AppliedAt, IssuedAt, ExpiresAt        *time.Time
			OrderID                               *string
			AmountWon, DiscountWon                *int64
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return f, err
	}
	d := e.Data
	f = eventFact{kind: e.Type, source: e.Source, id: e.ID, subject: e.Subject, sequence: e.Sequence, coupon: d.CouponID, user: d.UserID,
		userCoupon: d.UserCouponID, run: d.RunID, at: micros(e.Time), appliedAt: micros(d.AppliedAt), issuedAt: micros(d.IssuedAt),
		expiresAt: micros(d.ExpiresAt), hasOrder: d.OrderID != nil, hasAmount: d.AmountWon != nil, hasDiscount: d.DiscountWon != nil,
		hasPlace: d.Position != nil, isV1: e.SpecVersion == "1.0"}
	if f.hasOrder {
		f.order = *d.OrderID
	}
	if f.hasAmount {
		f.amount = *d.AmountWon
	}
	if f.hasDiscount {
		f.discount = *d.DiscountWon
	}
	if f.hasPlace {
		f.position = *d.Position
	}
	return f, nil
}

// name identifies an event.
func (f *eventFact) name() string { return f.source + " " + f.id }

// rows are the events that must exist, by name, from the rows of MySQL alone.
func (m *mall) rows() map[string]eventFact {
	m.T.Helper()
	all := map[string]eventFact{}
	rows, err := m.DB.Query(`SELECT id, coupon_id, user_id, position, applied_at, issued_at, expires_at, run_id FROM user_coupon WHERE run_id IS NOT NULL`)
	require.NoError(m.T, err)
	defer rows.Close()
	for rows.Next() {
		f := eventFact{kind: "kr.jajeong.coupon.issued.v1", hasPlace: true, isV1: true}
		var applied, issued, expires *time.Time
		require.NoError(m.T, rows.Scan(&f.userCoupon, &f.coupon, &f.user, &f.position, &applied, &issued, &expires, &f.run))
		f.id, f.at = fmt.Sprintf("issued-%d", f.user), micros(issued)
		f.appliedAt, f.issuedAt, f.expiresAt = micros(applied), micros(issued), micros(expires)
		f.addTo(all)
	}
	require.NoError(m.T, rows.Err())
	kinds := map[string]string{"RESERVED": "reserved", "USED": "used", "RELEASED": "released", "REFUNDED": "refunded"}
	logs, err := m.DB.Query(`SELECT l.user_coupon_id, u.coupon_id, u.user_id, l.seq, l.kind, l.order_id, l.amount_won, l.discount_won, l.expires_at, l.at
		FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id`)
	require.NoError(m.T, err)
	defer logs.Close()
	for logs.Next() {
		f := eventFact{hasOrder: true, hasAmount: true, hasDiscount: true, isV1: true}
		var kind string
		var expires, at *time.Time
		require.NoError(m.T, logs.Scan(&f.userCoupon, &f.coupon, &f.user, &f.sequence, &kind, &f.order, &f.amount, &f.discount, &expires, &at))
		f.kind, f.id = "kr.jajeong.coupon."+kinds[kind]+".v1", fmt.Sprintf("%d-%d", f.userCoupon, f.sequence)
		f.at, f.expiresAt = micros(at), micros(expires)
		f.addTo(all)
	}
	require.NoError(m.T, logs.Err())
	return all
}

func (f eventFact) addTo(all map[string]eventFact) {
	f.source, f.subject = fmt.Sprintf("/coupons/%d", f.coupon), fmt.Sprint(f.user)
	all[f.name()] = f
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

// require demands that the first readings are the events of the rows, in order. A repetition with another content is a first
// reading of a name that is known.
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
		require.True(t, row == f, "the row has %+v, the event is %s", row, e.body)

		who := holder{f.source, f.subject}
		require.Equal(t, next[who], f.sequence, "events of an issued coupon out of order: %s", e.body)
		next[who]++
		if f.sequence == 0 {
			where := place{e.partition, f.source}
			require.Greater(t, f.position, position[where], "coupons out of order: %s", e.body)
			position[where], owner[who] = f.position, e.partition
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
				if err == nil && (f.sequence > 0 || i%50 == 0) {
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
