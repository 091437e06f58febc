package jajeong_test

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// drilled is a deployment on servers of its own, which saves and restores them by the commands of docs/deploy.md.
type drilled struct {
	*deployment
	redis    *testenv.Redis
	database *testenv.MySQL
	kind     string // MariaDB or MySQL
	folder   string // with the copies
	coupon   coupon.CouponID
}

func drill(t *testing.T) *drilled {
	t.Helper()
	d := &drilled{redis: testenv.PrivateRedis(t, testenv.RedisOptions{AppendOnly: true}), folder: t.TempDir()}
	d.onNewDatabase(t)
	return d
}

// onNewDatabase moves the deployment to a new database server, which has accounts and no data.
func (d *drilled) onNewDatabase(t *testing.T) {
	t.Helper()
	d.database = testenv.PrivateMySQL(t, testenv.MySQLOptions{Args: []string{"--log-bin=binlog", "--server-id=1",
		"--loose-gtid-mode=ON", "--loose-enforce-gtid-consistency=ON", "--loose-gtid-strict-mode=ON"}})
	admin, err := sql.Open("mysql", d.database.DSN(""))
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.Exec("CREATE DATABASE coupons CHARACTER SET utf8mb4")
	require.NoError(t, err)
	var version string
	require.NoError(t, admin.QueryRow("SELECT VERSION()").Scan(&version))
	if d.kind = "MySQL"; strings.Contains(version, "MariaDB") {
		d.kind = "MariaDB"
	}
	d.deployment = deployWith(t, jajeongtest.Options{
		Redis: jajeongtest.RedisAt(t, d.redis.Addr()), MySQL: &testenv.MySQLHandle{DSN: d.database.DSN("coupons")}})
	d.DB.SetMaxIdleConns(0) // a connection does not outlive the database that it uses
}

// commands returns the commands of a drill in docs/deploy.md.
func commands(t testing.TB, name string) string {
	t.Helper()
	drills := drillsOf(t, "docs/deploy.md")
	require.Contains(t, drills, name)
	return drills[name]
}

// drillsOf returns the shell blocks behind the comments <!-- drill: NAME --> in a document.
func drillsOf(t testing.TB, file string) map[string]string {
	t.Helper()
	document := testenv.Content(t, file)
	drills := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)<!-- drill: ([^>]*) -->\n\n```sh[^\n]*\n(.*?)```").
		FindAllStringSubmatch(string(document), -1) {
		drills[block[1]] = block[2]
	}
	return drills
}

// Both languages have the same commands, but for the operator's reason.
func TestDrills_SameInBothLanguages(t *testing.T) {
	t.Parallel()
	english, korean := drillsOf(t, "docs/deploy.md"), drillsOf(t, "docs/deploy.ko.md")
	reason := regexp.MustCompile(`--reason "[^"]*"`)
	for _, drills := range []map[string]string{english, korean} {
		for name, text := range drills {
			drills[name] = reason.ReplaceAllString(text, "--reason")
		}
	}
	require.Len(t, english, 10)
	require.Equal(t, english, korean)
}

// run runs commands in bash, in the folder, as the administrator of the database.
func (d *drilled) run(folder, script string, env ...string) string {
	d.T.Helper()
	config, err := mysql.ParseDSN(d.database.DSN(""))
	require.NoError(d.T, err)
	return d.runAs(config.User, "", folder, script, env...)
}

// runAs runs commands. The database programs find server and account in ~/.my.cnf.
func (d *drilled) runAs(user, password, folder, script string, env ...string) string {
	d.T.Helper()
	host, port, err := net.SplitHostPort(d.database.Addr())
	require.NoError(d.T, err)
	home := d.T.TempDir()
	require.NoError(d.T, os.WriteFile(filepath.Join(home, ".my.cnf"),
		fmt.Appendf(nil, "[client]\nhost=%s\nport=%s\nuser=%s\npassword=%q\n", host, port, user, password), 0o600))
	host, port, err = net.SplitHostPort(d.redis.Addr())
	require.NoError(d.T, err)
	script = strings.NewReplacer("-h redis-replica", "-h "+host+" -p "+port, "--coupon 42",
		"--coupon "+d.coupon.String(), "grant 42", "grant "+d.coupon.String()).Replace(script)
	shell := exec.CommandContext(d.T.Context(), "bash", "-ec", script)
	shell.Dir, shell.Env = folder, append(append(d.env, "HOME="+home, "TZ=UTC", "PATH="+d.programs()), env...)
	output, err := shell.CombinedOutput()
	require.NoError(d.T, err, "%s\n%s", script, output)
	return string(output)
}

// programs is a PATH with the client programs of the server, and with settle.
func (d *drilled) programs() string {
	path := ""
	for _, variable := range d.env {
		if value, is := strings.CutPrefix(variable, "PATH="); is {
			path = value
		}
	}
	return testenv.ClientPath(path)
}

func (d *drilled) saveRedis() { d.T.Helper(); d.run(d.folder, commands(d.T, "back up Redis")) }

const backupPassword = "drill-Aa1"

func (d *drilled) saveMySQL() {
	d.T.Helper()
	d.run(d.folder, strings.ReplaceAll(commands(d.T, "account for "+d.kind), "…", backupPassword))
	d.runAs("backup", backupPassword, d.folder, commands(d.T, "back up "+d.kind))
}

// saveLogs copies the binary logs again, by the last command of the backup.
func (d *drilled) saveLogs() {
	d.T.Helper()
	lines := strings.Split(strings.TrimSpace(commands(d.T, "back up "+d.kind)), "\n")
	d.runAs("backup", backupPassword, d.folder, lines[len(lines)-1])
}

// loseMySQL loses the server with its disk, and restores it on another one, up to an instant or to the end.
func (d *drilled) loseMySQL(t *testing.T, until time.Time) {
	t.Helper()
	d.saveLogs()
	require.NoError(d.T, d.database.Kill())
	d.onNewDatabase(t)
	d.restoreMySQL(until)
}

func (d *drilled) restoreMySQL(until time.Time) {
	d.T.Helper()
	var env []string
	if !until.IsZero() {
		env = append(env, "UNTIL="+until.UTC().Format(time.DateTime))
	}
	d.run(d.folder, commands(d.T, "restore "+d.kind), env...)
}

// loseRedis damages the append-only file, and restores the snapshot.
func (d *drilled) loseRedis() {
	d.T.Helper()
	require.NoError(d.T, d.redis.Kill())
	files, err := filepath.Glob(filepath.Join(d.redis.Dir(), "appendonlydir", "*"))
	require.NoError(d.T, err)
	require.NotEmpty(d.T, files)
	for _, file := range files {
		require.NoError(d.T, os.WriteFile(file, []byte("damaged"), 0o600))
	}
	copied, err := os.ReadFile(filepath.Join(d.folder, "line.rdb"))
	require.NoError(d.T, err)
	require.NoError(d.T, os.WriteFile(filepath.Join(d.redis.Dir(), "line.rdb"), copied, 0o600))
	require.Contains(d.T, d.run(d.redis.Dir(), commands(d.T, "restore Redis")), "All AOF files and manifest are valid")
	require.NoError(d.T, d.redis.Restart(d.T.Context()))
	d.PodsDie()
}

// nextSecond waits for a whole second of MySQL's clock, which is the precision of UNTIL.
func (d *drilled) nextSecond() time.Time {
	d.T.Helper()
	var now time.Time
	require.NoError(d.T, d.DB.QueryRow("SELECT UTC_TIMESTAMP(6)").Scan(&now))
	second := now.Truncate(time.Second).Add(time.Second)
	testenv.Eventually(d.T, "the second begins", func() bool {
		require.NoError(d.T, d.DB.QueryRow("SELECT UTC_TIMESTAMP(6)").Scan(&now))
		return !now.Before(second)
	})
	return second
}

// awaitLine starts the task journal, and waits until these users stand in the queue.
func (d *drilled) awaitLine(users ...string) {
	d.T.Helper()
	d.Start(d.env, "./cmd/settle", "serve", "--tasks=journal")
	testenv.Eventually(d.T, "the journal puts everybody back", func() bool {
		return fmt.Sprint(d.Waiting(d.coupon)) == fmt.Sprint(users)
	})
}

func TestDrill_MySQLAlone(t *testing.T) {
	t.Parallel()
	d := drill(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 6)...)
	d.coupon = d.AddCoupon(5)
	d.Apply(d.coupon, 1, 2)
	d.SettleNow(d.coupon)
	d.saveMySQL()
	d.Apply(d.coupon, 3, 4)
	d.SettleNow(d.coupon)
	d.Apply(d.coupon, 5, 6)
	d.Refresh()
	d.loseMySQL(t, time.Time{})

	require.Equal(t, []coupon.UserID{1, 2, 3, 4}, d.Issued(d.coupon))
	d.verify(0)
	d.SettleNow(d.coupon)
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5}, d.Issued(d.coupon))
	require.Equal(t, []coupon.UserID{6}, d.Outcome(d.coupon, "NOT_SELECTED"))
	d.verify(0)

	// A mistake is undone on the same server, which has all its binary logs. Redis lives.
	d.folder, d.coupon = t.TempDir(), d.AddCoupon(4)
	d.Apply(d.coupon, 1)
	d.SettleNow(d.coupon)
	d.saveMySQL()
	d.Apply(d.coupon, 2, 3)
	d.SettleNow(d.coupon)
	mistake := d.nextSecond()
	d.Exec("DROP TABLE user_coupon")
	d.saveLogs()
	d.restoreMySQL(mistake)

	require.Equal(t, []coupon.UserID{1, 2, 3}, d.Issued(d.coupon))
	d.Apply(d.coupon, 4)
	d.SettleNow(d.coupon)
	d.verify(0)
}

func TestDrill_BothToOnePointInTime(t *testing.T) {
	t.Parallel()
	d := drill(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 9)...)
	d.coupon = d.AddCoupon(7)
	d.Apply(d.coupon, 1, 2)
	d.SettleNow(d.coupon)
	d.Apply(d.coupon, 3, 4)
	d.saveRedis()
	d.Apply(d.coupon, 5)
	d.SettleNow(d.coupon)
	d.Apply(d.coupon, 6)
	d.Journal(d.coupon)
	d.saveMySQL()
	d.Apply(d.coupon, 7, 8)
	d.Journal(d.coupon)
	mistake := d.nextSecond()
	d.Exec("DELETE FROM user_coupon WHERE coupon_id = ?", d.coupon)
	d.Apply(d.coupon, 9)
	d.Journal(d.coupon)
	d.loseMySQL(t, mistake)
	d.loseRedis()

	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5}, d.Issued(d.coupon))
	d.awaitLine("6", "7", "8") // users 3 and 4 are settled
	d.SettleNow(d.coupon)
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5, 6, 7}, d.Issued(d.coupon))
	require.Equal(t, []coupon.UserID{8}, d.Outcome(d.coupon, "NOT_SELECTED"))
	d.verify(0)
}

// MySQL returns from before a settlement; Redis lives. Of the late coupon, two users applied after the point of the
// restore: the settlement gave a coupon to one, who is marked, and none to the other, whom nobody knows any more.
func TestDrill_MySQLBeforeSettlement(t *testing.T) {
	t.Parallel()
	d := drill(t)
	d.AddUsers(jajeongtest.Between[coupon.UserID](1, 6)...)
	early, late := d.AddCoupon(4), d.AddCoupon(5)
	d.Apply(early, 1, 2)
	d.Apply(late, 1, 2)
	d.SettleNow()
	d.saveMySQL()
	d.Apply(early, 3, 4, 5)
	d.Apply(late, 3, 4)
	d.Journal(early, late)
	before := d.nextSecond()
	d.Apply(late, 5, 6)
	d.SettleNow()
	told := d.Issued(early)
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5}, d.Issued(late))
	d.loseMySQL(t, before)
	require.Equal(t, []coupon.UserID{1, 2}, d.Issued(early))
	require.Contains(t, d.verify(3), "MARKED_WITHOUT_COUPON")

	d.coupon = early
	d.run(d.folder, commands(t, "issue again"))
	require.Equal(t, told, d.Issued(early))
	require.Equal(t, []coupon.UserID{5}, d.Outcome(early, "NOT_SELECTED"))

	d.coupon = late
	output := d.run(d.folder, "settle restore --coupon 42 --operator kim --reason INC-9")
	require.Contains(t, output, "Still missing: 1 application")
	require.Equal(t, []string{"3", "4", "5"}, d.Waiting(late))
	d.run(d.folder, commands(t, "accept what is missing"))
	require.Equal(t, []coupon.UserID{1, 2, 3, 4, 5}, d.Issued(late))
	d.verify(0)
}
