package cli

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/settle"
)

// couponsOfEachResult adds a coupon for each result of a run, also a finalised one and one that the run finalises.
func (w *world) couponsOfEachResult() (results map[coupon.CouponID]coupon.ResultStatus) {
	w.T.Helper()
	now := w.Now()
	settled, unchanged, finalised, held := w.AddQueue(1, 1, 2, 3, 99), w.AddCoupon(1), w.AddCoupon(1), w.AddQueue(5, 4)
	failed, busy, frozen := w.AddQueue(5, 5), w.AddQueue(5, 6), w.AddQueue(5, 7)
	closed := w.AddCouponBetween(1, now.Add(-2*time.Hour), now.Add(-time.Hour))
	ahead := w.AddCouponBetween(1, now.Add(time.Hour), now.Add(2*time.Hour))
	w.ApplyAt(closed, "1", now.Add(-90*time.Minute))
	w.Exec("UPDATE coupon SET finalised_at = NOW(6) WHERE id = ?", finalised)
	w.Exec("UPDATE coupon SET frozen = TRUE WHERE id = ?", frozen)
	w.AddPromises(held, 2) // lost
	state := w.Key("state", failed)
	require.NoError(w.T, w.Redis.Del(w.T.Context(), state).Err())
	require.NoError(w.T, w.Redis.Set(w.T.Context(), state, "taken by something else", 0).Err())
	w.Exec(fmt.Sprintf(`CREATE TRIGGER waits BEFORE INSERT ON user_coupon FOR EACH ROW
		IF NEW.coupon_id = %d THEN
			SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'Lock wait timeout exceeded';
		END IF`, busy))
	return map[coupon.CouponID]coupon.ResultStatus{settled: coupon.Settled, closed: coupon.Settled,
		unchanged: coupon.Unchanged, finalised: coupon.Unchanged,
		held: coupon.HeldBack, failed: coupon.Failed, busy: coupon.Busy, frozen: coupon.Frozen, ahead: coupon.NotDue}
}

// All places tell the same number of coupons of a run: those that it was to settle. They tell the same number of those
// that it could not settle.
func TestRuns_TellOneNumberOfCoupons(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	results := w.couponsOfEachResult()
	const coupons, unsettled = 9, 3
	command := []string{"run", "--cutoff=now", "--operator=kim", "--reason=test"}
	for id := range results {
		command = append(command, fmt.Sprint("--coupon=", id))
	}

	_, stdout, stderr := w.settle(append(slices.Clone(command), "--output=json")...)
	var report settle.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &report), "%s%s", stdout, stderr)
	require.Len(t, report.Coupons, coupons)
	for _, c := range report.Coupons {
		require.Equal(t, results[c.Coupon], c.Status, "coupon %d: %s", c.Coupon, c.Error)
	}
	require.EqualValues(t, 1,
		w.Number("SELECT COUNT(*) FROM coupon WHERE finalised_at IS NOT NULL AND issued_count = 1"))
	require.Equal(t, [2]int{coupons, unsettled}, [2]int{report.Total.Coupons, report.Total.Unsettled})

	type counted struct{ Coupons, Unsettled int }
	want := counted{coupons, unsettled}
	asJSON := func(into any, args ...string) {
		t.Helper()
		stdout := succeeds(t)(w.settle(append(args, "--output=json")...))
		require.NoError(t, json.Unmarshal([]byte(stdout), into), stdout)
	}
	var list struct{ Runs []counted }
	asJSON(&list, "runs")
	require.Equal(t, []counted{want}, list.Runs)
	var shown struct {
		counted
		Details []struct{ Status coupon.ResultStatus }
	}
	asJSON(&shown, "show", fmt.Sprint(report.Run))
	require.Equal(t, want, shown.counted)
	require.Len(t, shown.Details, 6, "without two that were unchanged, and one that was not due")

	_, table, _ := w.settle("runs", "--output=csv", "--lang=en")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(table, "\ufeff"))).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [2]string{"9", "3"}, [2]string{rows[1][slices.Index(rows[0], "coupons")],
		rows[1][slices.Index(rows[0], "unsettled")]})

	// The second run settles only two coupons: a busy one takes seconds.
	_, table, _ = w.settle(append(slices.Clone(command[:4]), "--lang=en",
		fmt.Sprint("--coupon=", report.Coupons[0].Coupon), fmt.Sprint("--coupon=", report.Coupons[1].Coupon))...)
	require.Contains(t, table, "2 coupons")
	for lang, says := range map[string][3]string{
		"en": {"9 coupons", "those with a record are listed: 6", ": busy: another settlement"},
		"ko": {"쿠폰 9개", "기록이 있는 쿠폰은 6개", ": 다른 정산 또는 세션이 이 쿠폰의 행이나"},
	} {
		_, table, _ = w.settle("show", fmt.Sprint(report.Run), "--lang="+lang)
		require.Equal(t, 2, strings.Count(table, says[0]), table)
		require.Contains(t, table, says[1])
		require.Contains(t, table, says[2])
		_, table, _ = w.settle("runs", "--lang="+lang)
		require.Equal(t, []string{"2", "9"}, columnOf(t, table, map[string]string{"en": "coupons", "ko": "쿠폰 수"}[lang]))
		require.Equal(t, []string{"0", "3"}, columnOf(t, table,
			map[string]string{"en": "not settled", "ko": "미정산"}[lang]))
	}

	logs, stop, ended := w.start([]string{"console", "--listen=127.0.0.1:0", "--console-dev-user=kim"},
		w.Flags(w.Operator)...)
	var listening struct{ Console string }
	for lines := bufio.NewScanner(logs); listening.Console == "" && lines.Scan(); {
		_ = json.Unmarshal(lines.Bytes(), &listening)
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	_, page := get(t, listening.Console, fmt.Sprint("/runs/", report.Run))
	require.Equal(t, 2, strings.Count(page, "쿠폰 9개"), page)
	_, page = get(t, listening.Console, "/runs")
	require.Regexp(t, regexp.MustCompile(`(?s)<th[^>]*>쿠폰 수</th>.*<td class="n">9</td>.*<td class="n">3</td>`), page)
	stop()
	<-ended
}

// columnOf are the cells of a column of a printed table.
func columnOf(t *testing.T, table, heading string) (cells []string) {
	t.Helper()
	at := -1
	for _, line := range strings.Split(table, "\n") {
		row := strings.Split(line, "│")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		switch {
		case at < 0:
			at = slices.Index(row, heading)
		case at < len(row):
			cells = append(cells, row[at])
		}
	}
	require.NotEmpty(t, cells, "%s is no column of\n%s", heading, table)
	return cells
}
