package events_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/events"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// aged issues a coupon to users 1 and 2 and reserves it for the first, and lets that pass so long ago.
func (s *shop) aged(minutes int) coupon.CouponID {
	s.T.Helper()
	couponID := s.line(2, 1, 2)
	s.SettleNow(couponID)
	s.reserve(couponID, 1, fmt.Sprintf("A-%d", couponID))
	s.publish()
	for column, table := range map[string]string{"settled_at": "settlement", "issued_at": "user_coupon"} {
		s.Exec(fmt.Sprintf("UPDATE %s SET %s = %[2]s - INTERVAL ? MINUTE WHERE coupon_id = ?", table, column), minutes,
			couponID)
	}
	s.Exec("UPDATE settlement SET published_at = published_at - INTERVAL ? MINUTE WHERE coupon_id = ?", minutes,
		couponID)
	s.Exec(`UPDATE coupon_log l JOIN user_coupon u ON u.id = l.user_coupon_id
		SET l.at = l.at - INTERVAL ? MINUTE, l.published_at = l.published_at - INTERVAL ? MINUTE WHERE u.coupon_id = ?`,
		minutes, minutes, couponID)
	return couponID
}

func (s *shop) gap() *events.Gap {
	s.T.Helper()
	all, err := events.ReadStatus(s.T.Context(), s.DB)
	require.NoError(s.T, err)
	require.Len(s.T, all, 1)
	shortfall, err := events.ReadShortfall(s.T.Context(), s.DB, "redis")
	require.NoError(s.T, err)
	require.Equal(s.T, all[0].MayLack != nil, shortfall.MayLack)
	return all[0].MayLack
}

// rounds runs rounds of new relays until nothing is left, as if each process were killed after its round. It returns
// the gaps that they told.
func (s *shop) rounds() (told []*events.Gap) {
	s.T.Helper()
	for round := (events.Round{More: true}); round.More; {
		var err error
		round, err = s.newRelay().Round(s.T.Context())
		require.NoError(s.T, err)
		if round.MayLack != nil {
			told = append(told, round.MayLack)
		}
	}
	return told
}

// The named replay publishes what the relay does not publish again by itself.
func TestRound_SaysWhatAnEmptiedSinkMayLack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(1, 2)
	older, old, recent := s.aged(26*60), s.aged(5*60), s.aged(0)
	s.sink.lose(24 * time.Hour)
	told := s.rounds()
	require.Len(t, told, 1, "it is told once")
	require.Equal(t, told[0], s.gap())
	require.Len(t, s.idsOf(recent), 3)
	require.Len(t, s.sink.got, 3, "the relay publishes ten minutes again")

	gap := told[0]
	from, to := gap.From.Format(time.RFC3339), gap.To.Format(time.RFC3339)
	require.Equal(t, fmt.Sprintf("settle events replay --sink redis --from %s --to %s", from, to), gap.Replay)
	have := fmt.Sprint(s.replay(events.Selection{From: gap.From, To: gap.To}))
	for _, id := range append(s.issuedIDs(old), s.changeID(old, 1, 1)) {
		require.Contains(t, have, id)
	}
	require.NotContains(t, have, fmt.Sprintf("/coupons/%d ", older), "it had left the sink by its age")
	require.Empty(t, s.rounds())
	require.Equal(t, gap, s.gap())
}

// What waited for the sink for a long time is older than its publication.
func TestRound_SaysWhatHappenedLongBeforeItsPublication(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(1, 2)
	old := s.aged(5 * 60)
	s.Exec("UPDATE settlement SET settled_at = settled_at - INTERVAL 7 DAY")
	s.Exec("UPDATE user_coupon SET issued_at = issued_at - INTERVAL 7 DAY")
	s.aged(0)
	s.sink.lose(24 * time.Hour)
	told := s.rounds()
	require.Len(t, told, 1)
	require.Subset(t, s.replay(events.Selection{From: told[0].From, To: told[0].To}), s.issuedIDs(old))
}

func TestRound_SaysNothingIfTenMinutesAreEnough(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lacks   time.Duration
		minutes []int // how long ago something was published
	}{
		"everything is recent":            {24 * time.Hour, []int{5, 0}},
		"it lost the last five minutes":   {5 * time.Minute, []int{300, 20, 0}},
		"all is older than the retention": {24 * time.Hour, []int{25 * 60}},
		"the last publication is old":     {2 * time.Hour, []int{300, 119}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.AddUsers(1, 2)
			for _, minutes := range c.minutes {
				s.aged(minutes)
			}
			s.sink.lose(c.lacks)
			require.Empty(t, s.rounds())
			require.Nil(t, s.gap())
			require.NotEmpty(t, s.sink.got)
		})
	}
}

// The rows that are published again are marked in two transactions, by two processes.
func TestRound_SaysItOnceIfMarkingTakesSeveralRounds(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(1, 2)
	s.aged(60)
	recent := s.aged(0)
	values := make([]string, 1_000) // which have nothing to publish
	for i := range values {
		values[i] = fmt.Sprintf("(%d, 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE)", 1_000_000+i)
	}
	s.Exec("INSERT INTO settlement (run_id, coupon_id, settled_at, published_at) VALUES " + strings.Join(values, ", "))
	s.sink.lose(24 * time.Hour)
	round, err := s.newRelay().Round(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1_000, round.Again)
	require.NotNil(t, round.MayLack)
	require.Equal(t, round.MayLack, s.gap())
	require.Empty(t, s.rounds(), "it is known")
	require.Equal(t, round.MayLack, s.gap())
	require.Len(t, s.idsOf(recent), 3)
}

// A second loss adds to the first.
func TestRound_AddsToWhatTheSinkMayLack(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.AddUsers(1, 2)
	s.aged(10 * 60)
	s.aged(5 * 60)
	s.sink.lose(24 * time.Hour)
	first := s.rounds()
	require.Len(t, first, 1)
	s.aged(15)
	s.aged(0)
	s.sink.lose(time.Hour)
	second := s.rounds()
	require.Len(t, second, 1)
	require.Equal(t, first[0].From, second[0].From)
	require.True(t, second[0].To.After(first[0].To))

	left, err := events.CloseGap(t.Context(), mysqltx.New(s.DB), "redis", first[0], "a")
	require.NoError(t, err)
	require.Equal(t, second[0], left, "it grew while the replay ran")
	left, err = events.CloseGap(t.Context(), mysqltx.New(s.DB), "redis", second[0], "b")
	require.NoError(t, err)
	require.Equal(t, second[0], left, "the replay went to another server")
	left, err = events.CloseGap(t.Context(), mysqltx.New(s.DB), "redis", second[0], "a")
	require.NoError(t, err)
	require.Nil(t, left)
	require.Nil(t, s.gap())
}

func TestSelection_Covers(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	gap := &events.Gap{From: from, To: from.Add(time.Hour)}
	for _, c := range []struct {
		events.Selection
		want bool
	}{
		{events.Selection{From: gap.From, To: gap.To}, true},
		{events.Selection{From: gap.From}, true},
		{events.Selection{To: gap.To}, true},
		{events.Selection{From: gap.From.Add(1), To: gap.To}, false},
		{events.Selection{From: gap.From, To: gap.To.Add(-1)}, false},
		{events.Selection{Coupon: 1, From: gap.From, To: gap.To}, false},
		{events.Selection{Run: 1, From: gap.From, To: gap.To}, false},
	} {
		require.Equal(t, c.want, c.Covers(gap), "%+v", c.Selection)
	}
}

// Only a replay that ends, while the sink loses nothing, has a server.
func TestReplay_IsNotCertainWhileTheSinkLoses(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	couponID := s.longLine(1200, 1200)
	s.SettleNow()
	for name, lose := range map[string]func(sink *memory, published int){
		"nothing": func(*memory, int) {},
		"in the middle": func(sink *memory, published int) {
			if published == 500 {
				sink.lose(time.Hour)
			}
		},
		"after the last page": func(sink *memory, published int) {
			if published == 1200 {
				sink.lose(time.Hour)
			}
		},
		"by a failover at the end": func(sink *memory, published int) {
			if published == 1200 {
				sink.server = "b"
			}
		},
	} {
		sink := &memory{server: "a", room: -1}
		replay := &events.Replay{Selection: events.Selection{Coupon: couponID}, Sink: sink, Rows: s.DB,
			Progress: func(n int) { lose(sink, n) }}
		done, err := replay.Run(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, 1200, done.Events, name)
		require.Equal(t, map[bool]string{true: "a"}[name == "nothing"], done.Server, name)
	}
}
