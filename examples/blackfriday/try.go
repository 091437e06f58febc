package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/testenv/process"
	"github.com/jajeong/jajeong/internal/text"
)

const (
	tryUsers   = 20
	tryBlocked = 10 // the user that cannot have a coupon
	operator   = "kim"
	soon       = 3 * time.Minute
)

// tryCoupon is a coupon of the sample data.
type tryCoupon struct {
	name         text.Message
	seats        int
	opens, until time.Duration // from now
	cadence      string
	users        []uint64 // who have applied
}

// tryCoupons have the ids 1 to 4.
var tryCoupons = []tryCoupon{
	{text.TryTonight, 100, -time.Hour, 3 * 24 * time.Hour, "nightly", []uint64{11, 12, 13, 14, 15}},
	{text.TryAtOnce, 5, -time.Hour, 24 * time.Hour, "immediate", nil},
	{text.TrySoon, 5, soon, 24 * time.Hour, "immediate", nil},
	{text.TryPast, 3, -24 * time.Hour, time.Hour, "nightly", []uint64{1, tryBlocked, 2, 3, 4}},
}

const tonight, atOnce, opensSoon, past = 1, 2, 3, 4

// try starts all programs with sample data, says how to reach them, and returns when ctx ends.
func (d *demo) try(ctx context.Context) error {
	if err := d.startTry(ctx); err != nil {
		return d.withPodLogs(err)
	}
	d.tellTry()
	ended := make(chan *pod, len(d.programs()))
	for _, p := range d.programs() {
		go func() {
			<-p.Ended()
			ended <- p
		}()
	}
	select {
	case p := <-ended:
		return d.withPodLogs(text.Errorf(text.TryEnded, p.name))
	case <-ctx.Done():
		d.write("\n")
		return nil
	}
}

func (d *demo) startTry(ctx context.Context) error {
	if err := d.startServers(ctx, append(products, "./examples/page")...); err != nil {
		return err
	}
	if err := d.addTryCoupons(ctx); err != nil {
		return err
	}
	var err error
	if d.key, err = d.newKey(); err != nil {
		return err
	}
	for _, start := range []func() error{
		func() error { return d.startPod(ctx) },
		func() error { return d.startWallet(ctx) },
		func() error { return d.startServe(ctx, "nights,issue,events,journal") },
		func() error { return d.startConsole(ctx) },
		func() error { return d.startPage(ctx) },
		func() error { return d.applyForTry(ctx) },
		func() error { return d.run(ctx, "coupon", "list") },
	} {
		if err := start(); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) addTryCoupons(ctx context.Context) error {
	var values []string
	for user := 1; user <= tryUsers; user++ {
		is := active
		if user == tryBlocked {
			is = blocked
		}
		values = append(values, fmt.Sprintf("(%d, '%s')", user, is))
	}
	if _, err := d.db.ExecContext(ctx, "INSERT INTO `user` (id, status) VALUES "+strings.Join(values,
		", ")); err != nil {
		return fmt.Errorf("create users: %w", err)
	}
	d.say(text.TryData, tryUsers, tryBlocked)
	now := time.Now()
	for _, c := range tryCoupons {
		_, err := d.settle(ctx, "coupon", "create", "--name", c.name.In(d.language), "--seats", strconv.Itoa(c.seats),
			"--cadence", c.cadence,
			"--discount-won", "5000", "--opens", now.Add(c.opens).Format(time.RFC3339), "--closes",
			now.Add(c.until).Format(time.RFC3339),
			"--operator", operator, "--reason", "make try")
		if err != nil {
			return err
		}
	}
	return nil
}

// applyForTry sends the applications of the sample data, and settles the coupon that is past.
func (d *demo) applyForTry(ctx context.Context) error {
	for i, c := range tryCoupons {
		for _, user := range c.users {
			a, err := d.pods[0].apply(ctx, application{coupon: i + 1, user: user})
			if err == nil && !a.accepted() {
				err = fmt.Errorf("user %d applied for coupon %d and was refused: %d %s", user, i+1, a.http, a.body)
			}
			if err != nil {
				return err
			}
		}
	}
	by := []string{"--operator", operator, "--reason", "make try"}
	if _, err := d.settle(ctx, append([]string{"coupon", "close", strconv.Itoa(past)}, by...)...); err != nil {
		return err
	}
	_, err := d.settle(ctx, append([]string{"run", "--coupon", strconv.Itoa(past), "--cutoff", "now"}, by...)...)
	return err
}

func (d *demo) startConsole(ctx context.Context) error {
	p, err := d.start(ctx, "settle console", "settle", "console", "--console-dev-user", operator)
	if err == nil {
		d.consoles = append(d.consoles, p)
	}
	return err
}

// startPage starts examples/page, which logs no address: it gets a free port.
func (d *demo) startPage(ctx context.Context) (err error) {
	d.page, err = process.Start(ctx, process.Program{
		Name: "page", Path: d.bin + "/page",
		Args: func(_ string, port int) []string {
			return []string{"-listen", fmt.Sprintf("127.0.0.1:%d", port), "-api", "http://" + d.pods[0].Apply, "-live",
				"http://" + d.pods[0].Live}
		},
		Ready: func(ctx context.Context, s process.Instance) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr, nil)
			if err != nil {
				return err
			}
			response, err := client.Do(request)
			if err != nil {
				return err
			}
			return response.Body.Close()
		},
	})
	return err
}

// local is the address of a program for a browser of this machine. The console's development user has no other.
func local(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // no error: a program has logged it
	return "http://localhost:" + port
}

// tellTry says how to reach everything.
func (d *demo) tellTry() {
	d.say(text.TryStates, tonight, len(tryCoupons[tonight-1].users), past)
	api, wallet, page := local(d.pods[0].Apply), local(d.wallets[0].Wallet), local(d.page.Addr())
	line := func(shown string, about text.Message, args ...any) {
		d.write(fmt.Sprintf("  %-36s%s\n", shown, d.sprintf(about, args...)))
	}
	d.heading(text.TryBrowser)
	line(fmt.Sprintf("%s/?coupon=%d", page, atOnce), text.TryPage)
	line(fmt.Sprintf("%s/?coupon=%d", page, opensSoon), text.TryPageSoon)
	line(local(d.consoles[0].Console), text.TryConsole, operator)

	d.heading(text.TryTerminal)
	order := wallet + order("A-1")
	for _, block := range []struct {
		about text.Message
		lines []string
	}{
		{text.TryApply, []string{fmt.Sprintf("curl -X POST -H 'X-User-ID: 5' %s/v1/coupons/%d/applications", api,
			atOnce)}},
		{text.TryLook, []string{
			fmt.Sprintf("curl -H 'X-User-ID: 5' %s/v1/coupons/%d/applications/me", api, atOnce),
			fmt.Sprintf("curl -H 'X-User-ID: 1' %s/v1/wallet/coupons", wallet),
		}},
		{text.TryUse, []string{
			fmt.Sprintf(
				`curl -X PUT -H 'Authorization: Bearer %s' -d '{"couponId":%d,"userId":1,"amountWon":12000}' %s`, d.key,
				past, order),
			fmt.Sprintf("curl -X POST -H 'Authorization: Bearer %s' %s/confirm", d.key, order),
		}},
		{text.TrySettle, []string{
			fmt.Sprintf("export MYSQL_DSN='%s' REDIS_ADDRS=%s PATH=\"%s:$PATH\"", d.mysql.DSN(database), d.redis.Addr(),
				d.bin),
			fmt.Sprintf("settle run --cutoff now --operator %s --reason TRY-1 --yes", operator),
			"settle verify",
		}},
		{text.TryMetrics, []string{
			fmt.Sprintf("curl %s/readyz", local(d.pods[0].Admin)),
			fmt.Sprintf("curl %s/readyz", local(d.wallets[0].Admin)),
			fmt.Sprintf("curl %s/metrics", local(d.serve[0].Admin)),
		}},
	} {
		d.write("  " + block.about.In(d.language) + "\n    " + strings.Join(block.lines, "\n    ") + "\n")
	}
	d.write("\n")
	d.say(text.TryReady)
}
