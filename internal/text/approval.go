package text

// Messages about approvals by a second person.
var (
	ApprovalNeeded = Message{"이 작업(%v)에는 다른 사람의 승인이 필요합니다. 같은 명령에 --ask를 붙여 승인을 요청한 뒤, 승인되면 --approval 번호를 붙여 다시 실행하세요.",
		"this change (%v) needs the approval of a second person: ask for it with --ask in the same command; once it is approved, run it with --approval and the number."}
	ApprovalNotGiven = Message{"승인 요청 %d번의 상태가 %v이므로 실행할 수 없습니다. APPROVED 상태의 요청만 한 번 실행할 수 있습니다.",
		"approval %d is %v: only one that is APPROVED can be used, once."}
	ApprovalNotOpen = Message{"승인 요청 %d번의 상태가 %v이므로 승인하거나 반려할 수 없습니다. REQUESTED 상태의 요청만 처리할 수 있습니다.",
		"approval %d is %v: only one that is REQUESTED can be approved or refused."}
	ApprovalIsOwn = Message{"승인 요청 %d번은 %s 님이 올린 요청입니다. 자신의 요청은 승인할 수 없으므로 다른 사람이 승인해야 합니다.",
		"approval %d was asked for by %s: another person must approve it."}
	ConsoleNotShared = Message{"콘솔의 MySQL 계정 %s을(를) 정책에서 공용 계정으로 지정하지 않아, 로그인한 사람이 모두 한 사람으로 취급됩니다. 운영 담당자가 `settle policy set --shared-accounts`로 지정한 뒤 다시 승인하세요.",
		"the policy does not call the console's account %s shared, so all who sign in count as one person: let an operator name it with `settle policy set --shared-accounts`, and approve then."}
	PersonNotMapped = Message{"승인 요청 %d번은 %s 님의 요청입니다. 콘솔의 요청을 터미널에서, 또는 터미널의 요청을 콘솔에서 승인하려면 정책에 두 사람이 서로 다른 사람으로 등록되어 있어야 합니다: `settle policy set --person 이름=계정`. 아니면 요청한 곳과 같은 곳에서 승인하세요.",
		"approval %d was asked for by %s. What was asked for at the console is approved at a terminal, and the other way round, only if the policy has both as two persons: `settle policy set --person NAME=ACCOUNT`. Or approve where it was asked for."}
	AccountIsShared = Message{"%s 계정은 여러 사람이 함께 쓰는 계정이므로 승인할 수 없습니다. 자신의 MySQL 계정으로 접속하거나 콘솔에서 승인하세요.",
		"several persons use the account %s, so it cannot approve: connect with an account of your own, or approve at the console."}
	ApprovalOfOther = Message{"승인 요청 %d번은 다른 작업(%v, 쿠폰 %v)에 대한 승인입니다. 승인받은 명령과 똑같이 실행하세요.",
		"approval %d is for something else (%v, coupon %v): give the command the same arguments as approved."}
	ApprovalOfOtherPerson = Message{"승인 요청 %d번은 %s 님의 요청입니다. 요청한 사람만 실행할 수 있습니다.",
		"approval %d was asked for by %s: only the person who asked can use it."}
	ApprovalOfOtherReason = Message{"승인 요청 %d번은 사유 %q로 승인되었습니다. 같은 사유로 실행하세요.",
		"approval %d was given for the reason %q: give the same --reason."}
	ApprovalChanged = Message{"승인 후에 대상이 달라져 승인 요청 %d번은 무효가 되었습니다. 이 명령으로 변경된 내용은 없습니다. 달라진 점(괄호 안은 승인 당시): %s. 다시 승인을 요청하세요.",
		"the plan has changed since approval %d, which is void now; nothing was changed. Now (and as approved): %s. Ask again."}
	RunNotApproved = Message{"이 실행에는 승인이 없거나, 지정한 승인이 다른 작업에 대한 것입니다. 변경된 내용이 없습니다", "nothing was changed: the run has no approval, or one of something else"}
	PreviewChanged = Message{"미리 보기 후에 대상이 달라져 변경하지 않았습니다. 지금의 다이제스트는 %s이고, 미리 보기의 다이제스트는 %s입니다. 미리 보기를 다시 확인하세요",
		"the change is no longer the one that the preview showed, so nothing was changed: its digest is %s now, and was %s. Look at the preview again"}
	NoSuchApproval    = Message{"승인 요청 %v번이 없습니다. settle approvals로 목록을 확인하세요.", "there is no approval %v: settle approvals lists them."}
	NoneIsAlone       = Message{"%s: none은 단독으로만 쓸 수 있습니다: %s", "%s: none stands alone: %s"}
	UnknownAction     = Message{"승인 대상으로 지정할 수 없는 작업입니다: %v. 가능한 값: %s.", "%v is no action that can need an approval: want %s."}
	WrongAmountOfRule = Message{"%v: 금액이 잘못되었습니다. %v:1000000처럼 0 이상의 원 단위 정수를 쓰세요. 할인 총액이 이 금액보다 크면 승인이 필요합니다.",
		"%v has no usable amount: want whole won of 0 or more, such as %v:1000000. Above it, the action needs an approval."}
	ActionWithoutCost = Message{"%v에는 금액을 지정할 수 없습니다. 금액을 쓸 수 있는 작업: %s.", "%v has no cost, so it takes no amount: those that do are %s."}
	ActionNamedTwice  = Message{"%v은(는) 한 번만 지정할 수 있습니다.", "%v stands more than once."}
	UnknownAccount    = Message{"%q은(는) 알려진 MySQL 계정이 아닙니다. 철자를 확인하세요. 아직 아무 작업도 하지 않은 계정은 모든 계정을 볼 수 있는 관리자 계정으로 접속하여 지정하세요.",
		"%q is no known account of MySQL: check the spelling. An account that has not changed anything yet can be named by an administrator, who sees all accounts."}
	WrongPerson = Message{"%q은(는) 사용할 수 없습니다. kim@example.com=jajeong_kim처럼 콘솔에 로그인하는 이름과 그 사람만 쓰는 MySQL 계정을 지정하세요. 이름과 계정은 한 번씩만 쓸 수 있습니다.",
		"%q is not usable: want the name at the console and the MySQL account of this person alone, such as kim@example.com=jajeong_kim. Each name and each account stands once."}
	TooManyAccounts = Message{"공용 계정과 담당자는 각각 모두 합쳐 %d자까지 지정할 수 있습니다.", "the shared accounts, and the persons, may have %d characters together."}

	RetryNeedsRun = Message{"이 재시도는 검토 중이 아닌 신청 %d건에도 쿠폰을 발급하므로, 수동 실행과 같은 승인이 필요합니다. `settle run --ask`로 승인받아 먼저 정산한 뒤 다시 실행하세요. 변경된 내용이 없습니다.",
		"this retry would also issue to %d applications that are not under review, which needs the approval of a run: settle them first with `settle run --ask`, and retry then. Nothing was changed."}
	AskForOneUser = Message{"--ask에는 --user를 한 명만 지정할 수 있습니다. 여러 명이면 --file이나 --cause를 쓰세요.",
		"--ask takes one --user: give --file for several, or --cause."}

	NothingToApprove = Message{"바뀌는 것이 없어 승인을 요청하지 않았습니다.", "Nothing would change: no approval was asked for."}
	ApprovalAsked    = Message{"승인 요청 %d번을 올렸습니다. 다른 사람이 `settle approve %d`로 승인하면, --ask 대신 --approval %d를 붙여 같은 명령을 실행하세요.",
		"Approval %d is asked for. Another person gives it with `settle approve %d`. Then run the same command with --approval %d instead of --ask."}
	ApprovalAskedOnPage = Message{"승인 요청을 올렸습니다. 승인 목록에서 번호를 눌러 진행 상황을 확인하세요. 다른 사람이 승인하면 그 화면에서 실행할 수 있습니다.",
		"The approval is asked for. Its number above leads to its page; once another person has approved it, it can be carried out there."}
	ApproveNeedsYes = Message{"터미널이 아닌 환경에서는 `settle approvals %d`로 내용을 확인한 뒤 --yes를 붙여 승인하세요.",
		"without a terminal, look at `settle approvals %d` first, and approve with --yes."}
	AskApprove    = Message{"이대로 승인할까요?", "Approve this?"}
	NeedOneCoupon = Message{"승인은 쿠폰 하나, 지난 기준 시각 하나에 대해 요청합니다: --coupon 하나와 --date 또는 --cutoff를 지정하세요.",
		"an approval is for one coupon and a cutoff that does not move: give one --coupon, and --date or --cutoff."}

	PlannedChange = Message{"쿠폰 %d %s: 다음과 같이 바뀝니다. 아직 변경된 내용은 없습니다.", "coupon %d %s would change as follows. Nothing was changed."}

	NoApprovals        = Message{"승인 요청이 없습니다.", "There are no approvals."}
	ApprovalIs         = Message{"승인 요청 %d번: %s, 작업 %s, 쿠폰 %d, 요청한 사람 %s, 사유: %s", "Approval %d: %s, %s of coupon %d, asked for by %s: %s"}
	ApprovalOfCreation = Message{"승인 요청 %d번: %s, 새 쿠폰 생성, 요청한 사람 %s, 사유: %s", "Approval %d: %s, a new coupon, asked for by %s: %s"}
	ApprovalCost       = Message{"이로써 늘어나는 최대 할인 총액: %s원", "It makes discounts of up to %s won possible."}
	PolicyAbove        = Message{" %s원 초과", " above %s won"}
	ApprovalOfPolicy   = Message{"승인 요청 %d번: %s, 승인 정책 변경, 요청한 사람 %s, 사유: %s", "Approval %d: %s, a change of the policy, asked for by %s: %s"}
	ApprovalUser       = Message{"대상 고객번호: %d", "of user %d"}
	ApprovalArgument   = Message{"요청 조건 - %s: %s", "with %s: %s"}
	ApprovalDigest     = Message{"%s (%s까지 유효)", "%s (good until %s)"}
	ApprovalDecided    = Message{"처리한 사람 %s, %s: %s", "decided by %s at %s: %s"}
	ApprovalVoided     = Message{"%s에 실행하려 했을 때 대상이 바뀌어 무효가 되었습니다. 그때의 내용:", "void since %s, when the plan had changed. It was then:"}
	ApprovalVoidChange = Message{"  %s: 그때는 %s → %s", "  %s: then %s → %s"}
	ApprovalUsedAt     = Message{"%s에 실행되었습니다.", "used at %s."}
	PolicyEmpty        = Message{"승인이 필요한 작업이 없습니다.", "No action needs an approval."}
	PolicyNames        = Message{"승인이 필요한 작업: %s", "These actions need an approval: %s"}
	PolicyShared       = Message{"승인할 수 없는 공용 계정: %s", "These shared accounts cannot approve: %s"}
	PolicyPersons      = Message{"콘솔 담당자와 MySQL 계정: %s", "Persons at the console and their MySQL accounts: %s"}
	NightsOfZone       = Message{"야간 정산의 시간대: %s", "Time zone of the nights: %s"}
	PolicySetBy        = Message{"정책 %d판, 설정한 사람 %s, %s: %s", "version %d, set by %s at %s: %s"}

	ColumnApproval   = Message{"승인", "approval"}
	ColumnAskedBy    = Message{"요청한 사람", "asked by"}
	ColumnApprovedBy = Message{"처리한 사람", "decided by"}
	ColumnExpires    = Message{"유효 기한", "good until"}
	ColumnChange     = Message{"바뀌는 것", "what changes"}
	ColumnBefore     = Message{"이전", "before"}
	ColumnAfter      = Message{"이후", "after"}
)
