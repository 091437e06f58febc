package couponadmin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/testenv/faultproxy"
	"github.com/jajeong/jajeong/internal/text"
)

// scheduled is a coupon that opens in an hour.
func scheduled(d *deployment) *openCoupon {
	opens := d.Now().UTC().Add(time.Hour).Truncate(time.Second)
	return &openCoupon{d, d.AddCouponBetween(10, opens, opens.Add(time.Hour))}
}

func (c *openCoupon) edit(e couponadmin.Edit) (*couponadmin.Change, error) {
	return c.admin.Edit(c.T.Context(), c.id, e)
}

// A coupon gets new values, an audit event has all of them, and a second run finds them.
func TestEdit_ChangesACoupon(t *testing.T) {
	t.Parallel()
	c := scheduled(newDeployment(t))
	c.Refresh()
	opens := c.Now().UTC().Add(2 * time.Hour).Truncate(time.Microsecond)
	closes := opens.Add(30 * time.Minute)
	e := couponadmin.Edit{Name: new("자정 2차"), Seats: new(int64(7)), ValidityDays: new(int64(3)), Opens: &opens,
		Closes: &closes, DiscountPercent: new(int64(10)), DiscountMaxWon: new(int64(5000)), Minimum: new(int64(100)),
		Campaign: new(uint64(12))}
	was := jajeongtest.Column[int64](c.Deployment, "SELECT discount_won FROM coupon WHERE id = ?", c.id)[0]
	made := c.done(c.edit(e))
	require.True(t, made.Changed)
	is := made.After
	require.EqualValues(t, 1, c.Number("SELECT COUNT(*) FROM coupon WHERE id = ? AND name = '자정 2차' AND "+
		"total_quantity = 7 AND validity_days = 3 AND apply_opens_at = ? AND apply_closes_at = ? AND discount_won = 0 AND "+
		"discount_percent = 10 AND discount_max_won = 5000 AND minimum_won = 100 AND campaign_id = 12", c.id, opens, closes))
	require.Equal(t, fmt.Sprint(opens.UnixMicro()), c.state("opens"))
	require.Equal(t, fmt.Sprint(closes.UnixMicro()), c.state("closes"))
	recorded := c.audited(c.id, audit.CouponEdited)
	require.Equal(t, []audit.Payload{audit.ChangeOf(made.Before, is)}, recorded)
	require.Equal(t, coupon.Discount{DiscountWon: was}, recorded[0].(audit.CouponChange).Discount.From)
	require.False(t, c.done(c.edit(e)).Changed, "a second run")
	require.Len(t, c.audited(c.id, audit.CouponEdited), 1)

	c.done(c.edit(couponadmin.Edit{DiscountWon: new(int64(300)), Campaign: new(uint64(0))}))
	require.EqualValues(t, 1, c.Number("SELECT COUNT(*) FROM coupon WHERE id = ? AND discount_won = 300 AND "+
		"discount_percent = 0 AND discount_max_won = 0 AND minimum_won = 100 AND campaign_id IS NULL", c.id))
	c.Verify(c.id)
}

// A coupon that opens soon, or would, stays as it is; so does what its holders have.
func TestEdit_Refusals(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	c := scheduled(d)
	in := func(after time.Duration) *time.Time { return new(d.Now().Add(after)) }
	d.refused(text.RefusedOpensSoon)(c.edit(couponadmin.Edit{Opens: in(4 * time.Minute)}))
	d.refused(text.RefusedEndsBeforeItOpens)(c.edit(couponadmin.Edit{Closes: in(time.Minute)}))
	d.refused(text.WrongName)(c.edit(couponadmin.Edit{Name: new(" ")}))
	d.refused(text.WrongSeats)(c.edit(couponadmin.Edit{Seats: new(int64(couponadmin.MaxSeats + 1))}))
	d.refused(text.PercentNeedsMax)(c.edit(couponadmin.Edit{DiscountPercent: new(int64(10))}))
	d.refused(text.TwoDiscounts)(c.edit(couponadmin.Edit{DiscountWon: new(int64(1)), DiscountPercent: new(int64(10)),
		DiscountMaxWon: new(int64(10))}))

	d.AddUsers(1)
	d.changed(d.grant(c.id, 1))
	d.refused(text.RefusedEditHeld)(c.edit(couponadmin.Edit{DiscountWon: new(int64(1))}))
	d.refused(text.RefusedEditHeld)(c.edit(couponadmin.Edit{ValidityDays: new(int64(1))}))
	d.refused(text.RefusedFewerThanIssued)(c.edit(couponadmin.Edit{Seats: new(int64(0))}))
	require.True(t, d.done(c.edit(couponadmin.Edit{Seats: new(int64(1)), Name: new("하나")})).Changed)

	soon := &openCoupon{d, d.AddCouponBetween(1, *in(4 * time.Minute), *in(time.Hour))}
	d.refused(text.RefusedEditOpen)(soon.edit(couponadmin.Edit{Name: new("x")}))
	open := newOpenCoupon(d)
	d.refused(text.RefusedEditOpen)(open.edit(couponadmin.Edit{Opens: in(time.Hour)}))
	d.Verify()
}

// A later opening goes to Redis before MySQL records it. Without the COMMIT, Redis takes the old one again before it
// comes.
func TestEdit_PublishesFirst(t *testing.T) {
	t.Parallel()
	private := jajeongtest.NewOnPrivateRedis(t)
	c := scheduled(&deployment{private, private.CouponAdmin()})
	c.Refresh()
	before := c.state("opens")
	var proxies []*faultproxy.Proxy
	rule, found :=
		commitOfChange(func() faultproxy.Action { return faultproxy.DropRequest(proxies[jajeongtest.ToMySQL].Down) })
	proxies, proxied := c.Proxied(rule)
	later := c.Now().Add(90 * time.Minute)
	_, err := proxied.CouponAdmin().Edit(t.Context(), c.id, couponadmin.Edit{Opens: &later})
	require.Equal(t, coupon.Infrastructure, mysqltx.ClassOf(err))
	require.True(t, found.Load())
	require.Equal(t, fmt.Sprint(later.UTC().Truncate(time.Microsecond).UnixMicro()), c.state("opens"))
	c.Refresh()
	require.NotEqual(t, before, c.state("opens"), "it may still be committed")
	c.setState("version_at", c.Now().Add(-3*time.Minute).UnixMicro())
	c.Refresh()
	require.Equal(t, before, c.state("opens"))
	require.Equal(t, candidates.NotOpen, c.Answer(c.id, 1))
}

// Without Redis, a window that was published would stay: nothing is changed.
func TestEdit_NeedsRedis(t *testing.T) {
	t.Parallel()
	c := scheduled(newDeployment(t))
	c.admin.Redis = unreachable{c.Store, fmt.Errorf("away")}
	later := c.Now().Add(90 * time.Minute)
	_, err := c.edit(couponadmin.Edit{Opens: &later})
	require.Error(t, err)
	require.Empty(t, c.audited(c.id, audit.CouponEdited))
}
