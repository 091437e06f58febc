// Package api is Jajeong over HTTP: applying for coupons, and beside it a second handler for operators.
//
// # What an answer means
//
//	202 ACCEPTED   the application stands in line with this arrival: a promise
//	200 DUPLICATE  it has stood there since the first time; nothing has changed
//	4xx            it does not stand there, and asking again in the same way does not help
//	429            the user asks too often: this request was not looked at
//	503            it is unknown whether it does, or it cannot yet; ask again after Retry-After. The text tells what was
//	               certainly not processed from what may have been
//
// Asking again is always safe: a user stands in line once, with the first arrival. UNDER_REVIEW stands apart: that
// application keeps its place and waits for a person.
//
// Checks go from the caller inwards: connection, user, coupon id, the user's rate, body, coupon, room, and only then Redis.
// What is refused for want of room or for its rate has cost next to nothing and is told at once, so that a stampede of any
// size leaves the time to those who are served. A connection above the limit has one answer.
//
// Every refusal is an RFC 9457 problem; problems.go holds the one table of them. Ids are JSON numbers up to 2^64-1: a reader
// that holds numbers as doubles, as JavaScript does, loses precision above 2^53.
//
// # What is trusted
//
// X-User-ID is set by the gateway: whoever reaches this server past it is whoever they say. Nothing that a caller sends
// is repeated in a text.
//
// # What a crash leads to
//
// The server holds nothing. A process killed between Redis accepting and the answer leaves a caller who does not know;
// asking again answers DUPLICATE. A caller who hangs up does not take back an application that is on its way.
package api
