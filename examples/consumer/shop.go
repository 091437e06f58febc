package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	handleWithin = 5 * time.Second // one event; its transaction takes milliseconds
	duplicateKey = 1062
)

// Shop is the Handler of a shop that keeps the state of its customers' coupons in tables of its own.
type Shop struct{ *sql.DB }

//go:embed schema.sql
var schema string

const (
	insertEvent = `INSERT INTO shop_event (source, event_id, handled_at) VALUES (?, ?, UTC_TIMESTAMP(6))`

	countEvent = `INSERT INTO shop_coupon (source, subject, sequence, state, changed_at, last_event_id, events)
VALUES (?, ?, -1, '', ?, '', 1) ON DUPLICATE KEY UPDATE events = events + 1`

	// A database of Jajeong that was put back to an earlier instant gives sequences again: a change with a later time
	// is a later one, too. Nothing comes before sequence 0, whose time is of another clock.
	changeState = `UPDATE shop_coupon SET sequence = ?, state = ?, changed_at = ?, last_event_id = ?
WHERE source = ? AND subject = ? AND (sequence < ? OR ? > 0 AND changed_at < ?)`
)

// states are the states that events lead to. Each of these events tells the whole state, so a later one makes an
// earlier one needless. An event that tells only a part, such as extended, would need a sequence and a time of its
// own for that part.
var states = map[string]string{
	"kr.jajeong.coupon.issued.v1":   "AVAILABLE",
	"kr.jajeong.coupon.granted.v1":  "AVAILABLE",
	"kr.jajeong.coupon.reserved.v1": "RESERVED",
	"kr.jajeong.coupon.used.v1":     "USED",
	"kr.jajeong.coupon.released.v1": "AVAILABLE",
	"kr.jajeong.coupon.refunded.v1": "AVAILABLE",
	"kr.jajeong.coupon.revoked.v1":  "REVOKED",
	"kr.jajeong.coupon.reissued.v1": "AVAILABLE",
}

// OpenShop connects to nothing yet.
func OpenShop(dsn string) (*Shop, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("--mysql: %w", err)
	}
	config.InterpolateParams, config.Timeout = true, handleWithin
	db, err := sql.Open("mysql", config.FormatDSN())
	return &Shop{db}, err
}

// Prepare creates the tables that are missing.
func (s *Shop) Prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, handleWithin)
	defer cancel()
	for table := range strings.SplitSeq(schema, ";") {
		if _, err := s.ExecContext(ctx, table); err != nil {
			return fmt.Errorf("create the shop's tables: %w", err)
		}
	}
	return nil
}

// Handle remembers the event and changes the coupon in one transaction: both happen, or neither.
func (s *Shop) Handle(ctx context.Context, e *Event) (Outcome, error) {
	if states[e.Type] == "" {
		return Ignored, nil
	}
	within, cancel := context.WithTimeout(ctx, handleWithin)
	defer cancel()
	outcome, err := s.apply(within, e)
	if err != nil && s.refused(ctx, err) {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return outcome, err
}

func (s *Shop) apply(ctx context.Context, e *Event) (Outcome, error) {
	tx, err := s.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, insertEvent, e.Source, e.ID)
	if known := (*mysql.MySQLError)(nil); errors.As(err, &known) && known.Number == duplicateKey {
		return Duplicate, nil
	}
	if err != nil {
		return "", err
	}
	// What must happen once for each event, in any order, belongs here. The count is an example.
	if _, err := tx.ExecContext(ctx, countEvent, e.Source, e.Subject, e.Time); err != nil {
		return "", err
	}
	// What must show the latest event belongs here.
	result, err := tx.ExecContext(ctx, changeState, e.Sequence, states[e.Type], e.Time, e.ID, e.Source, e.Subject,
		e.Sequence, e.Sequence, e.Time)
	if err != nil {
		return "", err
	}
	if changed, err := result.RowsAffected(); err != nil || changed == 0 {
		return Superseded, errors.Join(err, tx.Commit())
	}
	return Applied, tx.Commit()
}

// refused reports whether an error concerns the event alone: the database objects to its data (SQLSTATE classes 22, 23
// and 45), or it answers while this event takes too long. Anything else, such as a missing table, would fail every
// event.
func (s *Shop) refused(ctx context.Context, err error) bool {
	var reply *mysql.MySQLError
	if errors.As(err, &reply) {
		return slices.Contains([]string{"22", "23", "45"}, string(reply.SQLState[:2]))
	}
	ctx, cancel := context.WithTimeout(ctx, handleWithin)
	defer cancel()
	return errors.Is(err, context.DeadlineExceeded) && s.PingContext(ctx) == nil
}
