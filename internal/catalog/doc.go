// Package catalog knows which coupons there are: from MySQL into the memory of this process and to the doors in Redis.
//
// # A coupon's way
//
//	row in MySQL ── Refresh ──▶ memory of this process: Lookup
//	                   ├──────▶ window and status at its door in Redis, unless it is finalised
//	                   ├──────▶ snapshot of all coupons in Redis
//	promise row  ◀── Refresh ──▶ promise counter at the door: both sides keep the higher
//
// A coupon is here from a day before it opens until 30 days after it closed.
//
// # What is trusted
//
// MySQL alone says what a coupon is. The snapshot is for a process that cannot reach MySQL: an older one never replaces
// what was read from MySQL, and it is never published. A promise only rises, so that a Redis that lost data gets its
// floor back with the next refresh.
//
// # What order changes have
//
// A window carries the version of its row, and the door keeps the newest, so that a slow process cannot put an older
// one back. The version is when the statement that changed the row began; if it then waited for the row while another
// changed it, the last change has the lower version. A row that reads the same after its door has refused it is
// therefore published again as of the reading.
//
// # What a crash leads to
//
// Nothing here needs finishing: every step is safe to repeat and the next refresh, of any process, does it all again.
// Without MySQL coupons stay as they were last seen, without Redis memory is still refreshed, and without both what is
// in memory stays. A process that starts without both has nothing and says so: Loaded is false.
package catalog
