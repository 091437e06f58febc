// Package history reads what MySQL and the DLQ hold of the past: runs, coupons, recorded outcomes, audit entries, groups of
// DLQ entries, and the outcome of one application. It changes nothing.
package history
