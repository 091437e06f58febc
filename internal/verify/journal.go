package verify

import (
	"context"
	"slices"
	"time"

	"github.com/jajeong/jajeong/internal/candidates"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/mysqltx"
)

// books are what MySQL keeps about the promises of a coupon. Without a row, its columns are 0.
type books struct {
	// Row of table journal: everybody who stood on the server of epoch at upTo or before is in the journal, or settled.
	epoch    string
	upTo     coupon.Arrival
	accepted int64 // the highest count of a restored server
	unfound  int64 // promises that restores did not find
	asked    int64 // how often a restore was asked for, since the last one

	// Row of table settled.
	sums
	writtenOff, erased int64
}

// booksSQL bounds the numbers: a larger one, which somebody wrote by hand, would end the check.
const booksSQL = `
SELECT COALESCE(j.epoch, ''), LEAST(COALESCE(j.up_to, 0), 9007199254740991),
    LEAST(COALESCE(j.accepted, 0), 9007199254740991), LEAST(COALESCE(j.unfound, 0), 9007199254740991),
    LEAST(COALESCE(j.asked, 0), 9007199254740991), LEAST(COALESCE(s.issued, 0), 9007199254740991),
    LEAST(COALESCE(s.concluded, 0), 9007199254740991), LEAST(COALESCE(s.settled_up_to, 0), 9007199254740991),
    LEAST(COALESCE(s.last_issued, 0), 9007199254740991), LEAST(COALESCE(s.written_off, 0), 9007199254740991),
    LEAST(COALESCE(s.erased, 0), 9007199254740991)
FROM coupon c LEFT JOIN journal j ON j.coupon_id = c.id LEFT JOIN settled s ON s.coupon_id = c.id WHERE c.id = ?`

func readBooks(ctx context.Context, q mysqltx.Querier, couponID coupon.CouponID) (b books, err error) {
	err = q.QueryRowContext(ctx, booksSQL, couponID).Scan(&b.epoch, &b.upTo, &b.accepted, &b.unfound, &b.asked,
		&b.issued, &b.concluded, &b.settledUpTo, &b.lastIssued, &b.writtenOff, &b.erased)
	return b, mysqltx.Wrap(err, "read journal and sums")
}

func (c *check) readBooks(ctx context.Context) (err error) {
	c.books, err = readBooks(ctx, c.tx, c.Coupon)
	c.Account.WrittenOff, c.Account.Erased = c.books.writtenOff, c.books.erased
	return err
}

// journalled is what the journal of an open coupon says about its users.
type journalled struct {
	lost   named // accounted for nowhere
	behind named // stand, but at a later arrival than the one that they were told
	wrong  named // have an arrival that no application can have

	highest uint64 // arrival
}

// told is a row of the journal: a user was told to stand at an arrival.
type told struct {
	arrival uint64 // µs; a number that was written by hand may be higher than every arrival
	user    coupon.UserID
	settled bool // MySQL accounts for the user at this arrival
}

// toldSQL reads a page of the journal by arrival and user. MySQL accounts for users who have the coupon from a run,
// were rejected, or have an outcome at this arrival or a later one, or of a run whose cutoff lies above it. A run whose
// clean-up is to come asks for a restore of its users then.
const toldSQL = `
SELECT l.arrival, l.user_id,
    EXISTS (SELECT 1 FROM user_coupon u
            WHERE u.coupon_id = l.coupon_id AND u.user_id = l.user_id AND u.run_id IS NOT NULL)
    OR EXISTS (SELECT 1 FROM application_outcome o LEFT JOIN settlement_run r ON r.id = o.run_id
                   LEFT JOIN settlement s ON s.run_id = o.run_id AND s.coupon_id = o.coupon_id
               WHERE o.coupon_id = l.coupon_id AND o.user_id = l.user_id
                 AND (o.outcome = 'REJECTED' OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01', o.applied_at) >= l.arrival
                      OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01', r.cutoff) > l.arrival
                      OR s.run_id IS NOT NULL AND s.cleaned_at IS NULL))
FROM line_journal l WHERE l.coupon_id = ? AND l.arrival >= ? AND (l.arrival > ? OR l.user_id > ?)
ORDER BY l.arrival, l.user_id LIMIT ?`

// toldPage is how many rows of the journal one query reads.
const toldPage = 1000

// checkJournal walks the journal of a coupon, and compares it with Redis and MySQL. It checks invariant 5: everybody
// arrived while the window was open. checkPromises reports the others. The journal of a finalised coupon is deleted
// after some minutes.
func (c *check) checkJournal(ctx context.Context) error {
	now := c.look.Now
	for after := (told{}); ; {
		page, err := mysqltx.Collect(ctx, c.tx, func(t *told) []any { return []any{&t.arrival, &t.user, &t.settled} },
			toldSQL, c.Coupon, after.arrival, after.arrival, after.user, toldPage)
		if err != nil {
			return mysqltx.Wrap(err, "read the journal")
		}
		if len(page) == 0 {
			c.findUsers(5, ArrivalWrong, c.journal.wrong, "users whom the journal has before the opening or ahead of "+
				"the clock, or who are no users: %d")
			return nil
		}
		after = page[len(page)-1]
		if after.aheadOf(now) { // time has passed since the look
			if now, err = c.verifier.Store.Now(ctx); err != nil {
				return err
			}
		}
		if err := c.judge(ctx, page, now); err != nil {
			return err
		}
	}
}

func (t told) aheadOf(now time.Time) bool {
	return t.arrival > uint64(now.Add(coupon.MaxAhead).UnixMicro())
}

// judge judges a page of the journal. MySQL was read before Redis: only a settlement leads from there to MySQL.
func (c *check) judge(ctx context.Context, page []told, now time.Time) error {
	opens := uint64(c.row.OpensAt.UnixMicro())
	var open []told
	for _, t := range page {
		c.journal.highest = max(c.journal.highest, t.arrival)
		switch {
		case t.user == 0 || t.arrival < opens || t.aheadOf(now):
			c.journal.wrong.add(t.user)
		case !t.settled:
			open = append(open, t)
		}
	}
	for some := range slices.Chunk(open, candidates.MaxWatched) {
		users := make([]coupon.UserID, len(some))
		for i, t := range some {
			users[i] = t.user
		}
		found, err := c.verifier.Store.Watch(ctx, c.Coupon, 0, users...)
		if err != nil {
			return err
		}
		for i, t := range some {
			entries := found.Users[i].Entries
			inPlace := func(e coupon.Application) bool { return uint64(e.Arrival) <= t.arrival }
			switch {
			case len(entries) == 0:
				c.journal.lost.add(t.user)
			case !slices.ContainsFunc(entries, inPlace):
				c.journal.behind.add(t.user)
			}
		}
	}
	return nil
}

// compared reports whether the server of the coupon was compared with the journal, and no other one was since. Before,
// its count may be too low.
func (b books) compared(l coupon.Look) bool {
	return l.Since > 0 && l.Restored && (b.epoch == "" || b.epoch == l.Epoch)
}

// checkPromises checks invariant 4: no promise is lost. A sum tells how many are missing, the journal who. Who stands
// behind their place is in no sum.
func (c *check) checkPromises(context.Context) error {
	if !c.books.compared(c.look) {
		c.Account.Accepted = max(c.Account.Accepted, c.books.accepted, c.Account.found())
	}
	c.Gap = c.Account.Gap()
	lost, behind := c.journal.lost, c.journal.behind
	if n := max(c.Gap, lost.count) + behind.count; n > 0 {
		c.find(4, PromiseLost, n, "promises lost: %d; %s; users of the journal who are accounted for nowhere: %d, who "+
			"stand behind their arrival: %d", n, c.Account, lost.count, behind.count)
		users := slices.Concat(lost.first, behind.first)
		c.Findings[len(c.Findings)-1].Users = users[:min(len(users), maxNamed)]
	}
	c.findAny(4, Excess, -c.Gap, "applications without a promise: %d; %s", c.Account)
	c.findAny(4, PromiseUnknown, c.books.unfound, "promises that a failover of Redis has lost, of people whom neither "+
		"the journal nor a process knew: %d")
	return nil
}

// checkLine checks invariant 5: the next arrival is higher than all others.
func (c *check) checkLine(context.Context) error {
	highest, now := max(c.look.Highest, c.lastIssued), coupon.ArrivalAt(c.look.Now)
	if next := max(c.Account.LastArrival+1, now); highest >= next {
		c.find(5, LineRewound, 1, "arrival %d is in Redis or has a seat, but the next arrival can be %d", highest, next)
	}
	known, upTo := max(c.look.Last, c.look.Highest, c.settledUpTo()), c.books.upTo
	sameServer := c.books.epoch != "" && c.books.epoch == c.look.Epoch
	if !c.row.Finalised() && upTo > known && (sameServer || upTo > c.look.Latest()) {
		c.find(5, LineRewound, 1,
			"the journal claims to have everybody up to arrival %d, but the highest arrival is %d", upTo, known)
	}
	if ahead := c.Account.LastArrival.Time().Sub(c.look.Now); ahead > coupon.MaxAhead {
		c.find(5, ClockAhead, 1,
			"the last arrival is %s ahead of the Redis clock; Redis accepts no application",
			ahead.Round(time.Millisecond))
		c.Findings[len(c.Findings)-1].Warning = !c.lastWritten()
	}
	return nil
}

// lastWritten reports whether somebody has written the last arrival of an open coupon: nobody arrived then. Else a
// clock was ahead.
func (c *check) lastWritten() bool {
	known := max(c.look.Highest, c.settledUpTo(), c.books.upTo, c.books.settledUpTo)
	return !c.row.Finalised() && c.look.Last > known && uint64(c.look.Last) > c.journal.highest
}

// named counts users and has the first of them. Its zero value has none.
type named struct {
	count int64
	first []coupon.UserID
	seen  map[coupon.UserID]bool
}

const (
	maxNamed = 100    // users of a finding
	maxSeen  = 50_000 // bounds the memory. Of more users, each row of the journal counts
)

func (n *named) add(user coupon.UserID) {
	if n.seen[user] {
		return
	}
	if n.seen == nil {
		n.seen = map[coupon.UserID]bool{}
	}
	if len(n.seen) < maxSeen {
		n.seen[user] = true
	}
	n.count++
	if len(n.first) < maxNamed {
		n.first = append(n.first, user)
	}
}

func (c *check) findUsers(invariant int, code Code, n named, format string) {
	if n.count > 0 {
		c.find(invariant, code, n.count, format, n.count)
		c.Findings[len(c.Findings)-1].Users = n.first
	}
}
