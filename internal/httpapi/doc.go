// Package httpapi has what the HTTP APIs of the programs share: the public port and its graceful end, limits of
// connections and of each user's requests, the parts of a request, and responses as RFC 9457 problems in Korean and
// English.
package httpapi
