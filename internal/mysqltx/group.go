package mysqltx

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// GroupMember is one of a group. The members do the same work in one transaction, with statements that they share. Each member runs
// in its own goroutine, but only one runs at a time. At a shared statement a member waits until all members wait for one. Then
// one of them sends it for all.
//
// A group is for work that goes well. After any error, or a statement that cannot be shared, the transaction is rolled back
// and the group is broken up. Each member then works alone, one after the other.
type GroupMember struct {
	*group
	number int
}

type group struct {
	ctx context.Context
	db  *DB
	own *sql.DB // its transactions refuse every statement that is not shared

	turn    sync.Mutex // held by the member that works; it protects the fields below
	members int        // number of members that have not left
	waiting []*part    // at most one for each member
	conn    *sql.Conn
	tx      *sql.Tx
	inTx    int // number of members in the transaction
	broken  bool
}

// part is what one member wants done.
type part struct {
	of   int // number of the member
	name string
	in   any
	tx   bool // within the transaction
	send func(ctx context.Context, q Querier, all []*part) error
	out  any
	err  error
	done chan struct{}
}

const (
	beginning  = "begin"
	committing = "commit"
)

// errAlone is the error of a member's work if the group was broken up, for whatever reason.
var errAlone = errors.New("the group was broken up")

// NewGroup returns the members of a group. Each calls Join, works, and calls Leave.
func (d *DB) NewGroup(ctx context.Context, members int) []*GroupMember {
	g := &group{ctx: ctx, db: d, own: sql.OpenDB(refuser{}), members: members}
	all := make([]*GroupMember, members)
	for i := range all {
		all[i] = &GroupMember{g, i}
	}
	return all
}

type memberKey struct{}

// sharing is what the context of a member's work knows.
type sharing struct {
	*GroupMember
	tx bool
}

// Together does something for every member of the group at once. do gets what the members have given, and returns one result
// for each of them, in the order of the members. Without a group, do gets one. Members that call it at the same time under the
// same name are taken together, and the function of one of them is called: it may use only its arguments, and what is the same
// for all members.
func Together[I, O any](ctx context.Context, q Querier, name string, in I, do func(ctx context.Context, q Querier, all []I) ([]O, error)) (out O, err error) {
	with, ok := ctx.Value(memberKey{}).(sharing)
	if !ok {
		outs, err := do(ctx, q, []I{in})
		if err == nil {
			out = outs[0]
		}
		return out, err
	}
	p := &part{of: with.number, name: name, in: in, tx: with.tx, send: func(ctx context.Context, q Querier, all []*part) error {
		ins := make([]I, len(all))
		for i, p := range all {
			ins[i] = p.in.(I)
		}
		outs, err := do(ctx, q, ins)
		for i, out := range outs {
			all[i].out = out
		}
		return err
	}}
	if err := with.wait(p); err != nil {
		return out, err
	}
	return p.out.(O), nil
}

// Singly does something for one member, as a part of the shared transaction.
func Singly[O any](ctx context.Context, q Querier, do func(ctx context.Context, q Querier) (O, error)) (O, error) {
	name := fmt.Sprintf("singly, %T", do) // the parts of one name have one type
	return Together(ctx, q, name, do, OneByOne(func(ctx context.Context, q Querier, do func(ctx context.Context, q Querier) (O, error)) (O, error) {
		return do(ctx, q)
	}))
}

// OneByOne makes a function for several members out of one for a single member.
func OneByOne[I, O any](do func(ctx context.Context, q Querier, in I) (O, error)) func(context.Context, Querier, []I) ([]O, error) {
	return func(ctx context.Context, q Querier, all []I) ([]O, error) {
		outs := make([]O, len(all))
		for i, in := range all {
			var err error
			if outs[i], err = do(ctx, q, in); err != nil {
				return nil, err
			}
		}
		return outs, nil
	}
}

// Shared reports whether the work of ctx is that of a group's member.
func Shared(ctx context.Context) bool {
	_, ok := ctx.Value(memberKey{}).(sharing)
	return ok
}

// Do is DB.Do. All members do their work in one transaction. If that fails, each does it again, alone, unless its own work
// has failed with an error after which DB.Do would not repeat it either. An error of mayBegin keeps it from working alone.
func (g *GroupMember) Do(ctx context.Context, mayBegin func() error, work func(ctx context.Context, tx *sql.Tx) error) error {
	var unknown *CommitUnknown
	err := g.share(ctx, work)
	if err == nil || !errors.Is(err, errAlone) && !repeatable(err) {
		return err
	}
	lost := errors.As(err, &unknown)
	if err := mayBegin(); err != nil && !lost {
		return err
	}
	err = g.db.Do(ctx, func(ctx context.Context, tx *sql.Tx, _ int) error { return work(ctx, tx) })
	if err == nil || !lost || errors.As(err, &unknown) {
		return err
	}
	return &CommitUnknown{err}
}

// share returns an error if the transaction was not committed, or if its COMMIT got no reply.
func (g *GroupMember) share(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) error) error {
	if err := g.wait(&part{of: g.number, name: beginning}); err != nil {
		return err
	}
	good := false
	defer func() { // also after a panic of work
		if !good {
			g.breakUp()
		}
	}()
	own, err := g.own.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = own.Rollback() }()
	if err := work(context.WithValue(ctx, memberKey{}, sharing{g, true}), own); err != nil {
		return err
	}
	err = g.wait(&part{of: g.number, name: committing, tx: true})
	good = err == nil
	return err
}

// OnConn is DB.OnConn. If shared work fails, each member does it again, alone.
func (g *GroupMember) OnConn(ctx context.Context, work func(ctx context.Context, q Querier) error) error {
	if work(context.WithValue(ctx, memberKey{}, sharing{g, false}), g.own) == nil {
		return nil
	}
	g.breakUp()
	return g.db.OnConn(ctx, func(ctx context.Context, q Querier, _ int) error { return work(ctx, q) })
}

// Join begins the work of a member, when the others wait or have not begun.
func (g *GroupMember) Join() { g.turn.Lock() }

// Leave ends the work of a member.
func (g *GroupMember) Leave() {
	defer g.turn.Unlock()
	g.members--
	g.send(g.ready())
	if g.members == 0 {
		_ = g.own.Close()
	}
}

// wait returns when the part is done. Meanwhile other members work.
func (g *group) wait(p *part) error {
	if g.broken {
		return errAlone
	}
	p.done = make(chan struct{})
	g.waiting = append(g.waiting, p)
	g.send(g.ready())
	g.turn.Unlock()
	<-p.done
	g.turn.Lock()
	return p.err
}

// ready takes out the parts that can be done, if every member waits. A transaction is committed when all of its members
// want it, and the next one begins after it.
func (g *group) ready() (parts []*part) {
	if len(g.waiting) < g.members {
		return nil
	}
	commits := 0
	for _, p := range g.waiting {
		if p.name == committing {
			commits++
		}
	}
	var later []*part
	for _, p := range g.waiting {
		if p.name == committing && commits < g.inTx || p.name == beginning && g.inTx > 0 {
			later = append(later, p)
		} else {
			parts = append(parts, p)
		}
	}
	g.waiting = later
	return parts
}

// send does the parts, those of one name together.
func (g *group) send(parts []*part) {
	slices.SortFunc(parts, func(a, b *part) int { return cmp.Compare(a.of, b.of) })
	for len(parts) > 0 {
		first := parts[0]
		var some, others []*part
		for _, p := range parts {
			if p.name == first.name && p.tx == first.tx {
				some = append(some, p)
			} else {
				others = append(others, p)
			}
		}
		parts = others
		err := g.sendSome(some)
		if err != nil {
			g.breakUp()
			err = fmt.Errorf("%w: %w", errAlone, err) // it may concern another member
		}
		for _, p := range some {
			p.fail(err)
		}
	}
}

// fail ends a part; with nil it has not failed.
func (p *part) fail(err error) {
	p.err = err
	close(p.done)
}

// sendSome returns an error after a panic, too. The member that caused it panics again when it works alone.
func (g *group) sendSome(some []*part) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v, in a group", p)
		}
	}()
	switch first := some[0]; {
	case g.broken:
		return errAlone
	case first.name == beginning:
		return g.begin(len(some))
	case first.name == committing:
		return g.commit()
	case first.tx:
		return first.send(g.ctx, g.tx, some)
	default:
		return g.db.Once(g.ctx, func(ctx context.Context, q Querier) error { return first.send(ctx, q, some) })
	}
}

func (g *group) begin(members int) (err error) {
	if g.conn, err = g.db.pool.Conn(g.ctx); err != nil {
		return err
	}
	if g.tx, err = g.conn.BeginTx(g.ctx, nil); err != nil {
		g.end()
		return err
	}
	g.inTx = members
	return nil
}

func (g *group) commit() error {
	err := commit(g.ctx, g.conn, g.tx)
	g.end()
	return err
}

// end gives the connection back.
func (g *group) end() {
	if g.tx != nil {
		_ = bounded(g.ctx, g.tx.Rollback) // nothing is left to roll back after a COMMIT
	}
	if conn := g.conn; conn != nil {
		if g.ctx.Err() != nil {
			go conn.Close() // Close waits for a statement that may hang
		} else {
			_ = conn.Close()
		}
	}
	g.conn, g.tx, g.inTx = nil, nil, 0
}

// breakUp ends the group for good: what is not committed is rolled back.
func (g *group) breakUp() {
	g.broken = true
	g.end()
	for _, p := range g.waiting {
		p.fail(errAlone)
	}
	g.waiting = nil
}

// refuser is a driver whose connections refuse every statement.
type refuser struct{}

func (refuser) Connect(context.Context) (driver.Conn, error) { return refuser{}, nil }
func (refuser) Driver() driver.Driver                        { return refuser{} }
func (refuser) Open(string) (driver.Conn, error)             { return refuser{}, nil }
func (refuser) Prepare(string) (driver.Stmt, error)          { return nil, errAlone }
func (refuser) Begin() (driver.Tx, error)                    { return refuser{}, nil }
func (refuser) Commit() error                                { return nil }
func (refuser) Rollback() error                              { return nil }
func (refuser) Close() error                                 { return nil }
