package text

// Messages about the discount of a coupon.
var (
	WrongPercent = Message{"할인율을 %d%%로 지정할 수 없습니다. 1%%부터 100%%까지 가능합니다",
		"a discount of %d percent: want 1 to 100"}
	WrongDiscountMax = Message{"최대 할인액을 %d원으로 지정할 수 없습니다. 1원부터 %d원까지 가능합니다",
		"a highest discount of %d won: want 1 to %d"}
	PercentNeedsMax = Message{"--discount-percent와 --discount-max-won은 함께 지정해야 합니다",
		"--discount-percent and --discount-max-won need each other"}
	TwoDiscounts = Message{"--discount-won과 --discount-percent 가운데 하나만 지정하세요",
		"want either --discount-won or --discount-percent"}
	WrongMinimum = Message{"최소 주문 금액을 %d원으로 지정할 수 없습니다. 0원부터 %d원까지 가능합니다",
		"a minimum of %d won: want 0 to %d"}
	PercentUpTo = Message{"%d%%, 최대 %d원",
		"%d %%, at most %d won"}
	FromMinimum = Message{", %d원 이상 주문",
		", for orders of %d won or more"}
)
