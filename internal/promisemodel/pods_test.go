package promisemodel

func (w *world) serverOf(p *pod) int8 {
	if p.onFormer {
		return former
	}
	return primary
}

// apply answers a user, and the reply may be lost. It is false if nothing is told that the user does not know.
func (w *world) apply(user, podNo int8, lost bool) bool {
	p := &w.pods[podNo]
	on := w.serverOf(p)
	s := &w.servers[on]
	if p.cutOff || !s.exists || w.pending[user].by > 0 || !w.opened {
		return false
	}
	e := w.begin(on, p.seen)
	a := s.place[user]
	isNew := a == 0
	switch {
	case !isNew && s.inDLQ.has(user): // UNDER_REVIEW
		return false
	case isNew:
		if s.marks[user] != notMarked || s.rejected.has(user) || s.soldOut || s.closed ||
			w.accepts >= w.law.accepts {
			return false
		}
		w.accepts++
		a = w.nextArrival(s, p.seen)
		w.happened.wentBack = w.happened.wentBack || a <= p.seen
		s.place[user] = a
		s.accepted++
		if w.accounted(user, a) {
			w.happened.again.add(user)
		}
	}
	if lost {
		w.happened.untold.add(user)
		return isNew
	}
	p.seen = max(p.seen, a)
	if on == former && w.happened.lasted {
		w.happened.late.add(user)
	}
	w.learn(p, e)
	if isNew || w.keeps(duplicatesRemembered) || !w.db.mark.covers(e, a) {
		w.remember(p, user, a, e)
	}
	if w.law.afterJournal {
		w.pending[user] = promise{a, e, podName(podNo + 1)}
	} else {
		w.tell(user, a)
		w.happened.witnesses[podNo].add(user)
	}
	return true
}

// nextArrival grows over servers: the pod passes the highest arrival that it has seen.
func (w *world) nextArrival(s *server, seen instant) instant {
	a := max(w.tick(s), s.last+1)
	if w.keeps(podsPassSeen) {
		a = max(a, seen+1)
	}
	w.now, s.last = max(w.now, a), a
	return a
}

func (w *world) tell(user int8, a instant) {
	if told := &w.happened.told[user]; *told == 0 || a < *told {
		*told = a
	}
}

// commitPromise commits the row of an accepted application, and tells the user.
func (w *world) commitPromise(user int8) bool {
	held := w.pending[user]
	if held.by == 0 {
		return false
	}
	w.enterJournal(user, held.arrival)
	if w.db.epoch != held.epoch && w.keeps(commitAsks) {
		w.db.asked++
	}
	w.tell(user, held.arrival)
	w.happened.witnesses[held.by-1].add(user)
	w.pending[user] = promise{}
	return true
}

// breakPromise answers 503 instead.
func (w *world) breakPromise(user int8) {
	w.pending[user] = promise{}
	w.happened.untold.add(user)
}

func (w *world) remember(p *pod, user int8, a instant, e epoch) {
	for _, known := range p.answers[user] {
		if known.arrival == a && known.epoch == e {
			return
		}
	}
	for i, known := range p.answers[user] {
		if known.arrival == 0 {
			p.answers[user][i] = answer{arrival: a, epoch: e}
			return
		}
	}
	w.happened.overfull = true
}

// learn takes over the epoch of a reply.
func (w *world) learn(p *pod, e epoch) {
	if p.epoch == e {
		return
	}
	p.newEpoch = p.epoch != epoch{} && w.keeps(newEpochCompares)
	p.epoch, p.newRestore = e, false
	for u := range p.answers {
		for i := range p.answers[u] {
			p.answers[u][i].handedOver = false
		}
	}
}

// look is a pod's refresh, or its look without MySQL. A pod that sees another epoch or a restore compares its memory.
func (w *world) look(p *pod) bool {
	if p.cutOff {
		return false
	}
	on := w.serverOf(p)
	e := w.begin(on, p.seen)
	if s := &w.servers[on]; w.keeps(catalogLiftsLast) {
		s.last = max(s.last, w.db.upTo, w.db.settledUpTo)
	}
	w.servers[on].closed = w.db.closes > 0
	w.learn(p, e)
	if p.newEpoch || p.newRestore {
		w.handOver(p, &w.servers[on])
	}
	if !w.keeps(forgetsAfterTenSeconds) {
		p.forget(w.db.mark, false)
	}
	return true
}

// handOver puts whoever does not stand, at this arrival or an earlier one, into returned, unless the coupon was swept.
func (w *world) handOver(p *pod, s *server) {
	for u := range int8(maxUsers) {
		for i := range p.answers[u] {
			known := &p.answers[u][i]
			switch {
			case known.arrival == 0 || s.final:
			case s.place[u] > 0 && s.place[u] <= known.arrival:
				if w.keeps(whoStandsGetsEpoch) {
					known.epoch, known.handedOver = p.epoch, false
				}
			case s.marks[u] != notMarked && p.newEpoch && !w.keeps(markIsNoAnswer):
			case s.marks[u] > 0 && !p.newEpoch: // within an epoch a mark is an answer
			default:
				if r := &s.returned[u]; *r == 0 || *r > known.arrival {
					*r = known.arrival
				}
				known.handedOver = true
				if !w.keeps(keepsUntilTaken) {
					*known = answer{}
				}
			}
		}
	}
	p.newEpoch, p.newRestore = false, false
}

// forget lets go of what the journal has, and of what was handed over if a restore has taken it.
func (p *pod) forget(m mark, taken bool) {
	for u := range p.answers {
		for i := range p.answers[u] {
			known := &p.answers[u][i]
			if known.handedOver && taken || !known.handedOver && m.covers(known.epoch, known.arrival) {
				*known = answer{}
			}
		}
	}
}

// die replaces a pod by one without a memory.
func (w *world) die(podNo int8) {
	p := &w.pods[podNo]
	for u := range int8(maxUsers) {
		for _, a := range p.answers[u] {
			if a.arrival == 0 || w.pods[1-podNo].knows(u, a.arrival) {
				continue
			}
			w.happened.podDied.add(u)
		}
	}
	w.startPod(podNo)
}

// terminate ends a pod while Redis is silent, or on a server that the journal does not copy: it writes what it
// remembers into the journal, and asks for a restore.
func (w *world) terminate(podNo int8) bool {
	p := &w.pods[podNo]
	elsewhere := p.onFormer && w.db.epoch != epoch{} && w.db.epoch != p.epoch
	if !p.cutOff && !elsewhere {
		return false
	}
	asks := false
	for u := range int8(maxUsers) {
		for _, a := range p.answers[u] {
			if a.arrival > 0 && (p.cutOff || w.keeps(terminatingTellsElsewhere)) {
				w.enterJournal(u, a.arrival)
				w.happened.podDied.add(u)
				asks = w.keeps(terminatingAsks)
			}
		}
	}
	if asks {
		w.db.asked++
	}
	w.startPod(podNo)
	return true
}

func (w *world) startPod(podNo int8) {
	for u := range int8(maxUsers) {
		if w.pending[u].by == podName(podNo+1) {
			w.breakPromise(u)
		}
	}
	w.pods[podNo] = pod{}
	w.happened.witnesses[podNo] = 0
}

func (p *pod) knows(user int8, a instant) bool {
	for _, known := range p.answers[user] {
		if known.arrival > 0 && known.arrival <= a {
			return true
		}
	}
	return false
}
