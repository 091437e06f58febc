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
// An epoch is the time during which one Redis server serves one state of a coupon (lua/epoch.lua). It ends with a
// failover, a restart, and the loss of the state. Replies carry the epoch and the number of restores, so that each
// process notices both. It then hands over whom the server may lack, and a restore enters them: see packages handover
// and journal.
//
// The field accepted counts what this state has taken in. Counts of two servers are never merged: a server that has
// lost its last seconds has lost them in the queue and in the count alike.
//
// # Who writes the state
//
//   - Publish: opens, closes, status, version, version_at and line_limit; sold, if the state was lost. An operator's
//     change of the window is published in the same way.
//   - Settlements: sold, dlqs and moved:<run>. Finalising sets final; an extended window and a restore remove it.
//   - Applying: accepted and last. Publish lifts last to what MySQL knows, and a Look with a cutoff to the cutoff.
//   - Whichever script first meets a new server: run_id, replid, since, restored and left.
//   - Restores: restored, restores, left and forward. They lift last to whom they enter, set it back if it was ahead of
//     the clock, and bring accepted in line with what they found. A Look lowers left.
//
// # Expiry
//
// No large key should expire by itself: deleting a million members would block Redis for a quarter of a second. The
// keys of a finalised coupon are unlinked, and its state lives on for ten minutes. `settle serve` unlinks the marks of
// who has the coupon five minutes after its end; without it, they expire a week after the window.
//
// # Crashes
//
// Every script happens completely or not at all, and every operation is safe to repeat. If the reply of Apply is lost,
// an application may have been accepted; applying again then answers DUPLICATE with the first arrival.
//
// A call reads or writes at most 500 members, which takes Redis about a millisecond.
package candidates
