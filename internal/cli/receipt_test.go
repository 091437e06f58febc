package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/view"
)

// receipts are the keys of a test, and the flag with their file.
type receipts struct {
	*world
	keys *receipt.Keys
	flag string
}

func newReceipts(w *world) *receipts {
	w.T.Helper()
	path := filepath.Join(w.T.TempDir(), "receipt-keys")
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	require.NoError(w.T, os.WriteFile(path, []byte("1 "+secret+"\n"), 0o600))
	keys, err := receipt.Load(path, time.Now)
	require.NoError(w.T, err)
	w.servers[0] = "--mysql-dsn=" + w.Operator.MySQLDSN
	return &receipts{w, keys, "--receipt-keys-file=" + path}
}

// sign returns the receipt of an arrival.
func (r *receipts) sign(couponID coupon.CouponID, user coupon.UserID, arrival coupon.Arrival) string {
	r.T.Helper()
	token, signed := r.keys.Append(nil, receipt.Receipt{Coupon: couponID, User: user, Arrival: arrival, Position: 1,
		SignedAt: arrival.Time().Unix()})
	require.True(r.T, signed)
	return string(token)
}

// given returns a receipt of each user in the queue.
func (r *receipts) given(couponID coupon.CouponID) map[coupon.UserID]string {
	r.T.Helper()
	tokens := map[coupon.UserID]string{}
	for member, arrival := range r.Arrivals(couponID) {
		user := coupon.ParseUserID(member)
		tokens[user] = r.sign(couponID, user, arrival)
	}
	return tokens
}

// story is what the verb says. The verb ends with this exit code.
func (r *receipts) story(code int, verb, token string, more ...string) (story view.ReceiptStory) {
	r.T.Helper()
	got, stdout, stderr := r.settle(append([]string{"receipt", verb, token, r.flag, "--output=json"}, more...)...)
	require.Equal(r.T, code, got, stderr)
	require.NoError(r.T, json.Unmarshal([]byte(stdout), &story), "%s%s", stdout, stderr)
	require.NotContains(r.T, stdout+stderr, token)
	return story
}

var honouredBy = []string{"--operator=lee", "--reason=CS-310"}

// everyFate has coupon 1: user 1 got it, user 3 (unknown to the shop) is under review, user 4 was dropped from review,
// user 5 waits, and user 6 got the coupon by hand. User 2 was not selected for coupon 2.
func everyFate(w *world) (r *receipts, id coupon.CouponID, tokens map[coupon.UserID]string) {
	w.T.Helper()
	r = newReceipts(w)
	w.AddUsers(1, 2, 5, 6)
	id = w.AddCoupon(1)
	w.Apply(id, 3, 4, 1)
	other := w.AddCoupon(1)
	w.Apply(other, 1, 2)
	tokens = r.given(id)
	tokens[2] = r.given(other)[2]
	w.SettleNow()
	w.Drop(id, "4")
	succeeds(w.T)(w.settle(append([]string{"coupon", "grant", id.String(), "--user=6"}, honouredBy...)...))
	w.SetSeats(id, 4)
	w.SettleNow()
	w.Apply(id, 5)
	tokens[5] = r.given(id)[5]
	return r, id, tokens
}

func TestReceipt_Refusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceipts(w)
	token := r.sign(1, 7, coupon.ArrivalAt(w.Now()))
	others := newReceipts(newWorld(t))
	require.NoError(t, os.WriteFile(strings.TrimPrefix(others.flag, "--receipt-keys-file="),
		[]byte("2 "+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))+"\n"), 0o600))
	old := filepath.Join(t.TempDir(), "old")
	require.NoError(t,
		os.WriteFile(old,
			[]byte("1 "+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))+" 2020-01-01T00:00:00Z\n"),
			0o600))
	forged := token[:len(token)-2] + "AA"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"forged":      {[]string{forged, r.flag}, "FORGED: "},
		"foreign":     {[]string{token, others.flag}, "FOREIGN_KEY: "},
		"expired":     {[]string{token, "--receipt-keys-file=" + old}, "EXPIRED_KEY: "},
		"malformed":   {[]string{"hello", r.flag}, "MALFORMED: "},
		"no keys":     {[]string{token}, "--receipt-keys-file"},
		"no file":     {[]string{token, "--receipt-keys-file=/nonexistent"}, "RECEIPT_KEYS_FILE cannot be read"},
		"no receipt":  {nil, "<receipt>"},
		"two lines":   {[]string{token + "\n", r.flag}, "line breaks"},
		"empty stdin": {[]string{"-", r.flag}, "MALFORMED: "},
	} {
		for _, verb := range [][]string{{"receipt", "show"}, append([]string{"receipt", "honour"}, honouredBy...)} {
			code, stdout, stderr := r.settle(append(verb, c.args...)...)
			requireWrongUse(t, c.want, code, stdout, stderr)
			require.NotContains(t, stderr, token, name)
		}
	}
	code, stdout, stderr := r.settle("receipt", "honour", token, r.flag)
	requireWrongUse(t, "--operator", code, stdout, stderr)
	requireWrongUse(t, "--reason", code, stdout, stderr)
}

// A receipt from a mail may be wrapped.
func TestReceipt_ReadsStandardInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceipts(w)
	id := w.AddQueue(1, 1)
	token := r.given(id)[1]
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), Process{Args: append([]string{"receipt", "show", "-", r.flag, "--lang=en"}, w.servers...),
		Stdin: strings.NewReader(" " + token[:50] + "\r\n  " + token[50:] + "\n"), Stdout: &stdout, Stderr: &stderr,
		Now: time.Now})
	require.Zero(t, code, stderr.String())
	require.Contains(t, stdout.String(), "user 1 applied for coupon 1 at ")
	require.Contains(t, stdout.String(), "The application is waiting, and is number 1 in the queue.")
}

func TestGoldenReceipt(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "receipt", func(w *world) {
		everyFate(w)
		// After the next settlement, at any hour.
		w.Exec("UPDATE coupon SET apply_closes_at = UTC_TIMESTAMP(6) + INTERVAL 2 DAY")
	}, func(s *spoken) {
		r := newReceipts(s.world)
		s.servers = append(s.servers, r.flag)
		now, early := coupon.ArrivalAt(s.Now()), coupon.ArrivalAt(s.Now().Add(-time.Hour))
		for _, user := range between(1, 7) {
			s.says("receipt", "show", r.sign(1, user, now))
		}
		s.says("receipt", "show", r.sign(2, 2, early))
		s.says("receipt", "show", r.sign(1, 5, early))
		s.says("receipt", "show", r.sign(1, 5, early), "--output=json")
		s.says("receipt", "show", r.sign(1, 1, now), "--output=json")
		person := func(token string, more ...string) []string {
			return append([]string{"receipt", "honour", token, "--operator=lee", "--reason=CS-310"}, more...)
		}
		for _, token := range []string{r.sign(1, 5, early), r.sign(1, 5, early), r.sign(1, 7, now), r.sign(1, 1, now)} {
			s.says(person(token)...)
		}
		s.says(person(r.sign(1, 8, now), "--output=json")...)
		s.Exec("UPDATE coupon SET finalised_at = '2026-01-01' WHERE id = 2")
		s.says("receipt", "show", r.sign(2, 8, now))
		s.says(person(r.sign(2, 8, now))...)
		s.says("receipt", "show", r.sign(3, 8, now))
		s.says(person(r.sign(3, 8, now))...)
		s.says("receipt", "show", r.sign(1, 5, early)[1:])
		s.says("receipt", "show", "hello", "world")
		s.says("receipt", "honour", "hello")
		s.servers = s.servers[:len(s.servers)-1]
		s.says("explain", "--coupon=1", "--user=7")
	})
}
