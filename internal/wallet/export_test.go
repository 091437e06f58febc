package wallet

// Peek is for tests: a call peeks only after it waited for its turn.
var Peek = (*Store).peek

// Hold takes the places of all groups of a verb until release, as transactions that last do.
func (s *Store) Hold(verb Verb) (release func()) {
	slots := s.gates[verb].slots
	for range cap(slots) {
		slots <- struct{}{}
	}
	return func() {
		for range cap(slots) {
			<-slots
		}
	}
}
