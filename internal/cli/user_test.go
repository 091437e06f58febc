package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/explain"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/privacy"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/text"
)

// asPrivacy returns the world with the account of settle user forget.
func (w *world) asPrivacy() *world {
	other := *w
	other.servers = append([]string{"--mysql-dsn=" + w.Accounts["jajeong_privacy"]}, w.servers[1:]...)
	return &other
}

// finalise ends the window of a coupon and settles it for good.
func (w *world) finalise(couponID coupon.CouponID) {
	w.T.Helper()
	succeeds(w.T)(w.settle("coupon", "close", couponID.String(), "--operator=kim", "--reason=test"))
	w.SettleNow()
	require.EqualValues(w.T, 1, w.Number("SELECT finalised_at IS NOT NULL FROM coupon WHERE id = ?", couponID))
	// Its end cannot be lost any more, and `settle serve` has unmarked it.
	w.Exec("UPDATE coupon SET finalised_at = finalised_at - INTERVAL 6 MINUTE WHERE id = ?", couponID)
	require.NoError(w.T, w.Store.Unmark(w.T.Context(), couponID))
}

func (w *world) person(user string) (p privacy.Person) {
	w.T.Helper()
	stdout := w.reads("user", "export", "--user="+user)
	require.NoError(w.T, json.Unmarshal([]byte(stdout), &p), stdout)
	return p
}

func (w *world) forget(user string) (code int, done privacy.Forgotten, stderr string) {
	w.T.Helper()
	code, stdout, stderr := w.asPrivacy().settle("user", "forget", "--user="+user, "--operator=kim", "--reason=P-1",
		"--output=json")
	if code == 0 {
		require.NoError(w.T, json.Unmarshal([]byte(stdout), &done), stdout)
		require.NotContains(w.T, stdout, `"user"`, "the log of a Job keeps the answer")
	}
	require.NotRegexp(w.T, `(?i)(user|고객) `+user, stderr, "the log of a Job keeps the refusal, too")
	return code, done, stderr
}

// forgets is forget that must succeed.
func (w *world) forgets(user string) privacy.Forgotten {
	w.T.Helper()
	code, done, stderr := w.forget(user)
	require.Zero(w.T, code, stderr)
	return done
}

func TestUser_IsForgottenAndTheAccountsAddUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.AddQueue(1, 1, 2, 3), w.AddCoupon(1)
	w.Apply(second, 2, 3)
	code, _, stderr := w.forget("3")
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, "not decided for good")
	require.Len(t, w.person("3").Undecided, 2)

	w.SettleNow()
	code, _, _ = w.forget("3")
	require.Equal(t, exitUse, code, "more seats may be added")

	w.finalise(first)
	w.finalise(second)
	w.verify()
	require.Len(t, w.person("3").Applications, 2)
	done := w.forgets("3")
	require.Equal(t, privacy.Forgotten{Coupons: []coupon.CouponID{first, second}, Applications: 2}, done)
	require.EqualValues(t, 2, w.Number("SELECT SUM(erased) FROM settled"))
	require.EqualValues(t, 2,
		w.Number(
			"SELECT COUNT(*) FROM audit_event WHERE action = 'USER_FORGOTTEN' AND actor = 'kim' AND reason = 'P-1' "+
				"AND user_id IS NULL"))
	p := w.person("3")
	require.Empty(t, p.Coupons)
	require.Empty(t, p.Applications)
	require.Empty(t, p.Undecided)
	w.verify()

	require.Equal(t, privacy.Forgotten{Coupons: []coupon.CouponID{}}, w.forgets("3"))

	done = w.forgets("2") // has the second coupon
	require.Equal(t, privacy.Forgotten{Coupons: []coupon.CouponID{first}, Applications: 1,
		Remains: privacy.Remains{Coupons: 1}}, done)
	require.Len(t, w.person("2").Coupons, 1)
	w.verify()
}

// While Redis has lost an application, the journal still has it: it will be put back. The person is not forgotten
// before.
func TestUser_IsNotForgottenWhileAnApplicationIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.AddQueue(1, 1, 2), w.AddCoupon(2)
	w.finalise(first)
	w.Apply(second, 2, 1)
	w.Journal(second)
	w.LoseRedis(second)
	lost := w.person("2").Undecided
	require.Len(t, lost, 1)
	require.True(t, lost[0].Lost)
	shown := w.reads("user", "show", "--user=2", "--lang=en")
	require.Contains(t, shown, "lost by Redis; the journal puts it back")
	require.Len(t, lost[0].AppliedAt, 1)
	code, _, stderr := w.forget("2")
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, second.String())
	require.Len(t, w.person("2").Applications, 1, "nothing was deleted")

	w.Restore(second)
	require.False(t, w.person("2").Undecided[0].Lost)
	w.SettleNow()
	for _, u := range w.person("2").Undecided {
		require.Empty(t, u.AppliedAt, "what was decided is not lost")
	}
}

// Explain, the export and the restorer agree about an application that followed a NOT_SELECTED one and was lost.
func TestUser_LostAfterNotSelected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddQueue(1, 1, 2)
	w.Journal(id)
	w.SettleNow()
	w.must(id, 2, explain.StateNotSelected)
	require.Empty(t, w.person("2").Undecided, "the journal has the row of an application that was decided")
	again := w.Now().Truncate(time.Microsecond).UTC()
	w.Exec("INSERT INTO line_journal (coupon_id, arrival, user_id) VALUES (?, ?, 2)", id, coupon.ArrivalAt(again))
	w.AddPromises(id, 1)
	w.must(id, 2, explain.StateLost, explain.NoteEarlierNotSelected)
	lost := w.person("2").Undecided
	require.Len(t, lost, 1)
	require.True(t, lost[0].Lost)
	require.Equal(t, []time.Time{again}, lost[0].AppliedAt)
	w.Restore(id)
	require.Equal(t, map[string]coupon.Arrival{"2": coupon.ArrivalAt(again)}, w.Arrivals(id))
	w.must(id, 2, explain.StateWaiting, explain.NoteEarlierNotSelected)
	require.False(t, w.person("2").Undecided[0].Lost)
}

// settling settles all coupons before it looks a user up.
type settling struct{ *jajeongtest.Deployment }

func (s settling) Watch(ctx context.Context, id coupon.CouponID, upTo coupon.Arrival,
	users ...coupon.UserID) (candidates.Watch, error) {
	s.SettleNow()
	return s.Store.Watch(ctx, id, upTo, users...)
}

func (s settling) Returned(ctx context.Context, id coupon.CouponID,
	after uint64) ([]coupon.Application, uint64, error) {
	return s.Store.Returned(ctx, id, after)
}

// An application that leaves Redis while a person is read is found in MySQL: it may still get a seat, and the person is
// not forgotten.
func TestUser_IsReadWhileASettlementRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddQueue(1, 1, 2)
	p, redisErr, err := privacy.Read(t.Context(), w.DB, settling{w.Deployment}, 2)
	require.NoError(t, errors.Join(redisErr, err))
	require.Empty(t, p.Undecided)
	require.Len(t, p.Applications, 1)
	_, err = privacy.Forget(t.Context(), mysqltx.New(w.DB), w.Store, 2, audit.Origin{Actor: "kim", Reason: "P-1"})
	require.True(t, text.Is(err, text.UserStillWaits), err)
	require.Len(t, w.Outcome(id, "NOT_SELECTED"), 1)
}

// What MySQL has decided is not undecided, although Redis still has it.
func TestUser_UndecidedLeavesOutWhatIsDecided(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddQueue(1, 1, 2, 3)
	at := w.Arrivals(id)
	w.SettleNow()
	w.ApplyAt(id, "2", at["2"].Time()) // as before the clean-up
	require.Empty(t, w.person("2").Undecided)
	w.must(id, 2, explain.StateNotSelected, explain.NoteShownOld)

	// Whoever has the coupon cannot get it, whatever was decided before.
	w.InsertGranted(id, 3)
	w.Exec("UPDATE coupon SET total_quantity = 2, issued_count = 2")
	w.forgets("3")

	// In queue and DLQ: the queue goes first, as in apply-api and in explain.
	both := w.AddQueue(1, 4)
	key := w.Key("dlq", both)
	require.NoError(t, w.Redis.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: "4"}).Err())
	undecided := w.person("4").Undecided
	require.Len(t, undecided, 1)
	require.False(t, undecided[0].UnderReview)
	require.Len(t, undecided[0].AppliedAt, 2)
	w.must(both, 4, explain.StateWaiting, explain.NoteAlsoUnderReview)
}

// proxiedPrivacy returns the world with the privacy account behind fault proxies.
func (w *world) proxiedPrivacy(rule faultproxy.Rule) *world {
	w.T.Helper()
	proxies, proxied := w.Proxied(rule)
	account, err := mysql.ParseDSN(w.Accounts["jajeong_privacy"])
	require.NoError(w.T, err)
	account.Addr = proxies[jajeongtest.ToMySQL].Addr
	proxied.Accounts = map[string]string{"jajeong_privacy": account.FormatDSN(), "jajeong_settle": proxied.Job.MySQLDSN}
	return &world{Deployment: proxied, servers: proxied.Flags(proxied.Job)}
}

// The reply to the COMMIT of the first coupon is lost. The counts are those of the attempt that was committed.
func TestUser_ForgetSurvivesALostCommit(t *testing.T) {
	t.Parallel()
	w := newWorldBehindProxies(t)
	couponID := w.AddQueue(1, 1, 2)
	w.SettleNow()
	w.finalise(couponID)
	inChange, lost := false, false
	through := w.proxiedPrivacy(func(turn faultproxy.Turn) faultproxy.Action {
		inChange = inChange || bytes.Contains(turn.Request, []byte("INTO audit_event"))
		if inChange && !lost && bytes.HasSuffix(turn.Request, []byte("\x03COMMIT")) {
			lost = true
			return faultproxy.DropReply(nil)
		}
		return faultproxy.Pass()
	})
	done := through.forgets("2")
	require.True(t, lost)
	require.Equal(t, 1, done.Applications)
	require.EqualValues(t, 1, w.Number("SELECT erased FROM settled WHERE coupon_id = ?", couponID))
	w.verify()
}

func TestUser_IsShownWithoutRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddQueue(1, 1, 2)
	w.SettleNow()
	for i, flag := range w.servers {
		if len(flag) > 14 && flag[:14] == "--redis-addrs=" {
			w.servers[i] = "--redis-addrs=127.0.0.1:1"
		}
	}
	code, stdout, stderr := w.settle("user", "show", "--user=2", "--lang=en")
	require.Equal(t, exitInfrastructure, code)
	require.Contains(t, stdout, "not selected")
	require.Contains(t, stderr, "Redis cannot be read")
	_, stdout, _ = w.settle("user", "show", "--user=3", "--lang=en")
	require.Equal(t, "MySQL stores nothing of user 3.\n", stdout)
	_, stdout, _ = w.settle("user", "show", "--user=3", "--output=json")
	require.Contains(t, stdout, `"undecided": null`)
}

func TestGrants_OfThePrivacyAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.as("jajeong_privacy")
	for _, statement := range []string{
		"UPDATE audit_event SET reason = ''", "UPDATE audit_event SET user_hash = NULL",
		"UPDATE audit_event SET hash = ''", "UPDATE user_coupon SET user_id = 7",
		"INSERT INTO user_coupon (coupon_id, user_id) VALUES (1, 7)", "UPDATE application_outcome SET note = ''",
		"UPDATE journal SET accepted = 0", "UPDATE settled SET written_off = 0",
		"INSERT INTO settled (coupon_id, erased) VALUES (1, 7)",
		"UPDATE coupon SET total_quantity = 9", "SELECT id FROM `user`", "UPDATE settled SET issued = 0",
		"DELETE FROM purged_coupon", "UPDATE purged_coupon SET used_count = 0",
		"UPDATE coupon_order SET state = 'USED'", "UPDATE coupon_log SET actor = ''",
		"INSERT INTO coupon (name) VALUES ('x')", "UPDATE settlement SET cleaned_at = NULL", "DROP TABLE audit_event",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		var refused *mysql.MySQLError
		require.True(t, errors.As(err, &refused), "%s: %v", statement, err)
		require.Contains(t, []uint16{1142, 1143}, refused.Number, "%s: %v", statement, err)
	}
}

// Each list of an export is longer than a page by which it is read.
func TestUser_ExportIsComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rows = 1001
	id := w.AddQueue(1, 7)
	w.SettleNow()
	numbers := make([]int, rows)
	for i := range numbers {
		numbers[i] = i + 1
	}
	list, err := json.Marshal(numbers)
	require.NoError(t, err)
	insert := func(query string) {
		w.Exec("INSERT INTO "+query+" FROM JSON_TABLE(?, '$[*]' COLUMNS (n INT PATH '$')) j, user_coupon u WHERE "+
			"u.coupon_id = ?", string(list), id)
	}
	insert("coupon_log (user_coupon_id, seq, kind, actor, at) SELECT u.id, j.n, 'RESERVED', 'shop', UTC_TIMESTAMP(6)")
	insert("coupon_order SELECT CONCAT('A-', j.n), u.id, 7, 9000, 0, 'RELEASED', UTC_TIMESTAMP(6)")
	insert("audit_event (account, actor, action, coupon_id, user_id, detail) SELECT '', 'kim', 'COUPON_REVOKED', " +
		"u.coupon_id, 7, j.n")
	insert("coupon (name, total_quantity, apply_opens_at, apply_closes_at) SELECT 'other', 1, UTC_TIMESTAMP(6) - " +
		"INTERVAL 2 DAY, UTC_TIMESTAMP(6) - INTERVAL 1 DAY")
	last := w.AddCoupon(1) // behind a page of open coupons
	w.Apply(last, 7)
	w.Exec("INSERT INTO user_coupon (coupon_id, user_id, expires_at) SELECT id, 7, '2038-01-01' FROM coupon WHERE " +
		"name = 'other' ORDER BY id DESC")
	w.Exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome, run_id, recorded_at) SELECT " +
		"id, 7, UTC_TIMESTAMP(6), 'ALREADY_ISSUED', 1, UTC_TIMESTAMP(6) FROM coupon WHERE name = 'other'")

	p := w.person("7")
	require.Len(t, p.Coupons, rows+1)
	require.Len(t, p.Applications, rows)
	require.Len(t, p.AuditEvents, rows)
	require.Len(t, p.Undecided, 2)
	require.Equal(t, last, p.Undecided[1].Coupon)
	first := p.Coupons[0]
	require.Equal(t, id, first.Coupon)
	require.Len(t, first.Log, rows)
	require.Len(t, first.Orders, rows)
	orders := map[string]bool{}
	for i := range rows {
		require.Less(t, p.Coupons[i].Coupon, p.Coupons[i+1].Coupon)
		require.EqualValues(t, i+1, first.Log[i].Seq)
		require.EqualValues(t, fmt.Sprint(i+1), p.AuditEvents[i].Detail)
		require.Equal(t, p.Coupons[i+1].Coupon, p.Applications[i].Coupon)
		orders[first.Orders[i].ID] = true
	}
	require.Len(t, orders, rows)
}
