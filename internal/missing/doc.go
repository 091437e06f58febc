// Package missing finds accepted applications that are neither in Redis nor settled in MySQL, while people still apply.
//
// # Reading
//
// Missing is accepted − twice − written off − erased − (queue + DLQ) − (issued + concluded). Accepted and twice are the
// higher ones of Redis and MySQL.
//
// Books are read from MySQL, then the line from Redis, then the books again. A settlement commits in MySQL before it
// removes anybody from Redis: an application that moves meanwhile is counted twice and not left out. Missing therefore
// returns the number of missing promises or less. A reading is repeated if it finds none while a settlement ran.
//
// # Alarm
//
// Find reads the coupons that the last refresh of the catalog suspects. The number in the metric rises only if two
// readings in a row are above it, and falls only if two are below it. While processes put applications back after Redis
// has changed servers, it does not rise.
//
// # Answers
//
// Judge says what a user is told who was found nowhere. It asks MySQL only if the counts leave a suspicion. All users
// who ask about a coupon then share one reading, and a process reads a coupon at most four times a second.
//
// A restore is due if Redis has not been compared with the journal since it lost the coupon's state or changed servers,
// or if not as many promises are missing as the last restore has left. For a minute, Judge then says Restoring. If no
// restore has ended by then, as in a deployment without journal, it says MayBeLost.
package missing
