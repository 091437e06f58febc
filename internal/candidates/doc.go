// Package candidates is everything Jajeong keeps in Redis: the keys, the Lua scripts, applying, the pages of the line
// and the dead-letter queue (DLQ).
//
// # An application's states
//
//	(none) ── apply ──▶ waiting in the queue ── settled ──▶ gone from Redis, recorded in MySQL
//	                          │                                  ▲
//	                          └── review ──▶ in the DLQ ── retry, drop
//
// Waiting, under review, issued and rejected are told apart by the key that holds the user: apply answers DUPLICATE,
// UNDER_REVIEW, ALREADY_ISSUED or REJECTED, and never accepts one user twice.
//
// # What is trusted
//
// Order, window and cutoff are judged by the clock of the coupon's own Redis shard, inside the scripts; the clock of
// the calling machine decides nothing. An arrival is that clock in whole microseconds, made strictly increasing per
// coupon. A pod carries the highest arrival it has seen into every apply, so that a Redis that lost data goes on above
// what it has forgotten.
//
// # When another server takes over
//
// A server that takes over, or restarts, may lack whom the one before accepted last. A pod remembers for ten seconds whom it
// told that they stand in line, and at what arrival (memory.go). When another server answers, or the state is gone, it asks
// for all of them and puts back who is missing (putback.go): at their own arrival, in front of whoever came since. Who has
// applied again meanwhile gets the first arrival back; both servers counted them, and `twice` says how many. Fence gives pods
// the time for that before a settlement. So a failover loses nobody whose pod lives.
//
// The count is the alarm for the others. It belongs to the epoch of one server (lua/epoch.lua): a pod names the epoch it knows
// and what it has seen counted there, and that adds to the present one's, so that no loss hides behind those who came since.
//
// # How applications reach Redis
//
// A Batcher lets an application that finds no call of its coupon under way go at once. Who comes meanwhile waits and goes
// with all others in the next, in the order they came: one script for up to 250 users costs Redis little more than for one.
// Nobody waits for others to come. Only when whole batches wait are several calls under way, and one batch may overtake
// another by as long as a call takes. Everybody is answered within two seconds: by Redis, with its error, or by a NotAsked,
// which says that it was not accepted.
//
// # What a crash leads to
//
// Every operation is one script and so happens whole or not at all. A lost reply to Apply leaves the caller not
// knowing; asking again answers DUPLICATE with the arrival of the first time. Everything else here is safe to repeat:
// removing what is gone, reviewing what is under review, raising what is higher and putting back who stands change nothing.
//
// No call holds Redis longer than about a millisecond: at most 500 members are read or written at once.
package candidates
