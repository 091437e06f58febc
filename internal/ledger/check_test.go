package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/ledger"
)

// newUnguarded is a deployment whose database does not prevent what it should.
func newUnguarded(t *testing.T) *deployment {
	t.Helper()
	d := newDeployment(t)
	for _, ddl := range []string{
		"ALTER TABLE user_coupon ADD KEY not_once (coupon_id, user_id), DROP KEY user_coupon_once",
		"ALTER TABLE coupon DROP CONSTRAINT coupon_never_oversold",
		"ALTER TABLE audit_event DROP KEY audit_event_chain",
	} {
		_, err := d.db.Exec(ddl)
		require.NoError(t, err)
	}
	return d
}

func TestCheckFindsEachCorruption(t *testing.T) {
	t.Parallel()
	d := newUnguarded(t)
	covered := map[ledger.Code]bool{}
	for name, h := range harms {
		for code := range expected(h) {
			covered[code] = true
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.worldly(t)
			c.healthy()
			h.do(c)
			v := c.check()
			require.Equal(t, expected(h), counts(t, v), "%+v", v.Findings)
			require.Equal(t, h.gap, v.Gap)
			require.Equal(t, expected(h), counts(t, c.check()), "checking changes nothing")
		})
	}
	covered[ledger.DoorDiffers] = true // TestDoorsFindsDifferences
	require.Len(t, covered, len(codes), "a code that no corruption shows")
}

// Several corruptions of a coupon are found as the sum of each.
func TestCheckFindsMixedCorruptions(t *testing.T) {
	t.Parallel()
	d := newUnguarded(t)
	var mixable []string
	for name, h := range harms {
		if !h.alone {
			mixable = append(mixable, name)
		}
	}
	slices.Sort(mixable)
	mixtures := map[string][]string{"all": mixable}
	for n := range uint64(8) {
		seed := rand.Uint64() // told by the name
		names := slices.Clone(mixable)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		mixtures[fmt.Sprint("seed ", seed)] = names[:2+n]
	}
	for name, names := range mixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.worldly(t)
			var mixed []harm
			var gap int64
			for _, name := range names {
				harms[name].do(c)
				mixed, gap = append(mixed, harms[name]), gap+harms[name].gap
			}
			v := c.check()
			require.Equal(t, expected(mixed...), counts(t, v), "%s:\n%+v", strings.Join(names, ", "), v.Findings)
			require.Equal(t, gap, v.Gap)
		})
	}
}

// far is so long ago that everybody else came later.
func (c *fixture) far() time.Time { return c.now().Add(-30 * time.Minute) }

const (
	deleteCoupon = "DELETE FROM user_coupon WHERE coupon_id = ? AND user_id = ?"
	moveOutcome  = "UPDATE application_outcome SET applied_at = ? WHERE coupon_id = ? AND user_id = ?"
)

// unmark takes away the door's ALREADY_ISSUED.
func (c *fixture) unmark(n uint64) {
	c.t.Helper()
	c.wrote(1)(c.rdb.SRem(c.t.Context(), c.marks(), c.member(n)).Result())
}

// exchange swaps a column of two users' coupons.
func (c *fixture) exchange(column string, a, b uint64) {
	c.t.Helper()
	c.change(2, fmt.Sprintf(`UPDATE user_coupon x JOIN (SELECT user_id, %[1]s AS other FROM user_coupon WHERE coupon_id = ? AND user_id IN (?, ?)) y
		ON y.user_id <> x.user_id SET x.%[1]s = y.other WHERE x.coupon_id = ? AND x.user_id IN (?, ?)`, column),
		c.id, c.user(a), c.user(b), c.id, c.user(a), c.user(b))
}

// recordHarm changes what the third run recorded.
func recordHarm(column, value string, missing int64) harm {
	return harm{
		do: func(c *fixture) {
			c.change(1, fmt.Sprintf("UPDATE settlement SET %s = %s WHERE coupon_id = ? AND run_id = ?", column, value), c.id, c.runs()[2])
		},
		codes: map[ledger.Code]int64{ledger.RecordWrong: missing}, alone: true}
}

func (c *fixture) recount(issued string) {
	c.t.Helper()
	c.change(1, "UPDATE coupon SET issued_count = "+issued+" WHERE id = ?", c.id)
}

// recordToo records another outcome of an application that won.
func (c *fixture) recordToo(n uint64, outcome string) {
	c.t.Helper()
	c.exec("INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome) VALUES (?, ?, ?, ?)", c.id, c.user(n), c.appliedAt(n), outcome)
}

// appliedOutcome is the arrival of an application that got another outcome than a coupon.
func (c *fixture) appliedOutcome(n uint64) (at time.Time) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRow("SELECT applied_at FROM application_outcome WHERE coupon_id = ? AND user_id = ?", c.id, c.user(n)).Scan(&at))
	return at
}

// stands is the arrival of an application that waits.
func (c *fixture) stands(n uint64) time.Time {
	c.t.Helper()
	arrival, err := c.rdb.ZScore(c.t.Context(), c.queue(), c.member(n)).Result()
	require.NoError(c.t, err)
	return time.UnixMicro(int64(arrival)).UTC()
}

// keepPromise lifts MySQL's word on the promises, as the catalog does, to all that were made and the given arrival.
func (c *fixture) keepPromise(last time.Time) {
	c.t.Helper()
	figures, err := c.store.Figures(c.t.Context(), c.id, 0)
	require.NoError(c.t, err)
	c.exec(`INSERT INTO promise (coupon_id, accepted, last_arrival) VALUES (?, ?, ?)
		ON DUPLICATE KEY UPDATE accepted = GREATEST(accepted, VALUES(accepted)), last_arrival = GREATEST(last_arrival, VALUES(last_arrival))`,
		c.id, figures.Accepted, last.UnixMicro())
}
