package cli

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/calendar"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
	"github.com/jajeong/jajeong/internal/verify"
)

// The zone of a new database is that of its first migration. A later one with another zone is refused.
func TestMigrate_WritesTheZoneOnce(t *testing.T) {
	t.Parallel()
	m := testenv.MySQLFor(t)
	db := opened(t, m.DSN)
	zone := func() (deployment, policy string) {
		require.NoError(t, db.QueryRow("SELECT d.zone, p.zone FROM deployment d, policy p").Scan(&deployment, &policy))
		return deployment, policy
	}
	for _, wrong := range []string{"Mars", "Local", "", "localtime"} {
		code, _, stderr := settleBare(t, "migrate", "--lang=en", "--mysql-dsn="+m.DSN, "--settle-time-zone="+wrong)
		require.Equal(t, exitUse, code, wrong)
		require.Contains(t, stderr, wrong)
		require.Empty(t, allTables(t, db), wrong)
	}
	for _, given := range []string{"--settle-time-zone=Europe/Berlin", "--settle-time-zone=Europe/Berlin",
		"--log-level=warn"} {
		stdout := succeeds(t)(settleBare(t, "migrate", "--lang=en", "--mysql-dsn="+m.DSN, given))
		require.Contains(t, stdout, "Time zone of the nights: Europe/Berlin\n")
	}
	refused(t, "SETTLE_TIME_ZONE is Asia/Seoul, and the nights are of Europe/Berlin")(
		settleBare(t, "migrate", "--lang=en", "--mysql-dsn="+m.DSN, "--settle-time-zone=Asia/Seoul"))
	deployment, policy := zone()
	require.Equal(t, []string{"Europe/Berlin", "Europe/Berlin"}, []string{deployment, policy})

	// A row that is lost follows from the policy.
	_, err := db.Exec("DELETE FROM deployment")
	require.NoError(t, err)
	stdout := succeeds(t)(settleBare(t, "migrate", "--lang=en", "--mysql-dsn="+m.DSN))
	require.Contains(t, stdout, "Europe/Berlin")

	// A process that was killed before the first rows were written leaves the rest to the next.
	for _, statement := range []string{"DELETE FROM deployment", "DELETE FROM policy"} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	refused(t, "run settle migrate")(
		settleBare(t, "coupon", "list", "--lang=en", "--mysql-dsn="+m.DSN, "--redis-addrs=127.0.0.1:1"))
	stdout = succeeds(t)(settleBare(t, "migrate", "--lang=en", "--mysql-dsn="+m.DSN))
	require.Contains(t, stdout, "Asia/Seoul")
}

// No setting of a process makes another midnight that of the nights: under a policy, whoever wants another cutoff needs
// an approval.
func TestRun_OfAnotherZoneIsByHand(t *testing.T) {
	const kathmandu = "Asia/Kathmandu" // its midnight is at a quarter past the hour in UTC
	t.Setenv("SETTLE_TIME_ZONE", kathmandu)
	w := newWorld(t)
	zone := w.atNoon()
	id := w.AddCouponBetween(2, w.Now().Add(-72*time.Hour), w.Now().Add(time.Hour))
	w.AddUsers(1)
	cutoff := calendar.LastCutoff(w.Now(), zone)
	elsewhere, err := time.LoadLocation(kathmandu)
	require.NoError(t, err)
	theirs := calendar.LastCutoff(w.Now(), elsewhere)
	require.False(t, theirs.Equal(cutoff))
	w.ApplyAt(id, "1", w.Now().Add(-48*time.Hour))
	w.setPolicy("run")

	refused(t, "unknown flag --settle-time-zone")(w.settle("run", "--settle-time-zone="+kathmandu, "--lang=en"))
	refused(t, "needs the approval")(w.kim("run", "--coupon="+id.String(), "--cutoff="+theirs.Format(time.RFC3339)))
	require.Empty(t, w.Issued(id))

	stdout := succeeds(t)(w.settle("run", "--output=json"))
	var report struct{ Cutoff time.Time }
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.True(t, report.Cutoff.Equal(cutoff), "%s is no midnight of %s", report.Cutoff, zone)
	require.Equal(t, []coupon.UserID{1}, w.Issued(id))
	w.Verify()
}

// The zone changes by a version of the policy, under the same rules. The next run, and the next coupon, follow it.
func TestPolicy_ChangesTheZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.SetZone("Asia/Tokyo")
	id := w.AddCoupon(5)
	w.AddUsers(1, 2)
	for _, wrong := range []string{"Mars", "Local"} {
		refused(t, fmt.Sprintf("--zone=%q is not a time zone", wrong))(w.kim("policy", "set", "--zone="+wrong))
	}
	stdout := succeeds(t)(w.settle("policy", "set", "--zone=Europe/Berlin", "--dry-run", "--lang=en"))
	require.Contains(t, stdout, "Asia/Tokyo")
	require.Contains(t, stdout, "Europe/Berlin")
	w.setPolicy("run")
	refused(t, "needs the approval")(w.kim("policy", "set", "--zone=Europe/Berlin"))
	asked := w.ask("policy", "set", "--zone=Europe/Berlin")
	w.approve(asked)
	stdout = succeeds(t)(w.kim("policy", "set", "--zone=Europe/Berlin", asked.flag()))
	require.Contains(t, stdout, "Time zone of the nights: Europe/Berlin\n")
	require.Contains(t, stdout, "run)", "the rest of the policy stays")
	stdout = succeeds(t)(w.settle("policy", "show", "--output=json"))
	require.Contains(t, stdout, `"zone": "Europe/Berlin"`)

	w.Exec("UPDATE coupon SET validity_days = 1 WHERE id = ?", id)
	code, _, stderr := w.kim("coupon", "grant", id.String(), "--user=2")
	require.Zero(t, code, stderr)
	var expires time.Time
	require.NoError(t, w.DB.QueryRow("SELECT expires_at FROM user_coupon WHERE coupon_id = ?", id).Scan(&expires))
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	require.Zero(t, expires.In(berlin).Hour(), "%s is no midnight of Berlin", expires)
	w.Verify()
	w.verify()

	// What is written by hand is found, also if it is no zone, and the policy sets it right.
	for _, byHand := range []string{"Pacific/Tongatapu", "Mars/X", ""} {
		w.Exec("UPDATE deployment SET zone = ?", byHand)
		code, report := w.verifyCode()
		require.Equal(t, exitInvariant, code)
		require.Len(t, report.Strays, 1)
		require.Equal(t, verify.ZoneWrong, report.Strays[0].Code)
		stdout = succeeds(t)(w.kim("policy", "set", "--zone=Europe/Berlin"))
		require.Contains(t, stdout, "Europe/Berlin")
		w.verify()
	}
}
