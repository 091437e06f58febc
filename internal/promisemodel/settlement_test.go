package promisemodel

// settling is a settlement. The lock of the coupon's row is held until the commit.
type settling struct {
	phase  int8
	on     int8 // the server
	kind   runKind
	epoch  epoch
	cutoff instant
	line   [maxUsers]instant // as read
	// The row of a NOT_SELECTED user that MySQL refused, who enters the DLQ: the user plus 1, and the arrival.
	refused userName
	at      instant
}

// userName is the number of a user plus 1.
type userName int8

type runKind int8

const (
	nightly runKind = iota
	past            // by hand, with a cutoff in the past
	immediate
	retry // of the DLQ: decides nothing about who gets no seat
)

const (
	lockHeld int8 = iota + 1
	lineRead
	checked
	committed
	restRead // the line of the close-out
)

// settle locks the coupon, if no restore is due and nobody is missing.
func (w *world) settle(on int8, kind runKind) bool {
	s := &w.servers[on]
	if w.db.finalised || w.settling.phase > 0 || w.locked() || !s.exists ||
		w.law.settlements > 0 && w.settlements >= w.law.settlements {
		return false
	}
	if w.law.settlements > 0 {
		w.settlements++
	}
	e := w.begin(on, max(w.db.upTo, w.db.settledUpTo))
	if w.keeps(settlesNothingWhileDue) && w.due(s) != 0 || w.keeps(gapHolds) && w.missing(s) > 0 {
		return false
	}
	run := settling{phase: lockHeld, on: on, kind: kind, epoch: e, cutoff: s.last + 1}
	switch kind { // the fence: no arrival below the cutoff will come
	case nightly:
		run.cutoff = w.tick(s)
		s.last = max(s.last, run.cutoff-1)
	case past:
		run.cutoff = w.tenAgo[0] + 1
		s.last = max(s.last, run.cutoff-1)
	}
	w.settling = run
	return true
}

func (w *world) readLine() bool {
	run := &w.settling
	if run.phase != lockHeld {
		return false
	}
	run.phase = lineRead
	run.read(&w.servers[run.on])
	return true
}

func (run *settling) read(s *server) {
	for u, a := range s.place {
		reads := !s.inDLQ.has(int8(u)) || run.kind == retry || run.kind <= past && run.phase == lineRead
		if a > 0 && a < run.cutoff && reads {
			run.line[u] = a
		}
	}
}

// checkAgain compares once more before the commit.
func (w *world) checkAgain() bool {
	run := &w.settling
	if run.phase != lineRead {
		return false
	}
	differs := !w.sees(run.on, run.epoch) || w.due(&w.servers[run.on]) != 0
	if differs && w.keeps(checksBeforeCommit) && w.keeps(settlesNothingWhileDue) {
		*run = settling{}
		return true
	}
	run.phase = checked
	return true
}

// commit issues the free seats by arrival, among the line and those who were not selected before. MySQL may refuse the
// first row.
func (w *world) commit(refuses bool) bool {
	run := &w.settling
	if run.phase != checked {
		return false
	}
	s := &w.servers[run.on]
	w.happened.elsewhere = w.happened.elsewhere || run.on == former
	for a := instant(1); a < run.cutoff; a++ {
		for u := range int8(maxUsers) {
			notSelected := w.db.outcomes[u][0]
			switch {
			case notSelected.arrival == a && w.eligible(u) && w.freeSeats() > 0 && !w.keptFree(s, a):
				w.db.outcomes[u] = [kept]outcome{w.db.outcomes[u][1]}
				if refuses {
					refuses, run.refused, run.at = false, userName(u+1), a
					w.happened.seatMoved = true
					if w.keeps(journalFirst) {
						w.enterJournal(u, a)
					}
					continue
				}
				w.issue(u, a)
			case run.line[u] != a:
			case w.settledAt(u, a) || !w.eligible(u):
				w.addOutcome(u, a, run.cutoff)
				w.db.unclean.add(u)
			case w.freeSeats() <= 0 || w.keptFree(s, a):
			case refuses:
				refuses, w.happened.seatMoved = false, true
				if s.place[u] > 0 {
					s.inDLQ.add(u)
				}
			default:
				w.issue(u, a)
			}
		}
	}
	if w.keeps(excessIsAdded) && w.sees(run.on, run.epoch) {
		s.accepted += w.excess(s)
	}
	run.line, run.phase = [maxUsers]instant{}, committed
	return true
}

// keptFree says whether the free seats belong to entries of the DLQ that came before and are not in the line.
func (w *world) keptFree(s *server, a instant) bool {
	before := int8(0)
	for u := range int8(maxUsers) {
		if s.inDLQ.has(u) && s.place[u] > 0 && s.place[u] < a && w.settling.line[u] == 0 && w.eligible(u) {
			before++
		}
	}
	return before > 0 && before >= w.freeSeats()
}

func (w *world) eligible(user int8) bool {
	return w.db.coupons[user] == 0 && !w.db.byHand.has(user) && !w.db.rejected.has(user)
}

func (w *world) issue(user int8, a instant) {
	w.db.coupons[user] = a
	w.db.unclean.add(user)
	w.db.settledUpTo = max(w.db.settledUpTo, a)
	w.happened.hadCoupon.add(user)
}

func (w *world) addOutcome(user int8, a, cutoff instant) {
	if w.settledAt(user, a) {
		return
	}
	if again := w.servers[primary].place[user]; again > a && again < cutoff {
		w.happened.again.add(user) // on another server, before the outcome
	}
	for i := range w.db.outcomes[user] {
		if o := &w.db.outcomes[user][i]; o.arrival == 0 {
			*o = outcome{a, cutoff}
			w.db.settledUpTo = max(w.db.settledUpTo, a)
			return
		}
	}
	w.happened.overfull = true
}

// closeOut lets a refused NOT_SELECTED user enter the DLQ, reads who is left if no seat is, and records NOT_SELECTED.
func (w *world) closeOut() bool {
	run := &w.settling
	s := &w.servers[run.on]
	switch {
	case run.phase == committed && run.refused > 0:
		u := int8(run.refused - 1)
		if s.place[u] == 0 {
			s.place[u] = run.at
			s.inDLQ.add(u)
		}
		run.refused, run.at = 0, 0
	case run.phase == committed:
		s.soldOut = w.freeSeats() <= 0
		if !s.soldOut || run.kind == retry {
			*run = settling{}
			return true
		}
		run.phase = restRead
		run.read(s)
	case run.phase == restRead && w.restoring.phase == 0: // under the lock
		for u, a := range run.line {
			if a > 0 && w.db.coupons[u] != a {
				w.addOutcome(int8(u), a, run.cutoff)
				w.db.unclean.add(int8(u))
			}
		}
		*run = settling{}
	default:
		return false
	}
	return true
}

// clean removes a settled member at the settled arrival or an earlier one, and writes the mark. It needs no lock.
func (w *world) clean(user int8, on int8) bool {
	if !w.db.unclean.has(user) {
		return false
	}
	s := &w.servers[on]
	if w.settledPlace(user, s.place[user], w.keeps(earlierPlacesAreCleaned)) {
		s.place[user] = 0
		s.inDLQ.remove(user)
	}
	if w.eligible(user) && w.keeps(unknownMarkGoes) {
		s.marks[user] = notMarked
	}
	s.mark(user, &w.db)
	if w.db.rejected.has(user) {
		s.rejected.add(user)
	}
	w.db.unclean.remove(user)
	if w.keeps(cleanUpAsks) && w.rowIsLost(user, s) {
		w.db.asked++
	}
	return true
}
