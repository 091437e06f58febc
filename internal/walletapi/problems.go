package walletapi

import (
	"net/http"
	"time"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/wallet"
)

// result is the result of a request, and its label in the metrics. Every result but a success has an entry in problems.
type result = httpapi.Result

const (
	listed            result = "LISTED"
	notOwned          result = result(wallet.NotOwned)
	orderDiffers      result = result(wallet.OrderDiffers)
	orderHasCoupon    result = result(wallet.OrderHasCoupon)
	orderRefunded     result = result(wallet.OrderRefunded)
	orderNotFound     result = result(wallet.OrderNotFound)
	reservedElsewhere result = result(wallet.ReservedElsewhere)
	reservationLost   result = result(wallet.ReservationLost)
	used              result = result(wallet.Used)
	expired           result = result(wallet.Expired)
	revoked           result = result(wallet.Revoked)
	belowMinimum      result = result(wallet.BelowMinimum)
	notUsed           result = result(wallet.NotUsed)

	noServiceKeys    result = "NO_SERVICE_KEYS"
	wrongKey         result = "INVALID_SERVICE_KEY"
	noScope          result = "INSUFFICIENT_SCOPE"
	foreignOrigin    result = "FOREIGN_ORIGIN"
	invalidOrderID   result = "INVALID_ORDER_ID"
	invalidBody      result = "INVALID_BODY" // public code of the next seven
	hasBody          result = "HAS_BODY"
	noObject         result = "NO_OBJECT"
	memberTwice      result = "MEMBER_TWICE"
	unknownMember    result = "UNKNOWN_MEMBER"
	wrongCouponID    result = "WRONG_COUPON_ID"
	wrongUserID      result = "WRONG_USER_ID"
	wrongAmount      result = "WRONG_AMOUNT"
	invalidQuery     result = "INVALID_QUERY"
	bodyTooLarge     result = "BODY_TOO_LARGE"
	unreadableBody   result = "UNREADABLE_BODY"
	invalidPage      result = "INVALID_PAGE"
	invalidUserID    result = httpapi.InvalidUserID
	unauthenticated  result = httpapi.Unauthenticated
	notFound         result = httpapi.NotFound
	methodNotAllowed result = httpapi.MethodNotAllowed
	internal         result = httpapi.Internal
	unavailable      result = "UNAVAILABLE"
	walletUnknown    result = "WALLET_UNKNOWN"
	overloaded       result = "OVERLOADED"
	tooManyRequests  result = "TOO_MANY_REQUESTS"
)

type words = httpapi.Words

// The titles of the public code INVALID_BODY.
const (
	invalidBodyKorean  = "요청 본문이 올바르지 않습니다"
	invalidBodyEnglish = "Invalid body"
)

var problems = httpapi.NewProblems(httpapi.Problems{
	notOwned: {Status: http.StatusNotFound,
		Korean:  words{Title: "보유하지 않은 쿠폰입니다", Detail: "이 고객에게 발급된 쿠폰이 아닙니다."},
		English: words{Title: "Not owned", Detail: "The user does not have this coupon."}},
	orderNotFound: {Status: http.StatusNotFound,
		Korean:  words{Title: "주문을 찾을 수 없습니다", Detail: "이 주문으로 쿠폰을 예약한 적이 없습니다."},
		English: words{Title: "Order not found", Detail: "No coupon has ever been reserved for this order."}},
	orderDiffers: {Status: http.StatusUnprocessableEntity,
		Korean:  words{Title: "주문 내용이 다릅니다", Detail: "이 주문은 다른 고객이나 다른 금액으로 이미 쿠폰을 예약했습니다. 금액이 바뀌었다면 예약을 취소한 뒤 다시 예약하세요."},
		English: words{Title: "Order differs", Detail: "This order has reserved a coupon for another user or amount. If the amount has changed, release the coupon first, then reserve it again."}},
	orderHasCoupon: {Status: http.StatusConflict,
		Korean:  words{Title: "이미 쿠폰이 있는 주문입니다", Detail: "한 주문에는 쿠폰을 한 장만 사용할 수 있습니다. 다른 쿠폰을 쓰려면 먼저 예약을 취소하세요."},
		English: words{Title: "Order has a coupon", Detail: "An order can have one coupon. To take another, release the present one first."}},
	orderRefunded: {Status: http.StatusConflict,
		Korean:  words{Title: "환불된 주문입니다", Detail: "환불된 주문에는 쿠폰을 다시 사용할 수 없습니다. 새 주문번호를 사용하세요."},
		English: words{Title: "Order refunded", Detail: "This order was refunded, so it cannot have a coupon again. Use another order id."}},
	reservedElsewhere: {Status: http.StatusConflict,
		Korean:  words{Title: "다른 주문이 예약한 쿠폰입니다", Detail: "다른 주문이 이 쿠폰을 예약하고 있습니다. 그 예약이 취소되거나 until 시각이 지나면 예약할 수 있습니다."},
		English: words{Title: "Reserved elsewhere", Detail: "Another order has reserved this coupon. It is free once that reservation is released, or after the time in until."}},
	reservationLost: {Status: http.StatusConflict,
		Korean:  words{Title: "예약이 유효하지 않습니다", Detail: "예약이 취소되었거나, 유효 시간이 지난 뒤 다른 주문이 이 쿠폰을 가져갔습니다. 다시 예약하기 전에는 결제하지 마세요."},
		English: words{Title: "Reservation lost", Detail: "The reservation was released, or it ran out and another order took the coupon. Do not take the payment before you have reserved a coupon again."}},
	used: {Status: http.StatusConflict,
		Korean:  words{Title: "이미 사용된 쿠폰입니다", Detail: "이 쿠폰은 주문에 사용되었습니다. 주문이 취소되었다면 그 주문의 쿠폰 사용을 취소하세요."},
		English: words{Title: "Used", Detail: "The coupon has been used for an order. If that order came back, refund it."}},
	expired: {Status: http.StatusConflict,
		Korean:  words{Title: "유효 기한이 지난 쿠폰입니다", Detail: "이 쿠폰의 유효 기한이 지났습니다."},
		English: words{Title: "Expired", Detail: "The validity of this coupon has ended."}},
	revoked: {Status: http.StatusConflict,
		Korean:  words{Title: "회수된 쿠폰입니다", Detail: "이 쿠폰은 회수되어 사용할 수 없습니다. 자세한 내용은 고객센터에 문의해 주세요."},
		English: words{Title: "Revoked", Detail: "This coupon was revoked and cannot be used. Please contact customer service for details."}},
	belowMinimum: {Status: http.StatusConflict,
		Korean:  words{Title: "최소 주문 금액에 미치지 못합니다", Detail: "주문 금액이 이 쿠폰을 사용할 수 있는 최소 금액보다 적습니다."},
		English: words{Title: "Below the minimum", Detail: "The amount of the order is below the minimum of this coupon."}},
	notUsed: {Status: http.StatusConflict,
		Korean:  words{Title: "쿠폰을 사용하지 않은 주문입니다", Detail: "사용 확정된 쿠폰이 없어 사용을 취소할 것이 없습니다. 예약만 했다면 예약을 취소하세요."},
		English: words{Title: "Not used", Detail: "The order has not used a coupon, so there is nothing to refund. A reservation is released instead."}},

	noServiceKeys: {Status: http.StatusServiceUnavailable, RetryAfter: 10 * time.Second,
		Korean:  words{Title: "서비스 키가 설정되어 있지 않습니다", Detail: "서버에 서비스 키가 없어 주문 요청을 받지 않습니다. 서버의 SERVICE_KEYS_FILE을 설정하세요."},
		English: words{Title: "No service keys", Detail: "The server has no service keys, so it takes no calls of orders. Set SERVICE_KEYS_FILE of the server."}},
	wrongKey: {Status: http.StatusUnauthorized,
		Korean:  words{Title: "서비스 키가 올바르지 않습니다", Detail: "Authorization 헤더를 한 번만, Bearer와 유효한 서비스 키나 토큰으로 보내야 합니다."},
		English: words{Title: "Invalid service key", Detail: "The Authorization header is sent once, with Bearer and a valid service key or token."}},
	noScope: {Status: http.StatusForbidden,
		Korean:  words{Title: "권한이 없는 토큰입니다", Detail: "주문 요청에는 scope에 redeem이 있는 토큰이 필요합니다."},
		English: words{Title: "Insufficient scope", Detail: "Calls of orders need a token with the scope redeem."}},
	foreignOrigin: {Status: http.StatusForbidden,
		Korean:  words{Title: "다른 사이트에서 보낸 요청입니다", Detail: "다른 사이트의 페이지에서 보낸 요청이라 처리하지 않았습니다. 주문 요청은 페이지가 아니라 서버에서 보내세요."},
		English: words{Title: "Request of another site", Detail: "A page of another site sent this request, so it was not processed. Calls of orders come from a server, not from a page."}},
	invalidOrderID: {Status: http.StatusBadRequest,
		Korean:  words{Title: "주문번호가 올바르지 않습니다", Detail: "주문번호는 글자, 숫자, 문장 부호, 기호로 된 1자부터 64자까지의 NFC 문자열이어야 합니다. 공백과 보이지 않는 문자는 쓸 수 없고, '/'로 나눈 부분이 비어 있거나 '.' 또는 '..'이어도 안 됩니다."},
		English: words{Title: "Invalid order id", Detail: "An order id has 1 to 64 letters, digits, punctuation marks and symbols, in NFC, without spaces and invisible characters. No part between slashes is empty, '.' or '..'."}},
	invalidQuery: {Status: http.StatusBadRequest,
		Korean:  words{Title: "쿼리를 사용할 수 없습니다", Detail: "주문 요청의 주소에는 쿼리를 붙일 수 없습니다. '?'부터 빼고 다시 보내세요."},
		English: words{Title: "Invalid query", Detail: "The address of an order takes no query. Send the request without what follows the question mark."}},
	noObject: {Status: http.StatusBadRequest, Code: invalidBody,
		Korean:  words{Title: invalidBodyKorean, Detail: "본문은 couponId, userId, amountWon을 담은 JSON 객체 하나여야 합니다."},
		English: words{Title: invalidBodyEnglish, Detail: "The body is one JSON object with couponId, userId and amountWon."}},
	hasBody: {Status: http.StatusBadRequest, Code: invalidBody,
		Korean:  words{Title: invalidBodyKorean, Detail: "이 요청에는 본문을 넣을 수 없습니다. 쿠폰은 주문 전체에 사용되고 전체가 취소되므로, 일부만 지정할 수 없습니다."},
		English: words{Title: invalidBodyEnglish, Detail: "This call takes no body. A coupon is used, and given back, for the whole order: no part of it can be named."}},
	memberTwice: {Status: http.StatusBadRequest, Code: invalidBody,
		Korean:  words{Title: invalidBodyKorean, Detail: "본문에 같은 필드가 두 번 있습니다."},
		English: words{Title: invalidBodyEnglish, Detail: "A member of the body comes twice."}},
	unknownMember: {Status: http.StatusBadRequest, Code: invalidBody,
		Korean:  words{Title: invalidBodyKorean, Detail: "본문에 알 수 없는 필드가 있습니다. couponId, userId, amountWon만 보내세요. 대소문자를 구분합니다."},
		English: words{Title: invalidBodyEnglish, Detail: "The body has an unknown member. The members are couponId, userId and amountWon, in this spelling."}},
	wrongCouponID: {Status: http.StatusBadRequest, Code: invalidBody,
		Korean:  words{Title: invalidBodyKorean, Detail: "couponId는 1부터 18446744073709551615까지의 정수여야 합니다. 따옴표, 소수점, 지수는 사용할 수 없습니다."},
		English: words{Title: invalidBodyEnglish, Detail: "couponId is a whole number from 1 to 18446744073709551615, without quotes, fraction or exponent."}},
	wrongUserID: {Status: http.StatusBadRequest, Code: invalidBody,
		Korean:  words{Title: invalidBodyKorean, Detail: "userId는 1부터 18446744073709551615까지의 정수여야 합니다. 따옴표, 소수점, 지수는 사용할 수 없습니다."},
		English: words{Title: invalidBodyEnglish, Detail: "userId is a whole number from 1 to 18446744073709551615, without quotes, fraction or exponent."}},
	wrongAmount: {Status: http.StatusBadRequest, Code: invalidBody,
		Korean:  words{Title: invalidBodyKorean, Detail: "amountWon은 1부터 1000000000000까지의 정수(원)여야 합니다. 따옴표, 소수점, 지수는 사용할 수 없습니다."},
		English: words{Title: invalidBodyEnglish, Detail: "amountWon is a whole number of won from 1 to 1000000000000, without quotes, fraction or exponent."}},
	bodyTooLarge: {Status: http.StatusRequestEntityTooLarge,
		Korean:  words{Title: "요청 본문이 너무 큽니다", Detail: "요청 본문은 1,024바이트까지 가능합니다."},
		English: words{Title: "Body too large", Detail: "A request body has up to 1,024 bytes."}},
	unreadableBody: {Status: http.StatusBadRequest,
		Korean:  words{Title: "요청 본문을 읽을 수 없습니다", Detail: "요청 본문을 끝까지 받지 못했습니다. 다시 보내 주세요."},
		English: words{Title: "Unreadable body", Detail: "The body did not arrive completely. Please send the request again."}},
	invalidPage: {Status: http.StatusBadRequest,
		Korean:  words{Title: "페이지 지정이 올바르지 않습니다", Detail: "limit은 1부터 100까지이고, before에는 앞 페이지의 next 값을 그대로 지정해야 합니다. 각각 한 번만 지정할 수 있습니다."},
		English: words{Title: "Invalid page", Detail: "limit is 1 to 100, and before is the value of next of the page before. Each is given once at most."}},
	unauthenticated: {Status: http.StatusUnauthorized,
		Korean:  words{Title: "로그인이 필요합니다", Detail: "로그인하신 후 다시 시도해 주세요."},
		English: words{Title: "Sign-in required", Detail: "Please sign in and try again."}},
	internal: {Status: http.StatusInternalServerError,
		Korean:  words{Title: "요청을 처리하지 못했습니다", Detail: "서버에 문제가 발생했습니다. 같은 주문번호로 다시 요청해도 안전합니다. 문제가 계속되면 운영 담당자에게 알려 주세요."},
		English: words{Title: "Internal error", Detail: "Something went wrong on our side. It is safe to ask again with the same order id. If that does not help, tell the operators."}},
	unavailable: {Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "요청이 처리되었는지 확인하지 못했습니다. 잠시 후 같은 주문번호로 다시 요청하세요. 이미 처리되었다면 그 결과를 알려 드립니다."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "It is not known whether the call was carried out. Ask again with the same order id in a moment: if it was, the response tells the result."}},
	walletUnknown: {Status: http.StatusServiceUnavailable, RetryAfter: 2 * time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "쿠폰함을 조회하지 못했습니다. 쿠폰이 없다는 뜻은 아니니 잠시 후 다시 확인해 주세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "The coupons could not be looked up, which does not mean that there are none. Please try again in a moment."}},
	overloaded: {Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Code: unavailable,
		Korean:  words{Title: httpapi.UnavailableKorean, Detail: "요청이 한꺼번에 몰려 이번 요청은 처리하지 못했습니다. 잠시 후 다시 시도해 주세요."},
		English: words{Title: httpapi.UnavailableEnglish, Detail: "There are too many requests right now, and this one was not processed. Please try again in a moment."}},
	tooManyRequests: {Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Korean:  words{Title: "요청이 너무 많습니다", Detail: "같은 고객의 요청이 너무 잦아 이번 요청은 처리하지 않았습니다. 잠시 후 다시 시도해 주세요."},
		English: words{Title: "Too many requests", Detail: "Requests of this user come too often, and this one was not processed. Please try again in a moment."}},
})
