package cli

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever is no canary is not tried, however scarce the seats are, and keeps the seat that is theirs.
func TestNobodyButCanariesIsTried(t *testing.T) {
	t.Parallel()
	const refused = 27
	for name, c := range map[string]struct {
		seats     int
		unknown   uint64 // so many are held, since nobody knows these users
		newcomers []uint64
		late      []string // who of them waits on while the canary is tried
		issued    []uint64 // in the end, when the rows of the first nine can be stored
	}{
		"held entries take no seat":  {seats: 30, unknown: 20, issued: between(1, 9)},
		"a seat for each of them":    {seats: 26, newcomers: []uint64{60}, late: []string{"60"}, issued: append(between(1, 9), 60)},
		"fewer seats than of them":   {seats: 5, newcomers: []uint64{60}, late: []string{"60"}, issued: between(1, 5)},
		"the canary's for newcomers": {seats: 27, newcomers: []uint64{60, 61}, late: []string{"61"}, issued: append(append([]uint64{60}, between(1, 9)...), 61)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.refuseOddUsers()
			line := between(1, refused)
			w.users(append(between(1, refused), c.newcomers...)...)
			for _, user := range line {
				w.exec("INSERT INTO odd_user (id) VALUES (?)", user)
			}
			coupon := w.coupon(c.seats)
			w.apply(coupon, line...)
			w.apply(coupon, between(1000, 999+c.unknown)...)
			w.settleNow()
			w.apply(coupon, c.newcomers...)
			attempts := func() (all []int) {
				for _, user := range line {
					all = append(all, w.reason(coupon, fmt.Sprint(user)).Attempts)
				}
				return all
			}
			want := make([]int, refused)
			for i := range want {
				want[i] = 1
			}
			require.Equal(t, want, attempts())

			code, _, stderr := w.dlq("retry", coupon, "--cause=BAD_ROW", "--canary=1", "--cutoff=now", "--lang=en")
			require.Equal(t, 1, code, stderr)
			require.Contains(t, stderr, "Of the first 1 applications 1 were not settled: the other 26 were not tried.")
			want[0] = 2
			require.Equal(t, want, attempts())
			require.Equal(t, append([]string{}, c.late...), w.waiting(coupon), "the seats before them are kept")
			w.verify()

			w.exec("DELETE FROM odd_user WHERE id < 10")
			code, _, stderr = w.dlq("retry", coupon, "--cause=BAD_ROW", "--canary=1", "--cutoff=now", "--lang=en")
			require.Zero(t, code, stderr)
			require.Contains(t, stderr, "The first 1 applications were settled; the other 26 are tried now.")
			require.Equal(t, c.issued, w.issued(coupon))
			w.verify()
		})
	}
}

// A canary whose turn does not come is not said to have failed.
func TestACanaryWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuseOddUsers()
	w.users(between(1, 3)...)
	w.exec("INSERT INTO odd_user (id) VALUES (1), (2), (3)")
	coupon := w.coupon(1)
	w.apply(coupon, between(1, 3)...)
	w.settleNow()
	w.exec("DELETE FROM odd_user")
	code, _, stderr := w.dlq("retry", coupon, "--user=3", "--user=2", "--canary=1", "--cutoff=now", "--lang=en")
	require.Equal(t, 1, code, stderr)
	require.Contains(t, stderr, "belong to earlier applications: 1 were not tried")
	require.NotContains(t, stderr, "failed again")
	require.Empty(t, w.issued(coupon), "the seat is kept for 1")
	w.settleNow()
	require.Equal(t, []uint64{1}, w.issued(coupon))
	w.verify()
}
