package text

// field has the words of an input of a form.
type field struct{ label, hint Message }

// fields holds the words of the arguments and flags that people enter into forms. The key is the path of the verb and
// the name, or only the name if it means the same in all verbs.
var fields = map[string]field{
	"coupon":              {ColumnCoupon, Message{}},
	"user":                {ColumnUser, Message{}},
	"cause":               {ColumnCause, Message{}},
	"cadence":             {ColumnCadence, Message{}},
	"name":                {Message{"쿠폰명", "Name"}, Message{}},
	"opens":               {Message{"신청 시작 시각", "Applications from"}, Message{}},
	"closes":              {Message{"신청 마감 시각", "Applications until"}, Message{}},
	"coupon create seats": {ColumnSeats, Message{}},
	"discount-won": {Message{"할인액(원)", "Discount in won"},
		Message{"할인액, 또는 할인율과 최대 할인액을 입력합니다. 모두 비우거나 0이면 할인이 없는 쿠폰입니다.", "A discount in won, or one in percent with its highest amount; neither: a coupon without a discount."}},
	"discount-percent": {Message{"할인율(%)", "Discount in percent"}, Message{}},
	"discount-max-won": {Message{"최대 할인액(원)", "Highest discount in won"}, Message{}},
	"minimum-won":      {Message{"최소 주문 금액(원)", "Smallest order in won"}, Message{}},
	"validity-days":    {Message{"유효 일수", "Days of validity"}, Message{}},
	"campaign":         {Message{"캠페인 번호", "Campaign"}, Message{}},
	"line-limit": {Message{"대기열 한도", "Line limit"},
		Message{"이만큼 대기 중이면 새 신청을 받지 않습니다. 비워 두면 한도가 없습니다.", "While so many wait, nobody joins; empty: no limit."}},
	"coupon extend closes":   {Message{"새 마감 시각", "New end"}, Message{}},
	"coupon add-seats seats": {Message{"추가할 수량", "Seats to add"}, Message{}},
	"coupon change seats":    {ColumnSeats, Message{}},
	"coupon change campaign": {Message{"캠페인 번호", "Campaign"}, Message{"0이면 캠페인 없음", "0: none"}},
	"run coupon":             {ColumnCoupon, Message{"비워 두면 정산할 때가 된 쿠폰을 모두 보여 줍니다", "Empty: every due coupon is shown"}},
	"run date":               {Message{"영업일", "Business date"}, Message{}},
	"accept-gap":             {Message{"찾지 못한 신청의 유실을 인정하고 정산", "Accept the loss of missing applications"}, Message{}},
	"canary": {Message{"먼저 시도할 건수", "Try so many first"},
		Message{"지정한 건수가 모두 정산된 경우에만 나머지를 시도합니다.", "The others are tried only if all of these are settled."}},
	"cutoff": {Message{"정산할 신청", "Settle what has arrived until"}, Message{}},
	"coupon grant file": {Message{"고객 명단", "List of users"},
		Message{"엑셀에서 저장한 CSV(고객번호 한 열, 또는 user_id 열) 또는 NDJSON", "CSV as Excel saves it, with the ids in one column or in the column user_id, or NDJSON"}},
	"free-seat": {Message{"회수한 수량을 다음 순번에 발급", "Give the seat to the next in line"}, Message{}},
	"until":     {Message{"유효한 마지막 날", "Last valid day"}, Message{}},
	"receipt":   {Message{"접수증", "Receipt"}, Message{}},
	"actions": {Message{"승인이 필요한 작업", "Actions that need an approval"},
		Message{"run, accept-gap, create, change, add-seats, close, extend, pause, resume, freeze, unfreeze, cadence, recount, grant, revoke, reissue, extend-user, unuse, honour, drop, restore를 쉼표로 구분합니다. create:1000000이면 최대 할인 총액이 100만 원보다 클 때만 필요합니다. 비워 두면 그대로 두고, 적으면 이전 목록을 대신합니다. 없애려면 none.",
			"run, accept-gap, create, change, add-seats, close, extend, pause, resume, freeze, unfreeze, cadence, recount, grant, revoke, reissue, extend-user, unuse, honour, drop, restore with commas: the whole list. create:1000000 needs one only above a million won of possible discount. Left empty, it stays as it is; none for no action."}},
	"shared-accounts": {Message{"여러 사람이 함께 쓰는 MySQL 계정", "MySQL accounts that several persons use"},
		Message{"비워 두면 그대로 둡니다. 목록을 비우려면 none.", "Left empty, it stays as it is; none makes the list empty."}},
	"person": {Message{"콘솔 담당자와 MySQL 계정", "Persons at the console and their MySQL accounts"},
		Message{"kim@example.com=jajeong_kim처럼 쓰고 쉼표로 구분합니다. 비워 두면 그대로 두고, 적으면 이전 목록을 대신합니다. 목록을 비우려면 none.",
			"Such as kim@example.com=jajeong_kim, separated by commas: the whole list. Left empty, it stays as it is; none makes the list empty."}},
	"zone": {Message{"야간 정산의 시간대", "Time zone of the nights"},
		Message{"Asia/Seoul과 같은 형식입니다. 비워 두면 그대로 둡니다.", "Such as Asia/Seoul. Left empty, it stays as it is."}},
}

// FieldOf returns the label and the hint of an input of a verb's form. A hint may be empty.
func FieldOf(path, name string) (label, hint Message) {
	f, known := fields[path+" "+name]
	if !known {
		f = fields[name]
	}
	return f.label, f.hint
}
