package jajeong_test

import (
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/receipt"
	"github.com/jajeong/jajeong/internal/testenv"
)

// TestComposeDemo runs the script of the service demo in compose.yaml, and every command that the script prints.
func TestComposeDemo(t *testing.T) {
	t.Parallel()
	// A server of its own, because accounts belong to the server.
	d := deployWith(t, jajeongtest.Options{MySQL: jajeongtest.DatabaseOn(t,
		testenv.PrivateMySQL(t, testenv.MySQLOptions{}))})
	d.serve(1000)
	dsn, err := mysql.ParseDSN(d.Admin.MySQLDSN)
	require.NoError(t, err)
	shell := func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "bash", args...)
		command.Env = append(d.env, "MYSQL_PWD="+dsn.Passwd)
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s", output)
		return string(output)
	}
	host, port, err := net.SplitHostPort(dsn.Addr)
	require.NoError(t, err)
	apiHost, apiPort, err := net.SplitHostPort(d.pod.Apply)
	require.NoError(t, err)
	keys := t.TempDir()
	onMySQL := func(script ...string) string {
		t.Helper()
		return shell(append(script, "--host="+host, "--port="+port, "--user="+dsn.User, dsn.DBName)...)
	}
	accounts := func() { t.Helper(); onMySQL("compose/accounts.sh", "sql/grants.sql", keys) }
	demo := func() string { t.Helper(); return onMySQL("compose/demo.sh", apiHost, apiPort, keys+"/checkout") }

	accounts()
	key := read(t, keys+"/checkout")
	require.Regexp(t, `^[0-9a-f]{64}\n$`, key)
	_, err = receipt.LoadToCheck(keys + "/receipt-keys")
	require.NoError(t, err)
	account := dsn.Clone()
	account.User, account.Passwd = "jajeong_wallet", "jajeong"
	wallet := d.Start(append(d.env, "MYSQL_DSN="+account.FormatDSN(), "SERVICE_KEYS_FILE="+keys+"/service-keys"),
		"./cmd/wallet-api")

	stream := d.Prefix + "coupon:events"
	d.Start(append(d.env, "EVENT_SINK=redis"), "./cmd/settle", "serve", "--tasks=events")

	output := demo()
	testenv.Eventually(t, "the API knows the coupon", func() bool { return d.me(1, 1).Code == "NOT_APPLIED" })
	commands := regexp.MustCompile(`(?m)^    ((?:curl|for|docker) .*)$`).FindAllStringSubmatch(output, -1)
	require.Len(t, commands, 12, output)
	redisHost, redisPort, err := net.SplitHostPort(d.Admin.RedisAddrs[0])
	require.NoError(t, err)
	here := strings.NewReplacer("localhost:8080", d.pod.Apply, "localhost:8082", wallet.Wallet,
		"docker compose run --rm settle", "settle",
		"docker compose exec redis redis-cli", "redis-cli -h "+redisHost+" -p "+redisPort, "coupon:events", stream)
	for _, command := range commands {
		if !strings.Contains(command[1], "XRANGE") {
			require.NotContains(t, shell("-c", here.Replace(command[1])), "urn:jajeong:problem", command[1])
			continue
		}
		testenv.Eventually(t, "three coupons are issued and one order is refunded", func() bool {
			events := shell("-c", here.Replace(command[1]))
			return strings.Count(events, "kr.jajeong.coupon.issued.v1") == 3 &&
				strings.Contains(events, "kr.jajeong.coupon.refunded.v1")
		})
	}
	require.Equal(t, 3, d.count("SELECT COUNT(*) FROM user_coupon WHERE user_id IN (1, 2, 3)"))
	require.Equal(t, "UNDER_REVIEW", d.me(1, 10).Status)
	require.Equal(t, 1, d.count("SELECT COUNT(*) FROM coupon_order WHERE state = 'REFUNDED' AND discount_won = 5000"))

	accounts()
	require.Equal(t, key, read(t, keys+"/checkout"), "a second `up` keeps the key")

	require.Contains(t, demo(), "Coupon 2 has 3 seats", "a new coupon replaces the one without free seats")
	require.Contains(t, demo(), "Coupon 2 has 3 seats", "an open coupon is used again")
	require.Equal(t, 2, d.count("SELECT COUNT(*) FROM coupon"))
	require.Equal(t, 10, d.count("SELECT COUNT(*) FROM `user`"))
}
