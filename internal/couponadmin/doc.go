// Package couponadmin changes coupons for operators: create, close, extend, pause, resume, add seats, recount.
//
// Each change is one transaction under the coupon's row lock, and is recorded in audit_event with the old and the new values.
// A change that would break a promise is refused, and nothing is changed.
//
// Redis judges applications by the window that it was given last. A change that accepts fewer applications is applied to Redis
// first, so that no application is accepted after the instant that MySQL records. A change that accepts more is published
// after COMMIT; if that fails, the catalog publishes it with its next refresh.
//
// Every change but Create and AddSeats is safe to repeat. When the reply to COMMIT is lost, the transaction runs again: it
// finds its audit event, and does nothing. Create has no lock that would wait for the lost transaction, so its result is then
// unknown.
package couponadmin
