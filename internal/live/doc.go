// Package live tells waiting users about their applications as they change, by Server-Sent Events.
//
// # Cost
//
// A stream that waits costs nothing outside this process. Each coupon with streams has one room, and a room asks Redis
// once a tick about the coupon's queue: its length, its lowest arrival, and how many entries have left it. From these
// the room computes every position. It looks up single users only
//
//	when a stream begins
//	when the lowest arrival has passed the user's: the application has left the queue, and has an outcome
//	when something happened that may concern the user: others applied and this user has no application yet, the DLQ
//	changed and this user is under review, another Redis server answers, or a restore has ended
//
// Lookups are batches, in Redis and then, for those whose standing Redis does not give, in MySQL. Nothing is sent
// through Redis to the streams, so nothing can be lost on the way.
//
// # Positions
//
// Applications leave the queue from its front. The mark is the highest arrival of the last look; the entries up to it
// that the next look does not find have left. A position is the one that was looked up, less what has left the queue
// since. An entry that a restore puts back makes the positions behind it wrong by one, until the restore ends and the
// room looks up everybody.
//
// # Slow clients
//
// A stream lives for 5 to 10 minutes, and gets a comment every 15 s. If there are too many streams, or the process
// ends, a client gets the present state, a time to come back at, and the end; never 429 or 503, which would end an
// EventSource for good. If a user asks too often, the state is left out. After SIGTERM the streams end one after the
// other.
//
// Each stream has a goroutine of its own, and room for one event: a client that reads slowly gets the newest state, not
// every state. A write that takes longer than writeTimeout ends its stream.
//
// # Servers that are away
//
// A room whose looks fail repeats the last states with `delayed`. An application that was told of and is found nowhere,
// for example because a failover lost it, keeps its last state with `delayed` until it is found again. While
// applications are restored, whoever is found nowhere is told UNKNOWN with `delayed`, and never NOT_APPLIED: see
// standing.Losses.
package live
