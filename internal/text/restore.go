package text

// Sentences of settle restore.
var (
	Restoring = Message{"저널과 비교하는 중:", "Comparing with the journal:"}

	RestoreDone = Message{"%d번 쿠폰: 저널의 신청 %d건과 비교해 유실된 신청 %d건을 원래 자리로 되돌리고, %d건을 처음 신청한 자리로 옮겼습니다.",
		"Coupon %d: compared %d applications of the journal, put back %d that Redis had lost, and moved %d to their first place."}
	RestoreWould = Message{"%d번 쿠폰: 저널의 신청 %d건과 비교했습니다. 복구하면 신청 %d건이 원래 자리로 돌아갑니다. 아직 변경된 내용은 없습니다.",
		"Coupon %d: compared %d applications of the journal. A restore would put back %d. Nothing was changed."}
	RestoreMarked = Message{"이미 발급되거나 거절된 고객 %d명을 Redis에 다시 표시했습니다.",
		"Redis knows %d user{|s} again who {has|have} the coupon or {was|were} rejected."}
	RestoreFromMarks = Message{"이 가운데 %d명은 쿠폰을 발급받았지만 MySQL에서 정산 기록이 사라진 고객으로, Redis의 발급 표시에 따라 대기열에 다시 넣었습니다. 다음 정산에서 다시 발급됩니다.",
		"Of these, %d {is a winner|are winners} whose settlement MySQL has lost. The next settlement issues to them again."}
	RestoreUnknown = Message{"접수된 신청 가운데 %d건은 새 Redis 서버와 저널, MySQL 어디에도 없어 누가 신청했는지 알 수 없습니다.",
		"Unknown: %d accepted application{|s} that the new Redis server, the journal and MySQL do not have."}
	RestoreImpossible = Message{"저널의 기록 %d건은 신청 시각이 신청 기간을 벗어났거나 미래여서 되돌리지 않았습니다. 누구의 기록인지는 `settle verify`에 나옵니다.",
		"Not put back: %d row{|s} of the journal at an arrival that cannot be. `settle verify` names them."}
	RestoreMissing = Message{"아직 찾지 못한 신청이 %d건 있습니다(접수 %d건). 접수증이 있는 고객은 `settle receipt honour`로 되돌릴 수 있습니다. 더 찾을 수 없으면 `settle run --accept-gap`으로 유실을 인정하세요.",
		"Still missing: %d application{|s} (accepted %d). `settle receipt honour` puts back who has a receipt. If no more can be found, accept the loss with `settle run --accept-gap`."}
	RestoreNothingMissing   = Message{"찾지 못한 신청은 없습니다.", "No accepted application is missing."}
	RestoreWouldMissNothing = Message{"복구하면 찾지 못한 신청이 남지 않습니다.", "Afterwards, no accepted application would be missing."}
	RestoreFinalised        = Message{"%d번 쿠폰은 종결되어 모든 신청의 결과가 MySQL에 있으므로 복구할 신청이 없습니다",
		"coupon %d is finalised: every application has its outcome in MySQL, and there is nothing to restore"}
)
