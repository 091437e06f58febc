package mysqltx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// free lets a member work alone.
func free() error { return nil }

// members runs work for each number from 1 to n, as members of a group, and returns the errors.
func members(t *testing.T, db *DB, n int, work func(g *GroupMember, member int) error) []error {
	t.Helper()
	failed := make([]error, n)
	var all sync.WaitGroup
	for i, member := range db.NewGroup(t.Context(), n) {
		all.Go(func() {
			member.Join()
			defer member.Leave()
			defer func() {
				if p := recover(); p != nil {
					failed[i] = fmt.Errorf("%v", p)
				}
			}()
			failed[i] = work(member, i+1)
		})
	}
	all.Wait()
	require.Zero(t, db.pool.Stats().InUse)
	return failed
}

// scribes insert rows into table settled, and remember the statements.
type scribes struct{ sent [][]int }

func (s *scribes) write(ctx context.Context, tx *sql.Tx, member int) error {
	double, err := Together(ctx, tx, "write", member, func(ctx context.Context, q Querier, all []int) ([]int, error) {
		s.sent = append(s.sent, slices.Clone(all))
		doubles := make([]int, len(all))
		for i, member := range all {
			doubles[i] = 2 * member
		}
		return doubles, Exec(ctx, q, len(all), "INSERT INTO settled (coupon_id) VALUES "+List("(?)", len(all)), Args(all)...)
	})
	if err == nil && double != 2*member {
		err = fmt.Errorf("member %d got the result %d", member, double)
	}
	return err
}

func (d *DB) written(t *testing.T) []int {
	t.Helper()
	ids, err := Column[int](t.Context(), d.pool, "SELECT coupon_id FROM settled ORDER BY coupon_id")
	require.NoError(t, err)
	return ids
}

func TestGroup_SharesStatementsAndCommit(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	var s scribes
	failed := members(t, db, 3, func(g *GroupMember, member int) error {
		return g.Do(t.Context(), free, func(ctx context.Context, tx *sql.Tx) error {
			if member == 2 { // has nothing to write
				return nil
			}
			return s.write(ctx, tx, member)
		})
	})
	require.Equal(t, make([]error, 3), failed)
	require.Equal(t, [][]int{{1, 3}}, s.sent)
	require.Equal(t, []int{1, 3}, db.written(t))
}

func TestGroup_SharesFurtherTransactionsOfSomeMembers(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	var s scribes
	failed := members(t, db, 3, func(g *GroupMember, member int) error {
		for round := range member {
			if err := g.Do(t.Context(), free, func(ctx context.Context, tx *sql.Tx) error { return s.write(ctx, tx, 10*round+member) }); err != nil {
				return err
			}
		}
		return g.OnConn(t.Context(), func(ctx context.Context, q Querier) error {
			_, err := Together(ctx, q, "look", member, OneByOne(func(ctx context.Context, q Querier, _ int) (int64, error) {
				n, err := Column[int64](ctx, q, "SELECT COUNT(*) FROM settled")
				return n[0], err
			}))
			return err
		})
	})
	require.Equal(t, make([]error, 3), failed)
	require.Equal(t, [][]int{{1, 2, 3}, {12, 13}, {23}}, s.sent)
	require.Equal(t, []int{1, 2, 3, 12, 13, 23}, db.written(t))
}

// What one member does must not cost the others their work.
func TestGroup_BreaksUp(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"after an error":               func(context.Context, *sql.Tx) error { return errors.New("disturbed") },
		"after a panic":                func(context.Context, *sql.Tx) error { panic("disturbed") },
		"at an error of MySQL":         func(ctx context.Context, tx *sql.Tx) error { return unknownTable(ctx, tx) },
		"at a panic for all":           func(ctx context.Context, tx *sql.Tx) error { return panicForAll(ctx, tx) },
		"at a statement of one member": func(ctx context.Context, tx *sql.Tx) error { return unknownTableAlone(ctx, tx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDB(t)
			var s scribes
			failed := members(t, db, 3, func(g *GroupMember, member int) error {
				return g.Do(t.Context(), free, func(ctx context.Context, tx *sql.Tx) error {
					if err := s.write(ctx, tx, member); err != nil || member != 2 {
						return err
					}
					return disturb(ctx, tx)
				})
			})
			require.NoError(t, failed[0])
			require.Error(t, failed[1])
			require.NotErrorIs(t, failed[1], errAlone)
			require.NoError(t, failed[2])
			require.Equal(t, []int{1, 3}, db.written(t))
			require.Equal(t, []int{1, 2, 3}, s.sent[0])
		})
	}
}

// What a member has decided under the lock stands: it is not decided again. The others work alone.
func TestGroup_KeepsTheErrorOfAMembersOwnWork(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	own, calls := errors.New("held"), make([]int, 4)
	failed := members(t, db, 3, func(g *GroupMember, member int) error {
		return g.Do(t.Context(), free, func(ctx context.Context, tx *sql.Tx) error {
			calls[member]++
			if err := new(scribes).write(ctx, tx, member); err != nil {
				return err
			}
			if member == 2 {
				return own
			}
			return nil
		})
	})
	require.Equal(t, []error{nil, own, nil}, failed)
	require.Equal(t, []int{0, 2, 1, 2}, calls)
	require.Equal(t, []int{1, 3}, db.written(t))
}

func TestGroup_AsksBeforeAMemberWorksAlone(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	own, stopped := errors.New("held"), errors.New("stopped")
	failed := members(t, db, 3, func(g *GroupMember, member int) error {
		mayBegin := free
		if member == 3 {
			mayBegin = func() error { return stopped }
		}
		return g.Do(t.Context(), mayBegin, func(ctx context.Context, tx *sql.Tx) error {
			if member == 2 {
				return own
			}
			return new(scribes).write(ctx, tx, member)
		})
	})
	require.Equal(t, []error{nil, own, stopped}, failed)
	require.Equal(t, []int{1}, db.written(t))
}

func unknownTable(ctx context.Context, tx *sql.Tx) error {
	_, err := Together(ctx, tx, "fail", 0, func(ctx context.Context, q Querier, all []int) ([]int, error) {
		return all, Exec(ctx, q, 1, "INSERT INTO no_such_table VALUES (1)")
	})
	return err
}

func panicForAll(ctx context.Context, tx *sql.Tx) error {
	_, err := Together(ctx, tx, "panic", 0, func(context.Context, Querier, []int) ([]int, error) { panic("disturbed") })
	return err
}

func unknownTableAlone(ctx context.Context, tx *sql.Tx) error {
	return Exec(ctx, tx, 1, "INSERT INTO no_such_table VALUES (1)")
}

// A statement of one member alone is done, once all are alone.
func TestGroup_DoesStatementsThatAreNotShared(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	failed := members(t, db, 3, func(g *GroupMember, member int) error {
		return g.Do(t.Context(), free, func(ctx context.Context, tx *sql.Tx) error {
			return Exec(ctx, tx, 1, "INSERT INTO settled (coupon_id) VALUES (?)", member)
		})
	})
	require.Equal(t, make([]error, 3), failed)
	require.Equal(t, []int{1, 2, 3}, db.written(t))
}
