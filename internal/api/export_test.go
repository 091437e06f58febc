package api

import "encoding/json"

// ProblemBodies are the bodies of all problems in both languages. Real bodies of NOT_OPEN also have times.
func ProblemBodies() map[string]bool {
	bodies := map[string]bool{}
	for _, p := range problems {
		for _, words := range []text{p.korean, p.english} {
			body, err := json.Marshal(problemDocument{
				Type: "urn:jajeong:problem:" + string(p.code), Title: words.title, Status: p.status, Detail: words.detail, Code: p.code,
			})
			if err != nil {
				panic(err) // of plain text
			}
			bodies[string(body)+"\n"] = true
		}
	}
	return bodies
}
