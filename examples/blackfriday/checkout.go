package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/text"
)

const (
	orders        = "/v1/orders"
	priceWon      = 59_000           // of every order
	validFor      = time.Second      // how long the coupon stays valid after the demo has moved its end
	keysWithin    = 15 * time.Second // wallet-api reads its keys anew every five seconds
	checkInterval = 50 * time.Millisecond
)

// newKey makes a key of the service checkout, and replaces the file of wallet-api by its hash.
func (d *deployment) newKey() (key string, err error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	key = hex.EncodeToString(random)
	written := d.keysFile() + ".new"
	if err = os.WriteFile(written, fmt.Appendf(nil, "checkout %x\n", sha256.Sum256([]byte(key))), 0o600); err == nil {
		err = os.Rename(written, d.keysFile())
	}
	return key, err
}

func (d *deployment) keysFile() string { return filepath.Join(d.redis.Dir(), "service-keys") }

// call is a request of checkout, or of a user for the wallet.
type call struct {
	method, path string
	key          string // of checkout; empty: the user asks
	user         uint64
	coupon       int // to reserve
}

// reply is the answer to a call. Only some of the fields are set.
type reply struct {
	http        int
	body        string
	Code        string // of a refusal
	State       string // of the order
	CouponState string
	FinalWon    int
	ValidUntil  time.Time
	Now         time.Time
}

// order makes the path of an order's coupon.
func order(id string, step ...string) string {
	return strings.Join(append([]string{orders, id, "coupon"}, step...), "/")
}

func (d *demo) ask(ctx context.Context, c call) (got reply, err error) {
	var body io.Reader
	if c.coupon > 0 {
		body = strings.NewReader(fmt.Sprintf(`{"couponId":%d,"userId":%d,"amountWon":%d}`, c.coupon, c.user, priceWon))
	}
	request, err := http.NewRequestWithContext(ctx, c.method, "http://"+d.wallets[0].Wallet+c.path, body)
	if err != nil {
		return got, err
	}
	if c.key == "" {
		request.Header.Set("X-User-ID", strconv.FormatUint(c.user, 10)) // in production the gateway sets it
	} else {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := client.Do(request)
	if err != nil {
		return got, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err == nil && len(content) > 0 {
		err = json.Unmarshal(content, &got)
	}
	if err != nil {
		return got, fmt.Errorf("%s %s: read answer %d: %w", c.method, c.path, response.StatusCode, err)
	}
	got.http, got.body = response.StatusCode, strings.TrimSpace(string(content))
	return got, nil
}

// step is a call of checkout with the answer that it must get: the state of the order, or the code of a refusal.
type step struct {
	call
	note   any // a text.Message, or empty
	http   int
	answer string
}

// showCheckout uses the coupon of the first winner in the wallet-api process, as the checkout of a shop does.
func (d *demo) showCheckout(ctx context.Context) error {
	c := d.coupons[0]
	winner, err := d.number(ctx, "SELECT user_id FROM user_coupon WHERE coupon_id = ? AND position = 1", c.id)
	if err != nil {
		return err
	}
	user := uint64(winner)
	key, err := d.newKey()
	if err != nil {
		return err
	}
	d.say(text.DemoKey)
	d.command("wallet-api")
	if err := d.startWallet(ctx); err != nil {
		return err
	}
	mine := call{method: http.MethodGet, path: "/v1/wallet/coupons", user: user}
	wallet, err := d.ask(ctx, mine)
	if err != nil {
		return err
	}
	d.write(fmt.Sprintf("→ GET %s   X-User-ID: %d\n", mine.path, user))
	d.sayJSON(fmt.Sprintf("← %d ", wallet.http), wallet.body)

	reserve := func(id string) call { return call{http.MethodPut, order(id), key, user, c.id} }
	var rows [][]any
	if rows, err = d.checkOut(ctx, rows,
		step{reserve("A-1"), "", 201, "RESERVED"},
		step{reserve("A-1"), text.DemoReplyLost, 200, "RESERVED"},
		step{reserve("A-2"), text.DemoSameCoupon, 409, "RESERVED_ELSEWHERE"},
		step{call{http.MethodPost, order("A-1", "confirm"), key, user, 0}, text.DemoBeforeCapture, 200, "USED"},
		step{call{http.MethodPost, order("A-1", "refund"), key, user, 0}, text.DemoGoodsBack, 200, "REFUNDED"},
		step{reserve("A-2"), "", 201, "RESERVED"},
	); err != nil {
		return err
	}
	ends, err := d.endValidity(ctx, c.id, user)
	if err != nil {
		return err
	}
	release := call{http.MethodDelete, order("A-2"), key, user, 0}
	if rows, err = d.checkOut(ctx, rows,
		step{release, text.DemoPaymentFailed, 200, "RELEASED"},
		step{reserve("A-3"), text.DemoTooLate, 409, "EXPIRED"},
	); err != nil {
		return err
	}
	d.table([]any{d.sprintf(text.DemoCallTo, orders), "HTTP", text.DemoAnswer, text.ColumnCoupon, text.DemoToPay, ""},
		rows...)
	d.say(text.DemoExpired, inKST(ends))
	if err := d.buyWith(ctx, c.id, 2, key); err != nil {
		return err
	}
	return d.showKeys(ctx, release)
}

// buyWith uses the coupon at a seat for an order that nobody returns.
func (d *demo) buyWith(ctx context.Context, couponID, seat int, key string) error {
	user, err := d.number(ctx, "SELECT user_id FROM user_coupon WHERE coupon_id = ? AND position = ?", couponID, seat)
	if err != nil {
		return err
	}
	if _, err = d.checkOut(ctx, nil,
		step{call{http.MethodPut, order("B-1"), key, uint64(user), couponID}, "", 201, "RESERVED"},
		step{call{http.MethodPost, order("B-1", "confirm"), key, uint64(user), 0}, "", 200, "USED"},
	); err == nil {
		d.say(text.DemoKeeps, seat)
	}
	return err
}

// checkOut makes calls and appends a row for each. An unexpected answer is an error.
func (d *demo) checkOut(ctx context.Context, rows [][]any, steps ...step) ([][]any, error) {
	for _, s := range steps {
		got, err := d.ask(ctx, s.call)
		if err != nil {
			return nil, err
		}
		answer := got.Code
		if answer == "" {
			answer = got.State
		}
		if got.http != s.http || answer != s.answer {
			return nil, fmt.Errorf("%s %s: want %d %s, got %d %s", s.method, s.path, s.http, s.answer, got.http,
				got.body)
		}
		pay := any("")
		if got.State == "RESERVED" || got.State == "USED" {
			pay = got.FinalWon
		}
		rows = append(rows, []any{s.method + " " + strings.TrimPrefix(s.path, orders), got.http, answer,
			got.CouponState, pay, s.note})
	}
	return rows, nil
}

// endValidity moves the end of a user's coupon to an instant that is about to come, and waits for it. The log of the
// coupon has the change, as for settle coupon extend-user, which only prolongs.
func (d *demo) endValidity(ctx context.Context, couponID int, user uint64) (ends time.Time, err error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return ends, err
	}
	defer func() { _ = tx.Rollback() }()
	ends = time.Now().UTC().Add(validFor).Truncate(time.Microsecond)
	const end = "UPDATE user_coupon SET seq = seq + 1, expires_at = ? WHERE coupon_id = ? AND user_id = ?"
	const log = `INSERT INTO coupon_log (user_coupon_id, seq, kind, expires_at, actor, at)
		SELECT id, seq, 'EXTENDED', expires_at, 'administrator', UTC_TIMESTAMP(6) FROM user_coupon WHERE coupon_id = ?
			AND user_id = ?`
	if _, err = tx.ExecContext(ctx, end, ends, couponID, user); err == nil {
		_, err = tx.ExecContext(ctx, log, couponID, user)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return ends, fmt.Errorf("move the end of validity: %w", err)
	}
	wallet := call{method: http.MethodGet, path: "/v1/wallet/coupons", user: user}
	return ends, d.await(ctx, "the coupon expires", func() (bool, error) {
		got, err := d.ask(ctx, wallet)
		return !got.Now.Before(ends), err
	})
}

// showKeys makes a call that is already done, with a wrong key and with a replaced one.
func (d *demo) showKeys(ctx context.Context, done call) error {
	old, wrong := done.key, done
	wrong.key = strings.Repeat("0", len(old))
	refused, err := d.ask(ctx, wrong)
	if err != nil {
		return err
	}
	if refused.http != http.StatusUnauthorized {
		return fmt.Errorf("a wrong key was answered %d %s", refused.http, refused.body)
	}
	d.say(text.DemoWrongKey, refused.http, refused.Code)
	if done.key, err = d.newKey(); err != nil {
		return err
	}
	replaced := time.Now()
	withOld := done
	withOld.key = old
	if err := d.await(ctx, "the old key is refused", func() (bool, error) {
		refused, err = d.ask(ctx, withOld)
		return refused.http == http.StatusUnauthorized, err
	}); err != nil {
		return err
	}
	took := time.Since(replaced)
	accepted, err := d.ask(ctx, done)
	if err != nil {
		return err
	}
	if accepted.http != http.StatusOK {
		return fmt.Errorf("the new key was answered %d %s", accepted.http, accepted.body)
	}
	d.say(text.DemoNewKey, seconds(took), refused.http, accepted.http)
	return nil
}

// await repeats a check until it holds.
func (d *demo) await(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, keysWithin, fmt.Errorf("not within %v: %s", keysWithin, what))
	defer cancel()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(checkInterval):
		}
	}
}

// showCustomerService asks what became of the coupon.
func (d *demo) showCustomerService(ctx context.Context) error {
	c := d.coupons[0]
	winner, err := d.number(ctx, "SELECT user_id FROM user_coupon WHERE coupon_id = ? AND position = 1", c.id)
	if err != nil {
		return err
	}
	if err := d.run(ctx, "explain", "--coupon", strconv.Itoa(c.id), "--user", strconv.Itoa(winner)); err != nil {
		return err
	}
	return d.showReport(ctx)
}

// showReport asks what has become of all coupons, as finance does.
func (d *demo) showReport(ctx context.Context) error {
	today := d.answers[d.coupons[0].firstUser].AppliedAt.In(kst).Format(time.DateOnly)
	if err := d.run(ctx, "report", "--date", today); err != nil {
		return err
	}
	var report struct {
		Total struct {
			UserCoupons struct{ Reserved, Used, Expired, Revoked, UsedWon, ExpiredWon int }
		}
	}
	if err := d.settleJSON(ctx, &report, "report", "--date", today); err != nil {
		return err
	}
	c := report.Total.UserCoupons
	if discount := d.coupons[0].discountWon; c.Used != 1 || c.Expired != 1 || c.Reserved+c.Revoked != 0 ||
		c.UsedWon != discount || c.ExpiredWon != discount {
		return fmt.Errorf("the report does not tell what happened: %+v", c)
	}
	return nil
}
