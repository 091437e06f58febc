package adminapi

import (
	"net/http"
	"time"

	"github.com/jajeong/jajeong/internal/httpapi"
)

type (
	result = httpapi.Result
	words  = httpapi.Words
)

// The results of refused requests. Those of verbs have the sentences of the verb as their detail.
const (
	notFound         = httpapi.NotFound
	methodNotAllowed = httpapi.MethodNotAllowed
	unauthenticated  = httpapi.Unauthenticated
	internal         = httpapi.Internal

	tooManyRequests result = "TOO_MANY_REQUESTS"
	forbidden       result = "FORBIDDEN"
	invalidBody     result = "INVALID_BODY"
	bodyTooLarge    result = "BODY_TOO_LARGE"
	invalidValues   result = "INVALID_VALUES"
	digestMissing   result = "DIGEST_MISSING"
	keyMissing      result = "IDEMPOTENCY_KEY_MISSING"
	keyOfOther      result = "IDEMPOTENCY_KEY_REUSED"
	inProgress      result = "IN_PROGRESS"
	resultTooLarge  result = "RESULT_TOO_LARGE"

	doesNotExist   result = "DOES_NOT_EXIST"
	approvalNeeded result = "APPROVAL_NEEDED"
	approvalWrong  result = "APPROVAL_NOT_USABLE"
	previewChanged result = "PREVIEW_CHANGED"
	mayBeDone      result = "MAY_BE_DONE"
	clientKeyTaken result = "CLIENT_KEY_REUSED"
	refused        result = "REFUSED"
	held           result = "HELD"
	unavailable    result = "UNAVAILABLE"
)

const retryAfter = 2 * time.Second

var problems = httpapi.NewProblems(httpapi.Problems{
	unauthenticated: {Status: http.StatusUnauthorized,
		Korean:  words{Title: "키가 올바르지 않습니다", Detail: "Authorization 헤더에 Bearer와 유효한 키를 한 번만 보내 주세요. 키가 만료되었을 수도 있습니다."},
		English: words{Title: "No valid key", Detail: "Send one Authorization header with Bearer and a valid key. The key may have expired."}},
	tooManyRequests: {Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Korean:  words{Title: "요청이 너무 많습니다", Detail: "이 주소에서 유효한 키가 없는 요청이 너무 많이 왔습니다. 키를 확인한 뒤 잠시 후 다시 시도해 주세요."},
		English: words{Title: "Too many requests", Detail: "Too many requests without a valid key came from this address. Check the key and try again in a moment."}},
	forbidden: {Status: http.StatusForbidden,
		Korean:  words{Title: "권한이 없습니다", Detail: "이 키의 역할로는 할 수 없는 요청입니다."},
		English: words{Title: "Forbidden", Detail: "The role of this key does not have the right to this call."}},
	invalidBody: {Status: http.StatusBadRequest,
		Korean:  words{Title: "요청 본문이 올바르지 않습니다", Detail: "본문은 JSON 객체 하나여야 하고, 같은 이름은 한 번만 쓸 수 있습니다."},
		English: words{Title: "Invalid body", Detail: "The body is one JSON object, and each name comes once."}},
	bodyTooLarge: {Status: http.StatusRequestEntityTooLarge,
		Korean:  words{Title: "요청 본문이 너무 큽니다", Detail: "본문은 64KiB까지 가능합니다."},
		English: words{Title: "Body too large", Detail: "A body has up to 64 KiB."}},
	invalidValues: {Status: http.StatusUnprocessableEntity,
		Korean:  words{Title: "값이 올바르지 않습니다", Detail: "errors에 잘못된 값과 그 이유가 있습니다."},
		English: words{Title: "Invalid values", Detail: "errors names the wrong values, and what is wrong with them."}},
	digestMissing: {Status: http.StatusUnprocessableEntity,
		Korean:  words{Title: "다이제스트가 없습니다", Detail: "먼저 dryRun으로 미리 보고, 그 digest를 함께 보내 주세요. 승인을 요청하려면 ask를, 승인받은 변경을 실행하려면 approval을 보내면 됩니다."},
		English: words{Title: "No digest", Detail: "First send dryRun, and then the digest of that preview. To ask for an approval send ask; to carry out what was approved send approval."}},
	keyMissing: {Status: http.StatusBadRequest,
		Korean:  words{Title: "Idempotency-Key가 없습니다", Detail: "변경할 때는 Idempotency-Key 헤더를 한 번 보내야 합니다. 공백 없는 영문자, 숫자, 기호로 64자까지 가능합니다."},
		English: words{Title: "No Idempotency-Key", Detail: "A change has one header Idempotency-Key with 1 to 64 ASCII letters, digits and signs without spaces."}},
	keyOfOther: {Status: http.StatusUnprocessableEntity,
		Korean:  words{Title: "다른 요청의 Idempotency-Key입니다", Detail: "같은 Idempotency-Key로 내용이 다른 요청을 이미 보냈습니다. 새 요청에는 새 키를 쓰세요."},
		English: words{Title: "Idempotency-Key of another request", Detail: "Another request was sent with this Idempotency-Key. Give each request its own."}},
	inProgress: {Status: http.StatusConflict, RetryAfter: retryAfter,
		Korean:  words{Title: "처리 중입니다", Detail: "같은 Idempotency-Key의 요청을 처리하고 있습니다. Location의 작업이 끝난 뒤 다시 요청하면 그 결과를 알려 드립니다."},
		English: words{Title: "In progress", Detail: "The request with this Idempotency-Key is being processed. Ask again after the job of Location has ended, and the response has its result."}},
	resultTooLarge: {Status: http.StatusUnprocessableEntity,
		Korean:  words{Title: "결과가 너무 큽니다", Detail: "쿠폰, 사유, 고객 등으로 범위를 좁혀 다시 요청해 주세요."},
		English: words{Title: "Result too large", Detail: "Ask for less, such as for one coupon, cause or user."}},
	doesNotExist: {Status: http.StatusNotFound,
		Korean:  words{Title: "존재하지 않습니다", Detail: "요청하신 대상은 존재하지 않습니다."},
		English: words{Title: "Does not exist", Detail: "What was asked for does not exist."}},
	approvalNeeded: {Status: http.StatusConflict,
		Korean:  words{Title: "승인이 필요합니다", Detail: "정책에 따라 다른 사람의 승인이 필요한 변경입니다. ask로 승인을 요청하세요."},
		English: words{Title: "Approval needed", Detail: "The policy wants another person to approve this change: ask for it with ask."}},
	approvalWrong: {Status: http.StatusConflict,
		Korean:  words{Title: "사용할 수 없는 승인입니다", Detail: "아직 승인되지 않았거나, 다른 변경의 승인이거나, 이미 쓴 승인입니다."},
		English: words{Title: "Approval not usable", Detail: "It is not given yet, is of another change, or was used."}},
	previewChanged: {Status: http.StatusConflict,
		Korean:  words{Title: "미리 보기와 다릅니다", Detail: "미리 본 뒤에 상황이 바뀌었습니다. 아무것도 변경하지 않았습니다. 다시 미리 보세요."},
		English: words{Title: "Not as previewed", Detail: "Something changed after the preview. Nothing was done: preview it again."}},
	mayBeDone: {Status: http.StatusConflict,
		Korean:  words{Title: "이미 처리되었을 수 있습니다", Detail: "같은 Idempotency-Key의 앞선 요청이 중단되었고, 그 전에 이미 변경했을 수 있습니다. 쿠폰의 현재 상태를 조회한 뒤, 아직이면 새 Idempotency-Key로 다시 미리 보세요."},
		English: words{Title: "May be done", Detail: "An earlier attempt with this Idempotency-Key was interrupted, and may have made the change. Look at the coupon; if it was not, preview again, with a new Idempotency-Key."}},
	clientKeyTaken: {Status: http.StatusConflict,
		Korean:  words{Title: "다른 쿠폰의 clientKey입니다", Detail: "이 clientKey로 내용이 다른 쿠폰을 이미 만들었습니다."},
		English: words{Title: "clientKey of another coupon", Detail: "Another coupon was created with this clientKey."}},
	refused: {Status: http.StatusConflict,
		Korean:  words{Title: "할 수 없는 변경입니다", Detail: "현재 상태에서는 할 수 없습니다. 아무것도 변경하지 않았습니다."},
		English: words{Title: "Refused", Detail: "This cannot be done in the present state. Nothing was changed."}},
	held: {Status: http.StatusConflict,
		Korean:  words{Title: "보류되었습니다", Detail: "불변 조건이 깨져 담당자의 확인이 필요합니다."},
		English: words{Title: "Held", Detail: "An invariant is broken: a person must look at it."}},
	internal: {Status: http.StatusInternalServerError,
		Korean:  words{Title: "요청을 처리하지 못했습니다", Detail: "서버의 설정이나 프로그램에 문제가 있습니다. 같은 Idempotency-Key로 다시 요청해도 안전합니다. 문제가 계속되면 운영 담당자에게 알려 주세요."},
		English: words{Title: "Internal error", Detail: "Something is wrong with the setup or the program. It is safe to ask again with the same Idempotency-Key. If that does not help, tell the operators."}},
	unavailable: {Status: http.StatusServiceUnavailable, RetryAfter: retryAfter,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "처리되었는지 알 수 없습니다. 잠시 후 같은 Idempotency-Key로 다시 요청하세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "It may not be known whether the call was carried out. Ask again with the same Idempotency-Key in a moment."}},
})
