package api

import (
	"golang.org/x/text/language"

	"github.com/jajeong/jajeong/internal/coupon"
)

// receiptTexts are what a 202 or 200 tells an applicant: a sentence about the application, and one about what follows.
// They promise no coupon: applicants ahead may be refused, and seats may be added or given to others.
type receiptTexts struct {
	accepted, duplicate string
	nightly, immediate  outlook
}

type outlook struct{ within, beyond string }

var (
	koreanReceipts = receiptTexts{
		"신청이 접수되었습니다.",
		"이미 접수된 신청이며, 처음 신청하신 순서가 적용됩니다.",
		outlook{
			" 자정이 지나면 신청 순서대로 발급되며, 지금 순번은 남은 수량 안에 있지만 아직 발급이 확정된 것은 아닙니다.",
			" 자정이 지나면 신청 순서대로 발급되며, 지금 순번은 남은 수량보다 뒤에 있어 앞선 신청이 제외되거나 수량이 늘어야 발급받으실 수 있습니다.",
		},
		outlook{
			" 자정을 기다리지 않고 신청 순서대로 발급되며, 지금 순번은 남은 수량 안에 있지만 아직 발급이 확정된 것은 아닙니다.",
			" 자정을 기다리지 않고 신청 순서대로 발급되며, 지금 순번은 남은 수량보다 뒤에 있어 앞선 신청이 제외되거나 수량이 늘어야 발급받으실 수 있습니다.",
		},
	}
	englishReceipts = receiptTexts{
		"Your application has been received.",
		"Your application had been received before, and counts from when you first applied.",
		outlook{
			" Coupons are issued after midnight in the order of applying: your place is within those left at the moment, which does not promise you one.",
			" Coupons are issued after midnight in the order of applying: your place is behind those left at the moment, so you get one only if applications ahead are refused or coupons are added.",
		},
		outlook{
			" Coupons are issued in the order of applying without waiting for midnight: your place is within those left at the moment, which does not promise you one.",
			" Coupons are issued in the order of applying without waiting for midnight: your place is behind those left at the moment, so you get one only if applications ahead are refused or coupons are added.",
		},
	}
)

// appendDetail appends what to tell an applicant. The texts need no escaping in JSON.
func appendDetail(text []byte, in language.Tag, code result, of coupon.Coupon, withinSeats bool) []byte {
	texts := &koreanReceipts
	if in == language.English {
		texts = &englishReceipts
	}
	what, next := texts.accepted, &texts.nightly
	if code == duplicate {
		what = texts.duplicate
	}
	if of.Immediate() {
		next = &texts.immediate
	}
	if text = append(text, what...); withinSeats {
		return append(text, next.within...)
	}
	return append(text, next.beyond...)
}
