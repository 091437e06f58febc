package cli

import (
	"strings"
	"time"

	"github.com/jajeong/jajeong/internal/explain"
)

// What is read out to customers: no codes, and nothing that may prove false.

// stateWords are told of the application, behind when it was made.
var stateWords = map[explain.State]words{
	explain.StateAppliedUnseen: {"신청이 접수된 것은 확인되지만 결과는 지금 확인할 수 없습니다. 잠시 후 다시 확인해 주세요.",
		"the application was received, but its result cannot be looked up at the moment. Please ask again a little later."},
	explain.StateHolderNoMore: {"당시 이미 이 쿠폰을 가지고 계셔서 추가로 발급되지 않았습니다. 지금은 가지고 계신 기록이 없어 담당자의 확인이 필요합니다.",
		"no second coupon was given, since the customer held this coupon then. There is no record that they hold it now, so somebody has to look into it."},
	explain.StateWaitingSettling: {"지금 정산이 진행되고 있으며 아직 결과가 나오지 않았습니다. 잠시 후 다시 확인해 주세요.",
		"a settlement is under way and there is no result yet. Please ask again a little later."},
	explain.StateWaitingRunFailed: {"예정되었던 정산이 정상적으로 끝나지 않아 아직 결과가 나오지 않았습니다. 신청은 접수하신 순서 그대로 대기 중이며, 다음 정산의 대상입니다.",
		"the settlement that was due did not come to its end, so there is no result yet. The application is waiting in its place and is in line for the next settlement."},
	explain.StateWaitingHeld: {"이 쿠폰의 접수 기록에 확인이 필요한 부분이 있어 정산이 보류된 상태입니다. 신청은 접수하신 순서 그대로 대기 중이며, 확인이 끝나야 정산할 수 있습니다.",
		"the settlement of this coupon is on hold, since some of its records have to be checked first. The application is waiting in its place and can be settled only after that."},
	explain.StateWaitingOver: {"신청은 대기 중이지만 이 쿠폰의 정기 정산은 이미 끝났습니다. 담당자가 정산을 다시 진행해야 결과가 나옵니다.",
		"the application is waiting, but the regular settlements of this coupon are over. Somebody has to settle it once more before there is a result."},
	explain.StateReviewUnknownUser: {"회원 정보를 찾을 수 없어 발급이 보류되었습니다.",
		"no coupon could be given, since no such customer was found."},
	explain.StateReviewInactiveUser: {"정산 당시 계정이 이용할 수 없는 상태여서 발급이 보류되었습니다.",
		"no coupon could be given, since the account could not be used at the time."},
	explain.StateReviewPassedOver: {"차례가 되었을 때 쿠폰이 발급되지 못해 검토 중입니다. 수량이 생기면 더 늦게 신청하신 분들보다 순서가 앞섭니다.",
		"no coupon could be given when its turn came, and it is under review. When a coupon becomes free, it comes before everybody who applied later."},
	explain.StateReviewBadRow: {"시스템 오류로 쿠폰을 저장하지 못해 검토 중입니다.",
		"a fault in our system kept the coupon from being stored, and the application is under review."},
	explain.StateReviewDatabaseAway: {"정산 중 시스템 장애로 처리되지 못해 검토 중입니다.",
		"our system was not available at the settlement, and the application is under review."},
	explain.StateReviewOther: {"정상적으로 처리되지 못해 검토 중입니다.",
		"it could not be settled in the usual way, and is under review."},
}

// userWords are told of the user, where there is no application to speak of.
var userWords = map[explain.State]words{
	explain.StateUnknown: {"지금은 %d번 고객님의 신청 내역을 확인할 수 없습니다. 잠시 후 다시 확인해 주세요.",
		"Whether customer %d has applied cannot be looked up at the moment. Please ask again a little later."},
	explain.StateIssuedUnseen: {"%d번 고객님은 이 쿠폰을 발급받으신 것으로 확인됩니다. 자세한 내용은 지금 확인할 수 없으니 잠시 후 다시 확인해 주세요.",
		"Customer %d has been given this coupon. The details cannot be looked up at the moment; please ask again a little later."},
	explain.StateRejectedUnseen: {"%d번 고객님의 신청이 발급 대상에서 제외된 기록이 있습니다. 현재 상태는 지금 확인할 수 없으니 잠시 후 다시 확인해 주세요.",
		"There is a record that an application of customer %d was declined. How things stand now cannot be looked up at the moment; please ask again a little later."},
	explain.StateNeverPaused: {"%d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 지금은 신청 접수가 잠시 중단되어 있습니다.",
		"There is no record that customer %d applied for this coupon. Applications are paused at the moment."},
	explain.StateNeverSoldOut: {"%d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 준비된 수량이 모두 배정되어 지금은 새 신청을 받지 않고 있습니다.",
		"There is no record that customer %d applied for this coupon. All coupons are taken, and no new applications are accepted at the moment."},
	explain.StateNeverAdded: {"%d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 수량이 남아 있지만 다음 정산이 끝날 때까지는 새 신청을 받지 않습니다.",
		"There is no record that customer %d applied for this coupon. Coupons are left, but no new applications are accepted until the next settlement is done."},
	explain.StateNoSuchUser: {"%d번 회원 정보를 찾을 수 없으며, 이 번호로 쿠폰을 신청한 기록도 없습니다.",
		"There is no customer %d, and no record of an application under that number."},
	explain.StateNotSure: {"%d번 고객님이 이 쿠폰을 신청하신 기록은 찾을 수 없습니다. 다만 유실된 신청이 있는지 확인할 수 없어, 신청하지 않으셨다고 확실히 말씀드릴 수는 없습니다.",
		"No record was found that customer %d applied for this coupon. But whether applications were lost cannot be told, so it is not certain that there was none."},
	explain.StateContradiction: {"%d번 고객님의 쿠폰 기록이 서로 맞지 않아 담당자의 확인이 필요합니다.",
		"The records about customer %d and this coupon contradict each other; somebody has to look into it."},
}

var noteWords = map[explain.Note]words{
	explain.NoteUsed:          {"이미 사용하신 쿠폰입니다.", "The coupon has been used."},
	explain.NoteRevoked:       {"이 쿠폰은 발급 후 회수되었습니다.", "The coupon was withdrawn afterwards."},
	explain.NoteTriedAgain:    {"다음 정산의 대상이며, 먼저 신청하신 순서대로 처리됩니다.", "It is in line for the next settlement, which goes in the order of application."},
	explain.NotePersonDecides: {"어떻게 할지는 담당자가 결정해야 합니다.", "Somebody in charge has to decide about it."},
	explain.NoteCouponHeld: {"다만 이 쿠폰의 접수 기록에 확인이 필요한 부분이 있어 정산이 보류된 상태입니다.",
		"But the settlement of this coupon is on hold, since some of its records have to be checked first."},
	explain.NoteCouponOver: {"이 쿠폰의 정기 정산은 이미 끝나, 담당자가 정산을 다시 진행해야 결과가 나옵니다.",
		"The regular settlements of this coupon are over, so somebody has to settle it once more before there is a result."},
	explain.NoteNoSeatLeft: {"지금은 남은 수량이 없습니다.", "No coupons are left at present."},
	explain.NoteAccountInactive: {"현재 계정이 이용할 수 없는 상태이며, 이 상태로는 쿠폰이 발급되지 않습니다.",
		"The account cannot be used at present, and no coupon is given to it as it is."},
	explain.NoteAccountUnknown: {"현재 이 번호의 회원 정보를 찾을 수 없으며, 이 상태로는 쿠폰이 발급되지 않습니다.",
		"There is no customer with this number at present, and no coupon is given as it is."},
	explain.NoteAccountActive:      {"현재 계정은 정상입니다.", "The account is in order now."},
	explain.NoteAlsoUnderReview:    {"이와 별도로 검토 중인 신청이 한 건 더 있습니다.", "Besides, another application of theirs is under review."},
	explain.NoteAlsoStanding:       {"아직 남아 있는 다른 신청은 한 분께 한 장만 발급되므로 추가로 발급되지 않습니다.", "Another application of theirs is still open; it brings no second coupon, since there is one for each customer."},
	explain.NoteAppliedAgain:       {"고객님의 다른 신청은 이미 쿠폰을 가지고 계셔서 추가로 발급되지 않았습니다.", "Another application of theirs brought no second coupon, since there is one for each customer."},
	explain.NoteEarlierNotSelected: {"고객님의 다른 신청은 선정되지 않았습니다.", "Another application of theirs was not selected."},
	explain.NoteEarlierRejected:    {"고객님의 다른 신청은 발급 대상에서 제외되었습니다.", "Another application of theirs was declined."},
	explain.NoteLaterUnknown:       {"그 뒤에 다시 신청하셨는지는 지금 확인할 수 없습니다.", "Whether they have applied again since cannot be looked up at the moment."},
	explain.NoteShownOld:           {"앱에는 다음 정산이 끝날 때까지 이전 상태로 보일 수 있습니다.", "The app may show the former state until the next settlement is done."},
}

// sentence is what can be read out.
func (p *program) sentence(f *explain.Facts, c explain.Conclusion) string {
	parts := []string{p.state(f, c)}
	if a := c.Application; a != nil && a.Review != nil && a.Outcome == "" && a.Review.Attempts > 1 {
		parts = append(parts, p.say(words{"지금까지 %d번 처리를 시도했습니다.", "It has been tried %d times so far."}, a.Review.Attempts))
	}
	for _, n := range c.Notes {
		parts = append(parts, p.noted(f, n))
	}
	return strings.Join(parts, " ")
}

func (p *program) noted(f *explain.Facts, n explain.Note) string {
	switch expires := f.UserCoupon; {
	case n == explain.NoteUsable && expires.ExpiresAt == nil:
		return p.say(words{"사용 기한은 정해져 있지 않습니다.", "It has no date of expiry."})
	case n == explain.NoteUsable:
		return p.say(words{"%s까지 사용하실 수 있습니다.", "It can be used until %s."}, p.instant(*expires.ExpiresAt))
	case n == explain.NoteExpired && (expires.ExpiresAt == nil || expires.ExpiresAt.After(f.At)):
		return p.say(words{"쿠폰의 사용 기한이 지났습니다.", "The coupon has expired."})
	case n == explain.NoteExpired:
		return p.say(words{"쿠폰의 사용 기한은 %s에 지났습니다.", "The coupon expired at %s."}, p.instant(*expires.ExpiresAt))
	default:
		return p.say(noteWords[n])
	}
}

func (p *program) state(f *explain.Facts, c explain.Conclusion) string {
	if w, ok := userWords[c.State]; ok {
		return p.say(w, f.UserID)
	}
	if w, ok := stateWords[c.State]; ok {
		return p.applied(f, c) + p.say(w)
	}
	switch c.State {
	case explain.StateNeverNotOpen, explain.StateNeverOpen, explain.StateNeverClosed, explain.StateMaybeLost:
		return p.neverApplied(f, c.State)
	case explain.StateWaiting:
		return p.applied(f, c) + p.say(words{
			"대기 중인 신청 %[2]d건 가운데 %[1]s입니다. 현재 남은 수량은 %[3]d장이고, 정산은 %[4]s에 예정되어 있으며 먼저 신청하신 순서대로 처리됩니다.",
			"the application is number %[1]s of %[2]d that are waiting. Coupons left at present: %[3]d. The settlement is planned for %[4]s and goes in the order of application."},
			p.nth(c.Application.Position), f.Door.Waiting, f.Coupon.Free(), p.instant(*c.Application.SettlesAt))
	case explain.StateWaitingOverdue:
		return p.applied(f, c) + p.say(words{
			"%s에 예정되었던 정산의 결과가 아직 나오지 않았습니다. 신청은 접수하신 순서 그대로 대기 중입니다.",
			"the settlement was planned for %s, and there is no result yet. The application is waiting in its place."},
			p.instant(*c.Application.SettlesAt))
	case explain.StateIssued, explain.StateIssuedByHand:
		return p.issued(f, c)
	case explain.StateNotSelected, explain.StateSeatsFree, explain.StateSeatsFreeOver:
		return p.applied(f, c) + p.notSelected(f, c.State)
	case explain.StateRejectedByPerson, explain.StateRejectedInactive, explain.StateRejectedUnknown, explain.StateRejectedBadRow, explain.StateRejectedOther:
		return p.applied(f, c) + p.say(rejectedWords[c.State], p.instant(*c.Application.RecordedAt))
	default:
		return ""
	}
}

// applied is how a sentence about an application begins.
func (p *program) applied(f *explain.Facts, c explain.Conclusion) string {
	order := ""
	if c.Application.Order > 0 {
		order = p.say(words{"%s로 ", " as number %s"}, p.nth(c.Application.Order))
	}
	return p.say(words{"%d번 고객님은 %s에 %s신청하셨고, ", "Customer %d applied at %s%s; "}, f.UserID, p.instant(c.Application.AppliedAt), order)
}

func (p *program) neverApplied(f *explain.Facts, s explain.State) string {
	none := p.say(words{"%d번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. ", "There is no record that customer %d applied for this coupon. "}, f.UserID)
	opens, closes := f.Coupon.OpensAt, f.Coupon.ClosesAt
	if f.Door.Known {
		opens, closes = *f.Door.OpensAt, *f.Door.ClosesAt
	}
	switch s {
	case explain.StateMaybeLost:
		return none + p.say(words{"다만 접수된 신청 가운데 %d건의 기록이 유실되어, 신청하지 않으셨다고 확실히 말씀드릴 수는 없습니다.",
			"But records of applications were lost (%d), so it is not certain that there was none."}, f.Gap+f.Coupon.WrittenOff)
	case explain.StateNeverNotOpen:
		return none + p.say(words{"신청은 %s에 시작됩니다.", "Applications open at %s."}, p.instant(opens))
	case explain.StateNeverClosed:
		return none + p.say(words{"신청 기간은 %s에 끝났습니다.", "Applications closed at %s."}, p.instant(closes))
	default:
		return none + p.say(words{"신청 기간은 %s까지입니다.", "Applications close at %s."}, p.instant(closes))
	}
}

func (p *program) issued(f *explain.Facts, c explain.Conclusion) string {
	at := p.instant(f.UserCoupon.IssuedAt)
	switch {
	case c.State == explain.StateIssuedByHand:
		return p.say(words{"%d번 고객님께는 %s에 담당자가 쿠폰을 직접 발급해 드렸습니다.", "Customer %d was given the coupon by a member of our staff at %s."}, f.UserID, at)
	case c.Application == nil:
		return p.say(words{"%d번 고객님께는 %s에 쿠폰이 발급되었습니다.", "Customer %d was given the coupon at %s."}, f.UserID, at)
	default:
		return p.applied(f, c) + p.say(words{"%[1]s에 쿠폰이 발급되었습니다. 전체 %[3]d장 가운데 %[2]s 쿠폰입니다.",
			"the coupon was issued at %s. It is coupon %s of %d."}, at, p.nth(f.UserCoupon.Seat), f.Coupon.Seats)
	}
}

func (p *program) notSelected(f *explain.Facts, s explain.State) string {
	text, later := "", f.Missed.Micros > 0 // how little it was says nothing: those who ask at once are a microsecond apart
	switch {
	case s != explain.StateNotSelected:
		text = p.say(words{"당시 남은 수량이 없어 선정되지 않으셨습니다.", "no coupon was left, so the application was not selected."})
	case later && f.Coupon.ByHand == 0:
		later = false // is said
		text = p.say(words{"%d장이 모두 먼저 신청하신 분들께 발급되어 선정되지 않으셨습니다.",
			"all coupons (%d) went to those who applied earlier, so the application was not selected."}, f.Coupon.Issued)
	default: // some were given by hand, or the last arrival that got one is not known
		text = p.say(words{"%d장이 모두 발급되어 선정되지 않으셨습니다.", "all coupons (%d) are taken, so the application was not selected."}, f.Coupon.Issued)
	}
	if later {
		text += p.say(words{" 마지막으로 받으신 분은 고객님보다 먼저 신청하셨습니다.", " The last one that got a coupon had applied earlier."})
	}
	text += p.say(words{" 선정되지 않으신 분들 가운데 %s이며, ", " It is number %s of those not selected; "}, p.nth(f.Missed.Rank))
	return text + p.say(map[explain.State]words{
		explain.StateNotSelected: {"수량이 추가되어 다시 정산하면 신청하신 순서대로 처리됩니다.",
			"if coupons are added and settled, it goes in the order of application."},
		explain.StateSeatsFree: {"지금은 남은 수량이 %d장 있어 다음 정산에서 신청하신 순서대로 처리될 예정입니다.",
			"those left now (%d) are to be given by the next settlement, in the order of application."},
		explain.StateSeatsFreeOver: {"지금은 남은 수량이 %d장 있어 담당자가 정산을 다시 진행하면 신청하신 순서대로 처리됩니다.",
			"those left now (%d) are given in the order of application once somebody settles the coupon again."},
	}[s], seatsLeft(f, s)...)
}

var rejectedWords = map[explain.State]words{
	explain.StateRejectedByPerson: {"담당자의 검토 결과 %s에 발급 대상에서 제외되었습니다.", "after a review by our staff it was declined at %s."},
	explain.StateRejectedInactive: {"수량이 추가되어 차례가 왔을 때 계정이 이용할 수 없는 상태여서 %s에 발급 대상에서 제외되었습니다.",
		"when coupons were added and its turn came, the account could not be used, so it was declined at %s."},
	explain.StateRejectedUnknown: {"수량이 추가되어 차례가 왔을 때 회원 정보를 찾을 수 없어 %s에 발급 대상에서 제외되었습니다.",
		"when coupons were added and its turn came, no such customer was found, so it was declined at %s."},
	explain.StateRejectedBadRow: {"수량이 추가되어 차례가 왔을 때 시스템 오류로 쿠폰을 저장하지 못해 %s에 발급 대상에서 제외되었습니다.",
		"when coupons were added and its turn came, a fault in our system kept the coupon from being stored, so it was declined at %s."},
	explain.StateRejectedOther: {"%s에 발급 대상에서 제외되었습니다.", "it was declined at %s."},
}

func (p *program) instant(t time.Time) string { return inZone(t, p.zone) }

// nth is a place in an order: nobody says 1번째.
func (p *program) nth(n int64) string {
	if n == 1 {
		return p.say(words{"첫 번째", "1"})
	}
	return p.say(words{"%d번째", "%d"}, n)
}

// seatsLeft is what is told of free seats, where there are any.
func seatsLeft(f *explain.Facts, s explain.State) []any {
	if s == explain.StateNotSelected {
		return nil
	}
	return []any{f.Coupon.Free()}
}
