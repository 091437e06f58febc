package wallet

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

const (
	// maxGroup is how many calls one transaction makes at most. Their rows are locked until its COMMIT.
	maxGroup = 64
	// maxGroups is how many transactions of one verb run at a time. Calls that arrive meanwhile wait, and go together.
	maxGroups = 2
	// groupTimeout limits a transaction. It waits for no coupon, but an order that another process is inserting delays it. It is
	// shorter than the time of a request, so that Redeem still has some.
	groupTimeout = time.Second
)

// gate is where the calls of one verb wait for each other. A call that gets one of the slots leads a group: it takes along the
// calls that wait.
type gate struct {
	slots   chan struct{}
	waiting chan *member // without a buffer: a caller that hangs up is gone from the gate
}

func newGate() gate {
	return gate{slots: make(chan struct{}, maxGroups), waiting: make(chan *member)}
}

// member is a call in a group. done receives true if decision is the result, and false if the call is left to Redeem.
type member struct {
	coupon   coupon.CouponID
	call     Call
	facts    Facts
	decision Decision
	done     chan bool
}

// together is Redeem for many callers at a time. Reserve and Confirm calls that wait go together in one transaction, which
// locks, decides and writes by the same rules. It waits for no coupon: the call for a coupon that is locked is left to Redeem,
// and so is a change that is more than a first reservation or a confirmation. A transaction that fails leaves all of its calls
// to Redeem.
func (s *Store) together(ctx context.Context, couponID coupon.CouponID, call Call) (Decision, error) {
	m := &member{coupon: couponID, call: call, done: make(chan bool, 1)}
	g := s.gates[call.Verb] // other verbs have no groups: their gate has no slots
	if g.slots == nil {
		return Redeem(ctx, s.db, couponID, call)
	}
	select {
	case g.slots <- struct{}{}:
		s.lead(ctx, g, m)
	case g.waiting <- m:
	case <-ctx.Done():
		return Decision{}, hungUp(ctx, call)
	}
	select {
	case decided := <-m.done:
		if decided {
			return m.decision, nil
		}
		return Redeem(ctx, s.db, couponID, call)
	case <-ctx.Done():
		return Decision{}, hungUp(ctx, call)
	}
}

// lead makes the transaction of a group and answers every member. It goes on if its caller hangs up: the others need it.
func (s *Store) lead(ctx context.Context, g gate, first *member) {
	members := []*member{first}
	var decided map[*member]bool
	defer func() { // also after a panic
		<-g.slots
		for _, m := range members {
			m.done <- decided[m]
		}
	}()
	members = g.take(members)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), groupTimeout)
	defer cancel()
	var written map[*member]bool
	err := s.db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) (err error) {
		written, err = redeemAll(ctx, tx, distinct(members))
		return err
	})
	if err == nil {
		decided = written
	}
}

// take appends the calls that wait.
func (g gate) take(members []*member) []*member {
	for len(members) < maxGroup {
		select {
		case m := <-g.waiting:
			members = append(members, m)
		default:
			return members
		}
	}
	return members
}

// distinct leaves out members whose order an earlier one has. Of reservations of one coupon, turns lets one come here.
func distinct(members []*member) (chosen []*member) {
	orders := map[string]bool{}
	for _, m := range members {
		if !orders[m.call.OrderID] {
			orders[m.call.OrderID] = true
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// redeemAll locks, reads, decides and writes like redeem. It returns the members that it has decided.
func redeemAll(ctx context.Context, tx *sql.Tx, members []*member) (map[*member]bool, error) {
	locked, err := lockAll(ctx, tx, members)
	if err != nil || len(locked) == 0 {
		return nil, mysqltx.Wrap(err, "lock coupons")
	}
	sound, err := readAll(ctx, tx, locked)
	if err != nil {
		return nil, fmt.Errorf("read the orders of %d coupons: %w", len(locked), err)
	}
	decided := map[*member]bool{}
	var changed []*member
	for _, m := range sound {
		m.decision = Decide(m.facts, m.call)
		switch d := m.decision; {
		case len(d.Entries) == 0:
			decided[m] = true
		case len(d.Entries) == 1 && (m.call.Verb == Confirm || m.facts.Order.ID == ""):
			decided[m] = true
			changed = append(changed, m)
		}
	}
	if len(changed) == 0 {
		return decided, nil
	}
	return decided, writeAll(ctx, tx, changed)
}

const (
	orderedSQL   = "SELECT order_id, user_coupon_id FROM coupon_order WHERE order_id IN "
	lockAllOwned = selectCoupon + "(u.coupon_id, u.user_id) IN "
	lockAllByID  = selectCoupon + "u.id IN "
	skipLocked   = " FOR UPDATE SKIP LOCKED"

	rulesSQL  = "SELECT id, UTC_TIMESTAMP(6), discount_won, discount_percent, discount_max_won, minimum_won FROM coupon WHERE id IN "
	ordersSQL = "SELECT order_id, user_coupon_id, user_id, amount_won, discount_won, state, reserved_until FROM coupon_order WHERE order_id IN "

	insertOrdersSQL   = "INSERT INTO coupon_order (order_id, user_coupon_id, user_id, amount_won, discount_won, state, reserved_until) VALUES "
	reserveCouponsSQL = "UPDATE user_coupon SET status = 'RESERVED', seq = seq + 1, order_id = CASE id"
	confirmCouponsSQL = "UPDATE user_coupon SET status = 'USED', seq = seq + 1 WHERE id IN "
	confirmOrdersSQL  = "UPDATE coupon_order SET state = 'USED' WHERE state = 'RESERVED' AND order_id IN "
)

// lockAll locks the coupons of members and returns the members whose coupon is locked now.
func lockAll(ctx context.Context, tx *sql.Tx, members []*member) (locked []*member, err error) {
	byOwner, byID := map[owned]*member{}, map[coupon.UserCouponID]*member{}
	var query string
	var args []any
	if members[0].call.Verb == Reserve {
		for _, m := range members {
			byOwner[owned{m.coupon, m.call.User}] = m
			args = append(args, m.coupon, m.call.User)
		}
		query = lockAllOwned + "(" + mysqltx.List("(?, ?)", len(members)) + ")" + skipLocked
	} else {
		if byID, err = coupons(ctx, tx, members); err != nil || len(byID) == 0 {
			return nil, err
		}
		for id := range byID {
			args = append(args, id)
		}
		query = lockAllByID + mysqltx.In(len(args)) + skipLocked
	}
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var u UserCoupon
		var expires sql.NullTime
		err := rows.Scan(&u.ID, &u.Coupon, &u.User, &u.Status, &u.OrderID, &u.Seq, &expires)
		u.ExpiresAt = expires.Time
		m := byID[u.ID]
		if m == nil {
			m = byOwner[owned{u.Coupon, u.User}]
		}
		if m != nil {
			m.facts = Facts{Coupon: u}
			locked = append(locked, m)
		}
		return err
	}, query, args...)
	return locked, err
}

// coupons returns the members by the coupon of their order. Of two members with one coupon it returns one.
func coupons(ctx context.Context, tx *sql.Tx, members []*member) (map[coupon.UserCouponID]*member, error) {
	byOrder, args := map[string]*member{}, make([]any, len(members))
	for i, m := range members {
		byOrder[m.call.OrderID], args[i] = m, m.call.OrderID
	}
	byID := map[coupon.UserCouponID]*member{}
	err := mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var order string
		var id coupon.UserCouponID
		err := rows.Scan(&order, &id)
		if m := byOrder[order]; m != nil {
			byID[id] = m
		}
		return err
	}, orderedSQL+mysqltx.In(len(args)), args...)
	return byID, err
}

// readAll reads the clock, which it does after the lock, then the orders. It returns the members whose facts do not contradict
// each other. Redeem has the errors for the others.
func readAll(ctx context.Context, tx *sql.Tx, locked []*member) (sound []*member, err error) {
	type rules struct {
		now      time.Time
		discount coupon.Discount
	}
	byCoupon, ids := map[coupon.CouponID]rules{}, []any{}
	byOrder, orders := map[string]Order{}, []any{}
	for _, m := range locked {
		if _, known := byCoupon[m.facts.Coupon.Coupon]; !known {
			byCoupon[m.facts.Coupon.Coupon] = rules{}
			ids = append(ids, m.facts.Coupon.Coupon)
		}
		orders = append(orders, m.call.OrderID)
		if other := m.facts.Coupon.OrderID; other != "" && other != m.call.OrderID {
			orders = append(orders, other)
		}
	}
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var id coupon.CouponID
		var r rules
		err := rows.Scan(&id, &r.now, &r.discount.DiscountWon, &r.discount.DiscountPercent, &r.discount.DiscountMaxWon, &r.discount.MinimumWon)
		byCoupon[id] = r
		return err
	}, rulesSQL+mysqltx.In(len(ids)), ids...)
	if err != nil {
		return nil, err
	}
	err = mysqltx.Each(ctx, tx, func(rows *sql.Rows) error {
		var o Order
		err := rows.Scan(&o.ID, &o.UserCoupon, &o.User, &o.AmountWon, &o.DiscountWon, &o.State, &o.ReservedUntil)
		byOrder[o.ID] = o
		return err
	}, ordersSQL+mysqltx.In(len(orders)), orders...)
	if err != nil {
		return nil, err
	}
	for _, m := range locked {
		f := &m.facts
		r := byCoupon[f.Coupon.Coupon]
		f.Now, f.Discount, f.Order = r.now, r.discount, byOrder[m.call.OrderID]
		if f.Coupon.OrderID != "" {
			f.Holder = byOrder[f.Coupon.OrderID]
		}
		found := 1
		if r.now.IsZero() {
			found = 0
		}
		if f.check(found) == nil && (m.call.Verb == Reserve || f.Order.UserCoupon == f.Coupon.ID) {
			sound = append(sound, m)
		}
	}
	return sound, nil
}

// writeAll writes plain reservations, or plain confirmations.
func writeAll(ctx context.Context, tx *sql.Tx, changed []*member) error {
	n := len(changed)
	var err error
	if changed[0].call.Verb == Reserve {
		err = reserveAll(ctx, tx, changed)
	} else {
		ids, orders := make([]any, n), make([]any, n)
		for i, m := range changed {
			ids[i], orders[i] = m.decision.Coupon.ID, m.call.OrderID
		}
		if err = mysqltx.Exec(ctx, tx, n, confirmOrdersSQL+mysqltx.In(n), orders...); err == nil {
			err = mysqltx.Exec(ctx, tx, n, confirmCouponsSQL+mysqltx.In(n), ids...)
		}
	}
	if err != nil {
		return fmt.Errorf("write %d orders: %w", n, err)
	}
	var args []any
	for _, m := range changed {
		args = append(args, logRow(m.decision.Coupon.ID, m.facts.Coupon.Seq+1, m.facts.Now, m.call.Actor, m.decision.Entries[0])...)
	}
	return mysqltx.Wrap(mysqltx.Exec(ctx, tx, n, insertLogSQL+mysqltx.List(insertLogRow, n), args...), "log %d coupons", n)
}

func reserveAll(ctx context.Context, tx *sql.Tx, changed []*member) error {
	var rows, cases, ids []any
	for _, m := range changed {
		o := m.decision.Order
		rows = append(rows, o.ID, o.UserCoupon, o.User, o.AmountWon, o.DiscountWon, o.State, o.ReservedUntil)
		cases, ids = append(cases, o.UserCoupon, o.ID), append(ids, o.UserCoupon)
	}
	n := len(changed)
	if err := mysqltx.Exec(ctx, tx, n, insertOrdersSQL+mysqltx.List("(?, ?, ?, ?, ?, ?, ?)", n), rows...); err != nil {
		return err
	}
	return mysqltx.Exec(ctx, tx, n, reserveCouponsSQL+strings.Repeat(" WHEN ? THEN ?", n)+" END WHERE id IN "+mysqltx.In(n), append(cases, ids...)...)
}
