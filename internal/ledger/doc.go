// Package ledger reads what was settled and proves it: the account of every promise, how single applications came out
// (History), which runs there were and what they did, what became of the applications of a day or a month (Report), and one
// checker that knows all invariants of the system.
//
// The checker trusts nobody's word: it counts rows instead of believing counters, computes digests again, and walks
// the line in Redis asking MySQL about each application. It shares no query with the settlement that it judges.
//
// Applications keep arriving and settlements keep running while it looks, so that a first look can catch a promise in
// mid-air. Whatever looks wrong is therefore looked at again under the coupon's row lock, where no settlement can
// commit, before it is called wrong. Applications arrive under that lock too, so that the order of counting matters:
// first the promises that MySQL remembers, then Redis, then what MySQL has settled. An application that arrives in
// between adds to neither side, and what leaves Redis in between is in MySQL already: a promise can be seen twice in
// mid-air but never missed.
//
// What no run looks for is found, too: people in line for a coupon that is finalised or that MySQL does not know, for which the names
// of all keys in Redis are gone through, a page at a time. Rows are compared with what their run writes down, and runs with what the
// audit events say of them. A door is compared with its coupon's row twice, with time for a change between; see Doors for what
// can be known there.
//
// Audit events are checked as a chain of hashes, each over the one before, with the end kept apart in audit_head; see
// AuditEvent for what that shows and what it cannot.
//
// Checking changes nothing and can be repeated and stopped at any time.
//
// A report goes by when applications arrived, not by when they were settled: that never changes, however often runs are
// repeated and whichever run it was, so that each application is in exactly one day, and a month is the sum of its days. What
// has become of it is told as it is now: somebody who was not selected and later got a seat that was added moves from one
// column to another of the same day. A report counts each coupon in one snapshot of MySQL and then in Redis; where the account
// does not come out even, a settlement has committed in between, or promises are lost, and it counts again under the lock.
package ledger
