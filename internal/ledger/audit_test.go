package ledger_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/settle"
)

const (
	insertEvent = `INSERT INTO audit_event (seq, at, actor, action, coupon_id, user_id, run_id, reason, detail, hash)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	moveHead = "INSERT INTO audit_head (coupon_id, seq, hash) VALUES (?, ?, ?) ON DUPLICATE KEY UPDATE seq = VALUES(seq), hash = VALUES(hash)"
)

// event is the n-th audit event that the tests write: with and without a user and a run, with texts of every kind.
func (c *fixture) event(n uint64) audit.Event {
	texts := []string{"", "TICKET-7", "자정 쿠폰 \U0001F319 재시도", `"quoted", 'and' \ backslash`, "1:a", "-", " ends in blanks  "}
	text := func(i uint64) string { return texts[i%uint64(len(texts))] }
	e := audit.Event{
		Seq: n, At: time.UnixMicro(1795143600000000 + int64(n)).UTC(), Actor: "kim" + text(n+2), Action: "DLQ_DROPPED", Coupon: c.id,
		Reason: text(n), Detail: text(n + 3),
	}
	if n%2 == 0 {
		e.User = new(math.MaxUint64 - n)
	}
	if n%3 == 0 {
		e.Run = new(1_000_000_000 + n) // none that was
	}
	return e
}

// audit writes events up to the n-th behind those that are there, as the settlement does.
func (c *fixture) audit(n uint64) {
	c.t.Helper()
	head, err := audit.ReadHead(c.t.Context(), c.db, c.id)
	require.NoError(c.t, err)
	for head.Seq < n {
		head.Seq++
		e := c.event(head.Seq)
		head.Hash = e.Hash(head.Hash)
		c.write(e, head.Hash)
	}
	c.exec(moveHead, c.id, head.Seq, head.Hash)
}

func (c *fixture) write(e audit.Event, hash string) {
	c.t.Helper()
	c.exec(insertEvent, e.Seq, e.At, e.Actor, e.Action, e.Coupon, e.User, e.Run, e.Reason, e.Detail, hash)
}

// rewrite changes what the n-th event says, and gives it the hash of what it says then.
func (c *fixture) rewrite(n uint64) {
	c.t.Helper()
	e := c.event(n)
	e.Reason = "for a friend"
	c.change(1, "UPDATE audit_event SET reason = ?, hash = ? WHERE coupon_id = ? AND seq = ?", e.Reason, e.Hash(c.hashOf(n-1)), c.id, n)
}

func (c *fixture) hashOf(n uint64) (hash string) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRow("SELECT hash FROM audit_event WHERE coupon_id = ? AND seq = ?", c.id, n).Scan(&hash))
	return hash
}

const deleteEvents = "DELETE FROM audit_event WHERE coupon_id = ? AND seq BETWEEN ? AND ?"

// No verdict has the events without a coupon, nor the chains of coupons that do not exist.
func TestStraysFindEventsOfNoCoupon(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	c := d.newCoupon(t, 1)
	c.audit(3)
	found := func() map[ledger.Code]int64 {
		t.Helper()
		strays, err := d.ledger.Strays(t.Context(), d.db)
		require.NoError(t, err)
		codes := map[ledger.Code]int64{}
		for _, f := range strays {
			require.Equal(t, 6, f.Invariant)
			require.False(t, f.Warning)
			codes[f.Code] += f.Count
		}
		return codes
	}
	require.Empty(t, found())

	d.exec(t, "INSERT INTO audit_event (actor, action, seq) VALUES ('kim', 'IMPORT', NULL), ('kim', 'IMPORT', 1)")
	require.Equal(t, map[ledger.Code]int64{ledger.AuditInserted: 2}, found())
	none := &fixture{deployment: d, t: t, id: c.id + 1}
	none.audit(4)
	require.Equal(t, map[ledger.Code]int64{ledger.AuditInserted: 6}, found())
	none.change(4, deleteEvents, none.id, 1, 4)
	require.Equal(t, map[ledger.Code]int64{ledger.AuditInserted: 2, ledger.AuditRemoved: 4}, found())
	c.healthy()
}

// Each run continues the chain of the run before. A settlement does nothing when the chain is broken.
func TestSettlementContinuesTheAuditChain(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 3)
	c.users("ACTIVE", 1, 3)
	c.apply(1, 3)
	c.promised(2)
	hold := func() settle.Result { return c.settleWith(c.settler, settle.Order{CutoffNow: true}) }
	for n := uint64(1); n <= 3; n++ {
		require.Equal(t, coupon.HeldBack, hold().Status)
		v := c.check()
		require.Equal(t, map[ledger.Code]int64{ledger.PromiseLost: 2}, counts(t, v))
		require.Equal(t, n, v.AuditHead.Seq)
	}
	head := c.check().AuditHead

	c.exec("UPDATE audit_head SET seq = 1 WHERE coupon_id = ?", c.id)
	require.Contains(t, hold().Error, "settle verify")
	result := c.settleWith(c.settler, settle.Order{CutoffNow: true, AcceptGap: true})
	require.Equal(t, coupon.HeldBack, result.Status)
	require.Contains(t, result.Error, "settle verify")
	require.Zero(t, c.number("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = ?", c.id))
	c.exec("UPDATE audit_head SET seq = ? WHERE coupon_id = ?", head.Seq, c.id)

	c.settle(settle.Order{CutoffNow: true, AcceptGap: true})
	require.EqualValues(t, 5, c.healthy().AuditHead.Seq, "the gap that is accepted, and the run of a person")
}

func (d *deployment) exec(t *testing.T, query string) {
	t.Helper()
	_, err := d.db.Exec(query)
	require.NoError(t, err)
}
