package promisemodel

// copying is a copy of the line into the journal. It reads the line in two pages.
type copying struct {
	phase  int8
	on     int8 // the server
	epoch  epoch
	after  instant // of the second page
	mark   mark    // to be
	rows   [maxUsers]instant
	behind bool // epoch and up_to stay as they are
}

const (
	firstPage int8 = iota + 1 // was read
	allPages
)

func (w *world) copyBegins(on int8) bool {
	s := &w.servers[on]
	if w.copying.phase > 0 || !s.exists {
		return false
	}
	e := w.begin(on, max(w.db.upTo, w.db.settledUpTo))
	from := w.db.upTo
	if w.keeps(fallbackReadsAll) && from < w.readUpTo || w.keeps(fallbackByWritten) && w.db.written < w.written {
		from = 0 // MySQL has fallen back
	}
	if e != w.db.epoch {
		if from > s.since && w.keeps(lowerOfUpToAndSince) {
			from = s.since
		}
		if w.keeps(tenSecondsBefore) {
			from = w.tenBefore(from)
		}
	}
	c := copying{phase: firstPage, on: on, epoch: e, mark: mark{e, s.last}}
	c.after = s.nextAfter(from)
	c.read(s, from, c.after)
	w.copying = c
	return true
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
	if w.keeps(pagesCarryEpoch) && !w.sees(c.on, c.epoch) {
		*c = copying{}
		return true
	}
	c.read(s, c.after, 127)
	if !w.keeps(upToOfFirstReply) {
		c.mark.upTo = s.last
	}
	due := w.due(s)
	c.behind = w.keeps(upToStaysWhileDue) && due != 0 || w.keeps(upToStaysWhileUnclean) && w.db.unclean != 0
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
	if !c.behind {
		w.db.mark = c.mark
	}
	w.readUpTo, w.written, w.journalWaits = w.db.upTo, w.db.written, false
	*c = copying{}
	return true
}
