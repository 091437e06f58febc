package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/journal"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verify"
	"github.com/jajeong/jajeong/internal/wallet"
)

// kim asks and executes with the operators' account. lee approves with an account of her own.
func (w *world) kim(args ...string) (code int, stdout, stderr string) {
	w.T.Helper()
	return w.settle(append(args, "--operator=kim", "--reason=FIN-7", "--lang=en")...)
}

func (w *world) lee(args ...string) (code int, stdout, stderr string) {
	w.T.Helper()
	return w.withServers(append([]string{"--mysql-dsn=" + w.Admin.MySQLDSN}, w.servers[1:]...)).
		settle(append(args, "--operator=lee", "--reason=FIN-8", "--lang=en")...)
}

func (w *world) withServers(servers []string) *world { return &world{w.Deployment, servers, w.noon} }

// couponFor adds a coupon for which these users apply, in this order.
func (w *world) couponFor(seats int, users ...coupon.UserID) coupon.CouponID {
	w.T.Helper()
	id := w.AddCoupon(seats)
	w.Apply(id, users...)
	return id
}

// setPolicy names the actions that need an approval, while the policy is empty.
func (w *world) setPolicy(actions string) {
	w.T.Helper()
	succeeds(w.T)(w.kim("policy", "set", "--actions="+actions))
}

// ask asks for approval of a command, and returns its number and digest.
func (w *world) ask(args ...string) (a asked) {
	w.T.Helper()
	stdout := succeeds(w.T)(w.kim(append(args, "--ask", "--output=json")...))
	require.NoError(w.T, json.Unmarshal([]byte(stdout), &a), stdout)
	return a
}

// digestOf returns the digest that the preview of a command shows.
func (w *world) digestOf(command ...string) string {
	w.T.Helper()
	stdout := succeeds(w.T)(w.settle(append(slices.Clone(command), "--dry-run", "--output=json")...))
	digests := regexp.MustCompile(`"digest": "(sha256:[0-9a-f]{64})"`).FindAllStringSubmatch(stdout, -1)
	require.Len(w.T, digests, 1, stdout)
	return digests[0][1]
}

func (a asked) flag() string { return fmt.Sprint("--approval=", a.Approval) }

func (w *world) approve(a asked) {
	w.T.Helper()
	stdout := succeeds(w.T)(w.lee("approve", fmt.Sprint(a.Approval), "--yes"))
	require.Contains(w.T, stdout, "APPROVED")
}

func (w *world) stateOf(a asked) approval.State {
	w.T.Helper()
	is, err := approval.Read(w.T.Context(), w.DB, a.Approval)
	require.NoError(w.T, err)
	return is.State
}

// approvable is an action that a policy can name, with a coupon for it, its command, and whether it was made.
type approvable struct {
	prepare func() coupon.CouponID
	command func(id coupon.CouponID) []string
	changed func(id coupon.CouponID) bool
}

func (w *world) approvable() map[approval.Action]approvable {
	open := func() coupon.CouponID { return w.couponFor(2, 1) }
	of := func(verb string, flags ...string) func(coupon.CouponID) []string {
		return func(id coupon.CouponID) []string { return append([]string{"coupon", verb, id.String()}, flags...) }
	}
	row := func(condition string) func(coupon.CouponID) bool {
		return func(id coupon.CouponID) bool {
			return w.Number("SELECT COUNT(*) FROM coupon WHERE id = ? AND "+condition, id) == 1
		}
	}
	after := func(change string) func() coupon.CouponID {
		return func() coupon.CouponID {
			id := open()
			w.Exec("UPDATE coupon SET "+change+" WHERE id = ?", id)
			return id
		}
	}
	issued := func() coupon.CouponID { id := open(); w.SettleNow(id); return id }
	opens := w.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	receipts, lost := newReceipts(w), coupon.Arrival(0)
	return map[approval.Action]approvable{
		approval.Create: {
			func() coupon.CouponID { return 0 },
			func(coupon.CouponID) []string {
				return []string{"coupon", "create", "--name=승인", "--seats=7", "--discount-won=100", "--key=BF-1",
					"--opens=" + opens.Format(time.RFC3339), "--closes=" + opens.Add(time.Hour).Format(time.RFC3339)}
			},
			func(coupon.CouponID) bool {
				return w.Number("SELECT COUNT(*) FROM coupon WHERE name = '승인' AND total_quantity = 7") == 1
			}},
		approval.Edit: {
			func() coupon.CouponID { return w.AddCouponBetween(1, opens, opens.Add(time.Hour)) },
			of("change", "--name=2026", "--seats=9", "--discount-percent=10", "--discount-max-won=500",
				"--opens="+opens.Add(time.Minute).Format(time.RFC3339)),
			row("name = '2026' AND total_quantity = 9 AND discount_max_won = 500 AND validity_days = 30")},
		approval.Close: {open, of("close"), row("apply_closes_at <= UTC_TIMESTAMP(6)")},
		approval.Extend: {open, of("extend", "--closes="+opens.Format(time.RFC3339)),
			row("apply_closes_at > UTC_TIMESTAMP(6) + INTERVAL 47 HOUR")},
		approval.Pause:    {open, of("pause"), row("status = 'PAUSED'")},
		approval.Resume:   {after("status = 'PAUSED', version = version + 1"), of("resume"), row("status = 'OPEN'")},
		approval.Freeze:   {open, of("freeze"), row("frozen")},
		approval.Unfreeze: {after("frozen = TRUE"), of("unfreeze"), row("NOT frozen")},
		approval.Recount:  {after("issued_count = 1"), of("recount"), row("issued_count = 0")},
		approval.Cadence: {
			func() coupon.CouponID { return w.AddCouponBetween(1, opens, opens.Add(time.Hour)) },
			of("cadence", "immediate"), row("cadence = 'IMMEDIATE'")},
		approval.Reissue: {
			func() coupon.CouponID {
				id := issued()
				_, err := w.CouponAdmin().Revoke(w.T.Context(), id, 1, false)
				require.NoError(w.T, err)
				return id
			},
			of("reissue", "--user=1"),
			func(id coupon.CouponID) bool {
				return w.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND status = 'ISSUED'", id) == 1
			}},
		approval.Unuse: {
			func() coupon.CouponID {
				id := issued()
				order := fmt.Sprint("order-", id)
				require.Equal(w.T, wallet.Done, w.checkout(id, 1, order, wallet.Reserve, wallet.Confirm))
				return id
			},
			of("unuse", "--user=1"),
			func(id coupon.CouponID) bool {
				return w.Number("SELECT COUNT(*) FROM coupon_order WHERE order_id = ? AND state = 'REFUNDED'",
					fmt.Sprint("order-", id)) == 1
			}},
		approval.ExtendUser: {issued, of("extend-user", "--user=1", "--until="+opens.AddDate(1, 0, 0).Format(time.DateOnly)),
			func(id coupon.CouponID) bool {
				return w.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND expires_at > "+
					"UTC_TIMESTAMP(6) + INTERVAL 300 DAY", id) == 1
			}},
		approval.Honour: {
			func() coupon.CouponID {
				id := w.couponFor(2, 1)
				lost = w.Arrivals(id)["1"]
				w.PodsDie()
				w.LoseRedis(id)
				w.Restore(id)
				return id
			},
			func(id coupon.CouponID) []string {
				return []string{"receipt", "honour", receipts.sign(id, 1, lost), receipts.flag}
			},
			func(id coupon.CouponID) bool { return len(w.Waiting(id)) == 1 }},
		approval.AddSeats: {
			func() coupon.CouponID { return w.couponFor(2, 1) },
			func(id coupon.CouponID) []string { return []string{"coupon", "add-seats", id.String(), "--seats=3"} },
			func(id coupon.CouponID) bool {
				return w.Number("SELECT total_quantity FROM coupon WHERE id = ?", id) == 5
			}},
		approval.Grant: {
			func() coupon.CouponID { return w.couponFor(2, 1) },
			func(id coupon.CouponID) []string { return []string{"coupon", "grant", id.String(), "--user=3"} },
			func(id coupon.CouponID) bool { return len(w.Issued(id)) == 1 }},
		approval.Revoke: {
			func() coupon.CouponID { id := w.couponFor(2, 1); w.SettleNow(id); return id },
			func(id coupon.CouponID) []string {
				return []string{"coupon", "revoke", id.String(), "--user=1", "--free-seat"}
			},
			func(id coupon.CouponID) bool {
				return w.Number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ? AND status = 'REVOKED'", id) == 1
			}},
		approval.Drop: {
			func() coupon.CouponID {
				id := w.couponFor(2, 1)
				w.MoveToReview(id, "1", coupon.Failure{Cause: coupon.CauseBadRow})
				return id
			},
			func(id coupon.CouponID) []string {
				return []string{"dlq", "drop", "--coupon=" + id.String(), "--cause=BAD_ROW"}
			},
			func(id coupon.CouponID) bool { return len(w.Outcome(id, "REJECTED")) == 1 }},
		approval.Restore: {
			func() coupon.CouponID {
				id := w.couponFor(2, 1, 2)
				w.Journal(id)
				w.LoseRedis(id)
				w.PodsDie()
				return id
			},
			func(id coupon.CouponID) []string { return []string{"restore", "--coupon=" + id.String()} },
			func(id coupon.CouponID) bool { return len(w.Waiting(id)) == 2 }},
		approval.Run: {
			func() coupon.CouponID { return w.couponFor(2, 1, 2, 3) },
			func(id coupon.CouponID) []string {
				return []string{"run", "--coupon=" + id.String(), "--cutoff=" +
					time.Now().UTC().Format(time.RFC3339Nano)}
			},
			func(id coupon.CouponID) bool { return len(w.Issued(id)) == 2 }},
		approval.AcceptGap: {
			func() coupon.CouponID { id := w.couponFor(2, 1); w.AddPromises(id, 2); return id },
			func(id coupon.CouponID) []string {
				return []string{"run", "--accept-gap", "--coupon=" + id.String(), "--cutoff=" +
					time.Now().UTC().Format(time.RFC3339Nano)}
			},
			func(id coupon.CouponID) bool {
				return w.Number("SELECT COALESCE(MAX(written_off), 0) FROM settled WHERE coupon_id = ?", id) == 2
			}},
	}
}

// Each action that a policy can name is refused without an approval, made once with it, and found by verify if it is
// forged.
func TestApprovals_OfEveryAction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 2, 3)
	for name, of := range w.approvable() {
		t.Run(string(name), func(t *testing.T) {
			w.Exec("DELETE FROM policy WHERE id > 1") // the first needs no approval
			id := of.prepare()
			command := of.command(id)
			with := func(flags ...string) []string { return append(append([]string{}, command...), flags...) }
			digest, other := w.digestOf(command...), "--expect-digest=sha256:"+strings.Repeat("0", 64)
			code, _, stderr := w.kim(with(append(yes(command), other)...)...)
			require.NotZero(t, code, stderr)
			require.False(t, of.changed(id), "another list than the preview showed")
			asked := w.Number("SELECT COUNT(*) FROM approval")
			code, _, stderr = w.kim(with("--ask", other)...)
			require.NotZero(t, code, stderr)
			require.Equal(t, asked, w.Number("SELECT COUNT(*) FROM approval"), "nor is it asked for")
			w.setPolicy(string(name))

			refused(t, "needs the approval of a second person")(w.kim(with(yes(command)...)...))
			require.False(t, of.changed(id))

			a := w.ask(command...)
			refused(t, "is REQUESTED")(w.kim(with(append(yes(command), a.flag())...)...))
			refused(t, "another person must approve it")(w.kim("approve", fmt.Sprint(a.Approval), "--yes"))
			w.approve(a)
			code, _, stderr = w.lee(with(append(yes(command), a.flag())...)...)
			require.Equal(t, exitUse, code, stderr)
			require.False(t, of.changed(id), "only the person who asked can use it")

			one, values := declaredVerbs(t).OfPlan(a.Plan)
			values["approval"], values["expect-digest"] = fmt.Sprint(a.Approval), digest
			again := append(one.Command(values)[1:], yes(command)...) // as the console does it, from the plan alone
			if keys := command[len(command)-1]; strings.HasPrefix(keys, "--receipt-keys-file=") {
				again = append(again, keys)
			}
			succeeds(t)(w.kim(again...))
			if id == 0 {
				id = coupon.CouponID(w.Number("SELECT MAX(id) FROM coupon"))
			}
			require.True(t, of.changed(id))
			require.Equal(t, approval.Used, w.stateOf(a))
			used := audit.UsedApproval{Approval: uint64(a.Approval), Action: string(name), Digest: a.Digest,
				Maker: "kim", Checker: "lee"}
			require.Equal(t, []audit.Payload{used}, w.Payloads(id, audit.ApprovalUsed))
			w.Verify(id)

			w.Exec("UPDATE approval SET used_at = NULL WHERE id = ?", a.Approval)
			require.Equal(t, []verify.Code{verify.ApprovalWrong}, w.Findings(id))
			w.Exec("UPDATE approval SET used_at = decided_at, checker = maker WHERE id = ?", a.Approval)
			require.Contains(t, w.Findings(id), verify.ApprovalMissing)
		})
	}
}

// yes is the flag that some commands need without a terminal.
func yes(command []string) []string {
	if command[0] == "dlq" {
		return []string{"--yes"}
	}
	return nil
}

// What has changed since the approval is not made, and the approval is void.
func TestApprovals_AreVoidAfterChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1, 3)
	id := w.AddQueue(1, 2)
	w.setPolicy("run,add-seats,drop")
	seats := []string{"coupon", "add-seats", id.String(), "--seats=1"}
	first, second := w.ask(seats...), w.ask(seats...)
	w.approve(first)
	w.approve(second)
	succeeds(t)(w.kim(append(seats, first.flag())...))
	code, _, stderr := w.kim(append(seats, second.flag())...)
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, "total_quantity: 2 → 3 (1 → 2)")
	require.Equal(t, approval.Voided, w.stateOf(second))
	code, _, _ = w.kim(append(seats, second.flag())...)
	require.Equal(t, exitUse, code)
	require.EqualValues(t, 2, w.Number("SELECT total_quantity FROM coupon WHERE id = ?", id))

	cutoff := w.Now().Add(-time.Minute)
	w.ApplyAt(id, "1", cutoff.Add(-time.Second))
	run := []string{"run", "--coupon=" + id.String(), "--cutoff=" + cutoff.UTC().Format(time.RFC3339Nano)}
	a := w.ask(run...)
	w.approve(a)
	w.ApplyAt(id, "3", cutoff.Add(-2*time.Second)) // put back after a failover, say
	code, _, stderr = w.kim(append(run, a.flag())...)
	require.Equal(t, exitUse, code, stderr)
	require.Contains(t, stderr, "is void now")
	require.Empty(t, w.Issued(id))
	require.Equal(t, []string{text.RunNotApproved.In(text.English)},
		jajeongtest.Column[string](w.Deployment, "SELECT error FROM run_coupon WHERE coupon_id = ?", id),
		"viewers see runs, but no requests")
	code, stdout, _ := w.settle("approvals", fmt.Sprint(a.Approval), "--lang=ko")
	require.Zero(t, code)
	require.Contains(t, stdout, "VOID")

	again := w.ask(run...)
	require.NotEqual(t, a.Digest, again.Digest)
	w.approve(again)
	succeeds(t)(w.kim(append(run, again.flag())...))
	require.Equal(t, []coupon.UserID{3, 1}, w.Issued(id))
	w.Verify(id)
	_, report := w.verifyCode()
	require.EqualValues(t, 2, report.Total.Approvals, "those that were used")
}

// An approval is good for what was approved, by whom, why and when.
func TestApprovals_AreGoodForOneThing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, other := w.AddQueue(1, 1), w.AddQueue(1)
	w.setPolicy("add-seats")
	seats := []string{"coupon", "add-seats", id.String(), "--seats=1"}
	a := w.ask(seats...)
	w.approve(a)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"another number": {[]string{"coupon", "add-seats", id.String(), "--seats=2", a.flag(), "--operator=kim",
			"--reason=FIN-7"}, "is for something else"},
		"another coupon": {[]string{"coupon", "add-seats", other.String(), "--seats=1", a.flag(), "--operator=kim",
			"--reason=FIN-7"}, "is for something else"},
		"another reason": {append(seats, a.flag(), "--operator=kim", "--reason=FIN-9"), `for the reason "FIN-7"`},
		"another approval": {append(seats, "--approval=999", "--operator=kim", "--reason=FIN-7"),
			"there is no approval 999"},
		"both flags": {append(seats, a.flag(), "--ask", "--operator=kim", "--reason=FIN-7"), "--ask"},
	} {
		code, _, stderr := w.settle(append(c.args, "--lang=en")...)
		require.Equal(t, exitUse, code, name)
		require.Contains(t, stderr, c.want, name)
	}
	w.Exec("UPDATE approval SET expires_at = UTC_TIMESTAMP(6) WHERE id = ?", a.Approval)
	refused(t, "is EXPIRED")(w.kim(append(seats, a.flag())...))
	require.EqualValues(t, 1, w.Number("SELECT total_quantity FROM coupon WHERE id = ?", id))

	refused := w.ask(seats...)
	code, stdout, stderr := w.lee("approve", fmt.Sprint(refused.Approval), "--refuse")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "REFUSED")
	code, _, _ = w.kim(append(seats, refused.flag())...)
	require.Equal(t, exitUse, code)

	seats[2] = other.String()
	racing := w.ask(seats...)
	w.approve(racing)
	var done atomic.Int64
	var uses sync.WaitGroup
	for range 6 {
		uses.Go(func() {
			if code, _, _ := w.kim(append(slices.Clone(seats), racing.flag())...); code == exitDone {
				done.Add(1)
			}
		})
	}
	uses.Wait()
	require.EqualValues(t, 1, done.Load(), "it is used once, however often it is presented at the same time")
	require.EqualValues(t, 2, w.Number("SELECT total_quantity FROM coupon WHERE id = ?", other))
	w.Verify()
}

// An order that would accept a gap needs no approval where there is none: the nights of many coupons go on.
func TestApprovals_OfGapsThatAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddQueue(1, 1)
	w.setPolicy("accept-gap")
	succeeds(t)(w.kim("run", "--accept-gap", "--cutoff=now"))
	require.Equal(t, []coupon.UserID{1}, w.Issued(id))
	refused(t, "--dry-run")(w.kim("coupon", "add-seats", id.String(), "--seats=1", "--ask", "--dry-run"))
	w.Verify()
}

// The policy itself needs an approval as soon as it names an action. A shared account asks and executes, but does not
// approve.
func TestPolicy_IsChangedWithApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddQueue(1)
	var account string
	require.NoError(t, w.DB.QueryRowContext(t.Context(),
		"SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)").Scan(&account))
	var own string // of kim
	require.NoError(t, w.as("jajeong_operator").QueryRowContext(t.Context(),
		"SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)").Scan(&own))
	refused(t, "no known account")(
		// An operator sees only accounts that have changed something.
		w.kim("policy", "set", "--shared-accounts="+account))
	park := "park@example.com=" + account
	stdout := succeeds(t)(
		w.lee("policy", "set", "--actions=add-seats", "--shared-accounts="+account, "--person=kim@example.com="+own,
			"--person="+park))
	require.Contains(t, stdout, "add-seats")
	require.Contains(t, stdout, park)

	refused(t, "needs the approval")(w.kim("policy", "set", "--actions=none"))
	seats := w.ask("coupon", "add-seats", id.String(), "--seats=1")
	refused(t, "several persons use the account")(w.lee("approve", fmt.Sprint(seats.Approval), "--yes"))

	refused(t, "no longer the one that the preview showed")(
		w.kim("policy", "set", "--actions=none", "--ask", "--expect-digest=sha256:"+strings.Repeat("0", 64)))
	stdout = succeeds(t)(w.settle("policy", "set", "--actions=none", "--dry-run", "--lang=en"))
	require.Contains(t, stdout, account, "the values before")
	digest := w.digestOf("policy", "set", "--actions=none")
	require.Contains(t, stdout, "  "+digest+"\n")
	none := w.ask("policy", "set", "--actions=none", "--expect-digest="+digest)
	require.Equal(t, digest, none.Digest)
	_, err := approval.Decide(t.Context(), w.Settler().DB, none.Approval,
		approval.Person{Name: "park@example.com", SignIn: "park@example.com"}, true, "SEC-4")
	require.NoError(t, err)
	stdout = succeeds(t)(w.kim("policy", "set", "--actions=none", none.flag(), "--expect-digest="+digest))
	require.Contains(t, stdout, "No action needs an approval")
	code, _, stderr := w.kim("coupon", "add-seats", id.String(), "--seats=1")
	require.Zero(t, code, stderr)
	w.verify()

	w.Exec("UPDATE policy SET approval_id = NULL")
	code, report := w.verifyCode()
	require.Equal(t, exitInvariant, code)
	require.Len(t, report.Strays, 2)
	require.Equal(t, verify.ApprovalMissing, report.Strays[0].Code)

	for _, wrong := range []string{"--actions=sell", "--actions=none,run", "--actions=", "--shared-accounts=settle",
		"--shared-accounts=none,x",
		"--person=kim@example.com=nobody", "--person=kim", "--person==" + own, "--person=kim=" + own + ",lee=" + own,
		"--person=kim=" + own + ",KIM=" + account} {
		code, _, stderr := w.kim("policy", "set", wrong)
		require.Equal(t, exitUse, code, wrong)
		require.Equal(t, 1, strings.Count(stderr, "settle: "), stderr)
	}
}

// The digest of a plan reveals no user after the user was forgotten.
func TestForgotten_LeavesApprovalWithoutUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(7)
	id := w.AddQueue(1)
	w.setPolicy("grant")
	a := w.ask("coupon", "grant", id.String(), "--user=7")
	again := w.ask("coupon", "grant", id.String(), "--user=7")
	require.NotEqual(t, a.Digest, again.Digest, "the plan has a salt")
	stdout := succeeds(t)(w.asPrivacy().settle("user", "export", "--user=7"))
	require.Contains(t, stdout, `"action": "grant"`)
	succeeds(t)(w.asPrivacy().kim("user", "forget", "--user=7"))
	require.Zero(t, w.Number("SELECT COUNT(*) FROM approval WHERE user_id IS NOT NULL OR plan <> ''"))
	succeeds(t)(w.settle("approvals", "--lang=en"))
	w.Verify()
}

// Each state that no program leaves is found. Every change leaves the audit chain alone, unless it is about it.
func TestVerify_FindsBrokenApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(1)
	w.setPolicy("add-seats,run")
	made := func(command func(id coupon.CouponID) []string) func() (coupon.CouponID, asked) {
		return func() (coupon.CouponID, asked) {
			id := w.couponFor(2, 1)
			args := command(id)
			a := w.ask(args...)
			w.approve(a)
			succeeds(w.T)(w.kim(append(args, a.flag())...))
			return id, a
		}
	}
	seats, run := made(w.approvable()[approval.AddSeats].command), made(w.approvable()[approval.Run].command)
	set := func(change string) func(_ coupon.CouponID, a asked) {
		return func(_ coupon.CouponID, a asked) {
			w.Exec("UPDATE approval SET "+change+" WHERE id = ?", a.Approval)
		}
	}
	// The accounts of these persons are those of a console.
	atConsole := func(change string, persons ...string) func(_ coupon.CouponID, a asked) {
		return func(id coupon.CouponID, a asked) {
			set(change)(id, a)
			var accounts []string
			for _, person := range persons {
				accounts = append(accounts, jajeongtest.Column[string](w.Deployment,
					"SELECT SUBSTRING_INDEX("+person+"_account, '@', 1) FROM approval WHERE id = ?", a.Approval)...)
			}
			list, _ := json.Marshal(accounts)
			w.Exec("UPDATE policy SET shared_accounts = ?", string(list))
		}
	}
	asProgram := func(id coupon.CouponID, _ asked) { // it adds no seats by itself
		w.Exec("UPDATE coupon SET total_quantity = total_quantity + 1 WHERE id = ?", id)
		require.NoError(w.T, w.Audit(audit.Origin{At: time.Now().UTC().Truncate(time.Microsecond), Reason: "x"},
			audit.CouponSeats, id, audit.Entry{Payload: audit.CouponChange{}, Seats: 1}))
	}
	used := func(again func(used *audit.UsedApproval)) func(id coupon.CouponID, a asked) {
		return func(id coupon.CouponID, _ asked) {
			used := w.Payloads(id, audit.ApprovalUsed)[0].(audit.UsedApproval)
			again(&used)
			require.NoError(w.T, w.Audit(audit.Origin{At: time.Now().UTC().Truncate(time.Microsecond), Actor: "kim",
				Reason: "x"}, audit.ApprovalUsed, id, audit.Entry{Payload: used}))
		}
	}
	for name, c := range map[string]struct {
		made  func() (coupon.CouponID, asked)
		broke func(id coupon.CouponID, a asked)
		want  verify.Code
	}{
		"not approved":          {seats, set("approved = FALSE"), verify.ApprovalWrong},
		"never decided":         {seats, set("approved = NULL, decided_at = NULL"), verify.ApprovalWrong},
		"decided before asked":  {seats, set("decided_at = created_at - INTERVAL 1 SECOND"), verify.ApprovalWrong},
		"used before decided":   {seats, set("used_at = decided_at - INTERVAL 1 SECOND"), verify.ApprovalWrong},
		"used after its expiry": {seats, set("expires_at = used_at - INTERVAL 1 SECOND"), verify.ApprovalWrong},
		"used, but no event": {seats, func(_ coupon.CouponID, a asked) {
			w.Exec("INSERT INTO approval (action, coupon_id, plan, digest, reason, maker, maker_sign_in, "+
				"maker_account, created_at, expires_at, used_at) SELECT action, coupon_id, plan, digest, reason, "+
				"maker, maker_sign_in, maker_account, created_at, expires_at, used_at FROM approval WHERE id = ?",
				a.Approval)
		}, verify.ApprovalWrong},
		"one account": {seats, set("checker_account = maker_account"), verify.ApprovalWrong},
		"one sign-in": {seats, atConsole("maker_sign_in = 'x', checker_sign_in = 'x'", "maker",
			"checker"), verify.ApprovalWrong},
		"console and terminal": {seats, atConsole("maker_sign_in = 'x'", "maker"), verify.ApprovalWrong},
		"terminal and console": {seats, atConsole("checker_sign_in = 'x'", "checker"), verify.ApprovalWrong},
		"a console's at a terminal": {seats, atConsole("maker_sign_in = 'x', checker_sign_in = 'y'", "maker",
			"checker"), verify.ApprovalWrong},
		"consoles of one's own": {seats,
			set("maker_sign_in = 'x', checker_sign_in = 'y', checker_account = maker_account"), verify.ApprovalWrong},
		"by the program's name": {seats, asProgram, verify.ApprovalMissing},
		"the console's account": {seats,
			set("maker_sign_in = 'x', checker_account = CONCAT(SUBSTRING_INDEX(maker_account, '@', 1), '@elsewhere')"),
			verify.ApprovalWrong},
		"another account used it": {seats, set("maker_account = 'park@%'"), verify.ApprovalWrong},
		"a shared account": {seats, func(_ coupon.CouponID, a asked) {
			w.Exec("UPDATE policy SET shared_accounts = (SELECT JSON_ARRAY(SUBSTRING_INDEX(checker_account, '@', 1)) "+
				"FROM approval WHERE id = ?)", a.Approval)
		}, verify.ApprovalWrong},
		"another plan":   {seats, set(`plan = REPLACE(plan, '"to":"5"', '"to":"9"')`), verify.ApprovalWrong},
		"another digest": {seats, set("digest = CONCAT('sha256:', REPEAT('0', 64))"), verify.ApprovalMissing},
		"another action": {run, set(`action = 'grant', plan = REPLACE(plan, '"run"', '"grant"')`),
			verify.ApprovalWrong},
		"used twice": {seats, used(func(*audit.UsedApproval) {}), verify.ApprovalWrong},
		"an event without one": {seats, used(func(u *audit.UsedApproval) { u.Approval = 999 }),
			verify.ApprovalWrong},
		"an event without a name": {seats, used(func(u *audit.UsedApproval) { *u = audit.UsedApproval{} }),
			verify.ApprovalWrong},
		"an event of others": {seats, used(func(u *audit.UsedApproval) { u.Checker = "park" }),
			verify.ApprovalWrong},
		"without an event": {seats, func(id coupon.CouponID, _ asked) {
			w.Exec("DELETE FROM audit_event WHERE action = 'APPROVAL_USED' AND coupon_id = ?", id)
		}, verify.ApprovalMissing},
	} {
		t.Run(name, func(t *testing.T) {
			id, a := c.made()
			w.Verify(id)
			c.broke(id, a)
			require.Contains(t, w.Findings(id), c.want)
			w.Exec("UPDATE policy SET shared_accounts = '[]'")
		})
	}
}

// A retry that would issue to the line needs the approval of a run, which it cannot have. One of DLQ entries alone
// needs none.
func TestApprovals_OfRunsAreNotPassedByWithRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddQueue(2, 1, 2)
	w.MoveToReview(id, "1", coupon.Failure{Cause: coupon.CauseBadRow})
	w.setPolicy("run")
	refused(t, "1 applications that are not under review")(
		w.kim("dlq", "retry", "--coupon="+id.String(), "--user=1", "--cutoff=now"))
	require.Empty(t, w.Issued(id))
	w.SetStatus("BLOCKED", 2)
	succeeds(t)(w.kim("dlq", "retry", "--coupon="+id.String(), "--user=1", "--cutoff=now"))
	require.Equal(t, []coupon.UserID{1}, w.Issued(id))
	w.Verify(id)
}

// To honour a receipt is no restore: it needs no approval, also where it lowers what was written off.
func TestApprovals_OfRestoresLeaveReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceipts(w)
	id := w.AddQueue(2, 1, 2)
	tokens := r.given(id)
	w.PodsDie()
	require.NoError(t, w.Redis.Del(t.Context(), w.Queue(id)).Err())
	w.settleNow("--accept-gap")
	require.EqualValues(t, 2, w.Number("SELECT COALESCE(MAX(written_off), 0) FROM settled WHERE coupon_id = ?", id))
	w.setPolicy("restore")
	require.Equal(t, journal.PutBack, r.story(exitDone, "honour", tokens[1], honouredBy...).Fate)
	require.EqualValues(t, 2, w.Number("SELECT COALESCE(MAX(written_off), 0) FROM settled WHERE coupon_id = ?", id),
		"it stays on record")
	w.Verify(id)
}

// A drop by user is forgotten with the user, and asked for one by one.
func TestForgotten_LeavesDropWithoutUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.AddQueue(1, 7, 8)
	w.MoveToReview(id, "7", coupon.Failure{Cause: coupon.CauseBadRow})
	w.MoveToReview(id, "8", coupon.Failure{Cause: coupon.CauseBadRow})
	w.setPolicy("drop")
	code, _, stderr := w.kim("dlq", "drop", "--coupon="+id.String(), "--user=7", "--user=8", "--ask")
	require.Equal(t, exitUse, code)
	require.Contains(t, stderr, "--ask takes one --user")
	a := w.ask("dlq", "drop", "--coupon="+id.String(), "--user=7")
	code, stdout, _ := w.settle("approvals", fmt.Sprint(a.Approval), "--lang=en")
	require.Zero(t, code)
	require.Contains(t, stdout, "of user 7")
	w.approve(a)
	succeeds(t)(w.kim("dlq", "drop", "--coupon="+id.String(), "--user=7", a.flag()))
	w.Verify(id)
	stdout = succeeds(t)(w.asPrivacy().settle("user", "export", "--user=7"))
	require.Contains(t, stdout, `"action": "drop"`)
	require.EqualValues(t, 1, w.Number("SELECT COUNT(*) FROM approval WHERE user_id = 7"))
}

// A policy may ask for a second person only above an amount, which counts each change by itself.
func TestApprovals_AboveAnAmount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddUsers(3)
	w.setPolicy("create:1000,add-seats:1000,grant:199")
	create := func(seats, won int) []string {
		return []string{"coupon", "create", "--name=한도", fmt.Sprint("--seats=", seats), fmt.Sprint("--discount-won=", won),
			"--opens=2035-01-01 00:00", "--closes=2035-01-02 00:00"}
	}
	id := strings.TrimSpace(succeeds(t)(w.kim(create(5, 200)...)))
	refused(t, "needs the approval of a second person")(w.kim(create(5, 201)...))
	succeeds(t)(w.kim(create(1_000_000, 0)...))
	succeeds(t)(w.kim("coupon", "add-seats", id, "--seats=5"))
	succeeds(t)(w.kim("coupon", "add-seats", id, "--total=1"))
	refused(t, "needs the approval of a second person")(w.kim("coupon", "add-seats", id, "--seats=6"))
	refused(t, "needs the approval of a second person")(w.kim("coupon", "grant", id, "--user=3"))

	command := create(5, 201)
	require.Contains(t, succeeds(t)(w.settle(append(slices.Clone(command), "--dry-run", "--lang=en")...)), "1,005 won")
	a := w.ask(command...)
	require.EqualValues(t, 1005, a.Plan.CostWon)
	w.approve(a)
	made := strings.TrimSpace(succeeds(t)(w.kim(append(command, a.flag())...)))
	code, stdout, _ := w.settle("approvals", "--coupon="+made, "--output=json")
	require.Zero(t, code)
	require.Contains(t, stdout, `"USED"`)
	w.Verify()
	w.Exec("DELETE FROM approval")
	require.Contains(t, w.Findings(coupon.CouponID(w.Number("SELECT MAX(id) FROM coupon"))), verify.ApprovalMissing)
	require.Empty(t, w.Findings(1), "it cost less")
	refused(t, "has no usable amount")(w.kim("policy", "set", "--actions=create:many", "--dry-run"))
}

// Redis may fail between the row of the journal and the queue. The same command goes on, with the approval that it has
// used.
func TestApprovals_OfAReceiptThatIsHonouredTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := newReceipts(w)
	id := w.couponFor(2, 1)
	token := r.given(id)[1]
	w.PodsDie()
	w.LoseRedis(id)
	w.Restore(id)
	w.setPolicy("honour")
	command := []string{"receipt", "honour", token, r.flag}
	a := w.ask(command...)
	w.approve(a)
	succeeds(t)(w.kim(append(command, a.flag())...))
	require.NoError(t, w.Redis.ZRem(t.Context(), w.Queue(id), "1").Err())
	events := w.Number("SELECT COUNT(*) FROM audit_event")
	succeeds(t)(w.kim(append(command, a.flag())...))
	require.Equal(t, []string{"1"}, w.Waiting(id))
	require.Equal(t, events, w.Number("SELECT COUNT(*) FROM audit_event"))
	w.Verify(id)
}
