package api

import (
	"maps"
	"slices"

	"github.com/jajeong/jajeong/internal/httpapi"
)

// ProblemBodies are the bodies of all problems in both languages. Real bodies of NOT_OPEN also have times.
func ProblemBodies() map[string]bool {
	bodies := map[string]bool{}
	for _, one := range append(slices.Collect(maps.Values(problems)), lineStaysFull) {
		p := one.shared()
		for _, words := range []httpapi.Words{p.Korean, p.English} {
			bodies[string(httpapi.Marshal(problemDocument{Document: p.Document(words)}))] = true
		}
	}
	return bodies
}
