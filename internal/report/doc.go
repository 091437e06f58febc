// Package report counts the outcomes of the applications of a day or a month.
//
// A report selects applications by their arrival, which never changes, and not by the time of their settlement: each
// application is in exactly one day, and a month is the sum of its days. Outcomes are the present ones. An application that was
// not selected and later gets an added seat moves from one column to another of the same day.
//
// Each coupon is counted in one snapshot of MySQL and then in Redis. When the account does not balance, promises are lost or
// a settlement has committed between the two, and the coupon is counted again under its lock.
package report
