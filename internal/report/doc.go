// Package report counts what became of the applications of a day or a month.
//
// A report goes by the arrival of applications, which never changes, and not by the time of their settlement: each
// application is in exactly one day, and a month is the sum of its days. Outcomes are those of now. An application that was
// not selected and later gets an added seat moves from one column to another of the same day.
//
// Each coupon is counted in one snapshot of MySQL and then in Redis. When the account does not balance, promises are lost or
// a settlement has committed in between, and the coupon is counted again under its lock.
package report
