package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// A program gives a coupon to a list: the preview, the list again with the digest, and, after its process has died, the
// same request.
func TestAPI_GrantsToAList(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	users := jajeongtest.Between[coupon.UserID](1, 6000)
	s.AddUsers(users...)
	id := s.AddCoupon(1)
	var csv strings.Builder
	csv.WriteString("\uFEFFuser_id;name\r\n")
	for _, user := range users {
		csv.WriteString(user.Member() + ";고객\r\n")
	}
	list, other := csv.String()+"99999;x\r\n7;again\r\n", csv.String()
	path := fmt.Sprintf("/v1/coupons/%d/grants", id)
	send := func(role, list, key string, pairs ...string) reply {
		t.Helper()
		values := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		headers := []string{"Content-Type", "text/csv"}
		if key != "" {
			headers = append(headers, "Idempotency-Key", key)
		}
		return s.post(role, path+"?"+values.Encode(), list, headers...)
	}
	require.Equal(t, "FORBIDDEN", send("cs", list, "", "dryRun", "true").code())
	require.Equal(t, "INVALID_BODY", send("finance", "user_id\n7\nx\n", "", "dryRun", "true").code())
	require.Equal(t, "INVALID_BODY", send("finance", "", "", "dryRun", "true").code())
	require.Equal(t, "INVALID_VALUES", send("finance", list, "", "dryRun", "yes").code())
	require.Equal(t, "INVALID_VALUES", send("finance", list, "", "dryRun", "true", "user", "7").code())
	require.Equal(t, "DIGEST_MISSING", send("finance", list, "k", "dryRun", "false", "reason", "QUIZ-1").code())
	seen := send("finance", list, "", "dryRun", "true")
	require.Equal(t, []any{json.Number("6000"), json.Number("1"), json.Number("1")},
		[]any{seen.body["granted"], seen.body["unknown"], seen.body["duplicates"]}, seen.text)
	digest, _ := seen.body["digest"].(string)
	carry := []string{"digest", digest, "reason", "QUIZ-1"}
	require.Equal(t, "PREVIEW_CHANGED", send("finance", other, "other", carry...).code())
	require.Zero(t, s.Number("SELECT COUNT(*) FROM user_coupon"))

	release := s.Lock(id)
	accepted := send("finance", list, "quiz", carry...)
	require.Equal(t, http.StatusAccepted, accepted.status, accepted.text)
	require.Equal(t, "IN_PROGRESS", send("finance", list, "quiz", carry...).code())
	s.kill()
	s.Exec("UPDATE job SET at = at - INTERVAL 31 SECOND")
	release()
	require.Equal(t, "IDEMPOTENCY_KEY_REUSED", send("finance", other, "quiz", carry...).code())
	s.Exec("UPDATE coupon SET frozen = TRUE, version = version + 1")
	require.Equal(t, "REFUSED", send("finance", list, "quiz", carry...).code())
	s.Exec("UPDATE coupon SET frozen = FALSE, version = version + 1") // what was begun goes on all the same
	done := send("finance", list, "quiz", carry...)
	require.Equal(t, json.Number("6000"), done.body["granted"], done.text)
	require.Equal(t, done.text, send("finance", list, "quiz", carry...).text)
	require.EqualValues(t, 6000, s.Number("SELECT COUNT(*) FROM user_coupon"))
	require.EqualValues(t, 1, s.Number("SELECT COUNT(*) FROM job WHERE state = 'DONE' AND done = 6001 AND `of` = 6001"))
	require.Equal(t, []string{"key:of-finance QUIZ-1"}, jajeongtest.Column[string](s.Deployment,
		"SELECT DISTINCT CONCAT(actor, ' ', reason) FROM audit_event WHERE action = 'COUPON_LIST_GRANTED'"))
	s.Verify(id)
}
