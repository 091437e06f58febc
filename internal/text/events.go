package text

// settle events.
var (
	NothingToReplay = Message{"재발행할 이벤트를 --coupon, --run, --from, --to 중 하나 이상으로 지정하세요",
		"say which events to publish again: --coupon, --run, --from or --to, or several of them"}
	ReplayBackwards = Message{"--from %s이 --to %s보다 빠르지 않습니다",
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
)
