package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	shopDatabase = "shop"
	consumers    = 4
	lateSeats    = 3 // of the coupon that is issued at once
	// Seats of the first coupon whose events the shop refuses at first.
	firstPoisoned, poisoned = 11, 3
)

// startEvents starts the process that publishes events, and waits until they are turned on.
func (d *demo) startEvents(ctx context.Context) error {
	d.say(text.DemoPublishes)
	d.command("settle", "serve", "--tasks", "issue,journal,events")
	if err := d.startServe(ctx, "issue,journal,events"); err != nil {
		return err
	}
	return d.await(ctx, "events are turned on", func() (bool, error) {
		on, err := d.number(ctx, "SELECT COUNT(*) FROM event_relay WHERE from_at IS NOT NULL")
		return on == 1, err
	})
}

// showEvents lets a program of the shop read what was issued at midnight and at once, and what was used at checkout.
func (d *demo) showEvents(ctx context.Context) error {
	if err := d.issueAtOnce(ctx); err != nil {
		return err
	}
	if err := d.await(ctx, "every event is published", func() (bool, error) {
		left, err := d.number(ctx, `SELECT (SELECT COUNT(*) FROM settlement WHERE issued_count > 0
			AND published_at IS NULL)
			+ (SELECT COUNT(*) FROM coupon_log WHERE published_at IS NULL)`)
		return left == 0, err
	}); err != nil {
		return err
	}
	mend, err := d.poison(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	handled, err := d.consume(ctx)
	if err != nil {
		return err
	}
	d.say(text.DemoRead, handled.total(), seconds(time.Since(began)), handled["ignored"], handled["dlq"])
	if handled["dlq"] != poisoned {
		return fmt.Errorf("%d events are in the DLQ stream, want %d", handled["dlq"], poisoned)
	}
	if err := d.replayPoisoned(ctx, mend); err != nil {
		return err
	}
	return d.compareWithShop(ctx)
}

// issueAtOnce issues a coupon within a heartbeat, while the events of midnight wait for their reader.
func (d *demo) issueAtOnce(ctx context.Context) error {
	c := coupon{name: "지금 바로 쿠폰", seats: lateSeats, discountWon: 1_000, firstUser: 1, lastUser: lateSeats}
	if err := d.create(ctx, c, time.Now().Add(-time.Hour), "immediate"); err != nil {
		return err
	}
	id := d.coupons[len(d.coupons)-1].id
	d.coupons = d.coupons[:len(d.coupons)-1] // the chapters of midnight do not count it
	for user := c.firstUser; user <= c.lastUser; user++ {
		if err := d.await(ctx, "the pods know the new coupon", func() (bool, error) {
			a, err := d.pods[0].apply(ctx, application{coupon: id, user: user})
			return a.outcome == "ACCEPTED", err
		}); err != nil {
			return err
		}
	}
	return d.await(ctx, "the coupons are issued", func() (bool, error) {
		issued, err := d.number(ctx, "SELECT issued_count FROM coupon WHERE id = ?", id)
		return issued == lateSeats, err
	})
}

// poison makes the shop's database refuse the events of three winners, as a fault in it would. mend ends that.
func (d *demo) poison(ctx context.Context) (mend func(context.Context) error, err error) {
	if _, err := d.db.ExecContext(ctx, "CREATE DATABASE "+shopDatabase); err != nil {
		return nil, fmt.Errorf("create the shop's database: %w", err)
	}
	shop, err := sql.Open("mysql", d.mysql.DSN(shopDatabase))
	if err != nil {
		return nil, err
	}
	defer shop.Close()
	tables, err := os.ReadFile("examples/consumer/schema.sql")
	if err != nil {
		return nil, err
	}
	statements := strings.Split(string(tables), ";")
	var ids []string
	for seat := firstPoisoned; seat < firstPoisoned+poisoned; seat++ {
		user, err := d.number(ctx, "SELECT user_id FROM user_coupon WHERE coupon_id = ? AND position = ?",
			d.coupons[0].id, seat)
		if err != nil {
			return nil, err
		}
		ids = append(ids, fmt.Sprintf("'issued-%d'", user))
	}
	statements = append(statements, fmt.Sprintf("CREATE TRIGGER fault BEFORE INSERT ON shop_event FOR EACH ROW "+
		"IF NEW.source = '/coupons/%d' AND NEW.event_id IN (%s) THEN "+
		"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a fault in the shop'; END IF", d.coupons[0].id,
		strings.Join(ids, ", ")))
	for _, statement := range statements {
		if _, err := shop.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("prepare the shop's database: %w", err)
		}
	}
	return func(ctx context.Context) error {
		_, err := d.db.ExecContext(ctx, "DROP TRIGGER "+shopDatabase+".fault")
		return err
	}, nil
}

// outcomes counts events by what became of them in the shop.
type outcomes map[string]int

func (o outcomes) total() int {
	return o["applied"] + o["superseded"] + o["ignored"] + o["duplicate"] + o["dlq"]
}

// consume reads the stream to its end by several processes of one group.
func (d *demo) consume(ctx context.Context) (outcomes, error) {
	all := make([][]byte, consumers)
	work, workCtx := errgroup.WithContext(ctx)
	args := func(i int) []string {
		return []string{"run", "--name", fmt.Sprintf("shop-%d", i+1), "--claim-after", "500ms", "--until-empty"}
	}
	for i := range all {
		work.Go(func() (err error) {
			all[i], err = d.consumer(workCtx, args(i)...)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	sum := outcomes{}
	for i, printed := range all {
		d.command(append([]string{"consumer"}, args(i)...)...)
		d.write(string(printed))
		var one outcomes
		if err := json.Unmarshal(printed, &one); err != nil {
			return nil, err
		}
		for outcome, n := range one {
			sum[outcome] += n
		}
	}
	return sum, nil
}

// consumer runs a verb of examples/consumer and returns what it prints.
func (d *demo) consumer(ctx context.Context, args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "consumer"), args...)
	cmd.Env = []string{"EVENT_REDIS_ADDRS=" + d.redis.Addr(), "SHOP_MYSQL_DSN=" + d.mysql.DSN(shopDatabase)}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("consumer %s: %w\n%s%s", args[0], err, &stdout, &stderr)
	}
	return stdout.Bytes(), nil
}

// showConsumer shows a verb of examples/consumer, runs it and shows what it prints.
func (d *demo) showConsumer(ctx context.Context, verb string) error {
	d.command("consumer", verb)
	printed, err := d.consumer(ctx, verb)
	d.write(string(printed))
	return err
}

// replayPoisoned lists what could not be handled, mends the shop, and handles it again.
func (d *demo) replayPoisoned(ctx context.Context, mend func(context.Context) error) error {
	if err := d.showConsumer(ctx, "dlq"); err != nil {
		return err
	}
	if err := mend(ctx); err != nil {
		return fmt.Errorf("mend the shop: %w", err)
	}
	d.say(text.DemoMended)
	return d.showConsumer(ctx, "replay")
}

// The events that MySQL holds, as source and id. The shop of the example has no use for extended.
const eventsOfMySQL = `
SELECT CONCAT('/coupons/', coupon_id) AS source, CONCAT('issued-', user_id) AS event_id FROM user_coupon
    WHERE run_id IS NOT NULL
UNION ALL
SELECT CONCAT('/coupons/', u.coupon_id),
    CONCAT_WS('-', u.user_id, l.seq, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', l.at))
FROM coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id WHERE l.kind <> 'EXTENDED'`

// compareWithShop compares the events of MySQL with those that the shop has handled, one by one.
func (d *demo) compareWithShop(ctx context.Context) error {
	matching,
		err := d.number(ctx,
		"SELECT COUNT(*) FROM ("+eventsOfMySQL+") m JOIN "+shopDatabase+".shop_event s ON s.source = m.source AND "+
			"s.event_id = m.event_id")
	if err != nil {
		return err
	}
	issued, err := d.number(ctx, "SELECT COUNT(*) FROM ("+eventsOfMySQL+") m")
	if err != nil {
		return err
	}
	handled, err := d.number(ctx, "SELECT COUNT(*) FROM "+shopDatabase+".shop_event")
	if err != nil {
		return err
	}
	if matching != issued || matching != handled {
		return fmt.Errorf("MySQL has %d events, the shop %d, and %d are the same", issued, handled, matching)
	}
	used, err := d.number(ctx, "SELECT COUNT(*) FROM "+shopDatabase+".shop_coupon WHERE state = 'USED'")
	if err != nil {
		return err
	}
	d.say(text.DemoHandled, handled, used)
	return nil
}
