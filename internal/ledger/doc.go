// Package ledger counts the accepted applications of each coupon and checks every invariant of the system.
//
// The checker counts rows instead of reading counters, computes digests again, and compares every application in Redis with
// MySQL. It shares no query with the settlement that it judges. It also finds applications that no run settles: those of a
// finalised coupon, or of a coupon that MySQL does not have, for which it goes through the names of all keys in Redis, page
// by page. It compares the rows of a run with its record, and runs with the audit events about them.
//
// Applications arrive and settlements run meanwhile, so that a first look can find an application between two places. The
// checker repeats every check that found something under the coupon's row lock, where no settlement commits. Applications
// arrive under that lock as well, so that the order of reads matters: the promises of MySQL first, then Redis, then the
// outcomes in MySQL. An application that arrives in between adds to neither side, and one that leaves Redis is in MySQL by
// then: it can be counted twice for a moment, but is never missed.
//
// Checking changes nothing, and can be repeated and stopped at any time.
package ledger
