package jajeong_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/jajeongtest"
	"github.com/jajeong/jajeong/internal/testenv"
)

// told has what the clients of a coupon were told.
type told struct {
	mu       sync.Mutex
	arrivals map[coupon.UserID]coupon.Arrival // the first one, by user
	receipts map[coupon.UserID]string         // of the first arrival
	only     map[coupon.UserID]bool           // whether the first pod alone told it
}

// mustApply applies until the application is acknowledged.
func (o *told) mustApply(t *testing.T, pods []*deployment, id coupon.CouponID, pod int, user coupon.UserID) {
	for ctx := testenv.Patient(t); ctx.Err() == nil && !o.apply(t, pods, id, pod, user); {
	}
}

func (o *told) apply(t *testing.T, pods []*deployment, id coupon.CouponID, pod int,
	user coupon.UserID) (acknowledged bool) {
	a := pods[pod].apply(id, user)
	if a.Status != "ACCEPTED" && a.Status != "DUPLICATE" {
		return false
	}
	at := coupon.ArrivalAt(instant(t, a.AppliedAt))
	o.mu.Lock()
	defer o.mu.Unlock()
	switch before, known := o.arrivals[user]; {
	case !known || at < before:
		o.arrivals[user], o.receipts[user], o.only[user] = at, a.Receipt, pod == 0
	case at == before:
		o.only[user] = o.only[user] && pod == 0
	} // who was told a later arrival had been lost: its pod knows nothing of the first one
	return true
}

func newTold() *told {
	return &told{arrivals: map[coupon.UserID]coupon.Arrival{}, receipts: map[coupon.UserID]string{},
		only: map[coupon.UserID]bool{}}
}

// answered is one user's first arrival, and whether the first pod alone told it.
type answered struct {
	user    coupon.UserID
	arrival coupon.Arrival
	only    bool
}

// inOrder returns the users by the first arrival that they were told.
func (o *told) inOrder() (all []answered) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for user, arrival := range o.arrivals {
		all = append(all, answered{user, arrival, o.only[user]})
	}
	slices.SortFunc(all, func(a, b answered) int { return cmp.Compare(a.arrival, b.arrival) })
	return all
}

func usersOf(all []answered) (users []coupon.UserID) {
	for _, one := range all {
		users = append(users, one.user)
	}
	return users
}

// count returns how many users were told an arrival.
func (o *told) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.arrivals)
}

// absent returns the users who do not stand at the arrival that they were told.
func (o *told) absent(d *deployment, id coupon.CouponID) []answered {
	all := o.inOrder() // before the queue is read
	standing := d.Arrivals(id)
	return slices.DeleteFunc(all, func(one answered) bool { return standing[one.user.Member()] == one.arrival })
}

// awaitStanding waits until all these users stand at the arrivals that they were told. While one of them does not, it
// asks for that one alone.
func (o *told) awaitStanding(t *testing.T, d *deployment, id coupon.CouponID, what string,
	these func(one answered) bool) {
	t.Helper()
	var missing coupon.UserID
	testenv.Eventually(t, what, func() bool {
		if missing != 0 {
			at, _ := d.Redis.ZScore(t.Context(), d.Queue(id), missing.Member()).Result()
			o.mu.Lock()
			arrival := o.arrivals[missing]
			o.mu.Unlock()
			if coupon.Arrival(at) != arrival {
				return false
			}
		}
		absent := o.absent(d, id)
		next := slices.IndexFunc(absent, these)
		if next < 0 {
			return true
		}
		missing = absent[next].user
		return false
	})
}

// Redis dies with its disk while users apply without end, ten minutes before midnight. An empty Redis takes its
// address, and nobody acts. Every user stands in the queue again. Only users of the last second, whose pod died at the
// same moment, need their receipts. Midnight issues to those who would have won without the loss.
func TestLoss_RedisGoneWithItsDisk(t *testing.T) {
	t.Parallel()
	t.Run("a pod dies, too", func(t *testing.T) { loseRedis(t, true) })
	if testenv.Soaking() { // the drill above has living pods as well
		t.Run("pods live", func(t *testing.T) { loseRedis(t, false) })
	}
}

func loseRedis(t *testing.T, podDies bool) {
	const parallel = 32
	early, perSecond := testenv.Rounds(200, 20_000), testenv.Rounds(100, 500)
	seats, last := early/2, early+60*perSecond
	server := testenv.PrivateRedis(t, testenv.RedisOptions{})
	d := deployWith(t, jajeongtest.Options{Redis: jajeongtest.RedisAt(t, server.Addr())})
	keys := filepath.Join(t.TempDir(), "receipt-keys")
	require.NoError(t,
		os.WriteFile(keys, []byte("2026 "+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))+"\n"),
			0o600))
	d.env = append(d.env, "RECEIPT_KEYS_FILE="+keys)
	d.AddUsers(jajeongtest.Between(1, coupon.UserID(last))...)
	id := d.AddCoupon(seats)
	dying, err := testenv.StartProgram(testenv.Patient(t), podCommand(t, d))
	require.NoError(t, err)
	first := *d
	first.pod = dying
	pods := []*deployment{&first, d.serve(id)}
	testenv.Eventually(t, "the first pod has the catalog", func() bool { return first.me(id, 1).HTTP == 404 })
	for range 2 {
		d.Start(d.env, "./cmd/settle", "serve", "--tasks=issue,journal")
	}

	clients := newTold()
	var applying sync.WaitGroup
	for n := range parallel {
		applying.Go(func() {
			for user := n + 1; user <= early; user += parallel {
				clients.mustApply(t, pods, id, user%2, coupon.UserID(user))
			}
		})
	}
	applying.Wait()
	require.Len(t, clients.inOrder(), early)

	stop := make(chan struct{})
	newcomers := make(chan coupon.UserID)
	go func() { // open loop
		defer close(newcomers)
		pace := time.NewTicker(time.Second / time.Duration(perSecond))
		defer pace.Stop()
		for user := coupon.UserID(early + 1); user <= coupon.UserID(last); user++ {
			select {
			case <-pace.C:
				newcomers <- user
			case <-stop:
				return
			}
		}
	}()
	for range parallel {
		applying.Go(func() {
			for user := range newcomers {
				pod := int(user) % 2
				clients.apply(t, pods, id, pod, user)
				if user%10 == 0 {
					clients.apply(t, pods, id, 1, user-coupon.UserID(early)) // applies again, perhaps after the loss
				}
			}
		})
	}
	testenv.Eventually(t, "newcomers apply", func() bool { return clients.count() > early+3*perSecond })

	oldest := clients.inOrder()[:early]
	testenv.Eventually(t, "the journal has the oldest", func() bool { // no receipt may be needed for them
		return coupon.Arrival(d.Number("SELECT COALESCE(MAX(up_to), 0) FROM journal WHERE coupon_id = ?",
			id)) >= oldest[early-1].arrival
	})
	lost := coupon.ArrivalAt(d.Now())
	require.NoError(t, server.Kill())
	if podDies {
		require.NoError(t, dying.Process.Kill())
		_ = dying.Wait()
	} else {
		t.Cleanup(func() { assert.NoError(t, dying.Stop()) })
	}
	testenv.Eventually(t, "applicants are refused", func() bool { return pods[1].apply(id, 1).HTTP == 503 })
	upTo := coupon.Arrival(d.Number("SELECT up_to FROM journal WHERE coupon_id = ?", id))
	require.NoError(t, server.Restart(t.Context()))
	back := time.Now()
	t.Logf("the journal was %v behind", lost.Time().Sub(upTo.Time()))
	young := func(one answered) bool { // younger than the journal, and accepted by the pod that died
		return podDies && one.only && one.arrival > upTo
	}
	clients.awaitStanding(t, d, id, "everybody stands again", func(one answered) bool {
		return one.arrival < lost && !young(one)
	})
	t.Logf("%d users stand again %v after Redis returned", early, time.Since(back).Round(100*time.Millisecond))
	close(stop)
	applying.Wait()

	clients.awaitStanding(t, d, id, "the last answers are settled", func(one answered) bool { return !young(one) })
	holders := clients.absent(d, id)
	t.Logf("%d of %d users need their receipts", len(holders), len(clients.inOrder()))
	for _, one := range holders {
		code, stdout, stderr := d.settle("receipt", "honour", clients.receipts[one.user], "--operator=kim",
			"--reason=INC-9")
		require.Zero(t, code, "%s%s", stdout, stderr)
	}
	require.Empty(t, clients.absent(d, id))
	d.SettleByProgram(id)
	require.Equal(t, usersOf(clients.inOrder())[:seats], d.Issued(id))
	d.verify(0, "--coupon="+id.String())
}

func podCommand(t *testing.T, d *deployment) *exec.Cmd {
	cmd := exec.Command(testenv.Build(t, "./cmd/apply-api"))
	cmd.Env = d.env
	return cmd
}
