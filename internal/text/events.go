package text

// settle events.
var (
	NothingToReplay = Message{"재발행할 이벤트를 --coupon, --run, --from, --to 중 하나 이상으로 지정하세요",
		"say which events to publish again: --coupon, --run, --from or --to, or several of them"}
	EventsBackwards = Message{"--from %s이 --to %s보다 빠르지 않습니다",
		"--from %s is not before --to %s"}
	NoSinkToReplay = Message{"EVENT_SINK가 none입니다. 이벤트를 받을 곳을 --sink redis 또는 --sink kafka로 지정하세요",
		"EVENT_SINK is none: say where the events go, --sink redis or --sink kafka"}
	ReplayNeedsYes = Message{"이벤트 %d건을 재발행합니다. 터미널이 아닌 환경에서는 --yes를 지정하세요",
		"%d events would be published again: without a terminal, confirm it by --yes"}
	AskReplay = Message{"이벤트 %d건을 %s에 재발행할까요?",
		"Publish %d events again to %s?"}
	Replaying = Message{"재발행 중",
		"publishing again"}
	SinkIsFull = Message{"이벤트를 받을 곳에 여유가 없어 기다립니다: %v",
		"waiting, because the sink takes no events: %v"}
	NoEventsSelected = Message{"조건에 맞는 이벤트가 없습니다.",
		"No event matches the selection."}
	WouldReplay = Message{"쿠폰 %[2]d개의 이벤트 %[1]d건이 재발행 대상입니다. 아무것도 발행하지 않았습니다.",
		"Events that would be published again: %d, of coupons: %d. Nothing was published."}
	Replayed = Message{"쿠폰 %[2]d개의 이벤트 %[1]d건을 원래 id 그대로 재발행했습니다. 이미 처리한 소비자는 중복으로 버립니다.",
		"Events published again: %d, of coupons: %d. They have their own ids: consumers that have them drop them."}
	SinkMayLack = Message{"%s에 %s부터 %s까지 발생한 이벤트가 빠져 있을 수 있습니다. Redis가 데이터를 잃었거나, 스트림이 비워졌거나, 다른 스트림으로 바뀐 경우입니다. 아래 명령을 settle serve와 같은 EVENT_… 설정으로 끝까지 실행하면 이 안내가 사라지며, 소비자는 중복을 무시합니다.",
		"%s may lack events from %s to %s. It lost data, was emptied, or is another stream. A replay of this period, with the EVENT_… settings of settle serve, removes this notice; consumers ignore repeated events:"}
	SinkLacksNothing = Message{"%s에 빠졌을 수 있던 이벤트를 모두 재발행했습니다.",
		"All events that %s may have lacked are published again."}
	ReplayMayBeRepeated = Message{"다시 실행해도 됩니다. 이미 발행된 이벤트는 같은 id로 한 번 더 발행됩니다",
		"it is safe to run it again: what was published is published once more, with the same ids"}

	NoSinkToVerify = Message{"EVENT_SINK가 none입니다. 대조할 곳을 EVENT_SINK=redis 또는 EVENT_SINK=kafka로 지정하세요",
		"EVENT_SINK is none: say where the events are, EVENT_SINK=redis or EVENT_SINK=kafka"}
	ComparingEvents = Message{"대조 중",
		"comparing"}
	EventsMissing = Message{"이벤트 %d건을 MySQL과 대조했습니다. MySQL에 없는 이벤트는 %d건입니다. MySQL이 이전 시점으로 돌아갔거나, 행이 삭제되었습니다. 결제 담당자에게 알리세요. 사용 예약, 사용 확정, 사용 취소는 쇼핑몰이 같은 주문번호로 다시 요청하면 됩니다.",
		"Events compared with MySQL: %d; MySQL lacks: %d. It went back to an earlier instant, or rows were deleted. Call the owner of checkout: the shop repeats the reservations, confirmations and refunds of these orders with the same order ids."}
	NoEventsMissing = Message{"이벤트 %d건을 MySQL과 대조했습니다. 모두 MySQL에 있습니다.",
		"Events compared with MySQL: %d; MySQL has all of them."}
	NoEventsToCompare = Message{"%s에 이 기간의 이벤트가 없습니다.",
		"%s has no events of this period."}
	EventsMissingCut = Message{"처음 %d건만 표시했습니다. 전체 목록: --output json",
		"only the first %d are shown; all of them: --output json"}
	MoreEventsMissing = Message{"MySQL에 없는 이벤트가 %d건을 넘어 대조를 멈췄습니다. 기간을 나눠 다시 실행하세요.",
		"MySQL lacks more than %d events: the comparison stopped there. Repeat it for shorter periods."}
	EventsOfPurged = Message{"이 가운데 %d건은 영구 삭제된 쿠폰의 이벤트입니다.",
		"Of coupons that were purged: %d."}
	UnreadableEvents = Message{"%s에서 쿠폰 이벤트가 아닌 메시지 %d건은 대조하지 않았습니다.",
		"%s has messages that are no events of coupons: %d. They were not compared."}
	SinkCoversFrom = Message{"%s에는 %s부터 들어온 이벤트만 남아 있습니다. 그 전에 발행된 이벤트는 대조하지 못했습니다.",
		"%s has only the events that came to it from %s on. What was published before could not be compared."}
	SinkCoversNothing = Message{"%s에 이벤트가 없거나, 언제부터의 이벤트가 남아 있는지 알 수 없습니다. 사라진 이벤트는 대조하지 못했습니다.",
		"%s has no events, or nobody knows since when it has all of them. What it has no more could not be compared."}

	EventsNeverOn = Message{"이벤트를 발행한 적이 없습니다. EVENT_SINK를 지정하고 settle serve의 events 작업을 실행하면 그때부터 발행합니다.",
		"Events were never turned on. They are from when settle serve runs the task events with EVENT_SINK set."}
	TurningOn = Message{"켜는 중",
		"being turned on"}
	PublishedInPart = Message{"%s: 쿠폰 %d의 정산(실행 #%d)을 발급 순번 %d번까지 발행했습니다.",
		"%s: of coupon %d, the settlement by run %d is published up to seat %d."}
	ConsumersOf = Message{"%s의 소비자 그룹:",
		"Groups of consumers of %s:"}
	ColumnSink = Message{"받는 곳",
		"sink"}
	ColumnOnSince = Message{"발행 시작",
		"on since"}
	ColumnUnpublishedIssued = Message{"미발행 발급",
		"unpublished: issued"}
	ColumnUnpublishedChanges = Message{"미발행 변경",
		"unpublished: changes"}
	ColumnDueSince = Message{"가장 오래된 미발행 시각",
		"oldest due since"}
	ColumnGroup = Message{"그룹",
		"group"}
	ColumnUnread = Message{"읽지 않음",
		"unread"}
	ColumnUnacknowledged = Message{"확인 대기",
		"not acknowledged"}
	ColumnEventType = Message{"이벤트 종류",
		"event type"}
	ColumnEvents = Message{"건수",
		"events"}
	ColumnSource = Message{"이벤트 출처",
		"source"}
	ColumnEventID = Message{"이벤트 id",
		"id"}
	ColumnAmountWon = Message{"주문 금액(원)",
		"amount (won)"}
)
