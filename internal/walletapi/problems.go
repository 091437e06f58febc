package walletapi

import (
	"net/http"
	"time"

	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/identity"
	"github.com/jajeong/jajeong/internal/wallet"
)

// result is the result of a request, and its label in the metrics. Every result but a success has an entry in problems.
type result string

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
	invalidUserID    result = identity.InvalidUserID
	unauthenticated  result = identity.Unauthenticated
	notFound         result = "NOT_FOUND"
	methodNotAllowed result = "METHOD_NOT_ALLOWED"
	internal         result = "INTERNAL"
	unavailable      result = "UNAVAILABLE"
	walletUnknown    result = "WALLET_UNKNOWN"
	overloaded       result = "OVERLOADED"
	tooManyRequests  result = "TOO_MANY_REQUESTS"
)

// problem is the response to a refused request. Several results may share a public code; the metrics show the result.
type problem struct {
	status          int
	retryAfter      time.Duration
	code            result // public and stable
	korean, english words
}

type words struct{ Title, Detail string }

// All problems with one public code have one title: RFC 9457 wants one title per type.
const (
	unavailableKorean  = "지금은 요청을 처리할 수 없습니다"
	unavailableEnglish = "Requests cannot be processed right now"
	invalidBodyKorean  = "요청 본문이 올바르지 않습니다"
	invalidBodyEnglish = "Invalid body"
)

var problems = map[result]problem{
	notOwned: {http.StatusNotFound, 0, notOwned,
		words{"보유하지 않은 쿠폰입니다", "이 사용자에게 발급된 쿠폰이 아닙니다."},
		words{"Not owned", "The user does not have this coupon."}},
	orderNotFound: {http.StatusNotFound, 0, orderNotFound,
		words{"주문을 찾을 수 없습니다", "이 주문으로 쿠폰을 예약한 적이 없습니다."},
		words{"Order not found", "No coupon has ever been reserved for this order."}},
	orderDiffers: {http.StatusUnprocessableEntity, 0, orderDiffers,
		words{"주문 내용이 다릅니다", "이 주문은 다른 사용자나 다른 금액으로 이미 쿠폰을 예약했습니다. 금액이 바뀌었다면 예약을 취소한 뒤 다시 예약하세요."},
		words{"Order differs", "This order has reserved a coupon for another user or amount. If the amount has changed, release the coupon first, then reserve it again."}},
	orderHasCoupon: {http.StatusConflict, 0, orderHasCoupon,
		words{"이미 쿠폰이 있는 주문입니다", "한 주문에는 쿠폰을 한 장만 사용할 수 있습니다. 다른 쿠폰을 쓰려면 먼저 예약을 취소하세요."},
		words{"Order has a coupon", "An order can have one coupon. To take another, release the present one first."}},
	orderRefunded: {http.StatusConflict, 0, orderRefunded,
		words{"환불된 주문입니다", "환불된 주문에는 쿠폰을 다시 사용할 수 없습니다. 새 주문 번호를 사용하세요."},
		words{"Order refunded", "This order was refunded, so it cannot have a coupon again. Use another order id."}},
	reservedElsewhere: {http.StatusConflict, 0, reservedElsewhere,
		words{"다른 주문이 예약한 쿠폰입니다", "다른 주문이 이 쿠폰을 예약하고 있습니다. 그 예약이 취소되거나 until 시각이 지나면 예약할 수 있습니다."},
		words{"Reserved elsewhere", "Another order has reserved this coupon. It is free once that reservation is released, or after the time in until."}},
	reservationLost: {http.StatusConflict, 0, reservationLost,
		words{"예약이 유효하지 않습니다", "예약이 취소되었거나, 유효 시간이 지난 뒤 다른 주문이 이 쿠폰을 가져갔습니다. 다시 예약하기 전에는 결제하지 마세요."},
		words{"Reservation lost", "The reservation was released, or it ran out and another order took the coupon. Do not take the payment before you have reserved a coupon again."}},
	used: {http.StatusConflict, 0, used,
		words{"이미 사용된 쿠폰입니다", "이 쿠폰은 주문에 사용되었습니다. 주문이 취소되었다면 그 주문의 쿠폰 사용을 취소하세요."},
		words{"Used", "The coupon has been used for an order. If that order came back, refund it."}},
	expired: {http.StatusConflict, 0, expired,
		words{"유효 기한이 지난 쿠폰입니다", "이 쿠폰의 유효 기한이 지났습니다."},
		words{"Expired", "The validity of this coupon has ended."}},
	revoked: {http.StatusConflict, 0, revoked,
		words{"회수된 쿠폰입니다", "이 쿠폰은 회수되어 사용할 수 없습니다. 자세한 내용은 고객센터에 문의해 주세요."},
		words{"Revoked", "This coupon was revoked and cannot be used. Please contact customer service for details."}},
	belowMinimum: {http.StatusConflict, 0, belowMinimum,
		words{"최소 주문 금액에 미치지 못합니다", "주문 금액이 이 쿠폰을 사용할 수 있는 최소 금액보다 적습니다."},
		words{"Below the minimum", "The amount of the order is below the minimum of this coupon."}},
	notUsed: {http.StatusConflict, 0, notUsed,
		words{"쿠폰을 사용하지 않은 주문입니다", "사용 확정된 쿠폰이 없어 사용을 취소할 것이 없습니다. 예약만 했다면 예약을 취소하세요."},
		words{"Not used", "The order has not used a coupon, so there is nothing to refund. A reservation is released instead."}},

	noServiceKeys: {http.StatusServiceUnavailable, 10 * time.Second, noServiceKeys,
		words{"서비스 키가 설정되어 있지 않습니다", "서버에 서비스 키가 없어 주문 요청을 받지 않습니다. 서버의 SERVICE_KEYS_FILE을 설정하세요."},
		words{"No service keys", "The server has no service keys, so it takes no calls of orders. Set SERVICE_KEYS_FILE of the server."}},
	wrongKey: {http.StatusUnauthorized, 0, wrongKey,
		words{"서비스 키가 올바르지 않습니다", "Authorization 헤더를 한 번만, Bearer와 유효한 서비스 키나 토큰으로 보내야 합니다."},
		words{"Invalid service key", "The Authorization header is sent once, with Bearer and a valid service key or token."}},
	noScope: {http.StatusForbidden, 0, noScope,
		words{"권한이 없는 토큰입니다", "주문 요청에는 scope에 redeem이 있는 토큰이 필요합니다."},
		words{"Insufficient scope", "Calls of orders need a token with the scope redeem."}},
	foreignOrigin: {http.StatusForbidden, 0, foreignOrigin,
		words{"다른 사이트에서 보낸 요청입니다", "다른 사이트의 페이지에서 보낸 요청이라 처리하지 않았습니다. 주문 요청은 페이지가 아니라 서버에서 보내세요."},
		words{"Request of another site", "A page of another site sent this request, so it was not processed. Calls of orders come from a server, not from a page."}},
	invalidOrderID: {http.StatusBadRequest, 0, invalidOrderID,
		words{"주문 번호가 올바르지 않습니다", "주문 번호는 글자, 숫자, 문장 부호, 기호로 된 1자부터 64자까지의 NFC 문자열이어야 합니다. 공백과 보이지 않는 문자는 쓸 수 없고, '/'로 나눈 부분이 비어 있거나 '.' 또는 '..'이어도 안 됩니다."},
		words{"Invalid order id", "An order id has 1 to 64 letters, digits, punctuation marks and symbols, in NFC, without spaces and invisible characters. No part between slashes is empty, '.' or '..'."}},
	invalidQuery: {http.StatusBadRequest, 0, invalidQuery,
		words{"쿼리를 사용할 수 없습니다", "주문 요청의 주소에는 쿼리를 붙일 수 없습니다. '?'부터 빼고 다시 보내세요."},
		words{"Invalid query", "The address of an order takes no query. Send the request without what follows the question mark."}},
	noObject: {http.StatusBadRequest, 0, invalidBody,
		words{invalidBodyKorean, "본문은 couponId, userId, amountWon을 담은 JSON 객체 하나여야 합니다."},
		words{invalidBodyEnglish, "The body is one JSON object with couponId, userId and amountWon."}},
	hasBody: {http.StatusBadRequest, 0, invalidBody,
		words{invalidBodyKorean, "이 요청에는 본문을 넣을 수 없습니다. 쿠폰은 주문 전체에 사용되고 전체가 취소되므로, 일부만 지정할 수 없습니다."},
		words{invalidBodyEnglish, "This call takes no body. A coupon is used, and given back, for the whole order: no part of it can be named."}},
	memberTwice: {http.StatusBadRequest, 0, invalidBody,
		words{invalidBodyKorean, "본문에 같은 필드가 두 번 있습니다."},
		words{invalidBodyEnglish, "A member of the body comes twice."}},
	unknownMember: {http.StatusBadRequest, 0, invalidBody,
		words{invalidBodyKorean, "본문에 알 수 없는 필드가 있습니다. couponId, userId, amountWon만 보내세요. 대소문자를 구분합니다."},
		words{invalidBodyEnglish, "The body has an unknown member. The members are couponId, userId and amountWon, in this spelling."}},
	wrongCouponID: {http.StatusBadRequest, 0, invalidBody,
		words{invalidBodyKorean, "couponId는 1부터 18446744073709551615까지의 정수여야 합니다. 따옴표, 소수점, 지수는 사용할 수 없습니다."},
		words{invalidBodyEnglish, "couponId is a whole number from 1 to 18446744073709551615, without quotes, fraction or exponent."}},
	wrongUserID: {http.StatusBadRequest, 0, invalidBody,
		words{invalidBodyKorean, "userId는 1부터 18446744073709551615까지의 정수여야 합니다. 따옴표, 소수점, 지수는 사용할 수 없습니다."},
		words{invalidBodyEnglish, "userId is a whole number from 1 to 18446744073709551615, without quotes, fraction or exponent."}},
	wrongAmount: {http.StatusBadRequest, 0, invalidBody,
		words{invalidBodyKorean, "amountWon은 1부터 1000000000000까지의 정수(원)여야 합니다. 따옴표, 소수점, 지수는 사용할 수 없습니다."},
		words{invalidBodyEnglish, "amountWon is a whole number of won from 1 to 1000000000000, without quotes, fraction or exponent."}},
	bodyTooLarge: {http.StatusRequestEntityTooLarge, 0, bodyTooLarge,
		words{"요청 본문이 너무 큽니다", "요청 본문은 1,024바이트까지 가능합니다."},
		words{"Body too large", "A request body has up to 1,024 bytes."}},
	unreadableBody: {http.StatusBadRequest, 0, unreadableBody,
		words{"요청 본문을 읽을 수 없습니다", "요청 본문을 끝까지 받지 못했습니다. 다시 보내 주세요."},
		words{"Unreadable body", "The body did not arrive completely. Please send the request again."}},
	invalidPage: {http.StatusBadRequest, 0, invalidPage,
		words{"페이지 지정이 올바르지 않습니다", "limit은 1부터 100까지이고, before에는 앞 페이지의 next 값을 그대로 지정해야 합니다. 각각 한 번만 지정할 수 있습니다."},
		words{"Invalid page", "limit is 1 to 100, and before is the value of next of the page before. Each is given once at most."}},
	invalidUserID: {http.StatusBadRequest, 0, invalidUserID,
		words{"사용자 번호가 올바르지 않습니다", "X-User-ID 헤더는 한 번만 보내야 합니다. 값은 1부터 18446744073709551615까지의 십진수여야 하며, 부호, 공백, 맨 앞의 0은 사용할 수 없습니다."},
		words{"Invalid user id", "X-User-ID is sent once and is a decimal number from 1 to 18446744073709551615, without sign, spaces or leading zeros."}},
	unauthenticated: {http.StatusUnauthorized, 0, unauthenticated,
		words{"로그인이 필요합니다", "로그인하신 후 다시 시도해 주세요."},
		words{"Sign-in required", "Please sign in and try again."}},
	notFound: {http.StatusNotFound, 0, notFound,
		words{"찾을 수 없는 주소입니다", "요청하신 주소는 존재하지 않습니다. 주소를 확인해 주세요."},
		words{"Not found", "There is nothing at this address. Please check it."}},
	methodNotAllowed: {http.StatusMethodNotAllowed, 0, methodNotAllowed,
		words{"허용되지 않는 요청 방식입니다", "이 주소에서 사용할 수 있는 요청 방식은 Allow 헤더에서 확인할 수 있습니다."},
		words{"Method not allowed", "The Allow header names the methods that can be used here."}},
	internal: {http.StatusInternalServerError, 0, internal,
		words{"요청을 처리하지 못했습니다", "서버에 문제가 발생했습니다. 같은 주문 번호로 다시 요청해도 안전합니다. 문제가 계속되면 운영 담당자에게 알려 주세요."},
		words{"Internal error", "Something went wrong on our side. It is safe to ask again with the same order id. If that does not help, tell the operators."}},
	unavailable: {http.StatusServiceUnavailable, 2 * time.Second, unavailable,
		words{unavailableKorean, "요청이 처리되었는지 확인하지 못했습니다. 잠시 후 같은 주문 번호로 다시 요청하세요. 이미 처리되었다면 그 결과를 알려 드립니다."},
		words{unavailableEnglish, "It is not known whether the call was carried out. Ask again with the same order id in a moment: if it was, the response tells the result."}},
	walletUnknown: {http.StatusServiceUnavailable, 2 * time.Second, unavailable,
		words{unavailableKorean, "쿠폰함을 조회하지 못했습니다. 쿠폰이 없다는 뜻은 아니니 잠시 후 다시 확인해 주세요."},
		words{unavailableEnglish, "The coupons could not be looked up, which does not mean that there are none. Please try again in a moment."}},
	overloaded: {http.StatusServiceUnavailable, time.Second, unavailable,
		words{unavailableKorean, "요청이 한꺼번에 몰려 이번 요청은 처리하지 못했습니다. 잠시 후 다시 시도해 주세요."},
		words{unavailableEnglish, "There are too many requests right now, and this one was not processed. Please try again in a moment."}},
	tooManyRequests: {http.StatusTooManyRequests, time.Second, tooManyRequests,
		words{"요청이 너무 많습니다", "같은 사용자의 요청이 너무 잦아 이번 요청은 처리하지 않았습니다. 잠시 후 다시 시도해 주세요."},
		words{"Too many requests", "Requests of this user come too often, and this one was not processed. Please try again in a moment."}},
}

func describe(r result) httpapi.Problem {
	p, ok := problems[r]
	if !ok {
		p = problems[internal]
	}
	return httpapi.Problem{Status: p.status, RetryAfter: p.retryAfter, Code: string(p.code),
		Korean: httpapi.Words(p.korean), English: httpapi.Words(p.english)}
}
