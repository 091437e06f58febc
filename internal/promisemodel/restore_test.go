package promisemodel

// restoring is a restore, under the lock of the coupon's row.
type restoring struct {
	phase    int8
	on       int8 // the server
	epoch    epoch
	returned [maxUsers]instant // as read
	asked    int8
	compares bool              // pods compare their memory afterwards
	missing  int8              // when it began, but for those whom it has entered
	entering [maxUsers]instant // who is accounted for nowhere
}

const (
	begun int8 = iota + 1 // returned is in the journal
	walked
	entered
)

// restoreBegins commits what pods have handed over, if a restore is due. It never begins while the journal is being
// written.
func (w *world) restoreBegins(on int8, always bool) bool {
	s := &w.servers[on]
	if w.db.finalised || w.locked() || !s.exists && w.db.mark == (mark{}) ||
		w.keeps(restoreLocksJournal) && w.copying.phase > 0 {
		return false
	}
	e := w.begin(on, max(w.db.upTo, w.db.settledUpTo))
	if w.keeps(leftIsLowered) {
		s.left = min(s.left, w.missing(s))
	}
	due := w.due(s)
	if due == 0 && !always || w.keeps(restoreWaits) && !s.tenSeconds {
		return true
	}
	w.restoring = restoring{phase: begun, on: on, epoch: e, returned: s.returned, asked: w.db.asked,
		missing:  w.missing(s),
		compares: w.keeps(restoreCompares) && (due != 4 || !w.keeps(takingComparesNothing))}
	for u, a := range s.returned {
		if a > 0 && w.keeps(returnedIntoJournal) && !w.db.journal[u].has(a) {
			w.enterJournal(int8(u), a)
			w.db.written++
			w.written = w.db.written
		}
	}
	return true
}

// restoreContinues does the next step. A step that finds another epoch ends the restore.
func (w *world) restoreContinues() bool {
	r := &w.restoring
	if r.phase == 0 {
		return false
	}
	if !w.sees(r.on, r.epoch) && (r.phase != entered || w.keeps(endSeesEpoch)) {
		*r = restoring{}
		return true
	}
	switch s := &w.servers[r.on]; r.phase {
	case begun:
		w.walk(s)
		r.phase = walked
	case walked:
		if w.copying.phase > 0 { // the row of journal is locked
			return false
		}
		w.enterWalked(s)
		w.markAgain(s)
		w.enterMarks(s)
		r.phase = entered
	case entered:
		w.restoreEnds(s)
		*r = restoring{}
	}
	return true
}

// walk reads the journal, and finds who stands neither at this arrival nor before it, and is not accounted for.
func (w *world) walk(s *server) {
	r := &w.restoring
	for u := range int8(maxUsers) {
		rows := w.db.journal[u]
		if !w.keeps(returnedIntoJournal) && r.returned[u] > 0 {
			rows.add(r.returned[u])
		}
		for a := instant(1); a <= latest && r.entering[u] == 0; a++ {
			late := w.db.closes > 0 && a >= w.db.closes && !w.keeps(lateAreEntered)
			if rows.has(a) && (s.place[u] == 0 || a < s.place[u]) && !w.accounted(u, a) && !late {
				r.entering[u] = a
			}
		}
	}
}

func (w *world) enterWalked(s *server) {
	r := &w.restoring
	for u, a := range r.entering {
		if a > 0 {
			w.enter(s, int8(u), a)
		}
	}
	r.entering = [maxUsers]instant{}
}

// enter lets a user stand at an arrival of the past. A later place moves forward. A mark that MySQL does not know goes.
func (w *world) enter(s *server, user int8, a instant) {
	switch {
	case s.place[user] == 0:
		s.place[user] = a
		s.inDLQ.remove(user)
		if !w.db.byHand.has(user) && w.db.coupons[user] == 0 && w.keeps(unknownMarkGoes) {
			s.marks[user] = notMarked
		}
		if !w.keeps(enteringAddsNothing) {
			s.accepted++
		}
		if w.keeps(leftWithoutEntered) {
			w.restoring.missing = max(0, w.restoring.missing-1)
		}
	case s.place[user] > a && w.keeps(placesMoveForward):
		s.place[user] = a
		if s.restored == s.since || !w.keeps(notInFirstRestore) {
			s.forward++
		}
	}
	s.last = max(s.last, a)
	w.happened.podDied.remove(user) // the journal has the row
}

// markAgain writes the marks that MySQL has and Redis lacks.
func (w *world) markAgain(s *server) {
	for u := range int8(maxUsers) {
		if s.marks[u] <= 0 && w.keeps(marksAreWrittenAgain) {
			s.mark(u, &w.db)
		}
	}
	s.rejected |= w.db.rejected
}

// mark writes the mark of a user who has a coupon. A coupon given by hand never replaces a score.
func (s *server) mark(user int8, db *database) {
	switch {
	case db.coupons[user] > 0:
		s.marks[user] = db.coupons[user]
	case db.byHand.has(user) && s.marks[user] == notMarked:
		s.marks[user] = byHand
	}
}

// enterMarks enters marks whose settlement MySQL has lost, if people are missing still. The journal will be read from
// its beginning.
func (w *world) enterMarks(s *server) {
	for u := range int8(maxUsers) {
		a := s.marks[u]
		if !w.keeps(marksAreEntered) || w.missing(s) == 0 && !w.keeps(marksNeedNoGap) || s.place[u] > 0 ||
			w.db.coupons[u] > 0 {
			continue
		}
		if a == byHand && !w.keeps(handIsNoArrival) {
			a = 1
		}
		if a <= 0 || w.accounted(u, a) {
			continue
		}
		if w.keeps(journalFirst) {
			w.enterJournal(u, a)
			w.db.written++
			w.written = w.db.written
		}
		if w.keeps(marksReadAll) {
			w.db.upTo = 0
		}
		w.enter(s, u, a)
	}
}

// restoreEnds takes out of returned what it has handled, and writes what is missing still.
func (w *world) restoreEnds(s *server) {
	r := &w.restoring
	for u, a := range r.returned {
		if a > 0 && (s.returned[u] == a || !w.keeps(removesExactly)) {
			s.returned[u] = 0
		}
	}
	if w.keeps(excessIsAdded) {
		s.accepted += w.excess(s)
	}
	moved := min(w.missing(s), s.forward)
	if w.keeps(movedLowersAccepted) {
		s.accepted -= moved
	}
	if w.keeps(leftWithoutEntered) {
		r.missing = max(0, r.missing-moved)
	}
	s.forward, s.final = 0, false
	s.restored = s.since
	s.left = w.missing(s)
	if w.keeps(leftAtMostBefore) {
		s.left = min(s.left, r.missing)
	}
	w.db.asked -= min(w.db.asked, r.asked)
	if w.db.epoch != r.epoch {
		w.db.mark, w.readUpTo = w.firstMark(s), 0
	}
	for i := range w.pods {
		p := &w.pods[i] // it sees the number of restores whenever it reaches this server
		p.newRestore = p.newRestore || r.compares && p.epoch == r.epoch
	}
}
