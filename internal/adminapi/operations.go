package adminapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/output"
	"github.com/jajeong/jajeong/internal/signin"
	"github.com/jajeong/jajeong/internal/text"
	"github.com/jajeong/jajeong/internal/verb"
)

// operation is a verb with its place in the API.
type operation struct {
	*verb.Verb
	method, path string
	upload       bool // the body is the file that the verb takes, and the query has the values
	inPath       []verb.Field
	given        []verb.Field // by the query or the body
}

var placeInPath = regexp.MustCompile(`\{(\w+)\}`)

// operations are the verbs whose declaration has a place in the API.
func operations(all verb.Verbs) (found []operation) {
	for _, v := range all {
		if v.API != "" {
			found = append(found, operationAt(v, v.API, false))
		}
		if v.Upload != "" {
			found = append(found, operationAt(v, v.Upload, true))
		}
	}
	return found
}

func operationAt(v *verb.Verb, place string, upload bool) operation {
	o := operation{Verb: v, upload: upload}
	o.method, o.path, _ = strings.Cut(place, " ")
	inPath := map[string]bool{}
	for _, place := range placeInPath.FindAllStringSubmatch(o.path, -1) {
		inPath[place[1]] = true
	}
	for _, f := range v.Fields {
		switch {
		case inPath[f.Name]:
			o.inPath = append(o.inPath, f)
		case f.Kind != verb.File && !(upload && f.Either): // a request names no file of this machine
			o.given = append(o.given, f)
		}
	}
	if !o.reads() {
		for _, f := range members {
			if v.Has(f.Name) {
				o.given = append(o.given, f)
			}
		}
	}
	return o
}

func (o operation) reads() bool { return o.method == http.MethodGet }

// call answers a request of a known caller.
type call func(w http.ResponseWriter, r *http.Request, caller signin.Person) answer

// known lets requests with a valid key pass.
func (a *API) known(next call) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				a.Logger.Error("request panicked", httpapi.LogRequest(r), zap.Any("panic", p), zap.Stack("stack"))
				write(w, r, refuse(internal))
			}
		}()
		now := a.Now()
		caller, known := a.Keys.callerOf(r, now)
		if known {
			write(w, r, next(w, r, caller))
			return
		}
		if wait := a.failed.wait(r, now); wait > 0 {
			a.metrics.refused.WithLabelValues(tooOften).Inc()
			write(w, r, answer{result: tooManyRequests, retryAfter: wait})
			return
		}
		a.metrics.refused.WithLabelValues(withoutKey).Inc()
		a.Logger.Warn("request without a valid key", httpapi.LogRequest(r), zap.String("remote", r.RemoteAddr))
		write(w, r, refuse(unauthenticated))
	}
}

func (o operation) handler(a *API) call {
	return func(w http.ResponseWriter, r *http.Request, caller signin.Person) answer {
		values, wrong, problem := o.values(w, r)
		switch {
		case problem != "":
			return refuse(problem)
		case !caller.May(o.RightFor(values)):
			a.metrics.refused.WithLabelValues(noRight).Inc()
			return refuse(forbidden)
		case len(wrong) > 0:
			return answer{result: invalidValues, errors: wrong}
		}
		values["output"] = "json"
		c := verb.Call{By: caller, Language: httpapi.LanguageOf(r.Header), Verb: o.Verb, Values: values}
		var list *httpapi.Pass
		if o.upload {
			if list = a.Lists.Admit(caller.Name, w, a.Now()); list == nil {
				a.metrics.refused.WithLabelValues(busy).Inc()
				return answer{result: unavailable, detail: text.In(c.Language, text.Errorf(text.ConsoleOneUpload))}
			}
			defer list.Leave()
			if problem := receive(w, r, &c, list); problem != nil {
				return *problem
			}
		}
		if o.reads() || values["dry-run"] != "" {
			delete(values, "reason") // a preview records nobody
			return a.read(r.Context(), c)
		}
		return a.change(r, c, list)
	}
}

// values reads the values of a request. wrong names those that no flag would take.
func (o operation) values(w http.ResponseWriter, r *http.Request) (v verb.Values, wrong []fieldError, problem result) {
	v = verb.Values{}
	l := httpapi.LanguageOf(r.Header)
	refuse := func(field string, m text.Message, args ...any) {
		wrong = append(wrong, fieldError{field, l.Sprintf(m, args...)})
	}
	for _, f := range o.inPath {
		v[f.Name] = r.PathValue(f.Name)
		if _, ok := httpapi.ParseID[coupon.CouponID](v[f.Name]); !ok {
			refuse(f.Name, text.WantID)
		}
	}
	if o.reads() || o.upload {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			refuse("query", text.WrongQuery)
		}
		for member, given := range query {
			f := fieldOf(o.given, member)
			switch {
			case f == nil:
				refuse(member, text.UnknownMember)
			case f.Each != "":
				v[f.Name] = verb.Listed(given)
			case len(given) > 1:
				refuse(member, text.QueryTwice)
			case f.Kind == verb.Check && given[0] == "false":
			case f.Kind == verb.Check && given[0] != "true":
				refuse(member, text.WantType, typeOf(l, *f))
			default:
				v[f.Name] = given[0]
			}
		}
	} else {
		for member := range r.URL.Query() {
			refuse(member, text.UnknownMember)
		}
		given, problem := object(w, r)
		if problem != "" {
			return nil, nil, problem
		}
		for member, raw := range given {
			f := fieldOf(o.given, member)
			if f == nil {
				refuse(member, text.UnknownMember)
				continue
			}
			var ok bool
			if v[f.Name], ok = valueOf(*f, raw); !ok {
				refuse(member, text.WantType, typeOf(l, *f))
			}
		}
	}
	slices.SortFunc(wrong, func(a, b fieldError) int { return strings.Compare(a.Field, b.Field) })
	return v, wrong, ""
}

// read runs a verb that changes nothing.
func (a *API) read(ctx context.Context, c verb.Call) answer {
	free := a.reads.Take(ctx)
	if free == nil {
		a.metrics.refused.WithLabelValues(busy).Inc()
		return refuse(unavailable)
	}
	defer free()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var out printed
	var notes output.Document
	c.Stdout, c.Stderr = &out, &notes
	return answerOf(a.Run(ctx, c), &out, &notes, c.Language)
}

// idempotencyKey is the name of the header in the spelling of net/http.
const idempotencyKey = "Idempotency-Key"

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

var keyForm = regexp.MustCompile(`^[!-~]{1,64}$`)

// clientKeyBytes is how much of a digest makes the clientKey of a creation that has none.
const clientKeyBytes = 16

// change carries out a change, or asks for its approval.
func (a *API) change(r *http.Request, c verb.Call, list *httpapi.Pass) answer {
	v := c.Values
	asks := v["ask"] != ""
	switch digest := v["expect-digest"]; {
	case digest != "" && !digestForm.MatchString(digest):
		return answer{result: invalidValues, errors: []fieldError{{"digest", c.Language.Sprintf(text.WantDigest)}}}
	case !asks && v["approval"] == "" && digest == "":
		return refuse(digestMissing)
	}
	keys := r.Header[idempotencyKey]
	onceByItself := v["key"] != "" && !asks // there is one coupon of a clientKey
	if len(keys) > 1 || len(keys) == 1 && !keyForm.MatchString(keys[0]) || len(keys) == 0 && !onceByItself {
		return refuse(keyMissing)
	}
	v["operator"] = c.By.Name
	if c.Verb.Has("yes") && !asks {
		v["yes"] = "true"
	}
	o := order{call: c}
	if len(keys) == 1 {
		o.key = keys[0]
		if !asks && v["key"] == "" && c.Verb.Has("key") { // a request whose process has died creates nothing twice
			sum := sha256.Sum256([]byte(c.By.Name + " " + o.key))
			v["key"] = "api-" + hex.EncodeToString(sum[:clientKeyBytes])
		}
	}
	return a.carryOut(r, o, list)
}

// addressOf is the address of a job.
func addressOf(id string) string { return fmt.Sprint("/v1/jobs/", id) }
