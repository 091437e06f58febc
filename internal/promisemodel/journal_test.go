package promisemodel

// copying is a copy of the line into the journal. It reads the line in two pages.
type copying struct {
	phase  int8
	on     int8    // the server
	after  instant // of the second page
	begin  mark    // where it begins
	upTo   instant // to be
	rows   [maxUsers]instant
	behind bool // epoch and up_to stay as they are
	asks   bool // for a restore
}

const (
	firstPage int8 = iota + 1 // was read
	allPages
)

func (w *world) copyBegins(on int8) bool {
	s := &w.servers[on]
	if w.copying.phase > 0 || !s.exists || w.db.finalised {
		return false
	}
	e := w.begin(on, max(w.db.upTo, w.db.settledUpTo))
	from := w.db.mark
	if e != w.db.epoch {
		from = w.firstMark(s)
	}
	if w.keeps(fallbackReadsAll) && w.db.upTo < w.readUpTo || w.keeps(fallbackByWritten) && w.db.written < w.written {
		from.upTo = 0 // MySQL has fallen back
	}
	c := copying{phase: firstPage, on: on, begin: from, upTo: s.last}
	c.after = s.nextAfter(from.upTo)
	c.read(s, from.upTo, c.after)
	w.copying = c
	return true
}

// firstMark is the mark of an epoch that is new to the journal: ten seconds before the lower of up_to and since.
func (w *world) firstMark(s *server) mark {
	upTo := w.db.upTo
	if w.keeps(lowerOfUpToAndSince) {
		upTo = min(upTo, s.since)
	}
	if w.keeps(tenSecondsBefore) {
		upTo = w.tenBefore(upTo)
	}
	return mark{s.epochNow(), upTo}
}

// nextAfter is the lowest arrival after another one at which somebody stands; without one, the highest.
func (s *server) nextAfter(from instant) instant {
	next := instant(127)
	for _, a := range s.place {
		if a > from {
			next = min(next, a)
		}
	}
	return next
}

// read reads a page: who stands after an arrival, up to another one.
func (c *copying) read(s *server, after, upTo instant) {
	for u, a := range s.place {
		if a > after && a <= upTo && c.rows[u] == 0 {
			c.rows[u] = a
		}
	}
}

func (w *world) copyReads() bool {
	c := &w.copying
	if c.phase != firstPage {
		return false
	}
	s := &w.servers[c.on]
	if w.keeps(pagesCarryEpoch) && !w.sees(c.on, c.begin.epoch) {
		*c = copying{}
		return true
	}
	c.read(s, c.after, 127)
	if !w.keeps(upToOfFirstReply) {
		c.upTo = s.last
	}
	due := w.due(s)
	c.behind = w.keeps(upToStaysWhileDue) && due != 0 || w.keeps(upToStaysWhileUnclean) && w.db.unclean != 0
	c.asks = due == 1 && w.keeps(copyAsks)
	c.phase, c.after = allPages, 0
	return true
}

func (w *world) copyCommits() bool {
	c := &w.copying
	if c.phase != allPages {
		return false
	}
	for u, a := range c.rows {
		if a > 0 {
			w.enterJournal(int8(u), a)
		}
	}
	switch {
	case !c.behind:
		w.db.mark = mark{c.begin.epoch, c.upTo}
	case w.db.epoch == c.begin.epoch:
		w.db.mark = c.begin
	}
	if c.asks {
		w.db.asked = max(w.db.asked, 1)
	}
	w.readUpTo, w.written, w.journalWaits = w.db.upTo, w.db.written, false
	*c = copying{}
	return true
}
