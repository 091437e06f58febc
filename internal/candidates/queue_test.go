package candidates

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/testenv"
)

// sourcesByReason are the sources of DLQ entries with these reasons; "-" is no reason.
var sourcesByReason = map[string]coupon.Source{
	"-":                                     coupon.SourceHeld,
	"":                                      coupon.SourceHeld,
	"not json":                              coupon.SourceHeld,
	"null":                                  coupon.SourceHeld,
	"true":                                  coupon.SourceHeld,
	`"retryable"`:                           coupon.SourceHeld,
	"[true]":                                coupon.SourceHeld,
	"{}":                                    coupon.SourceHeld,
	`{"retryable":false}`:                   coupon.SourceHeld,
	`{"retryable":"true"}`:                  coupon.SourceHeld,
	`{"retryable":1}`:                       coupon.SourceHeld,
	`{"retryable":null}`:                    coupon.SourceHeld,
	`{"retryable":true`:                     coupon.SourceHeld,
	`{"retryable":true}`:                    coupon.SourceRetryable,
	`{"a":1,"retryable":true,"attempts":3}`: coupon.SourceRetryable,
}

// scoredEntry is an expected entry of a page, with its score.
type scoredEntry struct {
	coupon.Application
	score float64
}

// compare is the order of entries, without Redis.
func (e scoredEntry) compare(other scoredEntry) int {
	return cmp.Or(cmp.Compare(e.score, other.score), cmp.Compare(e.Member, other.Member))
}

func expected(score, member string, source coupon.Source) scoredEntry {
	number, err := strconv.ParseFloat(score, 64)
	if err != nil {
		panic(err)
	}
	arrival := coupon.Arrival(0)
	if number > 0 {
		arrival = coupon.Arrival(math.Min(math.Floor(number), 1<<53-1))
	}
	return scoredEntry{entry(member, arrival, source), number}
}

// addToDLQ writes a DLQ entry by hand, with its reason.
func (c *fixture) addToDLQ(t testingT, at place, reason string) {
	t.Helper()
	c.addByHand(t, c.dlq, at)
	if reason != "-" {
		require.NoError(t, c.rdb.HSet(t.Context(), c.reason, at.member, reason).Err())
	}
}

func (c *fixture) page(t testingT, after coupon.Cursor, cutoff time.Time) ([]coupon.Application, coupon.Cursor) {
	t.Helper()
	entries, next, err := c.Page(t.Context(), c.id, after, cutoff)
	require.NoError(t, err)
	return entries, next
}

// pages reads all pages.
func (c *fixture) pages(t testingT, cutoff time.Time) (all []coupon.Application, pages []int) {
	t.Helper()
	for cursor := (coupon.Cursor{}); ; {
		entries, next := c.page(t, cursor, cutoff)
		if len(entries) == 0 {
			cursor.End = true
			require.Equal(t, cursor, next, "the last cursor stays")
			return all, pages
		}
		all, pages, cursor = append(all, entries...), append(pages, len(entries)), next
		require.Less(t, len(pages), 100, "the pages have no end")
	}
}

// Thousands of entries in queue and DLQ, with ties across every page border, at the real limits.
func TestPagesReturnEveryEntryOnce(t *testing.T) {
	t.Parallel()
	at := µs(noon)
	for name, tc := range map[string]struct {
		queue, dlq int
		tie        int // entries per score
	}{
		"one score for all":        {queue: 2500, dlq: 600, tie: 5000},
		"interleaved":              {queue: 3300, dlq: 800, tie: 3},
		"exactly the limits":       {queue: queuePageMembers, dlq: dlqPageMembers, tie: 4},
		"one more than the limits": {queue: queuePageMembers + 1, dlq: dlqPageMembers + 1, tie: 1001},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoupon(t)
			var want []scoredEntry
			var queue, dlq []place
			for i := range tc.queue {
				p := place{decimal(at + coupon.Arrival(i/tc.tie)), "q" + strconv.Itoa(i)}
				queue = append(queue, p)
				want = append(want, expected(p.score, p.member, coupon.SourceQueue))
			}
			reasons := map[string]any{}
			for i := range tc.dlq {
				p := place{decimal(at + coupon.Arrival(i/tc.tie)), strconv.Itoa(i)}
				if i%2 == 0 {
					p.member = "z" + p.member
				}
				source := coupon.SourceHeld
				if i%3 == 0 {
					source = coupon.SourceRetryable
					reasons[p.member] = `{"retryable":true}`
				}
				dlq = append(dlq, p)
				want = append(want, expected(p.score, p.member, source))
			}
			c.addByHand(t, c.queue, queue...)
			c.addByHand(t, c.dlq, dlq...)
			if len(reasons) > 0 {
				require.NoError(t, c.rdb.HSet(t.Context(), c.reason, reasons).Err())
			}
			slices.SortFunc(want, scoredEntry.compare)
			all, pages := c.pages(t, noon.Add(time.Hour))
			require.Equal(t, entriesOf(want), all)
			for _, n := range pages {
				require.LessOrEqual(t, n, queuePageMembers+dlqPageMembers)
			}
			require.LessOrEqual(t, len(pages), tc.queue/queuePageMembers+tc.dlq/dlqPageMembers+2, "pages are full")
		})
	}
}

func entriesOf(scored []scoredEntry) (entries []coupon.Application) {
	for _, e := range scored {
		entries = append(entries, e.Application)
	}
	return entries
}

// Each page continues the sorted queue and DLQ, for any content, limits and removals between pages.
func TestPagesAreSorted(t *testing.T) {
	t.Parallel()
	h := testenv.RedisFor(t)
	members := []string{
		"", "\x00", "\x00\x00", " ", "0", "00", "1", "10", "2", "9", "A", "Z", "a", "aa", "ab", "b", "é", "z", "한",
		"한글", "\u007f",
		"\x80", "\xc3", "\xc3\xa9", "\xed\x95", "\xfe", "\xff", "\xff\x00", "\xff\xff", "7", "77",
		"18446744073709551615",
	}
	scores := []string{"-inf", "-9007199254740993", "-2.5", "-1", "0", "0.5", "1", "1.25", "2", "2", "2", "3", "99",
		"99.5", "100", "100.5", "1e18", "+inf"}
	cutoff := time.UnixMicro(100)
	reasons := []string{}
	for reason := range sourcesByReason {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	places := rapid.MapOf(rapid.SampledFrom(members), rapid.SampledFrom(scores))

	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: h.Addrs})
	defer rdb.Close()
	c := couponOn(t, rdb, h.Prefix, 1)
	id := coupon.CouponID(0)
	rapid.Check(t, func(t *rapid.T) {
		id++
		c := c.another(id)
		queue, dlq := places.Draw(t, "queue"), places.Draw(t, "dlq")
		var rest []scoredEntry
		for member, score := range queue {
			c.addByHand(t, c.queue, place{score, member})
			rest = append(rest, expected(score, member, coupon.SourceQueue))
		}
		for _, member := range sorted(dlq) {
			reason := rapid.SampledFrom(reasons).Draw(t, "reason of "+strconv.Quote(member))
			c.addToDLQ(t, place{dlq[member], member}, reason)
			if queue[member] == dlq[member] {
				// Pages may have an application of both keys once or twice.
				rest = slices.DeleteFunc(rest, func(e scoredEntry) bool {
					return e.Member == member &&
						e.Source == coupon.SourceQueue
				})
				require.NoError(t, c.rdb.ZRem(t.Context(), c.queue, member).Err())
			}
			rest = append(rest, expected(dlq[member], member, sourcesByReason[reason]))
		}
		rest = slices.DeleteFunc(rest, func(e scoredEntry) bool { return e.score >= 100 })
		slices.SortFunc(rest, scoredEntry.compare)

		limits := rapid.IntRange(1, 12)
		c.on.queuePage.Store(int64(limits.Draw(t, "queue page")))
		c.on.dlqPage.Store(int64(limits.Draw(t, "dlq page")))
		for cursor := (coupon.Cursor{}); ; {
			entries, next := c.page(t, cursor, cutoff)
			if len(entries) == 0 {
				require.Empty(t, entriesOf(rest), "the pages ended early")
				return
			}
			require.LessOrEqual(t, int64(len(entries)), c.on.queuePage.Load()+c.on.dlqPage.Load())
			require.LessOrEqual(t, len(entries), len(rest))
			require.Equal(t, entriesOf(rest[:len(entries)]), entries)
			read := rest[:len(entries)]
			rest, cursor = slices.Clone(rest[len(entries):]), next

			// Some entries of this page and of later ones are removed.
			drop := func(what string, of []scoredEntry) (left []scoredEntry) {
				for _, e := range of {
					if !rapid.Bool().Draw(t, what) {
						left = append(left, e)
						continue
					}
					key := c.dlq
					if e.Source == coupon.SourceQueue {
						key = c.queue
					}
					require.NoError(t, c.rdb.ZRem(t.Context(), key, e.Member).Err())
				}
				return left
			}
			drop("a read entry is removed", read)
			if rapid.IntRange(0, 3).Draw(t, "later entries are removed") == 0 {
				rest = drop("a later entry is removed", rest)
			}
		}
	})
}

func sorted[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// another is another coupon of the same client.
func (c *fixture) another(id coupon.CouponID) *fixture {
	k := c.names.coupon(id)
	return &fixture{
		Store: c.Store, id: id, rdb: c.rdb, on: c.on,
		queue: k.queue, state: k.state, issued: k.issued, rejected: k.rejected, dlq: k.dlq, reason: k.reason,
		returned: k.returned,
	}
}

// An entry with the same arrival in both keys is one application.
func TestPageReturnsEntriesOfBothKeys(t *testing.T) {
	t.Parallel()
	c := newCoupon(t)
	c.addByHand(t, c.queue, place{"1000", "1"}, place{"1001", "2"}, place{"1002", "3"})
	c.addByHand(t, c.dlq, place{"1001", "2"}, place{"1003", "1"})
	for limit := range int64(4) {
		c.on.queuePage.Store(limit + 1)
		c.on.dlqPage.Store(limit + 1)
		all, _ := c.pages(t, noon)
		once := slices.CompactFunc(all, func(a, b coupon.Application) bool { return a.Member == b.Member })
		require.Equal(t, []coupon.Application{entry("1", 1000, coupon.SourceQueue), entry("2", 1001, coupon.SourceHeld),
			entry("3", 1002, coupon.SourceQueue), entry("1", 1003, coupon.SourceHeld)}, once)
	}
}
