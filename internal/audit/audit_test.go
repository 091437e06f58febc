package audit_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

// check returns the verdict on a chain and its intact events.
func check(d *jajeongtest.Deployment, couponID coupon.CouponID) (v audit.Verdict, intact []audit.Event) {
	d.T.Helper()
	v, err := audit.Check(d.T.Context(), d.DB, couponID, func(e audit.Event) { intact = append(intact, e) })
	require.NoError(d.T, err)
	return v, intact
}

// event is one of a series of events with and without a user and a run, and with texts of every kind.
func event(n uint64) audit.Event {
	texts := []string{"", "TICKET-7", "자정 쿠폰 \U0001F319 재시도", `"quoted", 'and' \ backslash`, "1:a", "-",
		" ends in blanks  "}
	text := func(i uint64) string { return texts[i%uint64(len(texts))] }
	e := audit.Event{At: time.UnixMicro(1795143600000000 + int64(n)).UTC(), Actor: "kim" + text(n+2),
		Action: audit.DLQDropped, Reason: text(n)}
	if n%2 == 0 {
		e.User = new(coupon.UserID(math.MaxUint64 - n))
	}
	if n%3 == 0 {
		e.Run = new(coupon.RunID(1_000_000_000 + n))
	}
	return e
}

// appendEvents appends the events 1 to n, each in a transaction of its own.
func appendEvents(d *jajeongtest.Deployment, couponID coupon.CouponID, n uint64) {
	d.T.Helper()
	for i := uint64(1); i <= n; i++ {
		e := event(i)
		origin, entry := audit.Origin{At: e.At, Actor: e.Actor, Reason: e.Reason},
			audit.Entry{Payload: audit.Application{Arrival: coupon.Arrival(i), Member: e.Reason}}
		if e.Run != nil {
			origin.Run = *e.Run
		}
		if e.User != nil {
			entry.User = *e.User
		}
		require.NoError(d.T, d.Audit(origin, e.Action, couponID, entry))
	}
}

func TestHashDiffersForEveryTwoEvents(t *testing.T) {
	t.Parallel()
	events := []audit.Event{
		{}, {UserHash: []byte{0}}, {Run: new(coupon.RunID(0))}, {Actor: "-"}, {Actor: "ab", Action: "c"},
		{Actor: "a", Action: "bc"}, {Actor: "a1:b"}, {Actor: "a", Action: "b"},
		{Reason: "1:a"}, {Detail: "1:a"}, {Account: "1:a"}, {SignIn: "1:a"}, {UserHash: []byte{1}},
		{Run: new(coupon.RunID(1))}, {Seq: 1}, {Coupon: 1}, {Seq: 1, Coupon: 1},
	}
	seen := map[string]audit.Event{}
	for _, e := range events {
		for _, previous := range []string{"", "sha256:0", "1"} {
			hash := e.Hash(previous)
			require.NotContains(t, seen, hash, "%+v after %q, and %+v", e, previous, seen[hash])
			seen[hash] = e
		}
	}
}

// The columns are read from the table, so that none of them is unprotected. The id is not hashed.
func TestCheckFindsAChangeOfEveryColumn(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	d.Exec("ALTER TABLE audit_event DROP KEY audit_event_chain")
	columns := map[string]string{}
	require.NoError(t, mysqltx.Each(t.Context(), d.DB, func(rows *sql.Rows) error {
		var column, kind string
		err := rows.Scan(&column, &kind)
		columns[column] = kind
		return err
	}, `SELECT column_name, data_type FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = 'audit_event' AND column_name <> 'id'`))
	require.Len(t, columns, 15)

	changes := map[string][]string{
		"seats":    {"%[1]s + 1", "-%[1]s - 1"}, // never NULL
		"bigint":   {"COALESCE(%[1]s, 0) + 1", "IF(%[1]s IS NULL, 0, NULL)", "COALESCE(%[1]s, 7) - 1"},
		"datetime": {"%[1]s + INTERVAL 1 MICROSECOND", "%[1]s - INTERVAL 9 HOUR"},
		"binary":   {"IF(%[1]s IS NULL, X'00', X'01')", "CONCAT(X'4A', LEFT(COALESCE(%[1]s, ''), 15))"},
		"varchar":  {"CONCAT(%[1]s, ' ')", "CONCAT(%[1]s, '1')", "UPPER(CONCAT('x', %[1]s))"},
	}
	id := coupon.CouponID(0)
	for column, kind := range columns {
		of, special := changes[column]
		if !special {
			require.Contains(t, changes, kind, column)
			of = changes[kind]
		}
		for _, change := range of {
			for n := 2; n <= 3; n++ { // with a user, without; without a run, with
				id += 10 // far from other chains, for a changed coupon_id
				appendEvents(d, id, 4)
				v, intact := check(d, id)
				require.Equal(t, audit.Verdict{Head: v.Head}, v)
				require.Len(t, intact, 4)
				d.Exec("UPDATE audit_event SET "+column+" = "+fmt.Sprintf(change,
					column)+" WHERE coupon_id = ? AND seq = ?", id, n)
				v, _ = check(d, id)
				require.NotEqual(t, audit.Verdict{Head: v.Head}, v, "%s = %s in event %d", column, change, n)
			}
		}
	}
}

func TestAppendContinuesTheChainInBatches(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	at := time.UnixMicro(1795143600000000).UTC()
	require.NoError(t, d.Audit(audit.Origin{At: at}, audit.GapHeld, 7), "nothing to append")
	require.NoError(t, d.Audit(audit.Origin{At: at, Run: 3}, audit.GapHeld, 7,
		audit.Entry{Payload: audit.MissingPromises{Missing: 3}}))
	applications := make([]coupon.Application, 450)
	for i := range applications {
		applications[i] = coupon.Application{Member: fmt.Sprint(i + 1), Arrival: coupon.Arrival(1000 + i)}
	}
	// As long as JSON makes a member.
	applications[449] = coupon.Application{Member: strings.Repeat("\x01가<\xff", 3000), Arrival: 5}
	entries := audit.Dropped(applications)
	require.NoError(t, d.Audit(audit.Origin{At: at, Actor: "kim", SignIn: "https://id 1", Run: 4, Reason: "T-1"},
		audit.DLQDropped, 7, entries...))

	var account string
	require.NoError(t, d.DB.QueryRow("SELECT CURRENT_USER()").Scan(&account))
	require.Contains(t, account, "@")
	v, intact := check(d, 7)
	require.Equal(t, audit.Verdict{Head: audit.Head{Seq: 451, Hash: v.Head.Hash}}, v)
	require.Equal(t, audit.Event{Seq: 1, At: at, Actor: audit.NightlyActor, Action: audit.GapHeld, Coupon: 7,
		Run: new(coupon.RunID(3)), Account: account,
		Detail: `{"missing":3,"account":{"accepted":0,"waiting":0,"underReview":0,"issued":0,"outcomes":0,"inBoth":0,` +
			`"writtenOff":0,"erased":0}}`}, intact[0])
	hidden := intact[1]
	require.Len(t, hidden.UserSalt, 16)
	require.NotEqual(t, hidden.UserSalt, intact[2].UserSalt)
	hidden.UserSalt, hidden.UserHash = nil, nil
	require.Equal(t, audit.Event{Seq: 2, At: at, Actor: "kim", Action: audit.DLQDropped, Coupon: 7,
		User: new(coupon.UserID(1)), Run: new(coupon.RunID(4)), Reason: "T-1",
		Detail: `{"arrival":1000}`, Account: account, SignIn: "https://id 1"}, hidden)
	require.Equal(t, audit.Application{Arrival: 1448}, intact[449].Payload())
	require.Nil(t, intact[450].User, "the member is no user id")
	require.Equal(t, audit.Application{Arrival: 5, Member: strings.Repeat("\x01가<\uFFFD", 75)}, intact[450].Payload())
}

// A person is forgotten by emptying user_id and user_salt. Nothing else of the event may change.
func TestCheckAcceptsAForgottenPerson(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	appendEvents(d, 7, 4)
	d.Exec("UPDATE audit_event SET user_id = NULL, user_salt = NULL WHERE coupon_id = 7")
	v, intact := check(d, 7)
	require.Equal(t, audit.Verdict{Head: v.Head}, v)
	require.Len(t, intact, 4)
	require.Nil(t, intact[1].User)
	d.Exec("UPDATE audit_event SET user_hash = NULL WHERE coupon_id = 7 AND seq = 2")
	v, _ = check(d, 7)
	require.EqualValues(t, 1, v.Changed.Count)
}

// Every action is a constant of the package, and has one type of payload.
func TestEveryActionHasAPayload(t *testing.T) {
	t.Parallel()
	source := testenv.Content(t, "event.go")
	constants := regexp.MustCompile(`Action\s+= "([A-Z_]+)"`).FindAllSubmatch(source, -1)
	require.Len(t, audit.Payloads, len(constants))
	for _, c := range constants {
		require.Contains(t, audit.Payloads, audit.Action(c[1]))
	}
}

// What is stored reads back as it was, and in the same bytes. Anything else is no payload.
func TestPayloadsAreStoredAsCanonicalJSON(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	at := time.Date(2026, 11, 21, 0, 0, 0, 1000, time.FixedZone("KST", 9*60*60))
	for action, stored := range map[audit.Action]struct {
		payload audit.Payload
		detail  string
	}{
		audit.CouponSeats: {audit.CouponChange{Seats: audit.Changed(1, 2),
			Finalised: audit.ChangedTime(at, time.Time{})},
			`{"seats":{"from":1,"to":2},"finalisedAt":{"from":"2026-11-20T15:00:00.000001Z","to":null}}`},
		audit.CouponUserExtended: {audit.HolderChange{Expires: audit.ChangedTime(at, at.Add(time.Second))},
			`{"expiresAt":{"from":"2026-11-20T15:00:00.000001Z","to":"2026-11-20T15:00:01.000001Z"}}`},
		audit.DLQRetried:        {audit.Retried{All: true}, `{"all":true,"arrival":0}`},
		audit.CouponUnfinalised: {audit.Unfinalised{}, `{}`},
		audit.ApprovalUsed: {audit.UsedApproval{Approval: 7, Action: "run", Maker: `<"kim">, 자정`},
			`{"approval":7,"action":"run","digest":"","maker":"<\"kim\">, 자정","checker":""}`},
	} {
		require.NoError(t, d.Audit(audit.Origin{At: at.UTC()}, action, 7, audit.Entry{Payload: stored.payload}))
		require.Equal(t, []string{stored.detail},
			jajeongtest.Column[string](d, "SELECT detail FROM audit_event WHERE action = ?", action))
		require.Equal(t, stored.payload, audit.Detail(stored.detail).Payload(action))
		json, err := audit.Detail(stored.detail).MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, stored.detail, string(json))
	}
	for _, other := range []audit.Detail{"", "x", "7", `{"all":true,"colour":"red"}`, `{"all":true}{}`, `{"all":1}`} {
		require.Nil(t, other.Payload(audit.DLQRetried), other)
		require.Nil(t, other.Payload("OTHER"), other)
	}
	json, err := audit.Detail("x").MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, `"x"`, string(json))

	for _, wrong := range []audit.Payload{audit.Application{}, audit.UsedApproval{Maker: strings.Repeat("가", 2000)}} {
		require.Error(t, d.Audit(audit.Origin{At: at.UTC()}, audit.ApprovalUsed, 7, audit.Entry{Payload: wrong}))
	}
}

func TestAppendRefusesAForkedChain(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	appendEvents(d, 7, 3)
	d.Exec("UPDATE audit_head SET seq = 1 WHERE coupon_id = 7")
	err := d.Audit(audit.Origin{At: time.Now().UTC()}, audit.GapHeld, 7, audit.Entry{Payload: audit.MissingPromises{}})
	require.ErrorIs(t, err, audit.ErrForked)
	v, _ := check(d, 7)
	require.EqualValues(t, 2, v.Inserted)
}

func TestRecordedFindsTheEvent(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	at := time.UnixMicro(1795143600000000).UTC()
	origin := audit.Origin{At: at, Actor: "kim", Run: 4}
	require.NoError(t, d.Audit(origin, audit.CouponPaused, 7, audit.Entry{Payload: audit.CouponChange{}}))
	recorded := func(origin audit.Origin, action audit.Action, couponID coupon.CouponID) bool {
		found, err := audit.Recorded(t.Context(), d.DB, origin, action, couponID)
		require.NoError(t, err)
		return found
	}
	require.True(t, recorded(origin, audit.CouponPaused, 7))
	require.False(t, recorded(origin, audit.CouponResumed, 7))
	require.False(t, recorded(origin, audit.CouponPaused, 8))
	require.False(t, recorded(audit.Origin{At: at, Actor: "kim", Run: 5}, audit.CouponPaused, 7))
	require.False(t, recorded(audit.Origin{At: at, Actor: "kim"}, audit.CouponPaused, 7), "outside any run")
	require.False(t, recorded(audit.Origin{At: at, Actor: "lee", Run: 4}, audit.CouponPaused, 7))
	require.False(t, recorded(audit.Origin{At: at.Add(time.Microsecond), Actor: "kim", Run: 4}, audit.CouponPaused, 7))
	require.NoError(t, d.Audit(audit.Origin{At: at}, audit.GapHeld, 7, audit.Entry{Payload: audit.MissingPromises{}}))
	require.True(t, recorded(audit.Origin{At: at}, audit.GapHeld, 7), "of no operator and no run")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err := audit.Recorded(stopped, d.DB, origin, audit.CouponPaused, 7)
	require.ErrorIs(t, err, context.Canceled)
}
