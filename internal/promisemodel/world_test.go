package promisemodel

// The world is one coupon with everything that knows about its applicants. It is a value: a copy of it is another
// world. All its fields are single bytes, so that worlds can be hashed, and instants and users be renamed; see
// names_test.go.

const (
	maxUsers = 3 // that a world has room for
	pods     = 2
	kept     = 2 // answers that a pod remembers of one user, and outcomes of one user
)

// instant orders arrivals and the times of all clocks. 0: none.
type instant int8

// Marks of users in the ZSET issued have a score: an arrival, or one of these.
const (
	notMarked instant = 0
	byHand    instant = -1 // the score 0 of Redis
)

// latest is the highest instant that a set can have.
const latest = 15

// instants is a set of arrivals.
type instants [2]uint8

func (s *instants) add(a instant)     { s[a>>3] |= 1 << (a & 7) }
func (s instants) has(a instant) bool { return s[a>>3]>>(a&7)&1 == 1 }

func (s instants) anyUpTo(a instant) bool {
	for ; a > 0; a-- {
		if s.has(a) {
			return true
		}
	}
	return false
}

// users is a set of users.
type users uint8

func (s users) has(user int8) bool { return s>>user&1 == 1 }
func (s *users) add(user int8)     { *s |= 1 << user }
func (s *users) remove(user int8)  { *s &^= 1 << user }

// epoch is one Redis server serving one state of the coupon. The zero value is none.
type epoch struct {
	run   int8 // run_id
	since instant
}

// dataset is what a Redis server has of the coupon. A replica has a copy of it.
type dataset struct {
	place    [maxUsers]instant // where a user stands in the queue or the DLQ
	inDLQ    users             // of those who stand
	marks    [maxUsers]instant // ZSET issued
	rejected users             // SET rejected
	returned [maxUsers]instant // handed over

	exists, soldOut       bool
	closed                bool // the published window has ended
	final                 bool // swept: the coupon was finalised here
	run, repl             int8 // run_id and replid of the state
	since, restored, last instant
	accepted, left        int8
	forward               int8 // places that moved forward: accepted counts them twice
}

func (d *dataset) anyReturned() bool { return d.returned != [maxUsers]instant{} }

// server is a Redis server.
type server struct {
	dataset
	serverRun, serverRepl int8 // INFO
	replacedNone          bool // master_replid2 is all zeros
	tenSeconds            bool // since + 10 s has passed
	late                  bool // its clock is behind those of others, by less than 10 s
	clock                 instant
	began                 instant // since of its last epoch
}

// The servers of a world.
const (
	primary int8 = iota
	former       // was the primary, and still serves those who have not noticed
)

type outcome struct{ arrival, cutoff instant }

// database is what MySQL has of the coupon.
type database struct {
	journal  [maxUsers]instants // line_journal
	mark                        // of the row of journal, as asked
	asked    int8               // lowered by a restore by what it has read
	written  int8               // how often a restore has written rows into the journal
	seats    int8
	coupons  [maxUsers]instant // from a run, by arrival
	outcomes [maxUsers][kept]outcome
	rejected users // of those with an outcome
	byHand   users // have a coupon without an application
	unclean  users // settled, and the clean-up is to come

	settledUpTo        instant
	closes             instant // when an operator closed the coupon; 0: it is open
	finalised          bool
	writtenOff, erased int8
}

// answer is what a pod remembers of ACCEPTED or DUPLICATE.
type answer struct {
	arrival    instant
	epoch      epoch
	handedOver bool
}

type pod struct {
	answers    [maxUsers][kept]answer
	epoch      epoch
	seen       instant // highest arrival
	newEpoch   bool    // a reply showed another epoch, and the pod has not compared its memory since
	newRestore bool    // the next look will show that a restore has ended
	cutOff     bool    // Redis is silent for this pod
	onFormer   bool
}

// mark says how far the journal has come: everybody who stood on the server of epoch up to an arrival is in it.
type mark struct {
	epoch epoch
	upTo  instant
}

func (m mark) covers(e epoch, a instant) bool { return m.epoch == e && m.upTo >= a }

// promise is an application that is accepted, and not told before its row in the journal is committed.
type promise struct {
	arrival instant
	epoch   epoch
	by      podName
}

// podName is the number of a pod plus 1.
type podName int8

type world struct {
	servers [2]server
	db      database
	pods    [pods]pod
	pending [maxUsers]promise // ACCEPT_AFTER=journal

	copying   copying
	restoring restoring
	settling  settling
	readUpTo  instant // as the journal task has left it, in the same epoch
	written   int8    // db.written, as the process that wrote it knows

	replica       dataset // that has stopped to follow the primary, until it is promoted
	replicaBehind bool
	dbReplica     database
	dbBehind      bool
	formerServes  bool
	opened        bool
	ended         bool // the end can not be taken back any more
	journalWaits  bool // MySQL has fallen back, and the journal has not been written since

	now          instant
	tenAgo       [2]instant // the clock when ten seconds, and another ten seconds, last passed
	runs, repls  int8       // that servers have had
	settlements  int8       // that have begun
	accepts      int8       // arrivals that were given
	faults, acts int8       // that have happened; acts of operators
	happened     happened

	law *law // not a part of the state
}

// happened is what the judge has to know of the past.
type happened struct {
	told       [maxUsers]instant // lowest arrival that the user was told
	witnesses  [pods]users       // whom a living pod has told within ten seconds
	podDied    users             // the only pod that knew the user has died
	toldLost   users             // of these, whom neither the journal nor Redis knew after a fault
	noticed    users             // were found nowhere when a gap was written off, or were erased
	late       users             // the pod that knew the user was cut off for ten seconds
	again      users             // asked again on a server that did not know their outcome
	placeLost  users             // of podDied, whose told arrival neither the journal nor Redis knew after a fault
	untold     users             // accepted, and the reply was lost or late
	hadCoupon  users
	issued     users // had a coupon that MySQL lost
	handLost   users // MySQL has lost a coupon given by hand
	seatMoved  bool  // MySQL has lost an added seat, or refused a row
	keyDeleted bool
	dbFell     bool
	redisLost  bool // a server has lost something
	bothServed bool
	lasted     bool // for more than ten seconds
	elsewhere  bool // a settlement committed on a server that no longer was, or is, that of the others
	wentBack   bool // a pod told an arrival below one that it had told
	lostAtEnd  bool // as the coupon was finalised, nothing accounted for a row of the journal
	overfull   bool // the bounds of the model are too small for what follows
}

// law is how large a world may become, what may happen in it, and which rule of the contract is switched off.
type law struct {
	broken       rule
	users        int8
	accepts      int8 // arrivals at most
	faults       int8 // at most
	settlements  int8 // at most; 0: no limit
	acts         int8 // acts of operators at most
	kinds        map[action]bool
	nightly      bool // or immediate
	both         bool // nightly and immediate runs
	afterJournal bool // ACCEPT_AFTER=journal
	early        bool // the window opens later
	coarse       bool // journal, restore and settlement take few steps
	steps        []step
	after        []step // a search begins after them
	unlimited    *law   // for the judge
}

func (w *world) keeps(r rule) bool { return w.law.broken != r }

// newWorld is a coupon whose window has just opened, or will open.
func newWorld(l *law) world {
	w := world{law: l, runs: 1, repls: 1, opened: !l.early}
	w.db.seats = 1
	s := &w.servers[primary]
	s.serverRun, s.serverRepl, s.replacedNone = 1, 1, true
	w.begin(primary, 0)
	s.restored, s.tenSeconds = s.since, true // it was born before the opening
	return w
}
