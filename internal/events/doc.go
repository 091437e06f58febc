// Package events publishes what was issued, and what happened to it afterwards, to the rest of the shop.
//
// # The log
//
// There is no outbox. The rows that a settlement commits anyway, settlement and user_coupon, are the log of what was
// issued; coupon_log is the log of what happened afterwards. settlement.published_at and coupon_log.published_at say
// which rows were published. A flag for each row cannot skip one: neither run ids nor auto-increment ids are in the
// order of commits.
//
// # The relay
//
// Relay.Round is one short transaction: it locks the sink's row of event_relay with NOWAIT, reads the next events,
// publishes them within PublishTimeout, writes how far it came, and commits. Any number of processes call Round; the
// lock lets one of them work. A round locks no row that a settlement writes until the events are delivered, and then
// marks settlements at the moment of its commit: a sink that hangs delays nobody.
//
// # Order
//
// First deliveries are in order. For each coupon: settlements in the order of their commits, which is the order of
// their rows because the coupon's lock serialises them, and within a settlement by position. For each issued coupon:
// rows of coupon_log by id, which is the order of seq, and only after the settlement that issued it.
//
// # Crashes
//
//   - Before the commit of a round, wherever it was: the next round publishes the same events again, with the same ids.
//   - The sink fails in the middle: what it acknowledged is written, the rest is published by a later round.
//   - The sink's server or stream changed, or the sink lacks the last event that it acknowledged: it may have lost
//     more. The relay marks what it published in the last ten minutes as not published. If the sink may lack older
//     events, too, the same transaction notes them in event_relay as a Gap, which stays until a replay has filled it.
package events
