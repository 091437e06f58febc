package promisemodel

import (
	"fmt"
	"strings"
)

// action is what can happen.
type action int8

const (
	applies action = iota
	opens
	commitsPromise
	looks
	reachesRedis
	terminates
	follows
	formerEnds

	copyBegin
	copyRead
	copyCommit
	restoreBegin
	restoreContinue
	settleNightly
	settleImmediately
	readLine
	checkAgain
	commitSettlement
	closeOut
	cleanUp
	guards
	tenSecondsPass

	firstAct // of an operator
	retryDLQ
	dropDLQ
	grantByHand
	addSeat
	closeWindow
	acceptGap
	forgetUser
	settlePast
	finalise

	firstFault
	replyLost
	podDies
	podCutOff
	settlementDies
	serveDies
	rowRefused
	replicaStops // and is promoted before ten seconds have passed
	failover
	failoverLate // to a server whose clock is late
	failoverBoth // while the former one still serves
	failoverBothLate
	formerReturns
	formerLasts // for more than ten seconds
	demoted     // and promoted again
	replicaComes
	flushed
	queueDeleted
	marksDeleted
	databaseStops // replicating, and falls back before ten seconds have passed
	databaseFalls
	lastAction
)

var actionNames = [lastAction]string{
	applies: "user %u applies by pod %p", opens: "the window opens",
	commitsPromise: "the row of user %u is committed, and the user told",
	looks:          "pod %p looks", reachesRedis: "pod %p reaches Redis again",
	terminates: "pod %p is told to end, and writes its memory into the journal",
	follows:    "pod %p follows the new server", formerEnds: "the former server ends",
	copyBegin: "the journal reads its first page%s", copyRead: "the journal reads its second page",
	copyCommit: "the journal commits", restoreBegin: "a restore begins%s", restoreContinue: "the restore goes on",
	settleNightly: "a nightly settlement begins%s", settleImmediately: "an immediate run begins%s",
	readLine: "the settlement reads the line", checkAgain: "the settlement checks again",
	commitSettlement: "the settlement commits",
	closeOut:         "the close-out goes on", cleanUp: "user %u is cleaned up%s", guards: "serve takes the end back",
	tenSecondsPass: "ten seconds pass",
	retryDLQ:       "an operator retries the DLQ%s", dropDLQ: "an operator drops user %u from the DLQ",
	grantByHand: "user %u gets a coupon by hand", addSeat: "a seat is added",
	closeWindow: "an operator closes the coupon", acceptGap: "the gap is written off",
	forgetUser: "the coupon is finalised, user %u forgotten, and the window extended",
	finalise:   "the coupon is finalised",
	settlePast: "an operator settles what came more than ten seconds ago%s",
	replyLost:  "user %u applies by pod %p, and the reply is lost", podDies: "pod %p dies",
	podCutOff:      "pod %p is cut off",
	settlementDies: "the settlement dies", serveDies: "serve dies",
	rowRefused:   "the settlement commits, but the first row",
	replicaStops: "the replica stops to follow", failover: "the replica is promoted",
	failoverLate:     "the replica is promoted, and its clock is late",
	failoverBoth:     "the replica is promoted, and the former server still serves",
	failoverBothLate: "the replica is promoted, its clock is late, and the former server still serves",
	formerReturns:    "the former server serves again",
	formerLasts:      "ten seconds pass, and the former server still serves",
	demoted:          "the server is demoted and promoted again", replicaComes: "a first replica comes",
	flushed: "Redis is flushed", queueDeleted: "the queue key is deleted", marksDeleted: "the key of marks is deleted",
	databaseStops: "MySQL's replica stops to follow",
	databaseFalls: "MySQL falls back to its replica",
}

// step is an action of somebody.
type step struct {
	action action
	user   int8
	pod    int8
	on     int8 // the server
}

func (s step) isFault() bool { return s.action > firstFault }

func (s step) String() string {
	at := ""
	if s.on == former {
		at = " on the former server"
	}
	name := strings.NewReplacer("%u", fmt.Sprint(s.user+1), "%p", fmt.Sprint(s.pod+1), "%s", at)
	return name.Replace(actionNames[s.action])
}

// allSteps are the steps of a law, whether or not they can happen in a world.
func (l *law) allSteps() (steps []step) {
	for a := applies; a < lastAction; a++ {
		if (a >= firstAct && !l.kinds[a]) || a == firstAct || a == firstFault {
			continue
		}
		name := actionNames[a]
		users, podCount, servers := int8(1), int8(1), int8(1)
		if strings.Contains(name, "%u") {
			users = l.users
		}
		if strings.Contains(name, "%p") {
			podCount = pods
		}
		if strings.Contains(name, "%s") && (l.kinds[failoverBoth] || l.kinds[failoverBothLate]) {
			servers = 2
		}
		for u := range users {
			for p := range podCount {
				for on := range servers {
					steps = append(steps, step{action: a, user: u, pod: p, on: on})
				}
			}
		}
	}
	return steps
}

// do lets a step happen. It is false if the step cannot happen.
func (w *world) do(s step) bool {
	if s.on == former && !w.formerServes || w.ended {
		return false
	}
	switch {
	case s.isFault():
		follows := w.replicaBehind && s.action >= failover && s.action <= demoted ||
			w.dbBehind && s.action == databaseFalls || s.action == formerReturns || s.action == formerLasts
		if !follows {
			if w.faults >= w.law.faults {
				return false
			}
			w.faults++
		}
		done := w.fault(s)
		w.reckon()
		return done
	case s.action > firstAct:
		if w.db.finalised || w.acts >= w.law.acts {
			return false
		}
		w.acts++
		return w.act(s)
	}
	return w.ordinary(s)
}

func (w *world) ordinary(s step) bool {
	p := &w.pods[s.pod]
	coarse := w.law.coarse
	switch s.action {
	case applies:
		return w.apply(s.user, s.pod, false)
	case opens:
		opens := !w.opened
		w.opened = true
		return opens
	case commitsPromise:
		return w.commitPromise(s.user)
	case looks:
		return w.look(p)
	case reachesRedis:
		reached := p.cutOff
		p.cutOff = false
		return reached
	case terminates:
		return w.terminate(s.pod)
	case follows:
		followed := p.onFormer
		p.onFormer = false
		return followed
	case formerEnds:
		return w.formerEnds()
	case copyBegin:
		return w.copyBegins(s.on) && (!coarse || w.copyReads() && w.copyCommits())
	case copyRead:
		return w.copyReads()
	case copyCommit:
		return w.copyCommits()
	case restoreBegin:
		return w.restoreBegins(s.on, false)
	case restoreContinue:
		going := w.restoreContinues()
		for coarse && w.restoreContinues() {
		}
		return going
	case settleNightly:
		return (w.law.nightly || w.law.both) && w.settle(s.on, nightly) && (!coarse || w.readLine())
	case settleImmediately:
		return (!w.law.nightly || w.law.both) && w.settle(s.on, immediate) && (!coarse || w.readLine())
	case readLine:
		return w.readLine()
	case checkAgain:
		return w.checkAgain() && (!coarse || w.settling.phase != checked || w.commit(false))
	case commitSettlement:
		return w.commit(false)
	case closeOut:
		return w.closeOut()
	case cleanUp:
		return w.clean(s.user, s.on)
	case guards:
		return w.guard()
	default:
		return !w.formerServes && w.tenSecondsPass()
	}
}

// tenSecondsPass says that nothing else happens for ten seconds, in which every pod looks that is not cut off, and no
// restore is due that can begin, and no journal to be written after a fallback. Pods forget what they may.
func (w *world) tenSecondsPass() bool {
	if w.replicaBehind || w.dbBehind || w.journalWaits {
		return false
	}
	s := &w.servers[primary]
	if s.tenSeconds && !w.db.finalised && w.due(s) != 0 || w.db.finalised && !w.hasEnd(s) { // serve looks
		return false
	}
	for i := range w.pods {
		p := &w.pods[i]
		if !p.late() && (p.newEpoch || p.newRestore || !w.sees(primary, p.epoch)) {
			return false
		}
	}
	for i := range w.pods {
		p := &w.pods[i]
		if !p.late() || !w.keeps(silenceForgetsNothing) {
			p.forget(w.db.mark, !p.late() && !s.anyReturned())
		}
		for u := range int8(maxUsers) {
			if p.late() && p.answers[u] != [kept]answer{} {
				w.happened.late.add(u)
			}
		}
	}
	for u := range int8(maxUsers) {
		if w.pending[u].by > 0 {
			w.breakPromise(u)
		}
	}
	w.ended = w.db.finalised
	s.tenSeconds = s.tenSeconds || w.sameServer(s)
	s.late, s.clock = false, 0
	w.tenAgo = [2]instant{w.now, w.tenAgo[0]}
	w.happened.witnesses = [pods]users{}
	return true
}

// late says whether ten seconds do not bring the pod to the server of the others.
func (p *pod) late() bool { return p.cutOff || p.onFormer }

// act is what an operator does.
func (w *world) act(s step) bool {
	u := s.user
	r := &w.servers[primary]
	switch s.action {
	case retryDLQ:
		return r.inDLQ != 0 && w.settle(s.on, retry) && w.readLine()
	case dropDLQ:
		if !r.inDLQ.has(u) || w.locked() || w.due(r) != 0 || !w.eligible(u) {
			return false
		}
		w.db.rejected.add(u)
		w.addOutcome(u, r.place[u], r.place[u]+1)
		w.db.unclean.add(u)
	case grantByHand:
		if w.locked() || !w.eligible(u) {
			return false
		}
		w.db.byHand.add(u)
		if r.marks[u] == notMarked || !w.keeps(handReplacesNothing) {
			r.marks[u] = byHand
		}
	case addSeat:
		if w.locked() {
			return false
		}
		w.db.seats++
		r.soldOut = false
	case closeWindow:
		if w.locked() || w.db.closes > 0 {
			return false
		}
		w.db.closes, r.closed = w.tick(r), true
	case acceptGap:
		missing := w.missing(r)
		if w.locked() || !w.isQuiet() || missing == 0 {
			return false
		}
		w.db.writtenOff += missing
		for u := range w.law.users {
			if w.foundNowhere(u) {
				w.happened.noticed.add(u)
			}
		}
	case finalise:
		return w.finalise(r)
	case settlePast:
		return w.tenAgo[0] > 0 && w.settle(s.on, past) && (!w.law.coarse || w.readLine())
	default:
		return w.finaliseAndForget(u)
	}
	return true
}

// finalise ends a closed coupon of which nobody is left, as far as Redis knows. Nobody is looked for in its journal any
// more.
func (w *world) finalise(s *server) bool {
	if w.locked() || w.settling.phase > 0 || w.db.closes == 0 || !s.closed || s.place != [maxUsers]instant{} ||
		s.anyReturned() || w.missing(s) > 0 || w.keeps(finalisesNothingWhileDue) && w.due(s) != 0 {
		return false
	}
	w.db.finalised, w.happened.lostAtEnd = true, w.findsRow() != ""
	s.rejected, s.final = 0, true
	return true
}

// hasEnd says whether a finalised coupon has its end on the server.
func (w *world) hasEnd(s *server) bool {
	return s.final && s.place == [maxUsers]instant{} && !s.anyReturned() && w.db.asked == 0
}

// guard takes the end of a coupon back that the server does not have.
func (w *world) guard() bool {
	if !w.db.finalised || w.hasEnd(&w.servers[primary]) || !w.keeps(endIsTakenBack) {
		return false
	}
	w.db.finalised = false
	return true
}

// finaliseAndForget sweeps a coupon on which nobody stands, deletes the outcomes of a user who has no coupon, and
// extends the window.
func (w *world) finaliseAndForget(user int8) bool {
	s := &w.servers[primary]
	busy := w.locked() || w.settling.phase > 0 || w.copying.phase > 0 || w.db.unclean != 0
	if busy || w.due(s) != 0 || w.missing(s) > 0 || s.place != [maxUsers]instant{} || w.pending != [maxUsers]promise{} {
		return false
	}
	if w.db.coupons[user] > 0 || w.db.byHand.has(user) || w.db.outcomes[user][0].arrival == 0 || !w.tenSecondsPass() {
		return false
	}
	w.db.journal, w.db.closes, s.closed = [maxUsers]instants{}, 0, false
	s.marks, s.rejected = [maxUsers]instant{}, 0
	for i, o := range w.db.outcomes[user] {
		if o.arrival > 0 {
			w.db.erased++
			w.db.outcomes[user][i] = outcome{}
		}
	}
	w.db.rejected.remove(user)
	w.happened.noticed.add(user)
	return true
}

// fault is what breaks.
func (w *world) fault(s step) bool {
	p := &w.pods[s.pod]
	r := &w.servers[primary]
	switch s.action {
	case replyLost:
		return w.apply(s.user, s.pod, true)
	case podDies:
		w.die(s.pod)
	case podCutOff:
		cut := p.cutOff
		p.cutOff = true
		return !cut
	case settlementDies:
		dies := w.settling.phase > 0
		w.settling = settling{}
		return dies
	case serveDies:
		w.copying, w.restoring, w.settling, w.readUpTo, w.written = copying{}, restoring{}, settling{}, 0, 0
	case rowRefused:
		return w.commit(true)
	case replicaStops:
		if w.replicaBehind {
			return false
		}
		w.replica, w.replicaBehind = r.dataset, true
	case failover, failoverLate, failoverBoth, failoverBothLate, demoted:
		w.promote(s.action)
	case formerReturns:
		return w.formerReturns()
	case formerLasts:
		w.happened.lasted = true
		return w.formerServes && w.tenSecondsPass()
	case replicaComes: // not before a script has seen a promotion: the backlog lives for a minute at least
		if !w.sameServer(r) {
			return false
		}
		w.repls++
		r.serverRepl, r.replacedNone = w.repls, true
	case flushed:
		r.dataset = dataset{}
		r.tenSeconds, w.happened.redisLost = false, true
	case queueDeleted:
		for u := range r.place {
			if !r.inDLQ.has(int8(u)) {
				r.place[u] = 0
			}
		}
		w.happened.redisLost, w.happened.keyDeleted = true, true
	case marksDeleted:
		r.marks = [maxUsers]instant{}
		w.happened.keyDeleted = true
	case databaseStops:
		if w.dbBehind {
			return false
		}
		w.dbReplica, w.dbBehind = w.db, true
	case databaseFalls:
		w.databaseFalls()
	default:
		return false
	}
	return true
}

// What is idle uses no server.
func (c *copying) normalise() {
	if c.phase == 0 {
		c.on = primary
	}
}

func (r *restoring) normalise() {
	if r.phase == 0 {
		r.on = primary
	}
}

func (s *settling) normalise() {
	if s.phase == 0 {
		s.on = primary
	}
}

func (w *world) databaseFalls() {
	before := w.db
	if w.dbBehind {
		w.db = w.dbReplica
	}
	w.dbReplica, w.dbBehind = database{}, false
	w.copying, w.restoring, w.settling = copying{}, restoring{}, settling{}
	h := &w.happened
	h.dbFell, w.journalWaits = true, w.servers[primary].exists
	h.handLost |= before.byHand &^ w.db.byHand
	for u := range int8(maxUsers) {
		if before.coupons[u] > 0 {
			h.issued.add(u)
		}
		if w.db.journal[u] != before.journal[u] && !w.pods[0].knows(u, 127) && !w.pods[1].knows(u, 127) {
			h.podDied.add(u)
		}
	}
	h.seatMoved = h.seatMoved || before.seats > w.db.seats
}

// reckon finds whom only a dead pod and a dead server knew, and whose place.
func (w *world) reckon() {
	r := &w.servers[primary]
	for u := range int8(maxUsers) {
		told := w.happened.told[u]
		if !w.happened.podDied.has(u) || w.db.journal[u].anyUpTo(told) {
			continue
		}
		anywhere, inPlace := (w.happened.witnesses[0] | w.happened.witnesses[1]).has(u), false
		anywhere = anywhere || w.happened.issued.has(u) && !w.happened.redisLost // Redis keeps the mark
		known := []instant{r.place[u], r.marks[u], r.returned[u]}
		if w.copying.phase == allPages {
			known = append(known, w.copying.rows[u])
		}
		for _, a := range known {
			anywhere = anywhere || a > 0
			inPlace = inPlace || a > 0 && a <= told
		}
		if !inPlace {
			w.happened.placeLost.add(u)
		}
		if !anywhere {
			w.happened.toldLost.add(u)
		}
	}
}

// foundNowhere says whether neither Redis nor MySQL has anything of a user who was told.
func (w *world) foundNowhere(user int8) bool {
	return w.happened.told[user] > 0 && w.servers[primary].place[user] == 0 && !w.hasRow(user)
}
