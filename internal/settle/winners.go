package settle

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/records"
	"github.com/jajeong/jajeong/internal/text"
)

// winners sums up the applications that got seats in one transaction.
type winners struct {
	count       int
	first, last coupon.Arrival
	digest      string // sha256:… of the user ids in order, each in decimal with a newline
}

// pin returns the digest that an operator approves: over the winners and, if there is one, the gap.
func (w winners) pin(gap int64) string {
	if gap <= 0 {
		return w.digest
	}
	return sum(sha256.Sum256(fmt.Appendf(nil, "%s\n%d missing\n", w.digest, gap)))
}

func sum(hash [sha256.Size]byte) string { return "sha256:" + hex.EncodeToString(hash[:]) }

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

// approve returns an error, which holds the coupon, if an operator has approved another digest. If the run has nothing
// to issue, approve accepts the digest of an earlier settlement or write-off, because a run may be repeated.
func (s *settlement) approve(ctx context.Context, tx *sql.Tx, done issued) error {
	want, pinned := s.run.Expect[s.coupon.ID]
	if !pinned || done.pin == want {
		return nil
	}
	n, gap := done.seated.winners.count, max(0, done.account.Gap())
	if n == 0 && gap == 0 {
		if before, err := records.HasDigest(ctx, tx, s.coupon.ID, want); err != nil || before {
			return err
		}
	}
	return invariant(text.Errorf(text.OtherWinners, n, done.pin, want))
}
