package promise_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/promise"
)

func TestMain(m *testing.M) { jajeongtest.Main(m) }

func TestBooks_KnowWhenARestoreIsDue(t *testing.T) {
	t.Parallel()
	line := coupon.Line{Since: 1, Restored: true, Accepted: 10, Waiting: 3, DLQ: 1, Left: 1}
	books := promise.Books{Issued: 2, Concluded: 1, WrittenOff: 1, Erased: 1}
	for want, change := range map[promise.Cause]func(l *coupon.Line, b *promise.Books){
		promise.NotDue:     func(*coupon.Line, *promise.Books) {},
		promise.NewServer:  func(l *coupon.Line, _ *promise.Books) { l.Restored, l.Returned = false, 1 },
		promise.Missing:    func(l *coupon.Line, _ *promise.Books) { l.Waiting-- },
		promise.HandedOver: func(l *coupon.Line, _ *promise.Books) { l.Returned = 1 },
		promise.AskedFor:   func(_ *coupon.Line, b *promise.Books) { b.Asked = 1 },
	} {
		l, b := line, books
		change(&l, &b)
		require.Equal(t, want, b.Due(l))
	}
	line.Epoch, books.Epoch = "a:1", "a:1"
	require.Equal(t, promise.NotDue, books.Due(line))
	books.Epoch = "b:2"
	require.Equal(t, promise.NewServer, books.Due(line), "another server was copied last")
	line.Since = 0
	require.Equal(t, promise.NewServer, promise.Books{}.Due(line), "without a state")
	require.Zero(t, books.Missing(coupon.Line{Accepted: 3, Waiting: 3}), "more are accounted for")
}

func TestBooks_SayWhoMayBeLost(t *testing.T) {
	t.Parallel()
	line := coupon.Line{Accepted: 3, Waiting: 2, Restored: true}
	require.True(t, promise.Books{}.Lost(line), "missing")
	require.False(t, promise.Books{Issued: 1}.Lost(line))
	require.True(t, promise.Books{Issued: 1, Unfound: 1}.Lost(line), "unknown")
	require.True(t, promise.Books{WrittenOff: 1}.Lost(line), "written off")
}

// A restore would not set back an arrival that people have, or that MySQL knows.
func TestBooks_KnowALastArrivalThatSomebodyWrote(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	latest := coupon.ArrivalAt(now.Add(coupon.MaxAhead))
	for name, tc := range map[string]struct {
		last, highest coupon.Arrival
		books         promise.Books
		want          bool
	}{
		"as far ahead as can be": {last: latest},
		"further":                {last: latest + 1, want: true},
		"without end":            {last: coupon.MaxArrival, highest: latest + 1, want: true},
		"somebody stands there":  {last: latest + 1, highest: latest + 1},
		"the journal knows it":   {last: latest + 1, books: promise.Books{Mark: promise.Mark{UpTo: latest + 1}}},
		"it was settled":         {last: latest + 1, books: promise.Books{SettledUpTo: latest + 1}},
	} {
		look := coupon.Look{Now: now, Highest: tc.highest, Line: coupon.Line{Last: tc.last}}
		require.Equal(t, tc.want, tc.books.Ahead(look), name)
	}
}

func TestMark_CoversItsEpochAlone(t *testing.T) {
	t.Parallel()
	mark := promise.Mark{Epoch: "a:1", UpTo: 10}
	require.True(t, mark.Covers("a:1", 10))
	require.False(t, mark.Covers("a:1", 11))
	require.False(t, mark.Covers("b:1", 10))
	require.False(t, promise.Mark{UpTo: 10}.Covers("", 10))
}

func TestRead_WithoutRowsAllIsZero(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	read := func() promise.Books {
		b, err := promise.Read(t.Context(), d.DB, 7)
		require.NoError(t, err)
		return b
	}
	require.Zero(t, read())
	for range 2 {
		require.NoError(t, promise.Begin(t.Context(), d.DB, 7))
	}
	require.Zero(t, read())
	d.Exec("UPDATE journal SET epoch = 'a:1', up_to = 5, accepted = 4, unfound = 3, asked = 2")
	require.NoError(t, promise.Begin(t.Context(), d.DB, 7), "it changes nothing")
	d.Exec("INSERT INTO settled (coupon_id, issued, concluded, written_off, erased, settled_up_to) " +
		"VALUES (7, 1, 2, 3, 4, 9)")
	b := read()
	require.Equal(t, promise.Books{Mark: promise.Mark{Epoch: "a:1", UpTo: 5}, Accepted: 4, Unfound: 3, Asked: 2,
		Issued: 1, Concluded: 2, WrittenOff: 3, Erased: 4, SettledUpTo: 9}, b)
	require.EqualValues(t, 10, b.Settled())
	require.EqualValues(t, 9, b.Highest())
}

// Rows that exist are left as they are, also by the account of a pod, which can only insert.
func TestAddRows_MayBeRepeated(t *testing.T) {
	t.Parallel()
	d := jajeongtest.New(t)
	all := []coupon.Answer{{User: 3, Arrival: 2}, {User: 1, Arrival: 2}, {User: 9, Arrival: 1},
		{User: 1, Arrival: 2}}
	require.NoError(t, promise.AddRows(t.Context(), d.DB, 7, all[:2]))
	pod, err := d.API.MySQLSettings.Open(connect.Patient, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { _ = pod.Close() })
	require.NoError(t, promise.AddRows(t.Context(), pod, 7, all))
	require.NoError(t, promise.AddRows(t.Context(), d.DB, 7, nil))
	require.Equal(t, []coupon.UserID{9, 1, 3}, jajeongtest.Column[coupon.UserID](d,
		"SELECT user_id FROM line_journal WHERE coupon_id = 7 ORDER BY arrival, user_id"))
	many := make([]coupon.Answer, 12_000)
	for i := range many {
		many[i] = coupon.Answer{User: coupon.UserID(i + 1), Arrival: coupon.Arrival(len(many) - i)}
	}
	require.NoError(t, promise.AddRows(t.Context(), d.DB, 8, many))
	require.EqualValues(t, len(many), d.Number("SELECT COUNT(*) FROM line_journal WHERE coupon_id = 8"))
}
