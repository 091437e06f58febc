package text

import "net/http"

// ConsoleWords are the fixed words of the console's pages, by the names that the templates use.
var ConsoleWords = map[string]Message{
	"jajeong":     {"자정 콘솔", "Jajeong console"},
	"skip":        {"본문으로 건너뛰기", "Skip to the content"},
	"dev":         {"개발 모드입니다. 로그인 없이 접속한 담당자:", "Development: there is no sign-in. The user is"},
	"menu":        {"메뉴", "Menu"},
	"tonight":     {"오늘 밤", "Tonight"},
	"coupons":     {"쿠폰", "Coupons"},
	"runs":        {"실행 목록", "Runs"},
	"report":      {"보고서", "Report"},
	"dlq":         {"검토 중", "Under review"},
	"approvals":   {"승인", "Approvals"},
	"search":      {"고객, 주문, 쿠폰 찾기", "Find a customer, an order or a coupon"},
	"searchFor":   {"고객번호, 주문번호, 쿠폰 번호, 접수증", "user id, order id, coupon id or receipt"},
	"find":        {"찾기", "Find"},
	"signOut":     {"로그아웃", "Sign out"},
	"command":     {"터미널에서는:", "In a terminal:"},
	"table":       {"표", "Table"},
	"required":    {"(필수)", "(required)"},
	"reason":      {"사유 (티켓 번호 등, 기록에 남습니다)", "Reason, such as a ticket; it is recorded"},
	"remark":      {"의견 (기록에 남습니다)", "Remark; it is recorded"},
	"ask":         {"이 작업에는 다른 사람의 승인이 필요합니다. 요청하면 위 내용 그대로 승인 목록에 올라갑니다.", "This change needs the approval of another person. It is asked for as shown above."},
	"askButton":   {"승인 요청", "Ask for approval"},
	"approve":     {"위 내용 그대로 승인", "Approve what is shown above"},
	"refuse":      {"반려", "Refuse"},
	"use":         {"승인받은 내용 실행", "Carry out what was approved"},
	"changes":     {"변경", "Changes"},
	"change":      {"입력한 값 바꾸기", "Change the values"},
	"next":        {"다음 야간 실행", "Next nightly run"},
	"last":        {"지난 야간 실행", "Last nightly run"},
	"none":        {"기록이 없습니다", "none yet"},
	"nothingOpen": {"지금 신청을 받고 있거나 정산을 기다리는 쿠폰이 없습니다.", "No coupon takes applications or waits for a run."},
	"jobs":        {"최근 작업", "Last changes"},
}

// ConsoleTitles are the titles of pages that refuse something.
var ConsoleTitles = map[int]Message{
	http.StatusOK:                  {"콘솔", "Console"},
	http.StatusBadRequest:          {"입력을 확인해 주세요", "Please check what was entered"},
	http.StatusUnauthorized:        {"로그인이 필요합니다", "Please sign in"},
	http.StatusForbidden:           {"권한이 없습니다", "Not permitted"},
	http.StatusNotFound:            {"찾을 수 없습니다", "Not found"},
	http.StatusConflict:            {"내용이 바뀌었습니다", "It has changed"},
	http.StatusUnprocessableEntity: {"처리할 수 없습니다", "Not possible"},
	http.StatusServiceUnavailable:  {"지금은 사용할 수 없습니다", "Not available now"},
}

// Messages of the console.
var (
	ConsoleBegin         = Message{"처음으로", "To the first page"}
	ConsoleServerAway    = Message{"서버에 연결할 수 없어 내용을 보여 드리지 못합니다. 잠시 뒤 다시 시도하세요. (%s)", "A server does not answer. Try again in a moment. (%s)"}
	ConsoleWrong         = Message{"처리하지 못했습니다: %v", "This was not possible: %v"}
	ConsoleNoRight       = Message{"이 화면이나 작업에 필요한 역할이 없습니다. 필요하면 관리자에게 요청하세요.", "Your role does not include this page or change. Ask an administrator if you need it."}
	ConsoleNoPage        = Message{"주소에 해당하는 화면이 없습니다.", "There is no page at this address."}
	ConsoleNoJob         = Message{"이 작업의 기록이 없습니다. 콘솔이 다시 시작되었다면 실행 목록과 쿠폰의 변경 이력에서 결과를 확인하세요.", "There is no such job. If the console was restarted, look for the result among the runs and in the history of the coupon."}
	ConsoleSearchWhat    = Message{"고객번호, 주문번호, 쿠폰 번호, 실행 번호, 접수증 중 하나를 입력하세요.", "Enter a user id, an order id, a coupon id, a run or a receipt."}
	ConsoleWrongField    = Message{"‘%s’ 항목에 사용할 수 없는 값입니다: %q", "“%s” is %q, which is not usable."}
	ConsoleReasonMissing = Message{"사유를 입력하세요. 변경된 내용이 없습니다.", "Enter a reason. Nothing was changed."}
	ConsoleNoPreview     = Message{"미리 보기를 먼저 확인하세요. 변경된 내용이 없습니다.", "Look at the preview first. Nothing was changed."}
	ConsoleBusy          = Message{"실행 중인 작업이 많습니다. 끝난 뒤 다시 시도하세요. 변경된 내용이 없습니다.", "Too many jobs are running. Try again when some have ended. Nothing was changed."}
	ConsoleOtherDigest   = Message{"화면에 있던 내용과 요청이 다릅니다. 승인하지 않았습니다. 화면을 다시 열어 확인하세요.", "The request is not what the page showed, and was not approved. Open the page again."}

	ConsoleAll        = Message{"전체", "all"}
	ConsoleShow       = Message{"보기", "Show"}
	ConsoleNext       = Message{"다음 목록", "Next page"}
	ConsoleBack       = Message{"돌아가기", "Back"}
	ConsolePreview    = Message{"미리 보기", "Preview"}
	ConsoleNight      = Message{"영업일", "Business date"}
	ConsoleDay        = Message{"날짜", "Day"}
	ConsoleMonth      = Message{"월 (예: 2026-11)", "Month, such as 2026-11"}
	ConsoleReportPage = Message{"인쇄용 보고서", "Report to print"}
	ConsoleCut        = Message{"앞의 %d건만 보여 줍니다(전체 %d건). 나머지는 CSV로 받으세요.", "Only the first %d of %d are shown. The CSV file has all."}

	ConsoleTonight      = Message{"오늘 밤", "Tonight"}
	ConsoleCoupons      = Message{"쿠폰", "Coupons"}
	ConsoleCoupon       = Message{"쿠폰 %d번", "Coupon %d"}
	ConsoleRunsOfCoupon = Message{"이 쿠폰의 실행", "Runs of this coupon"}
	ConsoleChain        = Message{"감사 기록 %d건, 마지막 기록의 해시 %s", "%d audit events; the chain ends with %s"}
	ConsoleWinners      = Message{"발급받은 고객", "Winners"}
	ConsoleWinnersOf    = Message{"쿠폰 %d번을 발급받은 고객", "Winners of coupon %d"}
	ConsoleRuns         = Message{"실행 목록", "Runs"}
	ConsoleRun          = Message{"실행 #%d", "Run %d"}
	ConsoleReport       = Message{"보고서", "Report"}
	ConsoleDLQ          = Message{"검토 중인 신청", "Applications under review"}
	ConsoleDLQOf        = Message{"쿠폰 %d번의 검토 중인 신청", "Applications of coupon %d under review"}
	ConsolePerson       = Message{"고객 %d번", "Customer %d"}
	ConsolePersonText   = Message{"고객 %s번", "Customer %s"}
	ConsoleOtherCoupon  = Message{"다른 쿠폰 번호로 조회", "Another coupon, by its number"}
	ConsoleForget       = Message{"개인정보 삭제 요청은 개인정보 담당자에게 전달하세요. 담당자는 `settle user forget --user %s`로 처리합니다.", "Pass a request for deletion on to the privacy team, who use `settle user forget --user %s`."}
	ConsoleExplain      = Message{"고객 %d번과 쿠폰 %d번", "Customer %d and coupon %d"}
	ConsoleSearch       = Message{"찾은 결과", "What was found"}
	ConsoleOrder        = Message{"주문 %s: 고객 %d번이 쿠폰 %d번을 사용", "Order %s: customer %d with coupon %d"}
	ConsoleNothingFound = Message{"‘%s’(으)로 찾은 것이 없습니다. 고객번호, 주문번호, 쿠폰 번호, 실행 번호로 찾을 수 있습니다.", "Nothing was found for “%s”: neither a customer, an order, a coupon nor a run."}

	ConsolePause       = Message{"신청 일시 중지", "Pause applications"}
	ConsoleResume      = Message{"신청 재개", "Resume applications"}
	ConsoleFreeze      = Message{"발급 동결", "Freeze"}
	ConsoleUnfreeze    = Message{"발급 동결 해제", "Unfreeze"}
	ConsoleClose       = Message{"지금 마감", "Close now"}
	ConsoleRecount     = Message{"발급 수 다시 세기", "Recount"}
	ConsoleCreate      = Message{"쿠폰 만들기", "Create a coupon"}
	ConsoleEdit        = Message{"쿠폰 내용 변경", "Change the coupon"}
	ConsoleAnother     = Message{"이 쿠폰처럼 새로 만들기", "Create one like this"}
	ConsoleCadence     = Message{"발급 방식 변경", "Change the cadence"}
	ConsoleExtend      = Message{"신청 기간 연장", "Extend"}
	ConsoleAddSeats    = Message{"수량 추가", "Add seats"}
	ConsoleRestore     = Message{"유실된 신청 복구", "Restore lost applications"}
	ConsoleRunAgain    = Message{"수동 실행", "Run a settlement"}
	ConsoleRetry       = Message{"검토 중인 신청 재시도", "Retry applications under review"}
	ConsoleDrop        = Message{"검토 중인 신청을 거절로 종료", "Reject applications under review"}
	ConsoleSameFile    = Message{"미리 본 것과 같은 파일을 다시 선택하세요. 명단은 저장하지 않습니다.", "Choose the file of the preview again: lists are not stored."}
	ConsoleNoFile      = Message{"파일을 선택하세요.", "Choose a file."}
	ConsoleFileMissing = Message{"승인받은 명단 파일을 선택하세요.", "Choose the file of the list that was approved."}
	ConsoleOneUpload   = Message{"이 계정으로 보낸 다른 명단이나 다른 사람들의 명단 네 개를 읽고 있습니다. 잠시 후 다시 시도하세요.", "Another list of yours is being read, or four lists of others. Try again in a moment."}
	ConsoleGrantList   = Message{"명단으로 쿠폰 지급", "Give the coupon to a list"}
	ConsoleGrant       = Message{"쿠폰 지급", "Give a coupon"}
	ConsoleRevoke      = Message{"쿠폰 회수", "Revoke"}
	ConsoleUnuse       = Message{"사용 취소", "Undo the use"}
	ConsoleReissue     = Message{"회수한 쿠폰 되돌려 주기", "Give it back"}
	ConsoleExtendUser  = Message{"유효 기한 연장", "Extend the validity"}
	ConsoleHonour      = Message{"접수증으로 신청 복구", "Honour a receipt"}
	ConsoleSetPolicy   = Message{"승인 정책 변경", "Set the policy"}

	ConsoleOneByOne = Message{"정산은 쿠폰마다 따로 실행합니다. 표에서 쿠폰 번호를 눌러 하나씩 확인하고 실행하세요.", "Each coupon is settled by itself: follow the number of a coupon in the table."}
	ConsoleAsk      = Message{"승인 요청: %s", "Ask for approval: %s"}
	ConsoleWorking  = Message{"실행 중입니다(%s에 시작, 지금까지 %s건). 이 화면을 떠나도 계속됩니다.", "Working since %s; so far %s. Leaving this page stops nothing."}
	ConsoleDone     = Message{"끝났습니다.", "Done."}
	ConsoleNotDone  = Message{"끝까지 처리하지 못했습니다. 아래 내용을 확인하세요. (종료 코드 %d)", "Not everything was done. See below. (exit code %d)"}

	ConsoleApprovals    = Message{"승인", "Approvals"}
	ConsoleApproval     = Message{"승인 요청 %d번", "Approval %d"}
	ConsolePolicy       = Message{"승인 정책", "Policy of approvals"}
	ConsoleApprove      = Message{"승인", "Approve"}
	ConsoleRefuse       = Message{"반려", "Refuse"}
	ConsoleWaitForOther = Message{"다른 사람의 승인을 기다리고 있습니다.", "This waits for the approval of another person."}
	ConsoleOpenRequests = Message{"승인을 기다리는 요청만", "only those that wait"}
	ConsoleToApprove    = Message{"승인을 기다리는 요청 %d건", "%d requests wait for approval"}
	ConsoleListBegun    = Message{"이 승인으로 지급을 시작했습니다. 중단되었다면 같은 파일로 다시 실행하세요. 남은 고객에게만 지급합니다.", "Giving by this approval has begun. If it was interrupted, carry it out again with the same file: only the others get the coupon."}
	ConsoleMayUse       = Message{"승인되었습니다. 아래 단추를 누르면 승인받은 내용 그대로 실행됩니다.", "This is approved. The button below carries out exactly what was approved."}

	ConsoleDue           = Message{"신청을 받고 있거나 정산을 기다리는 쿠폰", "Coupons that take applications or wait for a run"}
	ConsoleJournal       = Message{"신청 사본(저널)", "Journal"}
	ConsoleJournalNone   = Message{"아직 없음", "none yet"}
	ConsoleJournalWhole  = Message{"모두 있음", "complete"}
	ConsoleJournalBehind = Message{"%v 뒤처짐", "%v behind"}
	ConsoleLastNight     = Message{"실행 #%d, %s, %s, 발급 %d장", "run %d, %s, %s, issued %d"}
	ConsoleNightBad      = Message{"지난 야간 실행이 쿠폰을 모두 정산하지 못했습니다. 실행 화면에서 원인을 확인하세요.", "The last nightly run did not settle everything. Its page says why."}
	ConsoleRedisAway     = Message{"Redis에 연결할 수 없어 대기와 검토 건수를 알 수 없습니다: %s", "Redis does not answer, so the queues are not known: %s"}
	ConsoleGap           = Message{"쿠폰 %d %s: 접수한 신청 %d건을 찾을 수 없습니다. 정산이 보류됩니다.", "Coupon %d %s: %d accepted applications cannot be found. Runs hold it."}
	ConsoleKeptOpen      = Message{"쿠폰 %d %s: 마감된 지 %d일이 지났는데 종결되지 않았습니다. 검토 중인 신청이나 보류된 정산이 있는지 확인하세요.", "Coupon %d %s closed %d days ago and is not finalised. Look for applications under review, and for runs that hold it."}
	ConsoleMoreDue       = Message{"처음 %d개만 보여 줍니다.", "Only the first %d are shown."}
	ConsoleJob           = Message{"%s, %s에 시작: %s", "%s, begun %s: %s"}
	ConsoleLastSign      = Message{"마지막으로 확인된 시각", "last sign of life"}
	ConsoleWorked        = Message{"처리한 건수", "worked on"}
	ConsoleDigest        = Message{"미리 보기의 다이제스트", "digest of the preview"}
	ConsoleCurve         = Message{"신청 %s건, 가장 많을 때 %s건(구간 %v)", "%s applications, at most %s in %v"}
)

// ConsoleJobStates says how far a job is, by its state.
var ConsoleJobStates = map[string]Message{
	"RUNNING":     {"실행 중입니다.", "It is running."},
	"DONE":        {"끝났습니다.", "Done."},
	"REFUSED":     {"거절되었습니다. 아무것도 변경하지 않았습니다.", "It was refused. Nothing was changed."},
	"FAILED":      {"실패했습니다. 같은 요청을 다시 보내도 안전합니다.", "It failed. The same request again is safe."},
	"INTERRUPTED": {"프로세스가 중단되어 끝내지 못했습니다. 같은 요청을 다시 보내도 안전합니다.", "Its process has died before the end. The same request again is safe."},
}
