package text

// Problems with the keys of receipts, and with receipts.
var (
	WrongReceiptKey = Message{"RECEIPT_KEYS_FILE의 %d번째 줄이 올바르지 않습니다. 키 id(영문자, 숫자, '.', '_', '-' 32자까지), 비밀 값(%d바이트 이상을 base64로 적은 것. `openssl rand -base64 32`로 만들 수 있음), 그리고 필요하면 이 키를 쓰는 마지막 시각(RFC 3339 형식)을 공백으로 구분해 적으세요",
		"RECEIPT_KEYS_FILE: line %d is wrong: want a key id (up to 32 of A-Z a-z 0-9 . _ -), a space and a secret of at least %d bytes in base64, as `openssl rand -base64 32` prints it; perhaps also a space and the last time of this key, as RFC 3339"}
	ReceiptKeyTwice = Message{"RECEIPT_KEYS_FILE의 %d번째 줄과 %d번째 줄의 키 id가 같습니다. 새 키에는 새 id를 붙이세요",
		"RECEIPT_KEYS_FILE: lines %d and %d have the same key id: give a new key an id of its own"}
	NoReceiptKey = Message{"RECEIPT_KEYS_FILE에 키가 없습니다. 키를 한 줄 추가하세요. 접수증을 발급하지 않으려면 RECEIPT_KEYS_FILE 없이 시작하세요",
		"RECEIPT_KEYS_FILE has no key: add a line with one. For answers without receipts, start without RECEIPT_KEYS_FILE"}
	ReceiptKeyEnded = Message{"RECEIPT_KEYS_FILE의 첫 번째 키는 %s에 사용 기간이 끝났습니다. 서명할 키를 첫 줄에 적으세요",
		"RECEIPT_KEYS_FILE: the time of the first key ended at %s: put the key that signs first"}
	ReceiptKeysMissing = Message{"접수증을 확인하려면 --receipt-keys-file 또는 RECEIPT_KEYS_FILE에 apply-api와 같은 키 파일을 지정하세요",
		"a receipt cannot be checked without its keys: set --receipt-keys-file or RECEIPT_KEYS_FILE to the file that apply-api has"}

	ReceiptForged = Message{"FORGED: 서명이 맞지 않습니다. 위조되었거나 내용이 바뀐 접수증입니다",
		"FORGED: the signature is wrong. Somebody has made or altered this receipt"}
	ReceiptForeignKey = Message{"FOREIGN_KEY: RECEIPT_KEYS_FILE에 id가 %s인 키가 없습니다. 다른 서비스의 접수증이거나, 키가 파일에서 삭제되었습니다",
		"FOREIGN_KEY: RECEIPT_KEYS_FILE has no key %s. The receipt is of another service, or the key was removed from the file"}
	ReceiptExpiredKey = Message{"EXPIRED_KEY: 키 %s의 사용 기간이 끝난 뒤에 서명된 접수증입니다. 예전 키 파일을 쓰는 파드가 서명했거나, 키를 가진 누군가가 만들었습니다",
		"EXPIRED_KEY: the receipt was signed after the time of key %s had ended: by a pod with an old file, or by somebody who has the key"}
	ReceiptMalformed = Message{"MALFORMED: 접수증이 아닙니다. 응답의 receipt 값 전체를 빠짐없이 입력했는지 확인하세요",
		"MALFORMED: this is no receipt. Check that the whole value of receipt was copied"}
)

// What settle receipt says: about the receipt, and then about its application.
var (
	ReceiptUnread = Message{"표준 입력에서 접수증을 읽을 수 없습니다: %v",
		"the receipt cannot be read from standard input: %v"}
	ReceiptChanged = Message{"신청을 조회하는 동안 기록이 바뀌었습니다",
		"the records of the application changed while they were read"}
	ReceiptIsRight = Message{"%[1]d번 고객이 %[2]d번 쿠폰을 %[3]s에 신청한 접수증이 맞습니다.",
		"The receipt is right: user %d applied for coupon %d at %s."}
	ReceiptWaits = Message{"이 신청은 대기 중이며 지금 %s입니다.",
		"The application is waiting, and is number %s in the queue."}
	ReceiptStandsLater = Message{"이 신청은 접수증보다 늦은 %[1]s의 순서로 대기 중이며 지금 %[2]s입니다. `settle receipt honour`를 실행하면 접수증의 순서로 돌아갑니다.",
		"The application is waiting at a later arrival, %[1]s, and is number %[2]s in the queue: `settle receipt honour` moves it to its own."}
	ReceiptUnderReview = Message{"이 신청은 검토 중입니다(사유: %s).",
		"The application is under review: %s."}
	ReceiptIssued = Message{"%[2]s에 쿠폰이 발급되었습니다(발급 순번 %[1]d).",
		"The user got the coupon, with seat %d, at %s."}
	ReceiptByHand = Message{"%s에 담당자가 쿠폰을 직접 지급했습니다.",
		"The user was given the coupon by hand at %s."}
	ReceiptNotSelected = Message{"이 신청은 차례가 되었을 때 남은 수량이 없어 미선정되었습니다.",
		"The application was not selected: no seat was free in turn."}
	ReceiptRejected = Message{"이 신청은 거절되어 종료되었습니다.",
		"The application was rejected for good."}
	ReceiptLost = Message{"이 신청은 Redis에도 MySQL에도 없습니다. 유실된 신청이므로 `settle receipt honour`로 접수증의 순서에 다시 등록하세요.",
		"The application is LOST: neither Redis nor MySQL has it. `settle receipt honour` puts it back at its arrival."}
	ReceiptFinal = Message{"이 신청은 Redis에도 MySQL에도 없고, 쿠폰이 종결되어 다시 등록할 수 없습니다. 고객에게 쿠폰을 주려면 `settle coupon grant %d --user %d` 명령을 실행하세요.",
		"Neither Redis nor MySQL has the application, and the coupon is finalised: nothing can be put back. `settle coupon grant %d --user %d` gives the user the coupon."}
	ReceiptPutBack = Message{"유실된 신청을 접수증의 순서에 다시 등록했습니다. 지금 %s입니다.",
		"The lost application is back at its arrival, and is number %s in the queue."}
	ReceiptMoved = Message{"더 늦은 순서로 대기 중이던 신청을 접수증의 순서로 옮겼습니다. 지금 %s입니다.",
		"The application stood at a later arrival. It was moved to its own, and is number %s in the queue."}
)
