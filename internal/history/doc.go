// Package history reads runs, coupons, recorded outcomes, audit entries and the outcome of one user from MySQL, and groups the
// entries of the DLQ. It changes nothing.
package history
