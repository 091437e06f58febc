package cli

import (
	"testing"
	"time"
)

func TestGoldenPurge(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "purge", func(w *world) {
		for _, name := range []string{"첫째", "둘째", "셋째"} {
			w.Exec(`INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at, finalised_at)
VALUES (?, 2, '2019-11-01', '2019-11-08', '2019-11-09')`, name)
		}
		w.Exec("UPDATE coupon SET finalised_at = NULL WHERE id = 2")
		w.Exec("INSERT INTO coupon (name, total_quantity, apply_opens_at, apply_closes_at) VALUES ('new', 2, " +
			"'2026-11-01', '2030-11-01')")
		w.servers[0] = "--mysql-dsn=" + w.Accounts["jajeong_privacy"]
	}, func(s *spoken) {
		purges := func(args ...string) []string {
			return append(append([]string{"purge", "--before=2020-01-01"}, args...), "--operator=lee",
				"--reason=TICKET-7")
		}
		s.says("purge", "--before=2020-01-01", "--dry-run")
		s.says("purge", "--before=2020-01-01", "--dry-run", "--output=json")
		s.says("purge", "--before=2020-01-01")
		s.says("purge", "--before=yesterday", "--dry-run")
		s.says("purge", "--before="+time.Now().AddDate(0, 0, -29).Format(time.DateOnly), "--dry-run")
		s.says(purges()...)
		s.saysOnTerminal([]string{"n"}, purges()...)
		s.saysOnTerminal([]string{"y"}, purges()...)
		s.says(purges("--yes")...)
		s.says("coupon", "show", "3")
		s.says("coupon", "show", "3", "--output=json")
		s.servers[0] = "--mysql-dsn=" + s.Accounts["jajeong_settle"]
		s.says("verify", "--coupon=3")
		s.says("coupon", "add-seats", "1", "--seats=1", "--operator=lee", "--reason=TICKET-7")
		s.says("report", "--month=2019-11", "--output=csv")
	})
}
