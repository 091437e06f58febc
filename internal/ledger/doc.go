// Package ledger counts the accepted applications of each coupon and checks every invariant of the system.
//
// The checker counts rows instead of reading counters, computes digests again, and compares every application in Redis with
// MySQL. It shares no query with the settlement. It compares the rows of each run with the run's record, and the run with its
// audit events. It also finds applications that no run settles: of finalised coupons, and, by the names of all keys in Redis,
// of coupons that MySQL does not have.
//
// Applications arrive and settlements commit during a check. Each check with a finding is therefore repeated under the coupon's
// row lock, where no settlement commits. Applications arrive under that lock, too, so that the order of reads matters: first
// the promises in MySQL, then Redis, then the outcomes in MySQL. A later application is then missing on both sides, and an
// application that leaves Redis is already in MySQL: it can be counted twice for a moment, but is never missed.
//
// A check changes nothing. It is safe to repeat and to stop.
package ledger
