package httpapi

import (
	"math/rand/v2"
	"net/http"

	"go.uber.org/zap"
)

// requestID is the canonical spelling of X-Request-ID.
const requestID = "X-Request-Id"

const maxRequestID = 64

// Identified gives each request an id: that of its X-Request-ID, or a new one. Every response has it.
func Identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header[requestID]
		if len(id) != 1 || !isRequestID(id[0]) {
			id = []string{newRequestID()}
			r.Header[requestID] = id
		}
		w.Header()[requestID] = id
		next.ServeHTTP(w, r)
	})
}

// RequestID returns the id of a request that came through Identified.
func RequestID(r *http.Request) string { return r.Header.Get(requestID) }

// LogRequest returns the id of a request as a field of a log line.
func LogRequest(r *http.Request) zap.Field { return zap.String("request_id", RequestID(r)) }

// isRequestID keeps log lines and headers safe from what a client sends.
func isRequestID(id string) bool {
	for i := range len(id) {
		switch b := id[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return 0 < len(id) && len(id) <= maxRequestID
}

// newRequestID returns 16 random hexadecimal digits.
func newRequestID() string {
	const digits = "0123456789abcdef"
	var id [16]byte
	for i, random := 0, rand.Uint64(); i < len(id); i, random = i+1, random>>4 {
		id[i] = digits[random&15]
	}
	return string(id[:])
}
