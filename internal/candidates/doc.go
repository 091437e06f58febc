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
// counts: a loss stays visible even if others apply later. The maximum of both would hide it. A Recorder remembers what
// a process has seen. Package recall implements it, and also puts lost applications back.
//
// # Who writes the state
//
//   - Publish: opens, closes, status, version, version_at and line_limit; sold, if the state was lost. An operator's
//     change of the window is published in the same way.
//   - Settlements: sold, dlqs and moved:<run id>. Finalising sets final, and an extended window removes it.
//   - Applying, and whoever puts applications back: accepted and last. Publish and Fence lift both to what MySQL knows.
//   - Every script that counts: run_id, since and base. Putting back also counts twice, base_twice and twice:<user id>;
//     a repeated call counts nothing.
//   - The journal and its restore: journalled. A script that enters somebody in the past lowers it.
//   - Restore: restored and missing; it may lift last.
//
// # Expiry
//
// No large key expires by itself: deleting a million members would block Redis for a quarter of a second. The keys of a
// finalised coupon are unlinked, and its state lives on for ten minutes.
//
// # Crashes
//
// Every script happens completely or not at all, and every operation is safe to repeat. If the reply of Apply is lost,
// an application may have been accepted; applying again then answers DUPLICATE with the first arrival.
//
// A call reads or writes at most 500 members, which takes Redis about a millisecond.
package candidates
