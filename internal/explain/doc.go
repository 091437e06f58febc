// Package explain explains what became of one user's applications for one coupon: the facts of Redis and MySQL, a timeline,
// and a conclusion that says no more than is certain. It changes nothing. When a server is away, the explanation has the
// facts of the other, and says so.
package explain
