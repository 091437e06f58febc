package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// kst has no summer time, so it needs no zone file.
var kst = time.FixedZone("KST", 9*60*60)

func inKST(t time.Time) string { return t.In(kst).Format("15:04:05.000000") }

const (
	shownWinners = 5 // at each end
	shownEntries = 3 // of the DLQ, for each cause
)

// winner is a seat that was given.
type winner struct {
	position  int
	user      uint64
	appliedAt time.Time
}

const selectWinnersSQL = "SELECT position, user_id, applied_at FROM user_coupon WHERE coupon_id = ? ORDER BY position"

func selectWinners(ctx context.Context, d *deployment, coupon uint64) (winners []winner, err error) {
	rows, err := d.db.QueryContext(ctx, selectWinnersSQL, coupon)
	if err != nil {
		return nil, fmt.Errorf("read winners of coupon %d: %w", coupon, err)
	}
	defer rows.Close()
	for rows.Next() {
		var w winner
		if err := rows.Scan(&w.position, &w.user, &w.appliedAt); err != nil {
			return nil, fmt.Errorf("read winners of coupon %d: %w", coupon, err)
		}
		winners = append(winners, w)
	}
	return winners, rows.Err()
}

// showWinners shows both ends of each list and holds all of it against what people were told when they applied.
func showWinners(ctx context.Context, s *screen, d *deployment, coupons []coupon, places map[uint64]answer) error {
	t := s.table("coupon", "seat", "user", "applied at (KST)", "place told when applying")
	t.SetColumnConfigs(rightAligned("seat", "user", "place told when applying"))
	for _, c := range coupons {
		winners, err := selectWinners(ctx, d, c.id)
		if err != nil {
			return err
		}
		if err := checkWinners(c, winners, places); err != nil {
			return err
		}
		name := c.name
		for i, w := range winners {
			switch {
			case i < shownWinners, i >= len(winners)-shownWinners:
				t.AppendRow([]any{name, w.position, w.user, inKST(w.appliedAt), places[w.user].Position})
				name = ""
			case i == shownWinners:
				t.AppendRow([]any{"", "…", "…", "…", "…"})
			}
		}
		t.AppendSeparator()
	}
	t.Render()
	s.say("Seat and place differ where somebody before could not take a seat: it went to the next in line.")
	s.say("Checked for all: the winners are the first eligible by the places that the API had told them.")
	return nil
}

func checkWinners(c coupon, winners []winner, places map[uint64]answer) error {
	var eligible []answer
	for user := c.firstUser; user <= c.lastUser; user++ {
		if standingOf(user) == active {
			eligible = append(eligible, places[user])
		}
	}
	slices.SortFunc(eligible, func(a, b answer) int { return cmp.Compare(a.Position, b.Position) })
	first := eligible[:min(len(eligible), c.seats)]
	if len(winners) != len(first) {
		return fmt.Errorf("coupon %d: %d people got a seat, not %d", c.id, len(winners), len(first))
	}
	for i, w := range winners {
		if due := first[i]; w.position != i+1 || w.user != due.user || !w.appliedAt.Equal(due.AppliedAt) {
			return fmt.Errorf("coupon %d: seat %d belongs to user %d, who applied at %s, and went to user %d, who applied at %s",
				c.id, i+1, due.user, inKST(due.AppliedAt), w.user, inKST(w.appliedAt))
		}
	}
	return nil
}

// entry is one application in the DLQ.
type entry struct {
	coupon, user uint64
	appliedAt    time.Time
	Cause        string
	Message      string
}

// readDLQ reads a coupon's DLQ where DESIGN.md §3 says it is; it is short here.
func readDLQ(ctx context.Context, d *deployment, coupon uint64) (entries []entry, err error) {
	tag := fmt.Sprintf("{candidates:coupon:%d}", coupon)
	members, err := d.rdb.ZRangeWithScores(ctx, "dlq:"+tag, 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read DLQ of coupon %d: %w", coupon, err)
	}
	reasons, err := d.rdb.HGetAll(ctx, "dlq:reason:"+tag).Result()
	if err != nil {
		return nil, fmt.Errorf("read DLQ reasons of coupon %d: %w", coupon, err)
	}
	for _, m := range members {
		member := fmt.Sprint(m.Member)
		e := entry{coupon: coupon, appliedAt: time.UnixMicro(int64(m.Score))}
		if e.user, err = strconv.ParseUint(member, 10, 64); err != nil {
			return nil, fmt.Errorf("DLQ of coupon %d: %w", coupon, err)
		}
		if err := json.Unmarshal([]byte(reasons[member]), &e); err != nil {
			return nil, fmt.Errorf("DLQ of coupon %d, user %d: %w", coupon, e.user, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func showUnderReview(ctx context.Context, s *screen, d *deployment, coupons []coupon) error {
	byCause := map[string][]entry{}
	for _, c := range coupons {
		entries, err := readDLQ(ctx, d, c.id)
		if err != nil {
			return err
		}
		for _, e := range entries {
			byCause[e.Cause] = append(byCause[e.Cause], e)
		}
	}
	t := s.table("cause", "entries", "coupon", "user", "applied at (KST)", "message")
	t.SetColumnConfigs(rightAligned("entries", "coupon", "user"))
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		entries := byCause[cause]
		group := []any{cause, len(entries)}
		for _, e := range entries[:min(len(entries), shownEntries)] {
			t.AppendRow(append(group, e.coupon, e.user, inKST(e.appliedAt), e.Message))
			group = []any{"", ""}
		}
		t.AppendRow([]any{"", "", "…", "…", "…", "…"})
		t.AppendSeparator()
	}
	t.Render()
	s.say("They keep their place and are told UNDER_REVIEW until somebody decides.")
	return nil
}
