package text

// Problems with the settings of events.
var (
	NoSinkToPublish = Message{"EVENT_SINK가 none이라 events 작업은 할 일이 없습니다. EVENT_SINK에 redis 또는 kafka를 지정하거나 다른 작업을 고르세요",
		"the task events has nothing to do, because EVENT_SINK is none: set it to redis or kafka, or choose other tasks"}
	WrongEventRetention = Message{"EVENT_RETENTION이 %s입니다. %s부터 %s까지 가능합니다. 예: 24h",
		"EVENT_RETENTION is %s: want %s to %s, such as 24h"}
	EventAddrsMissing = Message{"%s를 지정하려면 EVENT_REDIS_ADDRS도 지정해야 합니다. EVENT_REDIS_ADDRS가 없으면 REDIS_ADDRS 등 신청을 저장하는 Redis의 설정을 모두 그대로 사용합니다",
		"%s needs EVENT_REDIS_ADDRS, too: without it, events go to the Redis of the applications by REDIS_ADDRS and its other settings"}
)
