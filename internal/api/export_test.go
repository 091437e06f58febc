package api

import (
	"maps"
	"slices"
)

// ProblemBodies are the bodies of all problems in both languages. Real bodies of NOT_OPEN also have times.
func ProblemBodies() map[string]bool {
	bodies := map[string]bool{}
	for _, p := range append(slices.Collect(maps.Values(problems)), lineStaysFull) {
		for _, words := range []text{p.korean, p.english} {
			bodies[string(marshal(problemDocument{
				Type: "urn:jajeong:problem:" + string(p.code), Title: words.title, Status: p.status, Detail: words.detail, Code: p.code,
			}))] = true
		}
	}
	return bodies
}
