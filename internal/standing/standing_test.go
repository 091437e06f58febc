package standing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/promise"
	"github.com/jajeong/jajeong/internal/standing"
	"github.com/jajeong/jajeong/internal/testenv"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

const (
	early, late = coupon.Arrival(10), coupon.Arrival(20)

	issued      = coupon.OutcomeIssued
	notSelected = coupon.OutcomeNotSelected
	rejected    = coupon.OutcomeRejected
	already     = coupon.OutcomeAlreadyIssued
)

func had(outcome coupon.Outcome, at coupon.Arrival) standing.Outcome {
	return standing.Outcome{Outcome: outcome, Arrival: at}
}

// decided has an outcome of a run with this cutoff.
func decided(outcome coupon.Outcome, at, cutoff coupon.Arrival) standing.Outcome {
	return standing.Outcome{Outcome: outcome, Arrival: at, Cutoff: cutoff}
}

func record(outcomes ...standing.Outcome) []standing.Outcome { return outcomes }

// The rows are those of the package's table of precedence.
func TestConclude(t *testing.T) {
	t.Parallel()
	both := []coupon.Application{{Arrival: late, Source: coupon.SourceQueue},
		{Arrival: early, Source: coupon.SourceHeld}}
	type found = candidates.Found
	inQueue, inDLQ := found{Entries: both[:1], Position: 3}, found{Entries: both[1:]}
	inBoth := found{Entries: both, Position: 3}
	issuedInQueue := found{MarkedIssued: true, Entries: both[:1], Position: 3}
	rejectedInDLQ := found{MarkedRejected: true, Entries: both[1:]}
	marks := found{MarkedIssued: true, MarkedRejected: true}
	journal := []coupon.Arrival{early, late}
	const (
		asked, notAsked = true, false
		isNone          = coupon.StandingNone
		isIssued        = coupon.StandingIssued
		isPending       = coupon.StandingPending
		isUnderReview   = coupon.StandingUnderReview
		isLost          = coupon.StandingLost
		isNotSelected   = coupon.StandingNotSelected
		isRejected      = coupon.StandingRejected
	)
	for name, c := range map[string]struct {
		facts standing.Facts
		want  coupon.Standing
		at    coupon.Arrival
	}{
		"nothing":                 {standing.Facts{}, isNone, 0},
		"nothing in MySQL either": {standing.Facts{Asked: true}, isNone, 0},
		"given by hand":           {standing.Facts{inDLQ, asked, record(had(issued, 0)), nil}, isIssued, 0},
		"issued, applied again": {standing.Facts{inQueue, asked,
			record(had(notSelected, late), had(issued, early)), nil}, isIssued, early},
		"issued before": {standing.Facts{found{}, asked, record(had(issued, early), had(already, late)),
			nil}, isIssued, early},
		"marked as issued":          {standing.Facts{issuedInQueue, notAsked, nil, nil}, isIssued, 0},
		"unconfirmed mark, waiting": {standing.Facts{issuedInQueue, asked, nil, nil}, isPending, late},
		"unconfirmed marks":         {standing.Facts{marks, asked, nil, nil}, isNone, 0},
		"lost, unconfirmed marks":   {standing.Facts{marks, asked, nil, journal}, isLost, early},
		"in queue and DLQ":          {standing.Facts{inBoth, notAsked, nil, nil}, isPending, late},
		"in both, MySQL asked":      {standing.Facts{inBoth, asked, nil, nil}, isPending, late},
		"in both, one decided": {standing.Facts{inBoth, asked, record(had(already, late)), nil}, isUnderReview,
			early},
		"in the DLQ": {standing.Facts{inDLQ, notAsked, nil, nil}, isUnderReview, early},
		"in the DLQ, rejected before": {standing.Facts{inDLQ, asked, record(had(rejected, 5)), nil}, isUnderReview,
			early},
		"in the DLQ, marked":          {standing.Facts{rejectedInDLQ, notAsked, nil, nil}, isUnderReview, early},
		"waiting, journalled":         {standing.Facts{inQueue, asked, nil, journal}, isPending, late},
		"clean-up pending, not asked": {standing.Facts{inQueue, notAsked, nil, nil}, isPending, late},
		"clean-up pending": {standing.Facts{inQueue, asked, record(had(notSelected, late)), nil},
			isNotSelected, late},
		"marked as rejected":  {standing.Facts{found{MarkedRejected: true}, notAsked, nil, nil}, isRejected, 0},
		"only ALREADY_ISSUED": {standing.Facts{found{}, asked, record(had(already, late)), nil}, isNone, 0},
		"later ALREADY_ISSUED": {standing.Facts{found{}, asked,
			record(had(notSelected, early), had(already, late)), nil}, isNotSelected, early},
		"the latest of several": {standing.Facts{found{}, asked,
			record(had(rejected, late), had(notSelected, early)), nil}, isRejected, late},
		"lost": {standing.Facts{found{}, asked, nil, journal}, isLost, early},
		"not selected, then lost": {standing.Facts{found{}, asked, record(had(notSelected, early)), journal},
			isLost, late},
		"journalled, decided later": {standing.Facts{found{}, asked, record(had(already, late)), journal}, isNone, 0},
		"journalled, below the cutoff": {standing.Facts{found{}, asked, record(decided(notSelected, early, late+1)),
			journal}, isNotSelected, early},
		"lost, at the cutoff": {standing.Facts{found{}, asked, record(decided(notSelected, early, late)), journal},
			isLost, late},
		"journalled, rejected before": {standing.Facts{found{}, asked, record(had(rejected, early)), journal},
			isRejected, early},
	} {
		got := c.facts.Conclude()
		require.Equal(t, standing.Conclusion{Is: c.want, Arrival: c.at, Position: got.Position}, got, name)
		require.Equal(t, c.want == isPending, got.Position == 3, name)
	}
}

// The account of apply-api reads all that MySQL has of several users in one statement.
func TestRecords_HaveEveryOutcome(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	id := d.AddQueue(1, 1, 2, 3)
	d.MoveToReview(id, "3", coupon.Failure{Cause: coupon.CauseBadRow, Note: "test"})
	at := map[string]coupon.Arrival{"1": d.Arrivals(id)["1"], "2": d.Arrivals(id)["2"], "3": d.UnderReview(id)["3"]}
	d.Drop(id, "3")
	d.SettleNow()
	d.InsertGranted(d.AddCoupon(1), 4)
	other := d.AddCoupon(1)
	d.InsertGranted(other, 5)
	api, err := d.API.MySQLSettings.Open(connect.Patient, zap.NewNop())
	testenv.Opened(t, api, err)
	got, books, err := standing.Records{DB: api}.Read(t.Context(), id, 1, 2, 3, 4)
	require.NoError(t, err)
	want, err := promise.Read(t.Context(), d.DB, id)
	require.NoError(t, err)
	require.EqualValues(t, 3, books.Settled())
	require.Equal(t, want, books)
	require.Equal(t, map[coupon.UserID][]standing.Outcome{
		1: record(had(issued, at["1"])), 2: record(had(notSelected, at["2"])), 3: record(had(rejected, at["3"])),
	}, got)
	got, _, err = standing.Records{DB: api}.Read(t.Context(), other, 5)
	require.NoError(t, err)
	require.Equal(t, record(had(issued, 0)), got[5], "given by hand")
	got, books, err = standing.Records{DB: api}.Read(t.Context(), id, 9)
	require.NoError(t, err)
	require.Empty(t, got)
	require.Equal(t, want, books, "also if nobody has an outcome")
}
