package settle

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"

	"github.com/jajeong/jajeong/internal/audit"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/text"
)

// winners are the applications that one transaction issued the coupon to, summed up.
type winners struct {
	count       int
	first, last coupon.Arrival
	digest      string // sha256:…, over the user ids in order, each in decimal with a newline
}

// pin is what an operator approves: the winners' digest, or one that covers the number of missing applications as well.
func (w winners) pin(gap int64) string {
	if gap <= 0 {
		return w.digest
	}
	return sum(sha256.Sum256(fmt.Appendf(nil, "%s\n%d missing\n", w.digest, gap)))
}

func sum(hash [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(hash[:]) }

// digest adds up winners.
type digest struct {
	hash   hash.Hash
	buffer []byte
	winners
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) add(issued []coupon.Application) {
	if len(issued) == 0 {
		return
	}
	d.buffer = d.buffer[:0]
	for _, a := range issued {
		d.buffer = append(strconv.AppendUint(d.buffer, uint64(a.User()), 10), '\n')
	}
	d.hash.Write(d.buffer)
	if d.count == 0 {
		d.first = issued[0].Arrival
	}
	d.last = issued[len(issued)-1].Arrival
	d.count += len(issued)
}

func (d *digest) sum() winners {
	w := d.winners
	w.digest = sum([sha256.Size]byte(d.hash.Sum(nil)))
	return w
}

// approve holds the coupon unless its winners and its gap are those that an operator approved. A settlement that was done
// before counts as approved.
func (s *settlement) approve(ctx context.Context, tx *sql.Tx, done issued) error {
	want, pinned := s.run.Expect[s.coupon.ID]
	if !pinned || done.pin == want {
		return nil
	}
	n, gap := done.seated.winners.count, max(0, done.account.Gap())
	if n == 0 && gap == 0 {
		if before, err := anySettlementOf(ctx, tx, s.coupon.ID, want); err != nil || before {
			return err
		}
	}
	return invariant(text.Errorf(text.OtherWinners, n, done.pin, want))
}

// anySettlementOfSQL compares the end of the detail that writeOff writes, of events in the audit chain alone.
const anySettlementOfSQL = `
SELECT EXISTS (SELECT 1 FROM settlement WHERE coupon_id = ? AND winners_digest = ?)
    OR EXISTS (SELECT 1` + audit.Chained + `WHERE e.coupon_id = ? AND e.action = ? AND SUBSTRING_INDEX(e.detail, '; ', -1) = ?)`

// anySettlementOf reports whether a run has issued the coupon to the winners of this pin, or accepted its gap for this pin.
func anySettlementOf(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID, pin string) (bool, error) {
	var found bool
	if err := q.QueryRowContext(ctx, anySettlementOfSQL, couponID, pin, couponID, audit.GapAccepted, pin).Scan(&found); err != nil {
		return false, fmt.Errorf("look for the winners of coupon %d: %w", couponID, err)
	}
	return found, nil
}
