package events

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// cameBefore is how much earlier than its time an event may have come to the sink, by the sink's clock. An event
	// comes after the commit of its row, so this is for clocks that differ.
	cameBefore = time.Hour
	// maxMissing bounds what a Verification lists and remembers, since an event may come twice.
	maxMissing = 100_000
)

// Verification compares the events that a sink has of a period with MySQL. MySQL lacks the row of an event if it was
// put back to an earlier instant: a replica that lacked the last commits took over, or a backup was loaded. What was
// issued again has the same event, and is not missing.
type Verification struct {
	From, To time.Time // events of From and later, before To, by their own time. A zero To selects all later ones
	Sink     Sink
	Rows     mysqltx.Querier
	Progress func(events int)

	done Verified
	seen map[identity]bool // the missing ones
	most int               // how many missing events are listed at most
}

// Verified is the result of a Verification.
type Verified struct {
	From time.Time  `json:"from"`
	To   *time.Time `json:"to,omitempty"`
	// CoveredFrom is since when the sink has everything that came to it, by its clock. Nil: it has no events, or lacks
	// some since nobody knows when.
	CoveredFrom *time.Time `json:"coveredFrom,omitempty"`
	Complete    bool       `json:"complete"`   // the sink has all that came to it since From, and all was compared
	Events      int        `json:"events"`     // of the period, repetitions included
	Purged      int        `json:"purged"`     // those of them that belong to coupons which `settle purge` has deleted
	Unreadable  int        `json:"unreadable"` // messages, of whatever time, that are no events of coupons
	Missing     []Missing  `json:"missing"`    // events without a row, each once, in the order of the sink
	More        bool       `json:"more"`       // more may be missing: the comparison ended at 100,000
}

// Missing is an event whose row MySQL does not have.
type Missing struct {
	Source   string          `json:"source"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Time     time.Time       `json:"time"`
	Coupon   coupon.CouponID `json:"couponId"`
	User     coupon.UserID   `json:"userId"`
	Order    *string         `json:"orderId,omitempty"`
	Amount   *int64          `json:"amountWon,omitempty"`
	Discount *int64          `json:"discountWon,omitempty"`
}

// errEnough ends the reading of a sink.
var errEnough = errors.New("enough events are missing")

// Run reads the sink by pages. It changes nothing in the sink or in MySQL.
func (v *Verification) Run(ctx context.Context) (Verified, error) {
	v.done, v.seen = Verified{From: v.From, Missing: []Missing{}}, map[identity]bool{}
	if !v.To.IsZero() {
		v.done.To = &v.To
	}
	if v.most == 0 {
		v.most = maxMissing
	}
	first, err := v.Sink.Read(ctx, v.From.Add(-cameBefore), func(page [][]byte) error { return v.page(ctx, page) })
	if errors.Is(err, errEnough) {
		v.done.More = true
		return v.done, nil
	}
	if err != nil {
		return v.done, err
	}
	if !first.IsZero() {
		first = first.UTC()
		v.done.CoveredFrom, v.done.Complete = &first, !first.After(v.From)
	}
	return v.done, nil
}

// stored is what a sink has of an event.
type stored struct {
	Type   string
	Source string
	ID     string
	Time   time.Time
	Data   Changed
	identity
}

func readStored(body []byte) (e stored, ok bool) {
	if json.Unmarshal(body, &e) != nil {
		return e, false
	}
	e.identity, ok = identify(e.Source, e.ID)
	return e, ok && !e.Time.IsZero()
}

// page compares the events of a page that are of the period.
func (v *Verification) page(ctx context.Context, page [][]byte) error {
	due := make([]stored, 0, len(page))
	for _, body := range page {
		e, ok := readStored(body)
		switch {
		case !ok:
			v.done.Unreadable++
		case !e.Time.Before(v.From) && (v.To.IsZero() || e.Time.Before(v.To)):
			due = append(due, e)
		}
	}
	v.done.Events += len(due)
	v.Progress(len(due))
	absent, err := v.absent(ctx, due)
	if err != nil || len(absent) == 0 {
		return err
	}
	purged, err := v.purged(ctx, absent)
	if err != nil {
		return err
	}
	for i := range absent {
		if e := &absent[i]; purged[e.coupon] {
			v.done.Purged++
		} else if err := v.note(e); err != nil {
			return err
		}
	}
	return nil
}

// note lists an event, unless it is a repetition of a listed one.
func (v *Verification) note(e *stored) error {
	switch {
	case v.seen[e.identity]:
		return nil
	case len(v.done.Missing) == v.most:
		return errEnough
	}
	v.seen[e.identity] = true
	v.done.Missing = append(v.done.Missing, Missing{Source: e.Source, ID: e.ID, Type: e.Type, Time: e.Time.UTC(),
		Coupon: e.coupon, User: e.user, Order: e.Data.Order, Amount: e.Data.Amount, Discount: e.Data.Discount})
	return nil
}

// The order of the tables and the indexes are named because another plan would read all coupons of a campaign. No row
// of coupon_log has the seq 0, which stands for the issue.
const presentSQL = `
SELECT j.n, u.run_id IS NOT NULL, l.at FROM JSON_TABLE(?, '$[*]' COLUMNS (n FOR ORDINALITY,
    coupon_id BIGINT UNSIGNED PATH '$[0]', user_id BIGINT UNSIGNED PATH '$[1]', seq INT UNSIGNED PATH '$[2]')) AS j
STRAIGHT_JOIN user_coupon u FORCE INDEX (user_coupon_once) ON u.coupon_id = j.coupon_id AND u.user_id = j.user_id
LEFT JOIN coupon_log l FORCE INDEX (coupon_log_seq) ON l.user_coupon_id = u.id AND l.seq = j.seq`

// absent returns the events that have no row.
func (v *Verification) absent(ctx context.Context, events []stored) ([]stored, error) {
	if len(events) == 0 {
		return nil, nil
	}
	keys := make([][3]uint64, len(events))
	for i, e := range events {
		keys[i] = [3]uint64{uint64(e.coupon), uint64(e.user), e.seq}
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	type row struct {
		number int // of the event, from 1
		byRun  bool
		at     *time.Time
	}
	fields := func(r *row) []any { return []any{&r.number, &r.byRun, &r.at} }
	rows, err := mysqltx.Collect(ctx, v.Rows, fields, presentSQL, string(list))
	if err != nil {
		return nil, mysqltx.Wrap(err, "look for the rows of events")
	}
	present := make([]bool, len(events))
	for _, r := range rows {
		if e := &events[r.number-1]; e.seq == 0 {
			present[r.number-1] = r.byRun // a coupon given by hand has no issued event
		} else {
			present[r.number-1] = r.at != nil && r.at.UnixMicro() == e.micros
		}
	}
	var absent []stored
	for i, found := range present {
		if !found {
			absent = append(absent, events[i])
		}
	}
	return absent, nil
}

// purged returns which coupons of events were purged. It is read after their rows, since a purge leaves its row first.
func (v *Verification) purged(ctx context.Context, events []stored) (map[coupon.CouponID]bool, error) {
	var ids []any
	for _, e := range events {
		if !slices.Contains(ids, any(e.coupon)) {
			ids = append(ids, e.coupon)
		}
	}
	found, err := mysqltx.Column[coupon.CouponID](ctx, v.Rows,
		"SELECT coupon_id FROM purged_coupon WHERE coupon_id IN "+mysqltx.In(len(ids)), ids...)
	purged := make(map[coupon.CouponID]bool, len(found))
	for _, id := range found {
		purged[id] = true
	}
	return purged, mysqltx.Wrap(err, "look for purged coupons")
}

// identity is what source and id of an event say: the row that it is about.
type identity struct {
	coupon coupon.CouponID
	user   coupon.UserID
	seq    uint64 // coupon_log.seq; 0: the coupon was issued
	micros int64  // coupon_log.at, in µs since 1970; 0 if the coupon was issued
}

// identify reads source and id as Event has written them, and nothing that is merely like it.
func identify(of, id string) (i identity, ok bool) {
	couponID, err := strconv.ParseUint(strings.TrimPrefix(of, sourcePath), 10, 64)
	if i.coupon = coupon.CouponID(couponID); err != nil || source(i.coupon) != of {
		return i, false
	}
	if i.user = coupon.ParseUserID(strings.TrimPrefix(id, "issued-")); i.user != 0 {
		return i, id == issuedID(i.user)
	}
	parts := strings.Split(id, "-")
	if len(parts) != 3 {
		return i, false
	}
	seq, err1 := strconv.ParseUint(parts[1], 10, 31)
	micros, err2 := strconv.ParseInt(parts[2], 10, 64)
	i.user, i.seq, i.micros = coupon.ParseUserID(parts[0]), seq, micros
	return i, err1 == nil && err2 == nil && i.user != 0 && seq > 0 &&
		changeID(i.user, int(seq), time.UnixMicro(micros)) == id
}
