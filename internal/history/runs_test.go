package history_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/text"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

type fixture struct{ *jajeongtest.Deployment }

func newFixture(t *testing.T) fixture {
	t.Helper()
	return fixture{jajeongtest.New(t)}
}

// addRun adds a run; silent is the time since its last heartbeat, by the clock of the database.
func (d fixture) addRun(trigger, status string, cutoff time.Time, silent time.Duration) coupon.RunID {
	d.T.Helper()
	var finished any
	if status != "RUNNING" && status != "ABANDONED" {
		finished = cutoff.Add(90 * time.Second).UTC()
	}
	done, err := d.DB.Exec(`INSERT INTO settlement_run (trigger_kind, operator, reason, cutoff, started_at,
		heartbeat_at, nonce, finished_at, status, coupons)
		VALUES (?, 'kim', 'TICKET-1', ?, ?, UTC_TIMESTAMP(6) - INTERVAL ? SECOND, HEX(UUID_SHORT()), ?, ?, 5)`,
		trigger, cutoff.UTC(), cutoff.Add(time.Minute).UTC(), int(silent.Seconds()), finished, status)
	require.NoError(d.T, err)
	id, err := done.LastInsertId()
	require.NoError(d.T, err)
	return coupon.RunID(id)
}

// addRecord adds the record of a run for a coupon.
func (d fixture) addRecord(run coupon.RunID, couponID coupon.CouponID, issued, reviewed int) {
	d.T.Helper()
	d.Exec("INSERT INTO settlement (run_id, coupon_id, issued_count, under_review_count, not_selected_count, "+
		"already_issued_count, settled_at) VALUES (?, ?, ?, ?, 3, 1, NOW(6))",
		run, couponID, issued, reviewed)
}

// addResult adds the result of a run for a coupon.
func (d fixture) addResult(run coupon.RunID, couponID coupon.CouponID, status, failure string) {
	d.T.Helper()
	d.Exec("INSERT INTO run_coupon (run_id, coupon_id, status, gap, duration_ms, error) VALUES (?, ?, ?, -2, 1500, ?)",
		run, couponID, status, failure)
}

func runIDs(runs []history.Run) []coupon.RunID {
	found := []coupon.RunID{}
	for _, r := range runs {
		found = append(found, r.ID)
	}
	return found
}

func TestRunsByFilter(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	zone := time.FixedZone("KST", 9*60*60)
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, zone)
	first := d.addRun("CRON", "SUCCEEDED", midnight.AddDate(0, 0, -1), 0)
	second := d.addRun("CRON", "HELD", midnight, 0)
	third := d.addRun("MANUAL", "RUNNING", midnight.Add(time.Microsecond), time.Hour)
	// Never silent while the subtests wait for their turn.
	fourth := d.addRun("DLQ_RETRY", "RUNNING", midnight.AddDate(0, 0, 1), -time.Hour)
	fifth := d.addRun("MANUAL", "ABANDONED", midnight.AddDate(0, 0, 1), time.Hour)
	d.addRecord(first, 7, 10, 2)
	d.addRecord(first, 8, 5, 0)
	d.addResult(first, 8, "SETTLED", "")
	d.addResult(second, 7, "HELD", "promises are missing")

	reader := history.Reader{DB: d.DB}
	for name, test := range map[string]struct {
		filter history.RunFilter
		want   []coupon.RunID
	}{
		"all, the newest first": {history.RunFilter{}, []coupon.RunID{fifth, fourth, third, second, first}},
		"a page":                {history.RunFilter{Limit: 2}, []coupon.RunID{fifth, fourth}},
		"the next page":         {history.RunFilter{Limit: 2, Before: fourth}, []coupon.RunID{third, second}},
		"of a business date": {history.RunFilter{From: midnight.AddDate(0, 0, -1), To: midnight},
			[]coupon.RunID{second}},
		"of the day before": {history.RunFilter{From: midnight.AddDate(0, 0, -2),
			To: midnight.AddDate(0, 0, -1)}, []coupon.RunID{first}},
		"of the day after": {history.RunFilter{From: midnight, To: midnight.AddDate(0, 0, 1)},
			[]coupon.RunID{fifth, fourth, third}},
		"of a coupon, with failures":   {history.RunFilter{Coupon: 7}, []coupon.RunID{second, first}},
		"of another coupon":            {history.RunFilter{Coupon: 8}, []coupon.RunID{first}},
		"of no coupon":                 {history.RunFilter{Coupon: 9}, []coupon.RunID{}},
		"by trigger":                   {history.RunFilter{Trigger: "CRON"}, []coupon.RunID{second, first}},
		"running":                      {history.RunFilter{Status: "RUNNING"}, []coupon.RunID{fourth}},
		"abandoned, marked or not yet": {history.RunFilter{Status: "ABANDONED"}, []coupon.RunID{fifth, third}},
		"all filters": {history.RunFilter{Status: "HELD", Trigger: "CRON", Coupon: 7, Before: third,
			From: midnight.AddDate(0, 0, -1), To: midnight}, []coupon.RunID{second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.filter.Limit == 0 {
				test.filter.Limit = 100
			}
			runs, err := reader.Runs(t.Context(), test.filter)
			require.NoError(t, err)
			require.Equal(t, test.want, runIDs(runs))
		})
	}
	t.Run("sums", func(t *testing.T) {
		t.Parallel()
		run, err := reader.Run(t.Context(), first)
		require.NoError(t, err)
		require.Equal(t, [6]int64{5, 15, 2, 2, 6, 0},
			[6]int64{run.Coupons, run.Issued, run.UnderReview, run.AlreadyIssued, run.NotSelected, run.Unsettled})
		require.EqualValues(t, 30_000, *run.Millis)
		require.Equal(t, midnight.AddDate(0, 0, -1).UTC(), run.Cutoff)
		run, err = reader.Run(t.Context(), second)
		require.NoError(t, err)
		require.Equal(t, [2]int64{5, 1}, [2]int64{run.Coupons, run.Unsettled})
		run, err = reader.Run(t.Context(), third)
		require.NoError(t, err)
		require.Equal(t, coupon.RunAbandoned, run.Status)
		require.Nil(t, run.FinishedAt)
		require.Nil(t, run.Millis)
		_, err = reader.Run(t.Context(), fifth+1)
		require.True(t, text.Is(err, text.NoRun), err)
	})
	t.Run("coupons", func(t *testing.T) {
		t.Parallel()
		coupons, err := reader.RunCoupons(t.Context(), first)
		require.NoError(t, err)
		require.Len(t, coupons, 2)
		require.Equal(t, coupon.Settled, coupons[0].Status, "a run that was killed has no results")
		require.Nil(t, coupons[0].Millis)
		require.EqualValues(t, 1500, *coupons[1].Millis)
		require.True(t, coupons[1].Recorded)
		coupons, err = reader.RunCoupons(t.Context(), second)
		require.NoError(t, err)
		millis := int64(1500)
		require.Equal(t, []history.RunCoupon{{Coupon: 7, Status: "HELD", Gap: -2, Millis: &millis,
			Error: "promises are missing"}}, coupons)
		coupons, err = reader.RunCoupons(t.Context(), third)
		require.NoError(t, err)
		require.NotNil(t, coupons, "[] in JSON, not null")
		require.Empty(t, coupons)
	})
	t.Run("last settled", func(t *testing.T) {
		t.Parallel()
		s, err := history.LastSettled(t.Context(), d.DB, 7, second, midnight)
		require.NoError(t, err)
		require.Equal(t, first, s.Run)
		s, err = history.LastSettled(t.Context(), d.DB, 7, first, midnight)
		require.NoError(t, err)
		require.Nil(t, s)
	})
}

// addImmediate adds an immediate run of a coupon.
func (d fixture) addImmediate(couponID coupon.CouponID, cutoff time.Time) {
	d.T.Helper()
	run := d.addRun("IMMEDIATE", "SUCCEEDED", cutoff, 0)
	d.addRecord(run, couponID, 1, 0)
	d.addResult(run, couponID, "SETTLED", "")
}

func TestRuns_OfImmediateCoupons(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d.addRecord(d.addRun("CRON", "SUCCEEDED", noon.Add(-24*time.Hour), 0), 7, 1, 0) // 1
	d.addImmediate(7, noon)                                                         // 2
	d.addImmediate(8, noon.Add(time.Second))                                        // 3
	d.addResult(d.addRun("MANUAL", "HELD", noon, 0), 7, "HELD", "missing")          // 4
	d.addImmediate(7, noon.Add(time.Hour))                                          // 5
	d.addImmediate(7, noon.Add(-time.Hour))                                         // 6, begun late
	reader := history.Reader{DB: d.DB}
	for name, test := range map[string]struct {
		filter history.RunFilter
		want   []coupon.RunID
	}{
		"left out":           {history.RunFilter{}, []coupon.RunID{4, 1}},
		"left out of a day":  {history.RunFilter{From: noon.Add(-time.Hour), To: noon.Add(time.Hour)}, []coupon.RunID{4}},
		"of a coupon":        {history.RunFilter{Coupon: 7}, []coupon.RunID{6, 5, 4, 2, 1}},
		"a page of a coupon": {history.RunFilter{Coupon: 7, Limit: 2, Before: 6}, []coupon.RunID{5, 4}},
		"of a coupon's hour": {history.RunFilter{Coupon: 7, From: noon, To: noon.Add(time.Hour)}, []coupon.RunID{5}},
		"of another coupon":  {history.RunFilter{Coupon: 8}, []coupon.RunID{3}},
		"each":               {history.RunFilter{Trigger: "IMMEDIATE"}, []coupon.RunID{6, 5, 3, 2}},
		"each of a page":     {history.RunFilter{Trigger: "IMMEDIATE", Before: 6, Limit: 2}, []coupon.RunID{5, 3}},
		"each of a coupon":   {history.RunFilter{Trigger: "IMMEDIATE", Coupon: 7}, []coupon.RunID{6, 5, 2}},
		"a page of each of a coupon": {history.RunFilter{Trigger: "IMMEDIATE", Coupon: 7, Limit: 3},
			[]coupon.RunID{6, 5, 2}},
		"nights of a coupon": {history.RunFilter{Trigger: "CRON", Coupon: 7}, []coupon.RunID{1}},
		"of another status":  {history.RunFilter{Status: "HELD", Coupon: 7}, []coupon.RunID{4}},
		"each of an hour": {history.RunFilter{Trigger: "IMMEDIATE", From: noon, To: noon.Add(time.Hour)},
			[]coupon.RunID{5, 3}},
		"each of a status": {history.RunFilter{Trigger: "IMMEDIATE", Status: "SUCCEEDED", Limit: 1}, []coupon.RunID{6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.filter.Limit == 0 {
				test.filter.Limit = 100
			}
			runs, err := reader.Runs(t.Context(), test.filter)
			require.NoError(t, err)
			require.Equal(t, test.want, runIDs(runs))
		})
	}
}

// A page reads its runs, however many there are.
func TestRuns_CostAPage(t *testing.T) {
	t.Parallel()
	reads := map[string]history.RunFilter{
		"a page of runs":                 {},
		"the nights":                     {Trigger: "CRON"},
		"immediate runs":                 {Trigger: "IMMEDIATE"},
		"runs of a coupon":               {Coupon: 7},
		"immediate runs of one coupon":   {Coupon: 7, Trigger: "IMMEDIATE"},
		"runs of a coupon with a status": {Coupon: 7, Status: "SUCCEEDED"},
		"runs of a day":                  {From: time.Unix(0, 0), To: time.Unix(15, 0)},
		"immediate runs of a day":        {From: time.Unix(0, 0), To: time.Unix(15, 0), Trigger: "IMMEDIATE"},
		"runs of a coupon and day":       {From: time.Unix(0, 0), To: time.Unix(15, 0), Coupon: 7},
	}
	costs := func(nights int) map[string]jajeongtest.Cost {
		d := newFixture(t)
		for _, trigger := range []string{"CRON", "MANUAL", "DLQ_RETRY"} {
			d.addRecord(d.addRun(trigger, "SUCCEEDED", time.Unix(0, 0), 0), 7, 1, 0)
			id := d.AddFinished(1, coupon.UserID(len(trigger)))
			d.AddHistory(jajeongtest.History{Of: id, Nights: nights, PerNight: 1})
			d.Exec("UPDATE settlement_run SET trigger_kind = ? WHERE trigger_kind = 'MANUAL' AND id > ?", trigger,
				d.Number("SELECT MIN(run_id) FROM settlement WHERE coupon_id = ?", id)-1)
		}
		for i := range 30 {
			d.addImmediate(7, time.Unix(int64(i), 0))
		}
		for i := 1; i < nights; i *= 2 { // as many as there are
			d.Exec(`INSERT INTO settlement_run (trigger_kind, cutoff, started_at, heartbeat_at, nonce, status)
				SELECT trigger_kind, cutoff + INTERVAL 1 DAY, started_at, heartbeat_at, HEX(UUID_SHORT()), status
				FROM settlement_run WHERE trigger_kind = 'IMMEDIATE'`)
		}
		d.Exec(`INSERT INTO settlement (run_id, coupon_id, settled_at) SELECT id, 7, NOW(6) FROM settlement_run r
			WHERE trigger_kind = 'IMMEDIATE' AND NOT EXISTS (SELECT 1 FROM settlement s WHERE s.run_id = r.id)`)
		for _, table := range []string{"settlement_run", "settlement", "run_coupon"} {
			d.Analyze(table)
		}
		found := map[string]jajeongtest.Cost{}
		for name, filter := range reads {
			filter.Limit = 20
			found[name] = d.CostOf(func(db *sql.DB) {
				_, err := history.Reader{DB: db}.Runs(t.Context(), filter)
				require.NoError(t, err)
			})
		}
		return found
	}
	tenth, whole := costs(30), costs(300)
	for name := range reads {
		jajeongtest.RequireAsCheap(t, name, tenth[name], whole[name])
	}
}

// The run of the date is preferred. A run that only dropped applications does not count.
func TestLastSettledPrefersTheDate(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	const couponID = 9
	var nights []coupon.RunID
	for n := range 3 {
		nights = append(nights, d.addRun("CRON", "SUCCEEDED", midnight.AddDate(0, 0, n), 0))
		d.addRecord(nights[n], couponID, 1, 0)
	}
	drop := d.addRun("MANUAL", "SUCCEEDED", midnight.AddDate(0, 0, 1), 0)
	d.addRecord(drop, couponID, 0, 1)
	d.Exec("INSERT INTO audit_event (account, actor, action, coupon_id, run_id) VALUES ('', 'kim', 'DLQ_DROPPED', ?, "+
		"?)", couponID, drop)
	for cutoff, want := range map[int]coupon.RunID{-1: nights[2], 0: nights[0], 1: nights[1], 2: nights[2],
		9: nights[2]} {
		s, err := history.LastSettled(t.Context(), d.DB, couponID, drop+1, midnight.AddDate(0, 0, cutoff))
		require.NoError(t, err)
		require.Equal(t, want, s.Run, cutoff)
	}
}

var cutoff = time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC)

// begin records a run that starts at that instant.
func (d fixture) begin(start history.Start) coupon.RunID {
	d.T.Helper()
	if start.Nonce == (history.Nonce{}) {
		start.Nonce = history.NewNonce()
	}
	id, err := history.Begin(d.T.Context(), d.DB, start, 1)
	require.NoError(d.T, err)
	return id
}

func (d fixture) nonce(run coupon.RunID) history.Nonce {
	d.T.Helper()
	return history.Nonce(jajeongtest.Column[[]byte](d.Deployment, "SELECT nonce FROM settlement_run WHERE id = ?",
		run)[0])
}

// MySQL was put back, and has given the id of a run to another one.
func TestEnd_LeavesTheRunThatHasItsIDNow(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	lost := d.begin(history.Start{Trigger: coupon.Manual, Cutoff: cutoff, StartedAt: cutoff})
	nonce := d.nonce(lost)
	d.Exec("UPDATE settlement_run SET nonce = ? WHERE id = ?", make([]byte, len(nonce)), lost)
	require.ErrorIs(t, history.Beat(t.Context(), d.DB, nonce), history.ErrLost)
	require.ErrorIs(t, history.End(t.Context(), d.DB, nonce, coupon.RunFailed, cutoff), history.ErrLost)
	require.Equal(t, []string{"RUNNING"}, jajeongtest.Column[string](d.Deployment, "SELECT status FROM settlement_run"))
}

func TestBegin_FindsTheRowOfALostReply(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	start := history.Start{Trigger: coupon.Cron, Cutoff: cutoff, StartedAt: cutoff, Nonce: history.NewNonce()}
	first := d.begin(start)
	found, err := history.Begin(t.Context(), d.DB, start, 2)
	require.NoError(t, err)
	require.Equal(t, first, found)
	start.Nonce = history.NewNonce()
	other, err := history.Begin(t.Context(), d.DB, start, 2)
	require.NoError(t, err)
	require.NotEqual(t, first, other, "a run is found by its nonce alone")
}

func TestAbandon(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	begin := func() coupon.RunID { // the wrong clock of its pod does not matter
		return d.begin(history.Start{Trigger: coupon.Cron, Cutoff: cutoff, StartedAt: cutoff.Add(-24 * time.Hour)})
	}
	silence := func(run coupon.RunID, seconds int) {
		d.Exec("UPDATE settlement_run SET heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL ? SECOND WHERE id = ?", seconds,
			run)
	}
	status := func(run coupon.RunID) (status string) {
		require.NoError(t,
			d.DB.QueryRow(
				"SELECT CONCAT(status, IF(finished_at IS NULL, '', ' finished')) FROM settlement_run WHERE id = ?",
				run).Scan(&status))
		return status
	}
	mark := func() []coupon.RunID {
		abandoned, err := history.Abandon(t.Context(), d.DB)
		require.NoError(t, err)
		return abandoned
	}
	silent, beating, ended := begin(), begin(), begin()
	require.NoError(t, history.End(t.Context(), d.DB, d.nonce(ended), coupon.RunHeld, time.Now().UTC()))
	silence(silent, history.SilentSeconds+1)
	silence(beating, 0)
	silence(ended, 3600)
	require.Equal(t, []coupon.RunID{silent}, mark())
	require.Empty(t, mark())
	require.Equal(t, []string{"ABANDONED", "RUNNING", "HELD finished"},
		[]string{status(silent), status(beating), status(ended)})

	// The run was only cut off from the database.
	require.NoError(t, history.Beat(t.Context(), d.DB, d.nonce(silent)))
	require.Equal(t, "RUNNING", status(silent))
	require.Empty(t, mark())
	silence(silent, history.SilentSeconds+1)
	require.Equal(t, []coupon.RunID{silent}, mark())
	require.NoError(t, history.End(t.Context(), d.DB, d.nonce(silent), coupon.RunSucceeded, time.Now().UTC()))
	require.Equal(t, "SUCCEEDED finished", status(silent))
	require.Error(t, history.Beat(t.Context(), d.DB, d.nonce(silent)), "a run that has ended stays so")
	require.Equal(t, "SUCCEEDED finished", status(silent))
}

func TestKeep(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	run := d.begin(history.Start{Trigger: coupon.Cron, Cutoff: cutoff, StartedAt: cutoff})
	results := []history.Result{
		{Coupon: 1, Status: coupon.Settled, Millis: 12}, {Coupon: 4, Status: coupon.HeldBack, Gap: 7, Error: "held"},
		{Coupon: 5, Status: coupon.Failed, Error: strings.Repeat("쿠", 2001)},
	}
	const busy = 401 // more than two statements
	for n := range coupon.CouponID(busy) {
		results = append(results, history.Result{Coupon: 10 + n, Status: coupon.Busy, Millis: -1, Error: "\xff"})
	}
	for range 2 { // as after a lost reply
		require.NoError(t, history.Keep(t.Context(), d.DB, run, results))
	}
	kept := func(query string) (n int) {
		require.NoError(t, d.DB.QueryRow("SELECT COUNT(*) FROM run_coupon WHERE "+query).Scan(&n))
		return n
	}
	require.Equal(t, 3+busy, kept("TRUE"))
	require.Equal(t, 1, kept("coupon_id = 1 AND status = 'SETTLED' AND duration_ms = 12 AND error = ''"))
	require.Equal(t, 1, kept("coupon_id = 4 AND status = 'HELD' AND gap = 7 AND error = 'held'"))
	require.Equal(t, 1, kept("coupon_id = 5 AND CHAR_LENGTH(error) = 2000"))
	require.Equal(t, busy, kept("status = 'BUSY' AND duration_ms = 0"))
	require.NoError(t, history.Keep(t.Context(), d.DB, run, nil))
}

// A run of a future cutoff, which ended while the Redis clock was ahead, counts only from that cutoff on.
func TestLastNight(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	night := func(n int) time.Time { return time.Date(2026, 11, n, 15, 0, 0, 0, time.UTC) }
	last := func(newest int) time.Time {
		last, err := history.LastNight(t.Context(), d.DB, night(newest).In(time.FixedZone("Asia/Seoul", 9*60*60)))
		require.NoError(t, err)
		return last
	}
	require.True(t, last(20).IsZero())
	for _, n := range []int{19, 18, 23} {
		id := d.begin(history.Start{Trigger: coupon.Cron, Cutoff: night(n), StartedAt: night(n)})
		require.NoError(t, history.End(t.Context(), d.DB, d.nonce(id), coupon.RunSucceeded, night(19)))
	}
	for newest, want := range map[int]int{18: 18, 20: 19, 22: 19, 23: 23} {
		require.Equal(t, night(want), last(newest), "of %d", newest)
	}
}
