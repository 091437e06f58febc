// Package ledger reads what was settled and proves it: the account of every promise, how single applications came out
// (History), and one checker that knows all invariants of the system.
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
// Audit events are checked as a chain of hashes, each over the one before, with the end kept apart in audit_head; see
// AuditEvent for what that shows and what it cannot.
//
// Checking changes nothing and can be repeated and stopped at any time.
package ledger
