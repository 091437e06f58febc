// Package candidates is everything Jajeong keeps in Redis: keys, Lua scripts, applying, pages of the queue and the dead-letter
// queue (DLQ).
//
// # States of an application
//
//	(none) ── apply ──▶ in the queue ── settled ──▶ removed from Redis, recorded in MySQL
//	                         │                              ▲
//	                         └── review ──▶ in the DLQ ── retry, drop
//
// The key that holds a user is the state: queue, DLQ, issued or rejected. Apply answers DUPLICATE, UNDER_REVIEW, ALREADY_ISSUED or
// REJECTED accordingly, and never accepts a user twice.
//
// # What is trusted
//
// The scripts judge order, window and cutoff by the clock of the coupon's own shard. The clock of the calling machine decides
// nothing. An arrival is the shard's clock in whole µs, made strictly increasing per coupon. A process carries the highest
// arrival it has seen into every apply, so that a Redis that lost data continues above it.
//
// # Failovers
//
// Counts belong to the epoch of one server (lua/epoch.lua). A process names the epoch that it knows and the counts it has seen
// there. These add to the counts of the present epoch, so that later applications do not hide a loss. A Recorder keeps what a
// process has seen; package recall also puts lost applications back.
//
// # Crashes
//
// Every operation is one script and happens completely or not at all. After a lost reply to Apply the caller does not know the
// outcome; applying again answers DUPLICATE with the first arrival. All other operations are safe to repeat.
//
// No call reads or writes more than 500 members, which takes Redis about a millisecond.
package candidates
