package events

import (
	"context"
	"database/sql"
)

// batch has the events of one round, in the order of publication.
type batch struct {
	messages []Message
	parts    []part   // their events come first
	changes  []uint64 // ids of the rows of coupon_log whose events follow
}

// part has the events of one settlement in a batch.
type part struct {
	*ahead
	events []encoded
	last   bool // the settlement has no events after these
}

func (b *batch) empty() bool { return len(b.parts) == 0 && len(b.changes) == 0 }

func (b *batch) add(e *Event) error {
	message, err := e.Message()
	b.messages = append(b.messages, message)
	return err
}

// take adds the next events of a settlement, at most limit.
func (b *batch) take(from *ahead, limit int) {
	p := part{ahead: from, events: from.take(limit)}
	p.last = from.left() == 0
	b.parts = append(b.parts, p)
	for i := range p.events {
		b.messages = append(b.messages, p.events[i].Message)
	}
}

// write writes that the first delivered messages are published, and moves the cursor.
func (b *batch) write(ctx context.Context, tx *sql.Tx, c *cursor, delivered int) error {
	var done []settlement
	for _, p := range b.parts {
		n := min(delivered, len(p.events))
		delivered -= n
		if n == len(p.events) && p.last {
			done = append(done, p.settlement)
			if c.settlement == p.settlement {
				*c = cursor{log: c.log, Place: c.Place, on: c.on}
			}
			continue
		}
		rest := p.events[n:]
		if n > 0 {
			c.settlement, c.position = p.settlement, p.events[n-1].position
			c.left, c.row = len(rest)+p.left(), p.lowest(rest)
		}
		if len(rest) > 0 {
			break // nothing after these is delivered
		}
	}
	if err := markPublished(ctx, tx, done); err != nil {
		return err
	}
	return markChanges(ctx, tx, b.changes[:min(delivered, len(b.changes))])
}
