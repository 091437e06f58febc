// Package explain explains the state of one user's applications for one coupon: the facts of Redis and MySQL, a timeline, and a
// conclusion that contains only certain statements. It changes nothing. When a server is away, the explanation names it and has
// the facts of the other.
package explain
