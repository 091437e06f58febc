package promisemodel

// What the scripts of Redis do, and what follows from Redis and MySQL together.

func (s *server) epochNow() epoch { return epoch{s.run, s.since} }

// sameServer says whether the epoch of the state is still that of the server.
func (w *world) sameServer(s *server) bool {
	switch {
	case !s.exists, s.run != s.serverRun:
		return false
	case s.repl == s.serverRepl, !w.keeps(epochByReplid):
		return true
	}
	return s.replacedNone && w.keeps(replicaIsNoEpoch)
}

// begin is the part of every script that compares the state with INFO, and begins an epoch. The caller has seen an
// arrival.
func (w *world) begin(on int8, seen instant) epoch {
	s := &w.servers[on]
	if w.sameServer(s) {
		s.repl = s.serverRepl
		return s.epochNow()
	}
	if !s.exists {
		s.since, s.restored, s.last, s.accepted, s.left = 0, 0, 0, 0, 0
		s.exists, s.soldOut = true, w.freeSeats() <= 0
	}
	since := w.tick(s)
	if since == s.began { // no clock says the same twice
		since = w.tick(s)
	}
	if w.keeps(sinceGrows) {
		since = max(since, s.since+1)
	}
	s.since, s.began, w.now = since, since, max(w.now, since)
	s.run, s.repl, s.tenSeconds = s.serverRun, s.serverRepl, false
	early := !w.opened && (s.replacedNone || !w.keeps(promotedIsCompared)) || !w.keeps(bornBeforeOpening)
	if early && s.accepted == 0 && seen == 0 && w.db.upTo == 0 {
		s.restored = s.since
	}
	return s.epochNow()
}

// sees says whether a script of the epoch finds the same epoch still.
func (w *world) sees(on int8, e epoch) bool {
	s := &w.servers[on]
	return w.sameServer(s) && s.epochNow() == e
}

// tick reads the clock of a server. Every reading is later than the one before.
func (w *world) tick(s *server) instant {
	if !s.late {
		w.now++
		return w.now
	}
	s.clock++
	read := s.clock
	if read >= w.now {
		w.now, s.late, s.clock = read, false, 0
	}
	return read
}

// tenBefore is the latest instant that may be ten seconds before t.
func (w *world) tenBefore(t instant) instant {
	for _, ago := range w.tenAgo {
		if ago < t {
			return ago
		}
	}
	return 0
}

// promote lets the replica serve.
func (w *world) promote(how action) {
	w.formerEnds()
	r := &w.servers[primary]
	if both := how == failoverBoth || how == failoverBothLate; both {
		w.servers[former], w.formerServes, w.happened.bothServed = *r, true, true
		w.copying.on, w.restoring.on, w.settling.on = former, former, former
		for i := range w.pods {
			w.pods[i].onFormer = true
		}
	}
	if w.replicaBehind {
		r.dataset = w.replica
	}
	w.findAgain()
	w.replica, w.replicaBehind = dataset{}, false
	w.repls++
	r.serverRepl, r.replacedNone = w.repls, false
	if how != demoted {
		w.runs++
		r.serverRun = w.runs
	}
	r.late = how == failoverLate || how == failoverBothLate
	r.clock, r.began = 0, 0
	if r.late {
		r.clock = w.tenAgo[0]
	}
	r.tenSeconds, w.happened.redisLost = false, true
	w.copying.normalise()
	w.restoring.normalise()
	w.settling.normalise()
}

// findAgain finds who stands on a server that does not know their outcome.
func (w *world) findAgain() {
	for u, a := range w.servers[primary].place {
		if a > 0 && w.accounted(int8(u), a) && !w.settledPlace(int8(u), a, true) {
			w.happened.again.add(int8(u))
		}
	}
}

// formerReturns lets the server before serve again, with its state and its replid, and ends the other one.
func (w *world) formerReturns() bool {
	if !w.servers[former].exists {
		return false
	}
	w.happened.elsewhere = true
	w.servers[primary] = w.servers[former]
	w.servers[former], w.formerServes = server{}, false
	for i := range w.pods {
		w.pods[i].onFormer = false
	}
	if w.copying.on == primary && w.copying.phase == firstPage {
		w.copying = copying{}
	}
	w.copying.on, w.restoring.on, w.settling.on = primary, primary, primary
	w.replica, w.replicaBehind = dataset{}, false
	w.findAgain()
	return true
}

// formerEnds ends the former server, and what used it. It may come back.
func (w *world) formerEnds() bool {
	if !w.formerServes {
		return false
	}
	if w.formerServes = false; !w.law.kinds[formerReturns] {
		w.servers[former] = server{}
	}
	if w.copying.on == former && w.copying.phase == firstPage {
		w.copying = copying{}
	}
	w.copying.on = primary
	if w.restoring.on == former {
		w.restoring = restoring{}
	}
	if w.settling.on == former {
		w.settling = settling{}
	}
	for i := range w.pods {
		w.pods[i].onFormer = false
	}
	return true
}

// Facts.

func (w *world) freeSeats() int8 {
	free := w.db.seats
	for _, a := range w.db.coupons {
		if a > 0 {
			free--
		}
	}
	return free
}

// settledAt says whether MySQL has a row of the user at exactly this arrival.
func (w *world) settledAt(user int8, a instant) bool {
	if a == 0 {
		return false
	}
	for _, o := range w.db.outcomes[user] {
		if o.arrival == a {
			return true
		}
	}
	return w.db.coupons[user] == a
}

// settledPlace says whether a user stands at a settled arrival, or at an earlier one of the same application.
func (w *world) settledPlace(user int8, a instant, earlier bool) bool {
	if a == 0 || w.settledAt(user, a) || !earlier {
		return w.settledAt(user, a)
	}
	for _, o := range w.db.outcomes[user] {
		if a < o.arrival {
			return true
		}
	}
	return a < w.db.coupons[user]
}

func (w *world) hasRow(user int8) bool {
	return w.db.coupons[user] > 0 || w.db.byHand.has(user) || w.db.outcomes[user][0].arrival > 0
}

// accounted says whether MySQL accounts for an arrival of the user: a coupon from a run, REJECTED, or an outcome of a
// run whose cutoff lies above the arrival.
func (w *world) accounted(user int8, a instant) bool {
	if w.db.coupons[user] > 0 || w.db.rejected.has(user) {
		return true
	}
	for _, o := range w.db.outcomes[user] {
		if o.arrival > 0 && (o.cutoff > a || !w.keeps(cutoffAccounts)) && (o.arrival >= a || w.keeps(cutoffAccounts)) {
			return true
		}
	}
	return false
}

// account counts who stands, who is settled, and who of the settled still stands.
func (w *world) account(s *server) (stand, settled, both, issued int8) {
	for u := range int8(maxUsers) {
		if s.place[u] > 0 {
			stand++
			if w.settledPlace(u, s.place[u], w.keeps(earlierPlaceCountsOnce)) {
				both++
			}
		}
		if w.db.coupons[u] > 0 {
			issued++
		}
		for _, o := range w.db.outcomes[u] {
			if o.arrival > 0 {
				settled++
			}
		}
	}
	return stand, settled + issued, both, issued
}

func (w *world) missing(s *server) int8 {
	stand, settled, _, _ := w.account(s)
	return max(0, s.accepted-w.db.writtenOff-w.db.erased-stand-settled)
}

func (w *world) excess(s *server) int8 {
	stand, settled, both, _ := w.account(s)
	return max(0, stand-both+settled+w.db.writtenOff+w.db.erased-s.accepted)
}

// due is the number of the first reason for a restore, or 0.
func (w *world) due(s *server) int {
	marked := int8(0)
	for _, a := range s.marks {
		if a > 0 || a == byHand && !w.keeps(handMarksNotCounted) {
			marked++
		}
	}
	_, _, _, issued := w.account(s)
	other := w.db.epoch != epoch{} && w.db.epoch != s.epochNow()
	switch {
	case !w.sameServer(s) || s.restored != s.since || other && w.keeps(dueOtherEpoch):
		return 1
	case w.keeps(dueMissing) && w.missing(s) > s.left:
		return 2
	case w.keeps(dueMarks) && marked < issued:
		return 3
	case w.keeps(dueAsked) && w.db.asked > 0:
		return 5
	case w.keeps(dueReturned) && s.anyReturned():
		return 4
	}
	return 0
}

// locked says whether somebody has the lock of the coupon's row.
func (w *world) locked() bool {
	return w.restoring.phase > 0 || w.settling.phase >= lockHeld && w.settling.phase <= checked
}

// enterJournal commits a row of the journal.
func (w *world) enterJournal(user int8, a instant) {
	w.db.journal[user].add(a)
	if a <= w.happened.told[user] {
		w.happened.toldLost.remove(user)
	}
}
