// Package promisemodel is an executable specification of how promises are kept. It has no product code and no
// servers: its tests play everything that may happen to one coupon, in a model, and let recovery end after every
// step. Tests of other packages have it check what they saw on real servers.
//
// # What the model has
//
// Pods that remember their answers. Two Redis servers, of which the former may serve on for a while, or serve again,
// and a replica that may lack the last ten seconds. MySQL and a replica that may lack the last ten seconds. The
// journal, which reads the line in two pages. What pods hand over, and the restore in steps. Nightly, immediate and
// retrying settlements, with close-out and clean-up, refused rows, the DLQ, and NOT_SELECTED rows that get a seat
// later. Coupons given by hand, added seats, gaps that are written off, people who are forgotten. A window that
// opens, and an operator who closes it. A Redis server whose clock is late.
//
// world_test.go has the state, servers_test.go what scripts do and what follows from Redis and MySQL together. A
// file each has pods, journal, restore and settlement. steps_test.go says what can happen, judge_test.go what must
// be true, rules_test.go has the rules of the contract, each with the shortest sequence that breaks a promise
// without it.
//
// # How it is searched
//
// Breadth first: every state of a small world is visited once. States are the same if they differ in the names of
// users and pods only, or in instants that have the same order (names_test.go). Random walks go deeper into larger
// worlds. Both end a sequence at the first violation and report the shortest one; a walk leaves out steps until
// none is superfluous. Every rule is switched off once, and the search must find a violation; rules without which
// nothing is found are in the list notShown.
//
// These worlds are explored whole, with one settlement, and steps of journal, restore and settlement taken
// together. Two users who apply once or twice in all, without a fault: 158,137 states, 25 steps deep, 3 s of
// processor time. One user who is accepted once, and one fault of any kind: 2,320,295 states, 31 steps deep, 30 s.
// One user of a coupon that was settled and finalised while its replica did not follow: 47,135 states, 22 steps deep;
// while MySQL's replica did not follow: 23,106 states, 20 steps deep.
// `make soak` explores four more, each whole within a minute of two processors: the second one at night (4,576,776
// states), small steps with the most common faults (4,104,384), two users with a FLUSHALL (5,104,692), and a former
// server that serves again (4,454,138 states, 36 steps deep). Four faults, three arrivals, and what operators do
// beside faults are only in random walks: 40 choices of faults, or 2,000 in `make soak`.
//
// # Traces of real servers
//
// A [Trace] has what was seen of one coupon: who was told which arrival in which epoch and by which pod, what pods
// compared and handed over, what MySQL and Redis had whenever the test looked, losses, and pods that died. Nothing in
// the product records it; jajeongtest.Trace sees it from outside. Check, in tracecheck.go, demands of it that
//
//   - an arrival is above all that the pod told before; a pod's memory knows all that the pod told
//   - whoever stood while no restore was due, and applies again in the same epoch, is told no later arrival
//   - nobody stands, is settled or is in the journal at an arrival that nobody was told
//   - everybody who was told in the journal's epoch up to up_to is in the journal or settled; nobody leaves the journal
//   - a pod compares with a new server whatever it cannot know to have been in the journal for ten seconds
//   - while no restore is due and no clean-up is to come, everybody in the journal, and whoever was handed over, stands
//     or is settled
//   - in the end no seat is given twice or too late, and nobody is passed over, but for whom only dead pods knew
//
// The last rule judges the end alone. A request without an answer may have been accepted; so may be whoever was
// entered by hand. Who was told, but not copied, before a loss within an epoch is no fault of a copy. A look sees what
// was there at one instant: what comes and goes between two looks is not seen.
//
// The storm of random losses (internal/systemtest), the model of pods (internal/handover), and the kill points of a
// restore (internal/journal) and of a settlement whose Redis is emptied (internal/settle) record traces.
//
// # What is left out
//
//   - Instants are ranks. That a clock jumps ahead, CLOCK_AHEAD, and limits in seconds other than ten are not
//     there. Ten seconds pass as one step, in which all pods look that reach Redis, and restores that are due have
//     begun.
//   - Scripts and transactions are single steps, and facts are read from Redis and MySQL at one instant. So rule 3
//     needs one look, and that a server is writable at two looks is not there.
//   - A walk through the journal and the memory of a pod are read at once. The line of a settlement is read in one
//     page.
//   - PROMISE_UNKNOWN and journal.accepted, which warn and decide nothing.
//   - A pod forgets as soon as it may. Its memory has no limit, and it remembers every DUPLICATE. After a fallback
//     of MySQL, ten seconds do not pass before the journal is written.
//   - An operator writes a gap off when nothing else is under way.
//   - A receipt that is honoured, the line limit, and more than one coupon. The window opens and is closed, but has no
//     times: that a promoted server is born restored, if the window opens ten seconds later, is not there.
//
// # What is accepted
//
// The judge accepts what the contract accepts: whom only a dead pod and a dead server knew is lost; a pod that was
// cut off for ten seconds is late; after a deletion by hand or a fallback of MySQL, people who applied twice may show
// as a gap, and marks of whom MySQL has forgotten may stay, which verify names; a key deleted within ten seconds of a
// change of servers can cost a place, or hide behind as many who are entered just then: verify names whom it has
// lost. Once a settlement has committed on a former server, the order is not judged. Who applies again on a server
// that does not know their outcome may stand below its cutoff.
package promisemodel
