package promisemodel

import "fmt"

// judge lets recovery end without further faults, and says what is broken. The exceptions are those of the contract.
func judge(w world) string {
	for u := range int8(maxUsers) {
		if w.db.coupons[u] > 0 && w.db.byHand.has(u) {
			return "somebody has two coupons"
		}
	}
	if w.freeSeats() < 0 {
		return "more coupons than seats"
	}
	if w.happened.wentBack {
		return "an arrival lies below one that was told"
	}
	if w.db.finalised && w.happened.lostAtEnd {
		return "the coupon is finalised, and nothing accounts for a row of the journal"
	}
	if w.ended {
		return ""
	}
	if !w.happened.redisLost && w.due(&w.servers[primary]) == 1 {
		return "a restore is due, and the server is the same"
	}
	nights := w.law.nightly || w.law.both
	w.law = w.law.withoutLimits()
	w.formerEnds()
	for i := range w.pods {
		w.pods[i].cutOff = false
	}
	restores := w.recover()
	s := &w.servers[primary]
	if w.db.finalised {
		if s.place != [maxUsers]instant{} {
			return "somebody stands, and the coupon is finalised"
		}
		return w.findsLost()
	}
	if w.missing(s) > 0 && nights && w.keeps(gapRestoresOnce) { // before a nightly run holds the coupon
		w.restoreBegins(primary, true)
		restores += w.recover()
	}
	if d := w.due(s); d != 0 {
		return fmt.Sprintf("a restore is due for ever, by rule %d", d)
	}
	if restores > 6 {
		return "restores follow each other"
	}
	for _, found := range []string{w.findsLost(), w.findsRow(), w.findsStanding(), w.findsBehind(), w.findsMark(),
		w.findsGap()} {
		if found != "" {
			return found
		}
	}
	if w.missing(s) > 0 {
		return "" // a person must look
	}
	for range 2 {
		w.settle(primary, nightly)
		w.recover()
	}
	if w.due(s) != 0 {
		return "a restore is due for ever after a settlement"
	}
	for _, found := range []string{w.findsLost(), w.findsRow()} {
		if found != "" {
			return found + ", after a settlement"
		}
	}
	return w.findsPassedOver()
}

// withoutLimits is the law for recovery: runs of both cadences, and as many arrivals and acts as it takes.
func (l *law) withoutLimits() *law {
	if l.unlimited == nil {
		free := *l
		free.accepts, free.settlements, free.both, free.coarse = 100, 0, true, false
		l.unlimited = &free
	}
	return l.unlimited
}

// recover lets everything that has begun end, pods look, restores happen while they are due, and the journal follow. It
// returns how many restores began.
func (w *world) recover() (restores int) {
	for round := range 10 {
		w.finish()
		for i := range w.pods {
			w.look(&w.pods[i])
		}
		w.replicaBehind, w.dbBehind = false, false
		w.guard()
		restores += w.restoreWhileDue()
		if w.journalWaits {
			w.copyBegins(primary)
			w.finish()
		}
		w.tenSecondsPass()
		restores += w.restoreWhileDue()
		w.copyBegins(primary)
		w.finish()
		if round > 1 && w.isQuiet() {
			break
		}
	}
	return restores
}

func (w *world) restoreWhileDue() (restores int) {
	for range 4 {
		if w.due(&w.servers[primary]) == 0 {
			break
		}
		w.restoreBegins(primary, false)
		if w.restoring.phase > 0 {
			restores++
		}
		w.finish()
	}
	return restores
}

func (w *world) isQuiet() bool {
	for _, p := range w.pods {
		if p.newEpoch || p.newRestore {
			return false
		}
	}
	return w.due(&w.servers[primary]) == 0
}

// finish ends what has begun.
func (w *world) finish() {
	for w.copyReads() || w.copyCommits() || w.restoreContinues() || w.readLine() || w.checkAgain() ||
		w.commit(false) || w.closeOut() {
	}
	for u := range int8(maxUsers) {
		w.commitPromise(u)
		w.clean(u, primary)
	}
}

// findsLost finds who was told and is nowhere. Whom only a dead pod and a dead server knew may be lost.
func (w *world) findsLost() string {
	for u := range w.law.users {
		h := &w.happened
		mayBe := h.noticed.has(u) || h.toldLost.has(u) && (!w.law.afterJournal || h.dbFell)
		if !w.foundNowhere(u) || mayBe || w.verifyNames(u) {
			continue
		}
		found := "lost, and nobody notices"
		if w.missing(&w.servers[primary]) > 0 {
			found = "lost, and seen as a gap"
		}
		if w.db.journal[u] != (instants{}) {
			return found + ", though the journal has the row"
		}
		for i := range w.pods {
			if w.pods[i].knows(u, 127) {
				return found + ", though a pod knows"
			}
		}
		return found
	}
	return ""
}

// findsRow finds a row of the journal that nothing accounts for: PROMISE_LOST.
func (w *world) findsRow() string {
	for u := range w.law.users {
		if w.rowIsLost(u, &w.servers[primary]) && !w.happened.noticed.has(u) && !w.verifyNames(u) {
			return "nothing accounts for a row of the journal"
		}
	}
	return ""
}

// verifyNames says that a key was deleted during the restore of another server, which entered as many as were lost, and
// that the journal has the user: no count shows the loss, but PROMISE_LOST does.
func (w *world) verifyNames(user int8) bool {
	return w.happened.keyDeleted && w.repls > 1 && w.rowIsLost(user, &w.servers[primary])
}

func (w *world) rowIsLost(user int8, s *server) bool {
	for a := instant(1); a <= latest; a++ {
		stands := s.place[user] > 0 && s.place[user] <= a
		if w.db.journal[user].has(a) && !stands && !w.accounted(user, a) {
			return true
		}
	}
	return false
}

// findsStanding finds who is settled and stands again.
func (w *world) findsStanding() string {
	if h := &w.happened; h.bothServed || h.keyDeleted && (h.dbFell || w.repls > 1) {
		return ""
	}
	for u := range w.law.users {
		a := w.servers[primary].place[u]
		if a == 0 || w.settledAt(u, a) || w.happened.again.has(u) {
			continue
		}
		if a <= w.db.coupons[u] {
			return "somebody has a coupon and stands again"
		}
		for _, o := range w.db.outcomes[u] {
			if o.cutoff > a {
				return "somebody is settled and stands again"
			}
		}
	}
	return ""
}

// findsBehind finds who stands behind the arrival that was told.
func (w *world) findsBehind() string {
	h, s := &w.happened, &w.servers[primary]
	for u := range w.law.users {
		excused := (h.late | h.toldLost | h.placeLost | h.noticed | h.again).has(u) || h.seatMoved ||
			h.keyDeleted && (h.dbFell || w.repls > 1)
		if h.told[u] > 0 && s.place[u] > h.told[u] && !w.hasRow(u) && !excused {
			return "somebody stands behind the arrival that was told"
		}
	}
	return ""
}

// findsMark finds who has a coupon and no mark, or a mark and no coupon.
func (w *world) findsMark() string {
	for u := range w.law.users {
		mark, has := w.servers[primary].marks[u], w.db.coupons[u] > 0 || w.db.byHand.has(u)
		if w.db.coupons[u] > 0 && mark == notMarked {
			return "somebody has a coupon and no mark"
		}
		if mark > 0 && !has && w.servers[primary].place[u] == 0 && !w.happened.dbFell { // MARK_WRONG
			return "somebody has a mark and no coupon"
		}
	}
	return ""
}

// findsGap finds a gap though everybody is there.
func (w *world) findsGap() string {
	h := &w.happened
	if w.missing(&w.servers[primary]) == 0 || h.toldLost != 0 || h.untold != 0 {
		return ""
	}
	told := int8(0)
	for _, a := range h.told {
		if a > 0 {
			told++
		}
	}
	gone := h.podDied|h.late != 0 || w.faults > 1 || w.acts > 0
	if (h.keyDeleted && gone || h.dbFell) && w.accepts > told {
		return "" // somebody asked again
	}
	return "a gap, and nobody is lost"
}

// findsPassedOver finds who got no coupon though a later arrival got one, and who had a coupon once and does not get it
// again. A pod that was cut off for ten seconds is too late.
func (w *world) findsPassedOver() string {
	h, s := &w.happened, &w.servers[primary]
	for u := range w.law.users {
		if h.told[u] == 0 || !w.eligible(u) || h.noticed.has(u) || (h.late | h.toldLost | h.placeLost).has(u) ||
			s.place[u] > 0 && s.inDLQ.has(u) {
			continue
		}
		for v := range w.law.users {
			excused := h.seatMoved || h.elsewhere || h.keyDeleted && (h.dbFell || w.repls > 1)
			if !excused && w.db.coupons[v] > h.told[u] && h.told[v] > h.told[u] {
				return "somebody is passed over"
			}
		}
		if h.hadCoupon.has(u) && h.handLost == 0 && !h.seatMoved && !h.elsewhere {
			return "somebody had a coupon and does not get it again"
		}
	}
	return ""
}
