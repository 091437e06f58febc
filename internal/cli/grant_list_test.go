package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
)

// listFile is a list as Excel saves it: with a byte order mark, a header and CRLF.
func listFile(t testing.TB, users []coupon.UserID) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.csv")
	var content strings.Builder
	content.WriteString("\uFEFFname,user_id\r\n")
	for _, user := range users {
		content.WriteString("고객," + user.Member() + "\r\n")
	}
	require.NoError(t, os.WriteFile(path, []byte(content.String()), 0o600))
	return path
}

// A list needs one approval, which belongs to its users, whatever their order, and holds until the list is done.
func TestCouponGrant_OfAListNeedsOneApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := jajeongtest.Between[coupon.UserID](1, 5001)
	w.AddUsers(users...)
	id := w.AddCoupon(1)
	w.Exec("UPDATE coupon SET discount_won = 100")
	w.setPolicy("grant:500100")
	few := []string{"coupon", "grant", id.String(), "--file=" + listFile(t, users)}
	seen := w.digestOf(few...)
	succeeds(t)(w.kim(few...))
	require.EqualValues(t, 5001, w.Number("SELECT COUNT(*) FROM user_coupon"), "the policy asks above this cost")

	users = append(jajeongtest.Between[coupon.UserID](6001, 11_003), 1)
	w.AddUsers(users[:5002]...)
	grant := []string{"coupon", "grant", id.String(), "--file=" + listFile(t, users)}
	refused(t, "approval")(w.kim(grant...))
	refused(t, "no longer the one that the preview showed")(w.kim(append(grant, "--expect-digest="+seen)...))
	request := w.ask(grant...)
	require.Equal(t, request.Digest, w.digestOf(grant...))
	require.EqualValues(t, 500_400, request.Plan.CostWon)
	refused(t, "REQUESTED")(w.kim(append(grant, request.flag())...))
	w.approve(request)
	other := []string{"coupon", "grant", id.String(), "--file=" + listFile(t, users[1:]), request.flag()}
	refused(t, "is for something else")(w.kim(other...))
	stdout := succeeds(t)(w.kim(append(grant, request.flag())...))
	require.Contains(t, stdout, "of the 5004 users of the list, 5002 got it")
	require.Contains(t, stdout, "unknown user")

	w.AddUsers(users[5002]) // the list is not done yet
	stdout = succeeds(t)(w.kim(append(grant, request.flag())...))
	require.Contains(t, stdout, "1 got it")
	require.Contains(t, succeeds(t)(w.kim(other...)), "nobody gets it")
	w.verify()
	stdout = succeeds(t)(w.settle("explain", "--coupon="+id.String(), "--user=7000", "--lang=en"))
	require.Contains(t, stdout, "FIN-7")
	require.NotContains(t, stdout, "gave coupons to a list")
	require.EqualValues(t, 1, w.Number("SELECT COUNT(*) FROM audit_event WHERE action = 'APPROVAL_USED'"))

	// Somebody names the approval for another list, or for more users than it has.
	for _, planted := range []audit.GrantedList{
		{List: seen, Users: 5004, Approval: uint64(request.Approval)},
		{List: request.Plan.Arguments["file"], Users: 9000, Approval: uint64(request.Approval)},
		{List: request.Plan.Arguments["file"], Users: 5004, Approval: uint64(request.Approval),
			CouponChange: audit.CouponChange{Seats: audit.Changed(1, 9000)}},
		{List: seen, Users: 1, CouponChange: audit.CouponChange{Seats: audit.Changed(1, 9000)}},
	} {
		tx, err := w.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, audit.Append(t.Context(), tx, audit.Origin{At: w.Now().UTC().Truncate(time.Microsecond),
			Actor: "kim", Reason: "FIN-7"}, audit.CouponListGranted, id, audit.Entry{Payload: planted}))
		require.NoError(t, tx.Commit())
	}
	_, stdout, _ = w.settle("verify", "--lang=en")
	require.Regexp(t, "APPROVAL_MISSING.*: 4\n", stdout)
}

// A list that stops says how far it came, as JSON too, and goes on when it is run again.
func TestCouponGrant_OfAListThatStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	users := jajeongtest.Between[coupon.UserID](1, 5001)
	w.AddUsers(users...)
	id := w.AddCoupon(1)
	allow := w.RefuseRows("user_coupon", 5001)
	grant := []string{"coupon", "grant", id.String(), "--file=" + listFile(t, users)}
	code, stdout, stderr := w.kim(append(grant, "--output=json")...)
	require.Equal(t, exitInfrastructure, code, stderr)
	require.Contains(t, stdout, `"granted": 5000`)
	require.Contains(t, stderr, "It stopped after 5000 of the 5001 users")
	require.NotContains(t, stderr, "Nothing was changed")
	allow()
	require.Contains(t, succeeds(t)(w.kim(grant...)), "1 got it")
	w.verify()
}
