package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/approval"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/text"
)

// A program makes a coupon, changes everything about it, settles it, and looks after its users.
func TestAPI_Campaign(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddUsers(4)
	created := s.post("marketing", "/v1/coupons", s.carried("marketing", "/v1/coupons", with(s.creation(), `"clientKey":"november"`)))
	require.Equal(t, http.StatusOK, created.status, created.text)
	of := fmt.Sprint("/v1/coupons/", created.body["coupon"])
	shown := s.get("viewer", of)
	require.Equal(t, "november", shown.body["clientKey"])
	require.Equal(t, json.Number("3"), shown.body["totalQuantity"])

	step := 0
	done := func(role, path, body string) reply {
		t.Helper()
		step++
		got := s.change(role, path, body, fmt.Sprint("step-", step))
		require.Equal(t, http.StatusOK, got.status, "%s: %s", path, got.text)
		return got
	}
	require.Equal(t, json.Number("9"), done("marketing", of+"/change", `{"seats":9,"name":"겨울"}`).body["seats"])
	later := s.Now().Add(9 * time.Hour).UTC().Format(time.RFC3339)
	require.Equal(t, true, done("marketing", of+"/extend", fmt.Sprintf(`{"closes":%q}`, later)).body["changed"])
	require.Equal(t, json.Number("11"), done("marketing", of+"/add-seats", `{"seats":2}`).body["seats"])
	require.Equal(t, "IMMEDIATE", done("marketing", of+"/cadence", `{"cadence":"immediate"}`).body["cadence"])
	require.Equal(t, true, done("marketing", of+"/pause", `{}`).body["paused"])
	require.Equal(t, false, done("marketing", of+"/resume", `{}`).body["paused"])
	require.Equal(t, true, done("operator", of+"/freeze", `{}`).body["frozen"])
	require.Equal(t, false, done("operator", of+"/unfreeze", `{}`).body["frozen"])
	require.Equal(t, "ISSUED", done("cs", of+"/users/4/grant", `{}`).body["state"])
	require.Equal(t, "REVOKED", done("cs", of+"/users/4/revoke", `{"freeSeat":true}`).body["state"])
	require.Equal(t, "ISSUED", done("cs", of+"/users/4/reissue", `{}`).body["state"])
	done("cs", of+"/users/4/extend-user", `{"until":"2031-01-31"}`)
	s.Exec("UPDATE coupon SET issued_count = issued_count + 1 WHERE id = ?", created.body["coupon"].(json.Number).String())
	require.Equal(t, true, done("operator", of+"/recount", `{}`).body["changed"])

	// Whatever answers, conforms to the contract: reading is checked by the way.
	id := s.AddQueue(2, 1, 2, 3)
	s.MoveToReview(id, "3", coupon.Failure{Cause: coupon.CauseBadRow})
	ofQueue := fmt.Sprint("/v1/coupons/", id)
	review := s.get("finance", "/v1/dlq?cause=BAD_ROW")
	require.Equal(t, json.Number("1"), review.body["total"])
	require.Equal(t, json.Number("1"), s.get("finance", fmt.Sprint("/v1/dlq?list=true&coupon=", id)).body["total"])
	require.Equal(t, json.Number("1"), done("cs", ofQueue+"/dlq/drop", `{"user":["3"]}`).body["total"].(map[string]any)["rejected"])
	restored := s.post("operator", ofQueue+"/restore", `{"dryRun":true}`)
	require.Equal(t, json.Number("3"), restored.body["accepted"], restored.text)
	s.SettleNow(id)
	require.Equal(t, true, done("marketing", ofQueue+"/close", `{}`).body["changed"])
	runs := s.get("viewer", fmt.Sprint("/v1/runs?coupon=", id)).body["runs"].([]any)
	require.NotEmpty(t, runs)
	run := s.get("viewer", fmt.Sprint("/v1/runs/", runs[0].(map[string]any)["run"]))
	require.Len(t, run.body["details"], 1)
	require.Equal(t, http.StatusOK, s.get("cs", ofQueue+"/users/1").status)
	require.Len(t, s.get("cs", "/v1/users/1").body["coupons"], 1)
	require.Equal(t, http.StatusOK, s.get("finance", "/v1/report?month="+s.Now().In(jajeongtest.Zone).Format("2006-01")).status)
	require.Contains(t, s.get("viewer", "/v1/coupons?limit=1").text, `"id": 1`)
	require.Equal(t, http.StatusOK, s.get("viewer", ofQueue).status)
	preview := s.post("finance", "/v1/runs", `{"dryRun":true}`)
	require.Equal(t, http.StatusOK, preview.status, preview.text)

	actors := jajeongtest.Column[string](s.Deployment, "SELECT DISTINCT actor FROM audit_event WHERE coupon_id = 1 ORDER BY actor")
	require.Equal(t, []string{"key:of-cs", "key:of-marketing", "key:of-operator"}, actors)
	require.Empty(t, jajeongtest.Column[string](s.Deployment, "SELECT state FROM job WHERE state <> 'DONE'"))
}

// What happens is what the preview has shown, or nothing.
func TestAPI_ChangesWhatThePreviewShowed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.AddCoupon(5)
	path := fmt.Sprintf("/v1/coupons/%d/add-seats", id)
	body := s.carried("operator", path, `{"seats":2}`)
	require.Equal(t, "DIGEST_MISSING", s.post("operator", path, `{"seats":2,"reason":"r"}`, "Idempotency-Key", "a").code())
	require.Equal(t, "IDEMPOTENCY_KEY_MISSING", s.post("operator", path, body).code())
	other := s.post("operator", path, with(`{"seats":3}`, body[len(`{"seats":2,`):len(body)-1]), "Idempotency-Key", "b")
	require.Equal(t, "PREVIEW_CHANGED", other.code(), other.text)
	s.SetSeats(id, 6)
	require.Equal(t, "PREVIEW_CHANGED", s.post("operator", path, body, "Idempotency-Key", "c").code())
	require.Equal(t, int64(6), s.Number("SELECT total_quantity FROM coupon WHERE id = ?", id))
	for _, wrong := range []struct{ body, field string }{
		{`{"seats":"2","dryRun":true}`, "seats"}, {`{"seats":2.5,"dryRun":true}`, "seats"}, {`{"seats":-1,"dryRun":true}`, "seats"},
		{`{"seats":2,"total":9,"dryRun":true}`, "total"}, {`{"seats":2,"dryRun":"true"}`, "dryRun"}, {`{"seats":[2],"dryRun":true}`, "seats"},
		{`{"seats":2,"operator":"kim","dryRun":true}`, "operator"}, {`{"seats":2,"output":"table","dryRun":true}`, "output"},
		{`{"seats":2,"coupon":1,"dryRun":true}`, "coupon"}, {`{"seats":2,"expectDigest":"x","dryRun":true}`, "expectDigest"},
		{`{"seats":2,"ask":true,"dryRun":true}`, "ask"}, {`{"seats":2,"digest":"x","reason":"r"}`, "digest"},
		{`{"seats":2,"digest":"sha256:` + fmt.Sprintf("%064d", 0) + `"}`, "reason"},
	} {
		got := s.post("operator", path, wrong.body, "Idempotency-Key", "again")
		require.Equal(t, "INVALID_VALUES", got.code(), "%s: %s", wrong.body, got.text)
		require.Equal(t, wrong.field, got.body["errors"].([]any)[0].(map[string]any)["field"], "%s: %s", wrong.body, got.text)
	}
	for _, wrong := range []string{"[]", `"x"`, "{", `{"seats":2,"seats":3}`, `{}{}`, `{"seats":2}x`} {
		require.Equal(t, "INVALID_BODY", s.post("operator", path, wrong).code(), wrong)
	}
	require.Equal(t, "INVALID_VALUES", s.post("operator", "/v1/coupons/01/close", `{"dryRun":true}`).code())
	require.Equal(t, "DOES_NOT_EXIST", s.post("operator", "/v1/coupons/99/close", `{"dryRun":true}`).code())
	require.Equal(t, "REFUSED", s.post("operator", fmt.Sprintf("/v1/coupons/%d/users/77/revoke", id), `{"dryRun":true}`).code())
	require.Equal(t, "INVALID_VALUES", s.get("operator", "/v1/coupons?limit=1&limit=2").code())
	require.Equal(t, "INVALID_VALUES", s.get("operator", "/v1/report?month=2026-11&out=/tmp/x").code())
	require.Equal(t, "INVALID_VALUES", s.get("operator", fmt.Sprintf("/v1/coupons/%d/users/1?issueInterval=1s", id)).code())
	require.Equal(t, int64(6), s.Number("SELECT total_quantity FROM coupon WHERE id = ?", id))
}

// The policy wants a person: the key asks, cannot approve, and carries out what was approved.
func TestAPI_Approvals(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.AddCoupon(5)
	pool, err := s.Operator.MySQLSettings.Open(connect.Patient, zap.NewNop()) // the account of the console
	require.NoError(t, err)
	defer pool.Close()
	var account string
	require.NoError(t, pool.QueryRow("SELECT CURRENT_USER()").Scan(&account))
	s.Exec(`INSERT INTO policy (actions, shared_accounts, persons, zone, set_at, set_by, account, reason, runs_after,
		events_after) SELECT '["add-seats"]', JSON_ARRAY(?), '[]', zone, UTC_TIMESTAMP(6), 'lee', '', 'r', 0, 0
		FROM policy WHERE id = 1`, account)
	decide := func(by string) error {
		_, err := approval.Decide(t.Context(), mysqltx.New(pool), 1, approval.Person{Name: by, SignIn: by}, true, "ok")
		return err
	}
	path := fmt.Sprintf("/v1/coupons/%d/add-seats", id)
	needed := s.change("marketing", path, `{"seats":2}`, "a")
	require.Equal(t, "APPROVAL_NEEDED", needed.code(), needed.text)
	asked := s.post("marketing", path, `{"seats":2,"reason":"sold out","ask":true}`, "Idempotency-Key", "b")
	require.Equal(t, http.StatusOK, asked.status, asked.text)
	number := asked.body["approval"]
	again := s.post("marketing", path, `{"seats":2,"reason":"sold out","ask":true}`, "Idempotency-Key", "b")
	require.Equal(t, asked.text, again.text, "it was asked once")
	require.Equal(t, int64(1), s.Number("SELECT COUNT(*) FROM approval"))

	request := fmt.Sprint("/v1/approvals/", number)
	require.Equal(t, "REQUESTED", s.get("marketing", request).body["state"])
	require.Equal(t, "key:of-marketing", s.get("finance", request).body["maker"])
	require.Equal(t, "DOES_NOT_EXIST", s.get("cs", request).code(), "of another key")
	require.Equal(t, "FORBIDDEN", s.get("viewer", request).code())
	require.Equal(t, "INVALID_VALUES", s.get("finance", "/v1/approvals/0").code())

	carry := fmt.Sprintf(`{"seats":2,"reason":"sold out","approval":%v}`, number)
	require.Equal(t, "APPROVAL_NOT_USABLE", s.post("marketing", path, carry, "Idempotency-Key", "c").code())
	for _, decision := range []string{"", "/approve", "/decide"} {
		got, err := s.ask("operator", http.MethodPost, request+decision, `{"reason":"r"}`)
		require.NoError(t, err)
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, got.status)
	}
	require.True(t, text.Has(decide("key:of-marketing"), text.ApprovalIsOwn), "no address leads here")
	require.NoError(t, decide("of-marketing"), "a person whose name is that of the key is another")
	require.Equal(t, "APPROVED", s.get("marketing", request).body["state"])
	require.Equal(t, "APPROVAL_NOT_USABLE", s.post("marketing", path, `{"seats":3,"reason":"sold out","approval":1}`, "Idempotency-Key", "d").code())
	done := s.post("marketing", path, carry, "Idempotency-Key", "e")
	require.Equal(t, json.Number("7"), done.body["seats"], done.text)
	require.Equal(t, "USED", s.get("marketing", request).body["state"])
	s.Verify(id)
}

// A repeated request gets the answer of the first; the key belongs to one content and one caller.
func TestAPI_IdempotencyKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.AddCoupon(5)
	path := fmt.Sprintf("/v1/coupons/%d/add-seats", id)
	body := s.carried("operator", path, `{"seats":2}`)
	first := s.post("operator", path, body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusOK, first.status, first.text)
	require.Equal(t, first.text, s.post("operator", path, body, "Idempotency-Key", "k").text)
	require.Equal(t, "PREVIEW_CHANGED", s.post("operator", path, body, "Idempotency-Key", "k2").code())
	require.Equal(t, "PREVIEW_CHANGED", s.post("operator", path, body, "Idempotency-Key", "k2").code(), "the refusal is kept")
	require.Equal(t, "IDEMPOTENCY_KEY_REUSED", s.post("operator", path, `{"seats":4,`+body[len(`{"seats":2,`):], "Idempotency-Key", "k").code())
	require.Equal(t, "PREVIEW_CHANGED", s.post("marketing", path, body, "Idempotency-Key", "k").code(), "another caller has keys of its own")
	require.Equal(t, int64(7), s.Number("SELECT total_quantity FROM coupon WHERE id = ?", id))

	// While the work runs, and when it takes long.
	release := s.Lock(id)
	slow := fmt.Sprintf("/v1/coupons/%d/pause", id)
	paused := with(`{}`, fmt.Sprintf(`"reason":"r","digest":%q`, "sha256:"+fmt.Sprintf("%064d", 0)))
	accepted := s.post("operator", slow, paused, "Idempotency-Key", "slow")
	require.Equal(t, http.StatusAccepted, accepted.status, accepted.text)
	job := accepted.header.Get("Location")
	require.Equal(t, "RUNNING", s.get("operator", job).body["state"])
	busy := s.post("operator", slow, paused, "Idempotency-Key", "slow")
	require.Equal(t, "IN_PROGRESS", busy.code())
	require.Equal(t, job, busy.header.Get("Location"))
	require.Equal(t, "DOES_NOT_EXIST", s.get("marketing", job).code(), "of another key")
	require.Equal(t, http.StatusOK, s.get("finance", job).status)
	release()
	testenv.Eventually(t, "the job ends", func() bool { return s.get("operator", job).body["state"] != "RUNNING" })
	ended := s.get("operator", job)
	require.Equal(t, "REFUSED", ended.body["state"], ended.text)
	require.Equal(t, "PREVIEW_CHANGED", ended.body["answer"].(map[string]any)["code"])
	require.Equal(t, "PREVIEW_CHANGED", s.post("operator", slow, paused, "Idempotency-Key", "slow").code())

	// Rows are kept for a day.
	s.Exec("UPDATE job SET at = at - INTERVAL 25 HOUR")
	s.Exec("UPDATE idempotency SET at = at - INTERVAL 25 HOUR")
	s.restart()
	testenv.Eventually(t, "old rows are deleted", func() bool {
		return s.Number("SELECT (SELECT COUNT(*) FROM job) + (SELECT COUNT(*) FROM idempotency)") == 0
	})
}

// However many ask at once, one coupon is created.
func TestAPI_ClientKeyCreatesOneCoupon(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	plain := with(s.creation(), `"clientKey":"one"`)
	body := s.carried("marketing", "/v1/coupons", plain)
	var all sync.WaitGroup
	replies, errs := make([]reply, 50), make([]error, 50)
	for i := range replies {
		all.Go(func() {
			for { // a busy server says so
				replies[i], errs[i] = s.ask("marketing", http.MethodPost, "/v1/coupons", body)
				if errs[i] != nil || replies[i].status != http.StatusServiceUnavailable {
					return
				}
			}
		})
	}
	all.Wait()
	for i, got := range replies {
		require.NoError(t, errs[i])
		require.Equal(t, http.StatusOK, got.status, got.text)
		require.JSONEq(t, replies[0].text, got.text)
	}
	require.Equal(t, int64(1), s.Number("SELECT COUNT(*) FROM coupon"))
	require.Equal(t, json.Number("1"), s.post("marketing", "/v1/coupons", with(plain, `"dryRun":true`)).body["coupon"])
	other := s.post("marketing", "/v1/coupons", with(body, `"minimumWon":1`))
	require.Equal(t, "CLIENT_KEY_REUSED", other.code(), other.text)
}

// A process that dies leaves INTERRUPTED. The same request again goes on, and nothing happens twice.
func TestAPI_KilledProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.AddCoupon(5)
	path := fmt.Sprintf("/v1/coupons/%d/add-seats", id)
	body := s.carried("operator", path, `{"seats":2}`)
	release := s.Lock(id)
	accepted := s.post("operator", path, body, "Idempotency-Key", "k")
	require.Equal(t, http.StatusAccepted, accepted.status, accepted.text)
	job := accepted.header.Get("Location")
	s.kill()
	require.Equal(t, "IN_PROGRESS", s.post("operator", path, body, "Idempotency-Key", "k").code(), "it may still be alive")
	s.Exec("UPDATE job SET at = at - INTERVAL 31 SECOND")
	require.Equal(t, "INTERRUPTED", s.get("operator", job).body["state"])
	release()
	again := s.post("operator", path, body, "Idempotency-Key", "k")
	require.Equal(t, json.Number("7"), again.body["seats"], again.text)
	require.Equal(t, again.text, s.post("operator", path, body, "Idempotency-Key", "k").text)
	require.Equal(t, int64(7), s.Number("SELECT total_quantity FROM coupon WHERE id = ?", id))
	require.Len(t, s.get("operator", "/v1/jobs").body["jobs"], 2)
	require.Empty(t, s.get("cs", "/v1/jobs").body["jobs"])
}

// A process dies after it has made a change, and before its job says so. The same request creates nothing twice, and is
// told that the change may be done.
func TestAPI_KilledBehindTheChange(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	body := s.carried("marketing", "/v1/coupons", s.creation())
	created := s.post("marketing", "/v1/coupons", body, "Idempotency-Key", "c")
	require.Equal(t, http.StatusOK, created.status, created.text)
	id := s.Number("SELECT MAX(id) FROM coupon")
	path := fmt.Sprintf("/v1/coupons/%d/add-seats", id)
	more := s.carried("marketing", path, `{"seats":2}`)
	require.Equal(t, http.StatusOK, s.post("marketing", path, more, "Idempotency-Key", "s").status)
	s.Exec("UPDATE job SET state = 'RUNNING', status = 0, answer = NULL, at = at - INTERVAL 31 SECOND")
	again := s.post("marketing", "/v1/coupons", body, "Idempotency-Key", "c")
	require.Equal(t, created.body["coupon"], again.body["coupon"], again.text)
	require.Equal(t, int64(1), s.Number("SELECT COUNT(*) FROM coupon"))
	require.Equal(t, "MAY_BE_DONE", s.post("marketing", path, more, "Idempotency-Key", "s").code())
	require.Equal(t, int64(5), s.Number("SELECT total_quantity FROM coupon"))
	require.Equal(t, "INVALID_VALUES", s.post("marketing", path+"?dryRun=true", `{"seats":2}`).code(), "values are in the body")
}

// A settlement by a program, a refused one, and a retry of what was under review.
func TestAPI_Runs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.AddUsers(1, 2, 3)
	yesterday := s.Now().In(jajeongtest.Zone).AddDate(0, 0, -1)
	noon := time.Date(yesterday.Year(), yesterday.Month(), yesterday.Day(), 12, 0, 0, 0, jajeongtest.Zone)
	id := s.AddCouponBetween(3, noon, noon.Add(time.Hour))
	for i, member := range []string{"1", "2", "3"} {
		s.ApplyAt(id, member, noon.Add(time.Duration(i+1)*time.Minute))
	}
	s.MoveToReview(id, "3", coupon.Failure{Cause: coupon.CauseBadRow})
	body := fmt.Sprintf(`{"coupon":[%d],"date":%q}`, id, noon.Format(time.DateOnly))
	carried := s.carried("finance", "/v1/runs", body)
	require.Equal(t, "INVALID_VALUES", s.post("finance", "/v1/runs", with(`{}`, `"reason":"r","digest":"sha256:`+
		fmt.Sprintf("%064d", 0)+`"`), "Idempotency-Key", "all").code(), "one coupon, and a date")
	wrong := with(body, `"reason":"r","digest":"sha256:`+fmt.Sprintf("%064d", 0)+`"`)
	refused := s.post("finance", "/v1/runs", wrong, "Idempotency-Key", "wrong")
	require.Equal(t, "PREVIEW_CHANGED", refused.code(), refused.text)
	done := s.post("finance", "/v1/runs", carried, "Idempotency-Key", "run")
	require.Equal(t, http.StatusOK, done.status, done.text)
	require.Equal(t, json.Number("2"), done.body["total"].(map[string]any)["issued"], done.text)
	require.Equal(t, []coupon.UserID{1, 2}, s.Issued(id))
	require.Equal(t, done.text, s.post("finance", "/v1/runs", carried, "Idempotency-Key", "run").text)
	job := s.get("finance", "/v1/jobs").body["jobs"].([]any)[0].(map[string]any)
	require.NotEqual(t, json.Number("0"), job["done"])

	retry := fmt.Sprintf("/v1/coupons/%d/dlq/retry", id)
	require.Equal(t, "PREVIEW_CHANGED", s.post("finance", retry, `{"user":["3"],"reason":"r","digest":"sha256:`+
		fmt.Sprintf("%064d", 0)+`"}`, "Idempotency-Key", "other").code())
	got := s.change("finance", retry, `{"user":["3"],"canary":1}`, "retry")
	require.Len(t, got.body["runs"], 1, got.text)
	require.Equal(t, []coupon.UserID{1, 2, 3}, s.Issued(id))
	s.Verify(id)
}
