// Package journal copies to MySQL who was accepted, and enters again whom Redis has lost. This page says why nobody is
// lost.
//
// # The promise
//
// Whoever was told ACCEPTED or DUPLICATE stands at an arrival. The journal, table line_journal, has everybody who was
// accepted, at every arrival at which they were told to stand. Whoever is in the journal and accounted for nowhere is
// entered in Redis again. A pod hands over whom the journal may lack (package handover); one restore enters people;
// nothing else does.
//
// Accounted for is who stands in queue or DLQ at this arrival or an earlier one, has the coupon from a run, was
// REJECTED, or has an outcome of a run whose cutoff lies above this arrival. A coupon given by hand answers no
// application.
//
// # Epochs
//
// An epoch, "<run_id>:<since>", is one Redis server with one state of a coupon. It begins when a script finds no state,
// or a state that INFO says is not this server's (candidates/lua/epoch.lua). Each change of servers, each restart and
// each loss of the state begins one. Counts of two epochs are never merged: a server that has lost its last seconds has
// lost them in the queue and in `accepted` alike.
//
// # Copy
//
// Copy runs once a second for each coupon. It locks the coupon's row of table journal, reads the line by arrival from
// up_to on, and commits rows and up_to together. Then everybody who stood on the server of `epoch` at up_to or before
// it is in the journal, or was settled. Pods forget what they know of ten seconds later.
//
//   - Each page tells its epoch. A page of another epoch is discarded.
//   - epoch and up_to stay while a restore is due, and while a clean-up is pending. The end of a restore writes a new
//     epoch. up_to is then ten seconds before the lower of up_to and the start of the epoch, and a new epoch is read
//     from there.
//   - A copy that reads somebody from a server that was not compared yet asks for a restore: the server before may
//     serve again, and lack them.
//   - While nobody has applied, no epoch is written: the next one may be born compared.
//   - MySQL has fallen back if the row is older than a copy of this process has left it. up_to becomes 0, and the whole
//     line is read again, also by a process that starts meanwhile. A restore that enters users from their marks sets
//     up_to to 0 as well.
//   - up_to is at most five seconds ahead of the clock. A `last` beyond that was written by hand.
//   - An up_to ahead of the clock, or of the `last` of its epoch, was written by hand. It counts as a fall of MySQL,
//     and lifts `last` to five seconds ahead of the clock at most.
//   - Whoever is entered at an arrival of the past is in the journal first: by a restore, a receipt, or a NOT_SELECTED
//     row that becomes a DLQ entry.
//
// # Restore
//
// A restore is due (promise.Books.Due) if
//
//  1. the server, or its state, was not compared with the journal yet, or the journal was last copied from another
//     epoch: another server has served meanwhile
//  2. more promises are missing than the last restore has left
//  3. fewer users are marked as issued than have the coupon
//  4. pods have handed over somebody
//  5. a program that did not reach Redis, a copy, or the end of a settlement has asked for it
//
// and for `settle serve` also (promise.Books.Ahead), at most once a minute, if
//
//  6. somebody has written `last`: it is more than five seconds ahead of the clock, and above all arrivals that queue,
//     DLQ and MySQL know. Redis accepts nobody then, until the end of a restore sets it back
//
// `settle serve` looks for this once a second, and a settlement under its lock and again before its COMMIT. Restore
// begins ten seconds after an epoch has begun, not earlier: pods notice a change of servers within that time. Under the
// coupon's lock it
//
//   - waits for a copy under way, and commits those handed over to the journal, but for those before the opening
//   - walks the journal by arrival, looks for everybody in Redis first and then in MySQL, and enters who is accounted
//     for nowhere. Who stands at a later arrival moves forward
//   - commits a change before it enters anybody: a primary that was replaced, and is still reached, cannot
//   - marks again who has the coupon or was rejected
//   - enters, if people are still missing or more are marked than have a coupon, those marked as issued who have none:
//     MySQL has lost their settlement
//   - commits what was done and what is unknown, and takes the lock again
//   - removes from `returned` exactly whom it has handled, and notes in Redis and in the journal that the epoch was
//     compared, and what is still missing
//
// It is safe to repeat, and to kill at any step: only the last one ends it. If another server takes over meanwhile, it
// fails and nothing is noted: `settle serve` comes again by itself, a settlement up to three times. It enters nobody
// before the opening or ahead of the clock. While somebody is at most a minute ahead, it asks for another restore: the
// clock of the server before was ahead, or that of this one is late.
//
// # The end
//
// A finalised coupon has no queue in Redis. For five minutes the journal, the pods and the marks of who has the coupon
// keep what they know of it: each server may lose the end. `settle serve` looks whether Redis still has it
// (Open.Ended): another server may lack the closing and the settlement. Then finalised_at becomes NULL, and the coupon
// is restored, settled and finalised as any other. If MySQL has lost the end, the coupon misses its winners, who are
// restored by their marks. If MySQL knows an earlier end, more are marked than have a coupon: that end is taken back.
//
// # What is left
//
// What is missing after a restore is a gap. It holds the coupon until an operator accepts it. If a new server and the
// journal together know fewer than the journal has seen accepted, the difference is unknown: a warning by name
// (PROMISE_UNKNOWN), since nobody can be held up for it. It takes the loss of Redis and of the pods that knew, within a
// second. ACCEPT_AFTER=journal closes that.
//
// A member that is no user id was written into Redis by hand. The journal does not have it.
package journal
