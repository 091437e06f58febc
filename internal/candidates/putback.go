package candidates

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/redis/go-redis/v9"
)

const (
	missingMembers = 500 // a read
	restoreMembers = 150 // each costs several commands

	// putBackPause leaves Redis to the applicants between two calls.
	putBackPause = 2 * time.Millisecond
	// putBackTimeout bounds one attempt. After one that failed, the next answer of Redis but for this pause begins another.
	putBackTimeout = 8 * time.Second
	putBackAgain   = 200 * time.Millisecond

	// recallers ask at once; a call to a shard that hangs is given up, so that it does not take the time of the others.
	recallers     = 8
	recallTimeout = time.Second
)

// PutBack is how it went to put people back after another server took over.
type PutBack struct {
	Coupon   coupon.CouponID
	Compared int // answers that this process remembered
	Back     int // stood nowhere, and stand at their own arrival now
	Moved    int // had applied again, and stand at their first arrival now
	Err      error
}

// mayHaveRun says whether a script may have been carried out although its answer did not come. A server that answers with an
// error has not carried it out, and neither has one that was never reached.
func mayHaveRun(err error) bool {
	var answered redis.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &answered), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrClosed):
		return false
	case errors.As(err, &dial):
		return dial.Op != "dial"
	default:
		return true
	}
}

// noteUnanswered remembers users who asked and were told to ask again.
func (s *Store) noteUnanswered(m *memory, users []coupon.UserID) {
	answers := make([]answered, len(users))
	for i, user := range users {
		answers[i] = answered{user: user}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.forgotten.Add(int64(m.remember(answers, "", &s.remembers)))
}

// noteAnswers remembers what a script answered, and has people put back where another server did.
func (s *Store) noteAnswers(couponID coupon.CouponID, m *memory, carried seen, h heard, users []coupon.UserID, receipts []Receipt) {
	answers := make([]answered, 0, len(receipts))
	for i, r := range receipts {
		if r.Code == Accepted || r.Code == Duplicate {
			answers = append(answers, answered{user: users[i], arrival: r.Arrival})
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.epoch == "" && h.accepted == 0 { // the door was shut
		m.now = h.now
		if len(receipts) > 0 && receipts[0].Code == NoWindow {
			m.lost() // the next refresh of the catalog writes a window, which begins an epoch
		}
		return
	}
	if h.epoch == "" {
		h.epoch = carried.epoch
	}
	changed := m.learn(carried, h)
	m.forget(&s.remembers)
	s.forgotten.Add(int64(m.remember(answers, h.epoch, &s.remembers)))
	if changed && !m.putting {
		m.putting = true
		go s.putBackAll(couponID, m)
	}
}

// Recall asks every server which epoch it is for the coupons of whom this process remembers people, and has these put back where
// another took over. Applications and Publish do so by the way; Recall is for when nobody applies and no window can be read. It
// tells servers nothing by itself; repeating it is safe.
func (s *Store) Recall(ctx context.Context) error {
	var (
		failed failures
		asked  = make(chan uint64)
		askers sync.WaitGroup
	)
	for range recallers {
		askers.Go(func() {
			for coupon := range asked {
				failed.add(s.recall(ctx, coupon))
			}
		})
	}
	for _, coupon := range s.memories.Keys() {
		asked <- coupon
	}
	close(asked)
	askers.Wait()
	return failed.err()
}

// failures keep the first error and count all.
type failures struct {
	mu    sync.Mutex
	first error
	count int
}

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; f.first == nil {
		f.first = err
	}
}

func (f *failures) err() error {
	if f.count > 1 {
		return fmt.Errorf("%w, and %d more coupons", f.first, f.count-1)
	}
	return f.first
}

func (s *Store) recall(ctx context.Context, couponID coupon.CouponID) error {
	m, ok := s.memories.Peek(couponID)
	if !ok {
		return nil
	}
	m.mu.Lock()
	known, idle := m.epoch, m.epoch == "" || m.count == 0 || m.putting
	m.mu.Unlock()
	if idle {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	is, _, err := s.missing(ctx, couponID, nil)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if is != known && m.epoch == known {
		m.lost()
	}
	if m.changed && !m.putting {
		m.putting = true
		go s.putBackAll(couponID, m)
	}
	return nil
}

// putBackAll compares whom this process remembers with what stands in Redis until nothing has changed meanwhile.
func (s *Store) putBackAll(couponID coupon.CouponID, m *memory) {
	ctx, cancel := context.WithTimeout(context.Background(), putBackTimeout)
	defer cancel()
	result := PutBack{Coupon: couponID}
	for again := true; again && result.Err == nil; {
		again, result.Err = s.putBackOnce(ctx, couponID, m, &result)
	}
	s.putBack.Add(int64(result.Back))
	s.moved.Add(int64(result.Moved))
	if s.OnPutBack != nil && (result.Back+result.Moved > 0 || result.Err != nil) {
		s.OnPutBack(result)
	}
	if result.Err != nil {
		_ = pause(context.Background(), putBackAgain)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.putting = false
}

// putBackOnce compares everybody whom the present server is not known to have. When another one answers meanwhile, it is all to
// be done again.
func (s *Store) putBackOnce(ctx context.Context, couponID coupon.CouponID, m *memory, result *PutBack) (again bool, err error) {
	now, err := s.restore(ctx, couponID, m, nil)
	if err != nil || now.code == noWindow {
		return false, err // the next refresh of the catalog writes the window
	}
	m.mu.Lock()
	if now.code == final { // everybody has an outcome
		m.drop(len(m.batches), &s.remembers)
		m.changed = false
	}
	from, changes := m.first, m.changes
	m.mu.Unlock()

	for {
		m.mu.Lock()
		open, to := m.open(from, missingMembers, now.epoch)
		m.mu.Unlock()
		if len(open) == 0 {
			break
		}
		result.Compared += len(open)
		same, err := s.putBackSome(ctx, couponID, m, now.epoch, open, result)
		if err != nil || !same {
			return err == nil, err
		}
		m.mu.Lock()
		m.compared(from, to, now.epoch)
		m.mu.Unlock()
		from = to
		if err := pause(ctx, putBackPause); err != nil {
			return false, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changes != changes {
		return true, nil
	}
	m.changed = false
	return false, nil
}

// putBackSome is for some people. same is false when another epoch answered than the one asked for.
func (s *Store) putBackSome(ctx context.Context, couponID coupon.CouponID, m *memory, epoch string, some []answered, result *PutBack) (same bool, err error) {
	is, missing, err := s.missing(ctx, couponID, some)
	for err == nil && is == epoch && len(missing) > 0 {
		n := min(len(missing), restoreMembers)
		var r restored
		if r, err = s.restore(ctx, couponID, m, missing[:n]); err != nil {
			return false, err
		}
		is = r.epoch
		result.Back += r.back
		result.Moved += r.moved
		if missing = missing[n:]; len(missing) > 0 {
			err = pause(ctx, putBackPause)
		}
	}
	return is == epoch, err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// missing are those of some who stand nowhere, or at another arrival than they were told, and which epoch says so.
func (s *Store) missing(ctx context.Context, couponID coupon.CouponID, some []answered) (epoch string, missing []answered, err error) {
	k := s.names.coupon(couponID)
	reply, err := missingScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq}, toldArgs(nil, some)...)
	if err != nil {
		return "", nil, fmt.Errorf("look for whom coupon %d was promised: %w", couponID, err)
	}
	epoch, places, err := readMissing(reply, len(some))
	if err != nil {
		return "", nil, fmt.Errorf("look for whom coupon %d was promised: %w", couponID, err)
	}
	for _, place := range places {
		missing = append(missing, some[place-1])
	}
	return epoch, missing, nil
}

func readMissing(reply []any, users int) (epoch string, places []int64, err error) {
	if len(reply) == 0 {
		return "", nil, errors.New("empty answer")
	}
	epoch, ok := reply[0].(string)
	if !ok {
		return "", nil, fmt.Errorf("epoch %v, want text", reply[0])
	}
	places, err = missingScript.integers(reply[1:], len(reply)-1)
	for _, place := range places {
		if place < 1 || place > int64(users) {
			return "", nil, fmt.Errorf("place %d of %d", place, users)
		}
	}
	return epoch, places, err
}

func toldArgs(args []any, some []answered) []any {
	for _, a := range some {
		args = append(args, strconv.FormatUint(a.user, 10), a.arrival)
	}
	return args
}

// restoreCode is what the restore script says.
type restoreCode string

const (
	done     restoreCode = "DONE"
	noWindow restoreCode = "NO_WINDOW"
	final    restoreCode = "FINAL"
)

// restored is what the restore script did.
type restored struct {
	code        restoreCode
	epoch       string
	back, moved int
}

// restore puts people back, and tells the server of the promises that this process has seen. Without people it does only that,
// and asks which epoch it is.
func (s *Store) restore(ctx context.Context, couponID coupon.CouponID, m *memory, some []answered) (restored, error) {
	k, carried := s.names.coupon(couponID), m.seen()
	args := toldArgs([]any{carried.epoch, carried.accepted, carried.twice, s.ttlSeconds}, some)
	reply, err := restoreScript.run(ctx, s.rdb, []string{k.queue, k.state, k.issued, k.rejected, k.dlq}, args...)
	if err != nil {
		return restored{}, fmt.Errorf("put people of coupon %d back: %w", couponID, err)
	}
	r, h, err := readRestored(reply)
	if err != nil {
		return restored{}, fmt.Errorf("put people of coupon %d back: %w", couponID, err)
	}
	if r.code == done {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.learn(carried, h)
	}
	return r, nil
}

func readRestored(reply []any) (r restored, h heard, err error) {
	const texts, numbers = 2, 5
	if len(reply) != texts+numbers {
		return r, h, fmt.Errorf("%d values in the reply, want %d", len(reply), texts+numbers)
	}
	said, err := restoreScript.texts(reply[:texts], texts)
	if err != nil {
		return r, h, err
	}
	n, err := restoreScript.integers(reply[texts:], numbers)
	if err != nil {
		return r, h, err
	}
	r = restored{code: restoreCode(said[0]), epoch: said[1], back: int(n[3]), moved: int(n[4])}
	switch r.code {
	case done, noWindow, final:
		return r, heard{seen{epoch: r.epoch, accepted: n[1], twice: n[2]}, n[0]}, nil
	default:
		return r, h, fmt.Errorf("unknown answer %q", said[0])
	}
}
