package api

import "encoding/json"

// ProblemBodies are all problems that can be told, in both languages, as they are written. NOT_OPEN has times besides.
func ProblemBodies() map[string]bool {
	bodies := map[string]bool{}
	for outcome := range problems {
		p, code := describe(outcome)
		for _, words := range []text{p.korean, p.english} {
			body, err := json.Marshal(problemDocument{
				Type: "urn:jajeong:problem:" + string(code), Title: words.title, Status: p.status, Detail: words.detail, Code: code,
			})
			if err != nil {
				panic(err) // of plain text
			}
			bodies[string(body)+"\n"] = true
		}
	}
	return bodies
}
