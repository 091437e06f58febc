package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/language"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
)

// An id has one spelling.
func FuzzParseID(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := ParseID[coupon.UserID](text)
		number, err := strconv.ParseUint(text, 10, 64)
		require.Equal(t, err == nil && number > 0 && strconv.FormatUint(number, 10) == text, ok, "%q was read as %d",
			text, id)
		if ok {
			require.EqualValues(t, number, id)
		}
	})
}

// Every Accept-Language gives one of the two languages; a header that is too long counts as none; several headers count
// as one list.
func FuzzNegotiate(f *testing.F) {
	f.Fuzz(func(t *testing.T, accept string) {
		got := Negotiate(http.Header{"Accept-Language": {accept}})
		require.Contains(t, languages, got, "%q", accept)
		if accept == "" || len(accept) > maxAcceptLanguage {
			require.Equal(t, language.Korean, got, "%q", accept)
		}
		require.Equal(t, got, Negotiate(http.Header{"Accept-Language": strings.Split(accept, ",")}),
			"%q in several headers", accept)
	})
}

func TestTimesAreRFC3339WithMicroseconds(t *testing.T) {
	t.Parallel()
	const microseconds = "2006-01-02T15:04:05.000000Z07:00"
	zones := []*time.Location{time.UTC, time.FixedZone("KST", 9*3600), time.FixedZone("", -3*3600-1800)}
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMicro(rapid.Int64Range(-62000000000000000, 253400000000000000).Draw(t, "µs"))
		at = at.In(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.Equal(t, "at "+at.Format(microseconds), string(AppendTime([]byte("at "), at)))
	})
}

var atNoon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A user may send a burst of two seconds, and then one request per share of a second.
func TestUserRates_RefillWithTime(t *testing.T) {
	t.Parallel()
	rates := NewUserRates(5, atNoon)
	may := func(at time.Time) (times int) {
		for rates.Wait(7, at) == 0 {
			times++
		}
		return times
	}
	require.Equal(t, 10, may(atNoon))
	require.Equal(t, 0, may(atNoon.Add(199*time.Millisecond)))
	require.Equal(t, 1, may(atNoon.Add(200*time.Millisecond)))
	require.Equal(t, 4, may(atNoon.Add(time.Second)))
	require.Equal(t, 10, may(atNoon.Add(time.Hour)))
	require.Equal(t, 0, may(atNoon.Add(59*time.Minute)), "a clock that falls back admits no request twice")
}

// New users are always admitted, and do not replace a user who sends without pause.
func TestUserRates_ManyUsersDoNotReplaceABusyOne(t *testing.T) {
	t.Parallel()
	rates := NewUserRates(5, atNoon)
	admitted := 0
	for user := range coupon.UserID(4 * userShards * shardSets * setUsers) {
		if rates.Wait(user+1000, atNoon) != 0 {
			t.Fatal("refused: user", user+1000)
		}
		if rates.Wait(7, atNoon) == 0 {
			admitted++
		}
	}
	require.Equal(t, 10, admitted)
}

// The table has its full size from the start.
func TestUserRates_UseConstantMemory(t *testing.T) {
	rates, user := NewUserRates(5, atNoon), coupon.UserID(0)
	require.Zero(t, testing.AllocsPerRun(1, func() { // all calls together: an average would be rounded down
		for range 120_000 {
			user++
			rates.Wait(user, atNoon)
		}
	}))
}

func TestStreamsFitTheOpenFiles(t *testing.T) {
	t.Parallel()
	for files := 2; files < 1000; files++ {
		streams := files * streamsPerSurplus / (streamsPerSurplus + 1)
		require.Positive(t, SurplusStreams(streams), files)
		require.LessOrEqual(t, streams+SurplusStreams(streams), files)
	}
}
