package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	people    = 50_000
	userBatch = 5_000 // rows of one INSERT
)

// coupon is one campaign. The users from firstUser to lastUser apply for it.
type coupon struct {
	id                  int
	name                string
	seats, discountWon  int
	firstUser, lastUser uint64
}

func (c coupon) applicants() int { return int(c.lastUser-c.firstUser) + 1 }

// The first two coupons have more applicants than seats, the third has more seats than applicants.
var campaigns = []coupon{
	{name: "블랙프라이데이 50% 할인", seats: 1_000, discountWon: 20_000, firstUser: 1, lastUser: 30_000},
	{name: "주말 3천원 할인", seats: 5_000, discountWon: 3_000, firstUser: 30_001, lastUser: 45_000},
	{name: "첫 구매 5천원", seats: 10_000, discountWon: 5_000, firstUser: 45_001, lastUser: people},
}

// status is the state of a user in the user table. Applying does not read it, the settlement does.
type status string

const (
	active  status = "ACTIVE"
	blocked status = "BLOCKED"
	missing status = "" // not in the user table
)

func statusOf(user uint64) status {
	switch {
	case user%1000 == 13:
		return missing
	case user%100 == 7:
		return blocked
	}
	return active
}

func appliesTwice(user uint64) bool { return user%50 == 3 }

func (d *demo) showCoupons(ctx context.Context) error {
	for _, c := range campaigns {
		if err := d.create(ctx, c, time.Now().Add(-time.Hour), "nightly"); err != nil {
			return err
		}
	}
	twice := 0
	for user := uint64(1); user <= people; user++ {
		if appliesTwice(user) {
			twice++
		}
	}
	if err := d.addPeople(ctx); err != nil {
		return err
	}
	d.say(text.DemoTwice, twice)
	return d.startEvents(ctx)
}

// create creates a coupon whose window is a day.
func (d *demo) create(ctx context.Context, c coupon, opens time.Time, cadence string) error {
	output, err := d.shown(ctx, "coupon", "create", "--name", c.name, "--seats", strconv.Itoa(c.seats), "--cadence",
		cadence,
		"--discount-won", strconv.Itoa(c.discountWon), "--opens", opens.Format(time.RFC3339),
		"--closes", opens.AddDate(0, 0, 1).Format(time.RFC3339), "--operator", "kim", "--reason", "demo")
	if err != nil {
		return err
	}
	if c.id, err = strconv.Atoi(strings.TrimSpace(output)); err != nil {
		return fmt.Errorf("read the id of the new coupon: %w", err)
	}
	d.coupons = append(d.coupons, c)
	return nil
}

func (d *demo) addPeople(ctx context.Context) error {
	count := map[status]int{}
	for first := uint64(1); first <= people; first += userBatch {
		var values []any
		for user := first; user < first+userBatch && user <= people; user++ {
			s := statusOf(user)
			count[s]++
			if s != missing {
				values = append(values, user, s)
			}
		}
		placeholders := strings.Repeat(", (?, ?)", len(values)/2)[2:]
		if _, err := d.db.ExecContext(ctx, "INSERT INTO `user` (id, status) VALUES "+placeholders,
			values...); err != nil {
			return fmt.Errorf("create users from %d: %w", first, err)
		}
	}
	d.say(text.DemoPeople, people, count[blocked], count[missing])
	return nil
}
