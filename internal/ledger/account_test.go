package ledger_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/ledger"
)

func TestGap(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		account ledger.Account
		want    int64
	}{
		"nothing":                        {ledger.Account{}, 0},
		"each once":                      {ledger.Account{Accepted: 15, Waiting: 1, UnderReview: 2, Issued: 4, Outcomes: 8}, 0},
		"one lost":                       {ledger.Account{Accepted: 16, Waiting: 1, UnderReview: 2, Issued: 4, Outcomes: 8}, 1},
		"one too many":                   {ledger.Account{Accepted: 14, Waiting: 1, UnderReview: 2, Issued: 4, Outcomes: 8}, -1},
		"all lost":                       {ledger.Account{Accepted: 15}, 15},
		"nobody promised":                {ledger.Account{Waiting: 3}, -3},
		"settled and still standing":     {ledger.Account{Accepted: 9, Waiting: 9, Issued: 5, Outcomes: 1, Twice: 6}, 0},
		"still standing, and one lost":   {ledger.Account{Accepted: 9, Waiting: 8, Issued: 5, Twice: 5}, 1},
		"still standing under review":    {ledger.Account{Accepted: 9, UnderReview: 9, Outcomes: 9, Twice: 9}, 0},
		"lost and written off":           {ledger.Account{Accepted: 9, Waiting: 6, WrittenOff: 3}, 0},
		"lost, in part written off":      {ledger.Account{Accepted: 9, Waiting: 5, WrittenOff: 3}, 1},
		"written off, and found again":   {ledger.Account{Accepted: 9, Waiting: 9, WrittenOff: 3}, -3},
		"arrivals are no applications":   {ledger.Account{Arrivals: ledger.Arrivals{LastArrival: 1 << 53}}, 0},
		"more than a 32-bit int can say": {ledger.Account{Accepted: 1 << 40, Waiting: 1<<40 - 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, test.account.Gap())
		})
	}
}

func TestAccountStringHasEveryCount(t *testing.T) {
	t.Parallel()
	require.Equal(t, "accepted 1, waiting 2, under review 3, issued 4, other outcomes 5, counted twice 6, written off 7",
		ledger.Account{Accepted: 1, Waiting: 2, UnderReview: 3, Issued: 4, Outcomes: 5, Twice: 6, WrittenOff: 7}.String())
}

// account is the account as a settlement asks for it: inside a transaction.
func (c *fixture) account(l *ledger.Ledger) ledger.Account {
	c.t.Helper()
	tx, err := c.db.BeginTx(c.t.Context(), nil)
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, tx.Rollback()) }()
	a, err := l.Account(c.t.Context(), tx, c.id)
	require.NoError(c.t, err)
	a.Past, a.CountedSince = ledger.Past{}, 0
	return a
}

func TestAccountCountsEachApplicationOnce(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	base := ledger.Account{Accepted: worldlyAccepted, Waiting: 6, UnderReview: 1, Issued: 18, Outcomes: 7}
	for name, test := range map[string]struct {
		live  func(*fixture)
		twice int64
		want  func(*ledger.Account)
	}{
		"as it is": {func(c *fixture) {}, 0, func(*ledger.Account) {}},
		"settled ones standing in queue and dlq": {func(c *fixture) {
			c.add(c.queue(), c.member(1), c.appliedAt(1))
			c.add(c.queue(), c.member(19), c.appliedAt(19))
			c.add(c.dlq(), c.member(2), c.appliedAt(2))
			c.add(c.dlq(), c.member(2)+"x", c.appliedAt(2)) // no user id
		}, 3, func(a *ledger.Account) { a.Waiting, a.UnderReview = a.Waiting+2, a.UnderReview+2 }},
		"other arrivals of settled users": {func(c *fixture) {
			c.add(c.queue(), c.member(1), c.appliedAt(2))
			c.add(c.queue(), c.member(19), c.appliedAt(19).Add(-1e3))
		}, 0, func(a *ledger.Account) { a.Waiting += 2 }},
		"the arrival of a coupon that was given by hand": {func(c *fixture) {
			at := c.now()
			c.change(1, "UPDATE user_coupon SET applied_at = ? WHERE coupon_id = ? AND user_id = ?", at, c.id, c.user(handGivenAlone))
			c.add(c.queue(), c.member(handGivenAlone), at)
		}, 0, func(a *ledger.Account) { a.Waiting++ }},
		"a higher promise in mysql, and some written off": {func(c *fixture) {
			c.change(1, "UPDATE promise SET accepted = ?, written_off = 2 WHERE coupon_id = ?", worldlyAccepted+5, c.id)
		}, 0, func(a *ledger.Account) { a.Accepted, a.WrittenOff = a.Accepted+5, 2 }},
		"a higher promise in redis": {func(c *fixture) { c.promised(5) }, 0, func(a *ledger.Account) { a.Accepted += 5 }},
		"no promise in mysql": {func(c *fixture) {
			c.change(1, "DELETE FROM promise WHERE coupon_id = ?", c.id)
		}, 0, func(*ledger.Account) {}},
		"an empty redis": {func(c *fixture) {
			require.NoError(c.t, c.rdb.Del(c.t.Context(), c.keys()...).Err())
		}, 0, func(a *ledger.Account) { a.Waiting, a.UnderReview = 0, 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.worldly(t)
			figures, err := c.store.Figures(t.Context(), c.id, 0)
			require.NoError(t, err)
			test.live(c)
			want := base
			want.LastArrival = figures.LastArrival
			test.want(&want)
			want.Twice = test.twice
			require.Equal(t, want, c.account(c.ledger))
			require.Equal(t, want, c.check().Account)
		})
	}
}

func TestLastArrivalIsTheHighestOfRedisAndMySQL(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.users("ACTIVE", 1, 2)
	c.apply(1, 2)
	figures, err := c.store.Figures(t.Context(), c.id, 0)
	require.NoError(t, err)
	require.Equal(t, figures.LastArrival, c.account(c.ledger).LastArrival)
	c.exec("INSERT INTO promise (coupon_id, last_arrival) VALUES (?, ?)", c.id, figures.LastArrival-1)
	require.Equal(t, figures.LastArrival, c.account(c.ledger).LastArrival)
	c.exec("UPDATE promise SET last_arrival = ? WHERE coupon_id = ?", figures.LastArrival+1, c.id)
	require.Equal(t, figures.LastArrival+1, c.account(c.ledger).LastArrival)
}

// meddler does something right after Redis was counted: what may happen there must not look wrong.
type meddler struct {
	*candidates.Store
	meddle func()
}

func (m meddler) Figures(ctx context.Context, coupon uint64, behind int64) (candidates.Figures, error) {
	figures, err := m.Store.Figures(ctx, coupon, behind)
	m.meddle()
	return figures, err
}

// The catalog stores the promises of applications that arrive while the account is counted. No lock prevents it.
func TestPromisesMadeWhileCountingAreNotLost(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.users("ACTIVE", 1, 9)
	c.apply(1, 3)
	next := uint64(4)
	l := &ledger.Ledger{Store: meddler{c.store, func() {
		c.apply(next, next)
		next++
		c.keepPromise(c.now())
	}}}
	require.Zero(t, c.account(l).Gap())
	v, err := l.Check(t.Context(), c.db, c.id)
	require.NoError(t, err)
	require.Empty(t, v.Findings)
}

// The settlement commits and cleans up after the first check. The second, under the lock, finds nothing.
func TestCheckIgnoresASettlementThatCommitsMeanwhile(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.users("ACTIVE", 1, 9)
	c.apply(1, 9)
	looks := 0
	l := &ledger.Ledger{Store: meddler{c.store, func() {
		looks++
		if looks == 1 {
			c.settleNow()
		}
	}}}
	v, err := l.Check(t.Context(), c.db, c.id)
	require.NoError(t, err)
	require.Empty(t, v.Findings)
	require.Equal(t, 2, looks)
	require.EqualValues(t, 5, v.Coupons)
	require.Zero(t, v.Account.Waiting)
}

// Another Redis server has just taken over. API pods are about to put applications back.
func TestCheckWaitsForPodsToPutApplicationsBack(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.users("ACTIVE", 1, 9)
	c.apply(1, 3)
	c.keepPromise(c.now())
	arrival, err := c.rdb.ZScore(t.Context(), c.queue(), c.member(3)).Result()
	require.NoError(t, err)
	require.NoError(t, c.rdb.ZRem(t.Context(), c.queue(), c.member(3)).Err())
	require.NoError(t, c.rdb.HSet(t.Context(), c.state(), "run_id", "the-primary-before").Err())
	back := make(chan error, 1)
	looks := 0
	l := &ledger.Ledger{Store: meddler{c.store, func() {
		if looks++; looks == 1 {
			time.AfterFunc(candidates.PutBackTime/4, func() {
				back <- c.rdb.ZAdd(context.Background(), c.queue(), redis.Z{Score: arrival, Member: c.member(3)}).Err()
			})
		}
	}}}
	v, err := l.Check(t.Context(), c.db, c.id)
	require.NoError(t, err)
	require.NoError(t, <-back)
	require.Empty(t, v.Findings)
}

// The check that reports a finding holds the coupon's lock, so that no settlement commits. It leaves nothing locked.
func TestCheckRepeatsUnderTheCouponsLock(t *testing.T) {
	t.Parallel()
	c := newCoupon(t, 5)
	c.promised(1)
	var held []bool
	l := &ledger.Ledger{Store: meddler{c.store, func() { held = append(held, c.locked()) }}}
	v, err := l.Check(t.Context(), c.db, c.id)
	require.NoError(t, err)
	require.Equal(t, map[ledger.Code]int64{ledger.PromiseLost: 1}, counts(t, v))
	require.Equal(t, []bool{false, true}, held)
	require.False(t, c.locked())
}

// locked is whether somebody holds the coupon's row.
func (c *fixture) locked() bool {
	c.t.Helper()
	tx, err := c.db.BeginTx(c.t.Context(), &sql.TxOptions{})
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, tx.Rollback()) }()
	var id uint64
	return tx.QueryRow("SELECT id FROM coupon WHERE id = ? FOR UPDATE NOWAIT", c.id).Scan(&id) != nil
}

func TestAccountHasThePast(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	for name, test := range map[string]struct {
		put  string
		want ledger.Past
	}{
		"nothing":              {"", ledger.Past{}},
		"a coupon by hand":     {"INSERT INTO user_coupon (coupon_id, user_id) VALUES (?, 1)", ledger.Past{Held: true, Coupons: 1}},
		"an outcome":           {"INSERT INTO application_outcome (coupon_id, user_id, applied_at, outcome) VALUES (?, 1, NOW(), 'REJECTED')", ledger.Past{Recorded: true}},
		"a run that gave none": {"INSERT INTO settlement (run_id, coupon_id) VALUES (1, ?)", ledger.Past{Settled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := d.newCoupon(t, 5)
			if test.put != "" {
				_, err := c.db.Exec(test.put, c.id)
				require.NoError(t, err)
			}
			tx, err := c.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback()) }()
			a, err := c.ledger.Account(t.Context(), tx, c.id)
			require.NoError(t, err)
			require.Equal(t, test.want, a.Past)
		})
	}
}
