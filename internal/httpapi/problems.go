package httpapi

import (
	"maps"
	"net/http"
	"time"
)

// Result is the result of a request, and its label in the metrics.
type Result string

// Results that every API has.
const (
	InvalidUserID    Result = "INVALID_USER_ID"
	Unauthenticated  Result = "UNAUTHENTICATED"
	NotFound         Result = "NOT_FOUND"
	MethodNotAllowed Result = "METHOD_NOT_ALLOWED"
	Internal         Result = "INTERNAL"
)

// Words are the texts of a problem in one language.
type Words struct{ Title, Detail string }

// Problem is the response to a refused request.
type Problem struct {
	Status          int
	RetryAfter      time.Duration // 0: none
	Code            Result        // public and stable
	Korean, English Words
}

// WithDetails returns the problem with other details.
func (p Problem) WithDetails(korean, english string) Problem {
	p.Korean.Detail, p.English.Detail = korean, english
	return p
}

// Problems are the problems of an API by result. Several results may share a public code, and then a title, since RFC
// 9457 wants one title per type; the metrics show the result.
type Problems map[Result]Problem

// The titles of the public code UNAVAILABLE.
const (
	UnavailableKorean  = "지금은 요청을 처리할 수 없습니다"
	UnavailableEnglish = "Requests cannot be processed right now"
)

// common are the problems that say the same in every API.
var common = Problems{
	InvalidUserID: {Status: http.StatusBadRequest,
		Korean: Words{"고객번호가 올바르지 않습니다", "X-User-ID 헤더는 한 번만 보내야 합니다. 값은 1부터 18446744073709551615까지의 " +
			"십진수여야 하며, 부호, 공백, 맨 앞의 0은 사용할 수 없습니다."},
		English: Words{"Invalid user id", "X-User-ID is sent once and is a decimal number from 1 to 18446744073709551615, " +
			"without sign, spaces or leading zeros."}},
	NotFound: {Status: http.StatusNotFound,
		Korean:  Words{"찾을 수 없는 주소입니다", "요청하신 주소는 존재하지 않습니다. 주소를 확인해 주세요."},
		English: Words{"Not found", "There is nothing at this address. Please check it."}},
	MethodNotAllowed: {Status: http.StatusMethodNotAllowed,
		Korean:  Words{"허용되지 않는 요청 방식입니다", "이 주소에서 사용할 수 있는 요청 방식은 Allow 헤더에서 확인할 수 있습니다."},
		English: Words{"Method not allowed", "The Allow header names the methods that can be used here."}},
}

// NewProblems returns the problems of an API with the common ones. The code of a problem that names none is its result.
func NewProblems(own Problems) Problems {
	all := maps.Clone(common)
	maps.Copy(all, own)
	for result, p := range all {
		if p.Code == "" {
			p.Code = result
			all[result] = p
		}
	}
	return all
}

// Of returns the problem of a result. A result without one is no success, but an internal error.
func (all Problems) Of(r Result) Problem {
	if p, ok := all[r]; ok {
		return p
	}
	return all[Internal]
}
