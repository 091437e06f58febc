package promisemodel

import (
	"hash/maphash"
	"reflect"
	"unsafe"
)

// Worlds that differ in the names of users and pods only are the same, and so are worlds whose instants have the same
// order. The places of all instants, users and pods within a world are found once, by their types.
var places = findPlaces(reflect.TypeFor[world](), 0, layout{})

type layout struct {
	instants []uintptr // offsets
	sets     []uintptr // of type instants
	users    []uintptr // of type users
	names    []uintptr // of type userName
	podNames []uintptr
	perUser  []span  // arrays with one element a user
	size     uintptr // of the part that is a state
}

type span struct{ at, element uintptr }

func findPlaces(t reflect.Type, at uintptr, l layout) layout {
	switch {
	case t == reflect.TypeFor[instant]():
		l.instants = append(l.instants, at)
	case t == reflect.TypeFor[instants]():
		l.sets = append(l.sets, at)
	case t == reflect.TypeFor[users]():
		l.users = append(l.users, at)
	case t == reflect.TypeFor[userName]():
		l.names = append(l.names, at)
	case t == reflect.TypeFor[podName]():
		l.podNames = append(l.podNames, at)
	case t.Kind() == reflect.Array:
		if t.Len() == maxUsers {
			l.perUser = append(l.perUser, span{at, t.Elem().Size()})
		}
		for i := range t.Len() {
			l = findPlaces(t.Elem(), at+uintptr(i)*t.Elem().Size(), l)
		}
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Name == "law" {
				l.size = f.Offset
			} else {
				l = findPlaces(f.Type, at+f.Offset, l)
			}
		}
	}
	return l
}

func (w *world) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(w)), places.size) }

// renumber gives instants the lowest numbers that keep their order. It is false if there are too many for the model.
func (w *world) renumber() bool {
	b := w.bytes()
	var used [128]bool
	for _, at := range places.instants {
		used[max(0, int8(b[at]))] = true
	}
	for _, at := range places.sets {
		for a := range instant(latest + 1) {
			used[a] = used[a] || instants(b[at:at+2]).has(a)
		}
	}
	var number [128]instant
	n := instant(0)
	for a := 1; a < 128; a++ {
		if used[a] {
			n++
			number[a] = n
		}
	}
	if n > latest-3 { // room for recovery
		return false
	}
	for _, at := range places.instants {
		if int8(b[at]) > 0 {
			b[at] = byte(number[b[at]])
		}
	}
	for _, at := range places.sets {
		old, renumbered := instants(b[at:at+2]), instants{}
		if old == renumbered {
			continue
		}
		for a := instant(1); a <= latest; a++ {
			if old.has(a) {
				renumbered.add(number[a])
			}
		}
		copy(b[at:], renumbered[:])
	}
	return true
}

var orders = map[int8][][maxUsers]int8{
	1: {{0, 1, 2}}, 2: {{0, 1, 2}, {1, 0, 2}},
	3: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
}

var seed = maphash.MakeSeed()

// hash is the same for worlds that differ in names only.
func (w *world) hash() uint64 {
	least := ^uint64(0)
	for i, order := range orders[w.law.users] {
		other := *w
		if i > 0 {
			other.renameUsers(order)
		}
		least = min(least, maphash.Bytes(seed, other.bytes()))
		other.swapPods()
		least = min(least, maphash.Bytes(seed, other.bytes()))
	}
	return least
}

// renameUsers gives user i what user order[i] has.
func (w *world) renameUsers(order [maxUsers]int8) {
	b := w.bytes()
	var old [64]byte
	for _, s := range places.perUser {
		copy(old[:], b[s.at:s.at+maxUsers*s.element])
		for i, from := range order {
			copy(b[s.at+uintptr(i)*s.element:], old[uintptr(from)*s.element:uintptr(from+1)*s.element])
		}
	}
	for _, at := range places.users {
		was, is := users(b[at]), users(0)
		for i, from := range order {
			if was.has(from) {
				is.add(int8(i))
			}
		}
		b[at] = byte(is)
	}
	for _, at := range places.names {
		for i, from := range order {
			if int8(b[at]) == from+1 {
				b[at] = byte(i + 1)
				break
			}
		}
	}
}

func (w *world) swapPods() {
	w.pods[0], w.pods[1] = w.pods[1], w.pods[0]
	w.happened.witnesses[0], w.happened.witnesses[1] = w.happened.witnesses[1], w.happened.witnesses[0]
	b := w.bytes()
	for _, at := range places.podNames {
		if b[at] > 0 {
			b[at] = pods + 1 - b[at]
		}
	}
}
