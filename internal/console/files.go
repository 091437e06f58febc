package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// fileOf is a verb whose output is a file.
type fileOf struct {
	name, kind, verb string
	values           func(r *http.Request) verb.Values
	html             bool
}

var files = map[string]fileOf{
	"/report.csv": {"report.csv", "text/csv; charset=utf-8", "report", func(r *http.Request) verb.Values {
		return with(reportOf(r), "output", "csv")
	}, false},
	"/report.html": {"report.html", "text/html; charset=utf-8", "report", func(r *http.Request) verb.Values {
		return with(reportOf(r), "output", "html")
	}, true},
	"/runs.csv": {"runs.csv", "text/csv; charset=utf-8", "runs", func(r *http.Request) verb.Values {
		return with(runsOf(r), "output", "csv", "limit", "500")
	}, false},
	"/dlq.csv": {"dlq.csv", "text/csv; charset=utf-8", "dlq list", func(r *http.Request) verb.Values {
		q := r.URL.Query()
		v := verb.Values{"output": "csv", "coupon": q.Get("coupon"), "cause": q.Get("cause")}
		if q.Get("cause") != "" {
			v["list"] = checked
		}
		return v
	}, false},
	"/coupons/{id}/winners.csv": {"winners.csv", "text/csv; charset=utf-8", "coupon winners",
		func(r *http.Request) verb.Values {
			return verb.Values{"output": "csv", "coupon": r.PathValue("id")}
		}, false},
}

// fileWriter begins the answer with the first byte, so that an error before it can still be a page.
type fileWriter struct {
	http.ResponseWriter
	begin func()
	begun bool
}

func (f *fileWriter) Write(p []byte) (int, error) {
	if !f.begun {
		f.begun = true
		f.begin()
	}
	return f.ResponseWriter.Write(p)
}

func (c *Console) file(w http.ResponseWriter, r *http.Request, file fileOf) {
	if r.PathValue("id") != "" {
		if _, ok := c.numbered(w, r, "id"); !ok {
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), fileTimeout)
	defer cancel()
	var notes output.Document
	to := &fileWriter{ResponseWriter: w, begin: func() {
		w.Header().Set("Content-Type", file.kind)
		if file.html { // the report has its own style sheet inside, and its chart has styles
			w.Header().Set("Content-Security-Policy",
				"default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'; base-uri 'none'")
		} else {
			w.Header().Set("Content-Disposition", `attachment; filename="`+file.name+`"`)
		}
	}}
	answer := c.Run(ctx, verb.Call{By: signin.From(r.Context()), Language: language(r), Verb: c.Verbs.At(file.verb),
		Values: file.values(r), Stdout: to, Stderr: &notes})
	exit, said := answer.Exit, append(lines(notes.Blocks()), besides(nil, answer.Wrong)...)
	switch {
	case exit == 0 && !to.begun:
		to.begin()
	case !to.begun:
		status, message := statusOf(notes.NotFound(), exit == serversAway || len(said) == 0), text.ConsoleWrong
		if status == http.StatusServiceUnavailable {
			message = text.ConsoleServerAway
		}
		c.refused(w, r, status, message, strings.Join(said, " "))
	case exit != 0:
		panic(http.ErrAbortHandler) // half a file must not look like a whole one
	}
}
