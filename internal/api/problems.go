package api

import (
	"net/http"
	"time"

	"github.com/jajeong/jajeong/internal/httpapi"
)

// result is the result of a request, and its label in the metrics. Every result but a success has an entry in problems.
type result = httpapi.Result

const (
	accepted         result = "ACCEPTED"
	duplicate        result = "DUPLICATE"
	pending          result = "PENDING"
	issued           result = "ISSUED"
	notSelected      result = "NOT_SELECTED"
	answered         result = "OK"
	notModified      result = "NOT_MODIFIED"
	notOpen          result = "NOT_OPEN"
	closed           result = "CLOSED"
	paused           result = "PAUSED"
	alreadyIssued    result = "ALREADY_ISSUED"
	soldOut          result = "SOLD_OUT"
	lineFull         result = "LINE_FULL"
	underReview      result = "UNDER_REVIEW"
	rejected         result = "REJECTED"
	noWindow         result = "NO_WINDOW"
	clockBehind      result = "CLOCK"
	couponNotFound   result = "COUPON_NOT_FOUND"
	invalidCouponID  result = "INVALID_COUPON_ID"
	invalidIDs       result = "INVALID_IDS"
	invalidUserID    result = httpapi.InvalidUserID
	unauthenticated  result = httpapi.Unauthenticated
	foreignOrigin    result = "FOREIGN_ORIGIN"
	invalidBody      result = "INVALID_BODY"
	notFound         result = httpapi.NotFound
	methodNotAllowed result = httpapi.MethodNotAllowed
	internal         result = httpapi.Internal
	unavailable      result = "UNAVAILABLE"
	catalogNotLoaded result = "CATALOG_NOT_LOADED"
	notApplied       result = "NOT_APPLIED"
	restoring        result = "RESTORING"
	standingUnknown  result = "STANDING_UNKNOWN"
	timeUnknown      result = "TIME_UNKNOWN"
	overloaded       result = "OVERLOADED"
	resting          result = "RESTING"
	tooManyRequests  result = "TOO_MANY_REQUESTS"
)

type words = httpapi.Words

var problems = httpapi.NewProblems(httpapi.Problems{
	notOpen: {Status: http.StatusConflict,
		Korean:  words{Title: "아직 신청 기간이 아닙니다", Detail: "쿠폰 신청이 아직 시작되지 않았습니다. 신청 시작 시각 이후에 다시 신청해 주세요."},
		English: words{Title: "Not open yet", Detail: "Applications for this coupon have not started yet. Please apply again once they open."}},
	closed: {Status: http.StatusConflict,
		Korean:  words{Title: "신청이 마감되었습니다", Detail: "이 쿠폰의 신청 기간이 끝났습니다. 마감 전에 접수된 신청에는 영향이 없습니다."},
		English: words{Title: "Closed", Detail: "The application period for this coupon has ended. That changes nothing about applications received before."}},
	paused: {Status: http.StatusConflict,
		Korean:  words{Title: "신청이 일시 중단되었습니다", Detail: "이 쿠폰의 신청을 잠시 받지 않고 있습니다. 신청이 재개된 후 다시 신청해 주세요. 중단 전에 접수된 신청에는 영향이 없습니다."},
		English: words{Title: "Paused", Detail: "Applications for this coupon are paused. Please apply again once they resume. The pause changes nothing about applications received before."}},
	alreadyIssued: {Status: http.StatusConflict,
		Korean:  words{Title: "이미 발급받은 쿠폰입니다", Detail: "이 쿠폰은 한 분께 한 장만 발급되며, 고객님께는 이미 발급되었습니다."},
		English: words{Title: "Already issued", Detail: "This coupon is issued once per person, and it has been issued to you already."}},
	soldOut: {Status: http.StatusConflict,
		Korean:  words{Title: "쿠폰이 모두 소진되었습니다", Detail: "준비된 수량이 소진되어 지금은 신청을 받지 않습니다."},
		English: words{Title: "Sold out", Detail: "The coupons have run out, so no applications are taken at the moment."}},
	lineFull: {Status: http.StatusConflict,
		Korean:  words{Title: "대기열이 가득 찼습니다", Detail: "대기 중인 신청이 한도에 이르러 이번 신청은 접수되지 않았습니다. 신청 기간 중에 자리가 나면 다시 신청하실 수 있습니다."},
		English: words{Title: "Line full", Detail: "As many applications as allowed are waiting, so this one was not received. You can apply again if places come free while applications are open."}},
	underReview: {Status: http.StatusConflict,
		Korean:  words{Title: "신청 내용을 확인하고 있습니다", Detail: "신청이 접수되어 확인 중입니다. 다시 신청하셔도 처음 신청하신 순서가 적용됩니다."},
		English: words{Title: "Under review", Detail: "Your application has been received and is being reviewed. It counts from when you first applied: applying again does not change that."}},
	rejected: {Status: http.StatusConflict,
		Korean:  words{Title: "쿠폰을 발급해 드릴 수 없습니다", Detail: "신청 내용을 확인한 결과 이 쿠폰을 발급해 드릴 수 없습니다. 자세한 내용은 고객센터에 문의해 주세요."},
		English: words{Title: "Rejected", Detail: "After review, this coupon cannot be issued to you. Please contact customer service for details."}},
	couponNotFound: {Status: http.StatusNotFound,
		Korean:  words{Title: "쿠폰을 찾을 수 없습니다", Detail: "존재하지 않거나 지금은 신청할 수 없는 쿠폰입니다."},
		English: words{Title: "Coupon not found", Detail: "There is no such coupon, or it cannot be applied for at this time."}},
	notApplied: {Status: http.StatusNotFound,
		Korean:  words{Title: "신청 내역이 없습니다", Detail: "이 쿠폰을 신청하신 내역이 없습니다."},
		English: words{Title: "Not applied", Detail: "There is no record of an application of yours for this coupon."}},
	restoring: {Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
		Korean:  words{Title: "신청 내역을 확인하고 있습니다", Detail: "시스템 장애로 접수된 신청을 다시 불러오는 중이라 신청 내역을 아직 확인하지 못했습니다. 신청이 없다는 뜻은 아니니 잠시 후 다시 확인해 주세요."},
		English: words{Title: "Applications are being restored", Detail: "Applications are being put back after a failure, so yours cannot be looked up yet. That does not mean that there is none. Please ask again in a moment."}},
	standingUnknown: {Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "신청 내역을 확인하지 못했습니다. 신청이 접수되지 않았다는 뜻은 아니니 잠시 후 다시 확인해 주세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "Your application could not be looked up, which does not mean that there is none. Please try again in a moment."}},
	invalidCouponID: {Status: http.StatusBadRequest,
		Korean:  words{Title: "쿠폰 번호가 올바르지 않습니다", Detail: "쿠폰 번호는 1부터 18446744073709551615까지의 십진수여야 하며, 부호, 공백, 맨 앞의 0은 사용할 수 없습니다."},
		English: words{Title: "Invalid coupon id", Detail: "A coupon id is a decimal number from 1 to 18446744073709551615, without sign, spaces or leading zeros."}},
	timeUnknown: {Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "서버 시각을 확인하지 못했습니다. 잠시 후 다시 시도해 주세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "The time of the server could not be read. Please try again in a moment."}},
	invalidIDs: {Status: http.StatusBadRequest,
		Korean:  words{Title: "쿠폰 번호 목록이 올바르지 않습니다", Detail: "ids에는 쿠폰 번호를 쉼표로 구분하여 1개부터 50개까지 한 번만 지정해야 합니다. 예: ids=42,43"},
		English: words{Title: "Invalid coupon ids", Detail: "The parameter ids is given once, and has 1 to 50 coupon ids separated by commas, such as ids=42,43."}},
	unauthenticated: {Status: http.StatusUnauthorized,
		Korean:  words{Title: "로그인이 필요합니다", Detail: "로그인하신 후 다시 신청해 주세요."},
		English: words{Title: "Sign-in required", Detail: "Please sign in and apply again."}},
	foreignOrigin: {Status: http.StatusForbidden,
		Korean:  words{Title: "다른 사이트에서 보낸 요청입니다", Detail: "다른 사이트의 페이지에서 보낸 요청이라 처리하지 않았습니다. 쿠폰을 제공하는 사이트에서 다시 신청해 주세요."},
		English: words{Title: "Request of another site", Detail: "A page of another site sent this request, so it was not processed. Please apply on the site that offers the coupon."}},
	invalidBody: {Status: http.StatusBadRequest,
		Korean:  words{Title: "요청 본문이 올바르지 않습니다", Detail: "이 요청에는 본문을 넣을 수 없습니다. 본문 없이 다시 보내 주세요."},
		English: words{Title: "Invalid body", Detail: "This request takes no body. Please send it without one."}},
	internal: {Status: http.StatusInternalServerError,
		Korean:  words{Title: "요청을 처리하지 못했습니다", Detail: "서버에 문제가 발생했습니다. 잠시 후 다시 신청해 주세요."},
		English: words{Title: "Internal error", Detail: "Something went wrong on our side. Please apply again in a moment."}},
	unavailable: {Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "신청이 접수되었는지 확인하지 못했습니다. 잠시 후 다시 신청해 주세요. 이미 접수되어 있다면 다시 신청하셔도 순서는 바뀌지 않습니다."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "It is not known whether your application was received. Please apply again in a moment: if it was received, applying again does not change its place."}},
	overloaded: {Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "요청이 한꺼번에 몰려 이번 요청은 처리하지 못했습니다. 잠시 후 다시 시도해 주세요. 이미 접수된 신청에는 영향이 없습니다."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "There are too many requests right now, and this one was not processed. Please try again in a moment: an application received before is not affected."}},
	resting: {Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "지금은 신청을 접수할 수 없어 이번 요청을 처리하지 못했습니다. 잠시 후 다시 시도해 주세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "Applications cannot be received at the moment, and this request was not processed. Please try again in a moment."}},
	tooManyRequests: {Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Korean:  words{Title: "요청이 너무 많습니다", Detail: "같은 고객의 요청이 너무 잦아 이번 요청은 처리하지 않았습니다. 잠시 후 다시 시도해 주세요. 이미 접수된 신청에는 영향이 없습니다."},
		English: words{Title: "Too many requests", Detail: "Requests of this user come too often, and this one was not processed. Please try again in a moment: an application received before is not affected."}},
	catalogNotLoaded: {Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "서비스를 준비하고 있습니다. 잠시 후 다시 신청해 주세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "The service is starting. Please apply again in a moment."}},
	noWindow: {Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "이 쿠폰의 신청을 준비하고 있습니다. 잠시 후 다시 신청해 주세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "This coupon is being made ready. Please apply again in a moment."}},
	clockBehind: {Status: http.StatusServiceUnavailable, RetryAfter: 5 * time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "신청 순서를 정확히 기록할 수 없어 접수를 잠시 중단했습니다. 잠시 후 다시 신청해 주세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "Applications are on hold, since their order cannot be recorded correctly. Please apply again in a moment."}},
})

// lineStaysFull is the problem of a full line in which no place is expected. In the metrics it is lineFull.
var lineStaysFull = problems[lineFull].WithDetails(
	"대기 중인 신청이 한도에 이르러 이번 신청은 접수되지 않았습니다. 신청 마감 전에 자리가 날 예정은 없습니다.",
	"As many applications as allowed are waiting, so this one was not received. No places are expected to come free before applications close.")

// mayBeLost is the problem of a user without an application while applications are missing. In the metrics it is
// notApplied.
var mayBeLost = problems[notApplied].WithDetails(
	"지금은 신청 내역을 찾을 수 없습니다. 시스템 장애로 일부 신청을 확인하지 못하고 있으니, 이미 신청하셨다면 고객센터에 문의해 주세요.",
	"No application of yours can be found at the moment. After a failure, some applications cannot be found: if you have applied, please contact customer service.")

// questionDetails are the Korean and English details of problems whose own details speak of applying. They are for
// answers to questions.
var questionDetails = map[result][2]string{
	unauthenticated: {
		"로그인하신 후 다시 확인해 주세요.",
		"Please sign in and ask again."},
	overloaded: {
		"조회 요청이 한꺼번에 몰려 이번 요청은 처리하지 못했습니다. 잠시 후 다시 확인해 주세요.",
		"There are too many questions right now, and this one was not answered. Please ask again in a moment."},
	catalogNotLoaded: {
		"서비스를 준비하고 있습니다. 잠시 후 다시 확인해 주세요.",
		"The service is starting. Please ask again in a moment."},
	internal: {
		"서버에 문제가 발생했습니다. 잠시 후 다시 확인해 주세요.",
		"Something went wrong on our side. Please ask again in a moment."},
}

// problem returns the problem to answer with. Applying is the only POST; every other request is a question.
func (a answer) problem(method string) httpapi.Problem {
	if reopens := a.extra.MayReopen; reopens != nil && !*reopens {
		return lineStaysFull
	}
	if a.extra.MayBeLost {
		return mayBeLost
	}
	p := problems.Of(a.result)
	if details, ok := questionDetails[a.result]; ok && method != http.MethodPost {
		return p.WithDetails(details[0], details[1])
	}
	return p
}
