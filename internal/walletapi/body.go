package walletapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/httpapi"
	"github.com/jajeong/jajeong/internal/wallet"
)

// readWish reads the content of a call. Only a reservation has content.
func readWish(w http.ResponseWriter, r *http.Request, verb wallet.Verb) (wish reservation, problem result) {
	if verb != wallet.Reserve {
		return reservation{}, refuseContent(w, r)
	}
	content, problem := readBody(w, r)
	if problem != "" {
		return reservation{}, problem
	}
	return parseReservation(content)
}

// refuseContent returns the problem of a call that takes no content, and has some.
func refuseContent(w http.ResponseWriter, r *http.Request) (problem result) {
	if httpapi.HasNoContent(w, r) {
		return ""
	}
	return hasBody
}

func readBody(w http.ResponseWriter, r *http.Request) (content []byte, problem result) {
	if r.ContentLength == 0 {
		return nil, ""
	}
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, httpapi.MaxContent))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, bodyTooLarge
	}
	if err != nil {
		return nil, unreadableBody
	}
	return content, ""
}

// reservation is the body of PUT.
type reservation struct {
	coupon    coupon.CouponID
	user      coupon.UserID
	amountWon int64
}

// parseReservation reads one JSON object with exactly three members, in any order. Their values are numbers without
// fraction and exponent. Package json alone would accept other spellings of the names, and a member that comes twice.
func parseReservation(content []byte) (wish reservation, problem result) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return reservation{}, noObject
	}
	given := map[string]string{}
	for decoder.More() {
		name, err := decoder.Token()
		var value any
		if err == nil {
			err = decoder.Decode(&value)
		}
		if err != nil {
			return reservation{}, noObject
		}
		member := name.(string) // inside an object, the decoder accepts no other name
		if _, twice := given[member]; twice {
			return reservation{}, memberTwice
		}
		number, _ := value.(json.Number)
		given[member] = number.String() // empty: not a number
	}
	if _, err := decoder.Token(); err != nil {
		return reservation{}, noObject
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return reservation{}, noObject
	}
	return readMembers(given)
}

func readMembers(given map[string]string) (wish reservation, problem result) {
	for member := range given {
		if member != "couponId" && member != "userId" && member != "amountWon" {
			return reservation{}, unknownMember
		}
	}
	var right bool
	if wish.coupon, right = httpapi.ParseID[coupon.CouponID](given["couponId"]); !right {
		return reservation{}, wrongCouponID
	}
	if wish.user, right = httpapi.ParseID[coupon.UserID](given["userId"]); !right {
		return reservation{}, wrongUserID
	}
	var err error
	if wish.amountWon, err = strconv.ParseInt(given["amountWon"], 10, 64); err != nil || wish.amountWon < 1 ||
		wish.amountWon > coupon.MaxWon {
		return reservation{}, wrongAmount
	}
	return wish, ""
}
