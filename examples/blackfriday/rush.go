package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	rushSeats   = 1_000
	opensWithin = 6 * time.Second // time to start the programs
	// watchInterval is how often the demo looks for new coupons in MySQL.
	watchInterval = 2 * time.Millisecond
	issuedWithin  = 10 * time.Second // all coupons, after the last press
)

func (d *demo) rush() story {
	return story{text.DemoRush, []chapter{
		{text.DemoStart, d.showStart},
		{text.DemoImmediate, d.showImmediate},
		{text.DemoEarly, d.showEarly},
		{text.DemoOpening, d.showOpening},
		{text.DemoOthers, d.showOthers},
		{text.DemoProof, d.showProof},
	}}
}

// inStory is a time in the story, in which the coupon opens at 14:00:00.
func (d *demo) inStory(t time.Time) string {
	return time.Date(2026, 11, 27, 14, 0, 0, 0, time.UTC).Add(t.Sub(d.opens)).Format("15:04:05.000")
}

func (d *demo) showImmediate(ctx context.Context) error {
	if err := d.addPeople(ctx); err != nil {
		return err
	}
	c := coupon{name: "오후 2시 선착순 쿠폰", seats: rushSeats, discountWon: 10_000, firstUser: 1, lastUser: people}
	d.opens = time.Now().Add(opensWithin).Truncate(time.Second)
	if err := d.create(ctx, c, d.opens, "immediate"); err != nil {
		return err
	}
	d.say(text.DemoPods, podCount, podCount)
	d.command("settle", "serve", "--tasks", "issue")
	for range podCount {
		if err := d.startPod(ctx); err != nil {
			return err
		}
		if err := d.startServe(ctx, "issue"); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) showEarly(ctx context.Context) error {
	a, err := d.pods[0].apply(ctx, application{coupon: d.coupons[0].id, user: 1, language: string(d.language)})
	switch {
	case err != nil:
		return err
	case a.outcome == "NOT_OPEN":
		d.showAnswer(a, d.pods[0].name)
	case time.Now().Before(d.opens):
		return fmt.Errorf("user %d applied before the opening, and was answered %d %s", a.user, a.http, a.body)
	default:
		d.say(text.DemoTooBusy)
	}
	return nil
}

// holder is a user with a coupon, and when the demo saw the row.
type holder struct {
	winner
	seen time.Time
}

// watch returns, in order, the rows of user_coupon as they become visible, until there are enough or ctx ends.
func (d *demo) watch(ctx context.Context, enough int) (holders []holder, err error) {
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	for len(holders) < enough {
		found, err := d.winnersFrom(ctx, d.coupons[0], len(holders)+1)
		if err != nil {
			return holders, err
		}
		now := time.Now()
		for _, w := range found {
			holders = append(holders, holder{w, now})
		}
		select {
		case <-ctx.Done():
			return holders, fmt.Errorf("%d of %d coupons are issued: %w", len(holders), enough, context.Cause(ctx))
		case <-ticks.C:
		}
	}
	return holders, nil
}

// showOpening lets everybody press at the opening, and measures the time from each winner's press to the coupon.
func (d *demo) showOpening(ctx context.Context) error {
	all := make([]application, 0, people)
	for user := uint64(1); user <= people; user++ {
		all = append(all, application{coupon: d.coupons[0].id, user: user})
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(d.opens)):
	}

	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var holders []holder
	var watchErr error
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		holders, watchErr = d.watch(watching, rushSeats)
	}()
	answers, err := d.askAll(ctx, all, applyBy)
	limit := time.AfterFunc(issuedWithin,
		func() { stop(fmt.Errorf("not within %v after the last press", issuedWithin)) })
	defer limit.Stop()
	if err != nil {
		stop(err)
	}
	<-watched
	if err := cmp.Or(err, watchErr); err != nil {
		return err
	}
	return d.showHolders(answers, holders)
}

func (d *demo) showHolders(answers []asked, holders []holder) error {
	d.answers = make(map[uint64]answer, people)
	pressedAt := make(map[uint64]time.Time, people)
	count := map[string]int{}
	for _, a := range answers {
		d.answers[a.user], pressedAt[a.user] = a.answer, a.sent
		count[a.outcome]++
	}
	if err := d.checkHolders(holders); err != nil {
		return err
	}
	var rows [][]any
	var took []time.Duration
	for i, h := range holders {
		pressed := pressedAt[h.user]
		took = append(took, h.seen.Sub(pressed))
		if i == 0 || i == len(holders)/2 || i == len(holders)-1 {
			rows = append(rows, []any{h.position, h.user, d.inStory(pressed), d.inStory(h.appliedAt), d.inStory(h.seen),
				millis(took[i]) + " ms"})
		}
	}
	d.say(text.DemoPress, people, connections)
	d.table([]any{text.DemoSeat, text.ColumnUser, text.DemoPressed, text.ColumnAppliedAt, text.DemoInMySQL,
		text.DemoPressToHave}, rows...)
	d.say(text.DemoFirstWinner, millis(took[0]))
	half, most := percentiles(took)
	d.say(text.DemoPercentiles, half, most)
	last := holders[len(holders)-1]
	d.say(text.DemoAllIssued, len(holders), d.inStory(last.seen), count["ACCEPTED"], count["SOLD_OUT"])
	return nil
}

// checkHolders demands that the winners are the first eligible applicants, in order.
func (d *demo) checkHolders(holders []holder) error {
	var eligible []answer
	for user, a := range d.answers {
		switch {
		case a.outcome != "ACCEPTED" && a.outcome != "DUPLICATE" && a.outcome != "SOLD_OUT":
			return fmt.Errorf("user %d was answered %d %s", user, a.http, a.body)
		case a.accepted() && statusOf(user) == active:
			eligible = append(eligible, a)
		}
	}
	slices.SortFunc(eligible, func(a, b answer) int { return a.AppliedAt.Compare(b.AppliedAt) })
	for i, h := range holders {
		if i >= len(eligible) || h.position != i+1 || h.user != eligible[i].user ||
			!h.appliedAt.Equal(eligible[i].AppliedAt) {
			return fmt.Errorf("seat %d of user %d, who applied at %s, is due to somebody else",
				h.position, h.user, d.inStory(h.appliedAt))
		}
	}
	return nil
}

// showOthers asks for the application of everybody who was accepted, and adds up what everybody was told.
func (d *demo) showOthers(ctx context.Context) error {
	var all []application
	told := map[string]int{}
	for _, a := range d.answers {
		if a.accepted() {
			all = append(all, a.application)
		} else {
			told[a.outcome]++
		}
	}
	answers, err := d.askAll(ctx, all, decidedBy)
	if err != nil {
		return err
	}
	for _, a := range answers {
		told[a.outcome]++
	}
	var rows [][]any
	sum := 0
	for _, outcome := range []string{"ISSUED", "NOT_SELECTED", "UNDER_REVIEW", "SOLD_OUT"} {
		rows = append(rows, []any{outcome, told[outcome]})
		sum += told[outcome]
	}
	d.table([]any{text.DemoTold, text.DemoHowMany}, rows...)
	if sum != people || told["ISSUED"] != rushSeats {
		return fmt.Errorf("%d people were told, and %d of them ISSUED: want %d and %d",
			sum, told["ISSUED"], people, rushSeats)
	}
	return d.checkTold(ctx, told)
}

// decidedBy asks for an application until it is not PENDING.
func decidedBy(ctx context.Context, p *pod, a application) (answer, error) {
	late := fmt.Errorf("user %d is PENDING after %v", a.user, issuedWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, issuedWithin, late)
	defer cancel()
	for {
		got, err := p.ask(ctx, http.MethodGet, a.path()+"/me", a)
		if err != nil || got.outcome != "PENDING" {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, context.Cause(ctx)
		case <-time.After(retryInterval):
		}
	}
}

// checkTold compares what people were told with MySQL.
func (d *demo) checkTold(ctx context.Context, told map[string]int) error {
	var rows []any
	for _, is := range []struct{ outcome, query string }{
		{"ISSUED", "SELECT COUNT(*) FROM user_coupon"},
		{"NOT_SELECTED", "SELECT COUNT(*) FROM application_outcome WHERE outcome = 'NOT_SELECTED'"},
	} {
		n, err := d.number(ctx, is.query)
		if err != nil {
			return err
		}
		if n != told[is.outcome] {
			return fmt.Errorf("%d people were told %s, and MySQL has %d", told[is.outcome], is.outcome, n)
		}
		rows = append(rows, n)
	}
	list, err := d.readDLQ(ctx)
	if err != nil {
		return err
	}
	if list.Total != told["UNDER_REVIEW"] {
		return fmt.Errorf("%d people were told UNDER_REVIEW, and the DLQ has %d", told["UNDER_REVIEW"], list.Total)
	}
	d.say(text.DemoSamePeople, rows[0], rows[1], list.Total)
	return nil
}
