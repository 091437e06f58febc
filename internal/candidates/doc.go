// Package candidates stores applications in Redis. It owns the keys, Lua scripts, queue and dead-letter queue (DLQ).
//
// # States of an application
//
//	(none) ── apply ──▶ in the queue ── settled ──▶ removed from Redis, recorded in MySQL
//	                         │                              ▲
//	                         └── review ──▶ in the DLQ ── retry, drop
//
// The key that contains a user tells the state. Apply answers DUPLICATE for the queue, UNDER_REVIEW for the DLQ,
// ALREADY_ISSUED for the set issued and REJECTED for the set rejected. It never accepts a user twice.
//
// # What is trusted
//
// Only the clock of the coupon's own Redis shard decides order, window and cutoff. An arrival is the time on that clock
// in whole µs, or the coupon's last arrival plus 1 if that is higher. A process passes the highest arrival that it has
// seen to every apply, so that a Redis that lost data continues above it.
//
// # Failovers
//
// An epoch is the time during which one Redis server serves a coupon (lua/epoch.lua). A process passes the last epoch
// that it knows, and the counts that it saw then, to the scripts. A new server adds what it lacks of them to its own
// counts: a loss stays visible even if others apply later. A Recorder remembers what a process has seen. Package recall
// implements it, and also puts lost applications back.
//
// # Crashes
//
// Every script happens completely or not at all, and every operation is safe to repeat. If the reply of Apply is lost,
// an application may have been accepted; applying again then answers DUPLICATE with the first arrival.
//
// A call reads or writes at most 500 members, which takes Redis about a millisecond.
package candidates
