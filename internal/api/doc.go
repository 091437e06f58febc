// Package api is the public HTTP API: applying for coupons, and asking about an application. It also opens and closes the
// ports of apply-api.
//
// # Meaning of the responses
//
//	202 ACCEPTED   the application is in the queue with this arrival: a promise
//	200 DUPLICATE  it has been in the queue since the first time; nothing has changed
//	4xx            it is not in the queue, and repeating the same request does not help
//	429            the user sends too many requests: this one was not processed
//	503            the result is unknown, or the service is not ready; repeat after Retry-After. The detail tells requests
//	               that were certainly not processed from requests that may have been
//
// Repeating a request is always safe: a user has one place in the queue, that of the first arrival. UNDER_REVIEW is an
// exception among the 4xx: that application keeps its place and waits for an operator.
//
// The checks run in this order: connection, user, coupon id, rate of the user, body, coupon, number of requests in flight,
// Redis. A request that is refused by a limit costs almost nothing, so that a stampede of any size leaves time for the
// requests that are served. Every request on a connection above the limit gets the same response.
//
// Every refusal is an RFC 9457 problem; problems.go has all of them. Ids are JSON numbers up to 2^64-1: a client that stores
// numbers as doubles, as JavaScript does, loses precision above 2^53.
//
// # Trust
//
// The gateway sets X-User-ID: a client that reaches this server without the gateway can claim any user id. No response
// repeats text of a request.
//
// # Crashes
//
// The server stores nothing. If the process dies after Redis has accepted an application and before the response, the client
// does not know the result; repeating the request answers DUPLICATE. A client that hangs up does not withdraw its application.
package api
