package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

const (
	people    = 50_000
	userBatch = 5_000 // rows of one INSERT
)

// coupon is one campaign and the people who want it: the users from firstUser to lastUser.
type coupon struct {
	id                  uint64
	name                string
	seats               int
	firstUser, lastUser uint64
}

func (c coupon) wanted() int { return int(c.lastUser-c.firstUser) + 1 }

// The first two have more takers than seats, the third more seats than takers.
var campaigns = []coupon{
	{name: "블랙프라이데이 50% 할인", seats: 1_000, firstUser: 1, lastUser: 30_000},
	{name: "주말 무료 배송", seats: 5_000, firstUser: 30_001, lastUser: 45_000},
	{name: "첫 구매 5천원", seats: 10_000, firstUser: 45_001, lastUser: people},
}

// standing is what becomes of a user before midnight. The doors do not ask; the settlement does.
type standing string

const (
	active  standing = "ACTIVE"
	blocked standing = "BLOCKED"
	unknown standing = "" // applies and is gone from the user table
)

func standingOf(user uint64) standing {
	switch {
	case user%1000 == 13:
		return unknown
	case user%100 == 7:
		return blocked
	}
	return active
}

// appliesTwice is whether a user presses the button twice.
func appliesTwice(user uint64) bool { return user%50 == 3 }

const insertCouponSQL = `
INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at)
VALUES (?, ?, UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)`

func createCoupons(ctx context.Context, db *sql.DB) ([]coupon, error) {
	var coupons []coupon
	for _, c := range campaigns {
		done, err := db.ExecContext(ctx, insertCouponSQL, c.name, c.seats)
		if err != nil {
			return nil, fmt.Errorf("create coupon %q: %w", c.name, err)
		}
		id, err := done.LastInsertId()
		if err != nil {
			return nil, fmt.Errorf("create coupon %q: %w", c.name, err)
		}
		c.id = uint64(id)
		coupons = append(coupons, c)
	}
	return coupons, nil
}

func createUsers(ctx context.Context, db *sql.DB) error {
	for first := uint64(1); first <= people; first += userBatch {
		var values []any
		for user := first; user < first+userBatch && user <= people; user++ {
			if s := standingOf(user); s != unknown {
				values = append(values, user, s)
			}
		}
		rows := strings.Repeat(", (?, ?)", len(values)/2)[2:]
		if _, err := db.ExecContext(ctx, "INSERT INTO `user` (id, status) VALUES "+rows, values...); err != nil {
			return fmt.Errorf("create users from %d: %w", first, err)
		}
	}
	return nil
}

func (s *screen) showCoupons(coupons []coupon) {
	t := s.table("coupon", "name", "seats", "people who want it")
	for _, c := range coupons {
		t.AppendRow([]any{c.id, c.name, c.seats, c.wanted()})
	}
	t.Render()
	count := map[standing]int{}
	twice := 0
	for user := uint64(1); user <= people; user++ {
		count[standingOf(user)]++
		if appliesTwice(user) {
			twice++
		}
	}
	s.say("Of %d people %d are blocked, %d are in no user table, and %d will press the button twice.",
		people, count[blocked], count[unknown], twice)
}
