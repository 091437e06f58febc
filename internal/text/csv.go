package text

// Columns of CSV. The English names are a contract with programs; the Korean ones are for people.
var (
	CSVStartedAt      = Message{"시작", "started_at"}
	CSVFinishedAt     = Message{"끝", "finished_at"}
	CSVTimeZone       = Message{"시간대", "time_zone"}
	CSVDuration       = Message{"소요 시간(ms)", "duration_ms"}
	CSVMovedToReview  = Message{"검토로 이동", "under_review"}
	CSVAlreadyIssued  = Message{"이미 보유", "already_issued"}
	CSVNotSelected    = Message{"미선정", "not_selected"}
	CSVUnsettled      = Message{"미정산", "unsettled"}
	CSVRetryable      = Message{"자동 재시도", "retryable"}
	CSVHeld           = Message{"담당자 결정", "held"}
	CSVOldestArrival  = Message{"첫 신청", "oldest_arrival"}
	CSVNewestArrival  = Message{"마지막 신청", "newest_arrival"}
	CSVOldestReview   = Message{"최초 검토 시작", "oldest_review"}
	CSVLeastAttempts  = Message{"최소 시도", "least_attempts"}
	CSVMostAttempts   = Message{"최대 시도", "most_attempts"}
	CSVArrival        = Message{"신청 시각", "arrival"}
	CSVReviewedSince  = Message{"검토 시작", "since"}
	CSVLastAttempt    = Message{"마지막 시도", "at"}
	CSVPeriod         = Message{"기간", "period"}
	CSVCouponID       = Message{"쿠폰", "coupon_id"}
	CSVDiscount       = Message{"할인액(원)", "discount_won"}
	CSVUnderReview    = Message{"검토 중", "in_dlq"}
	CSVValue          = Message{"금액(원)", "value_won"}
	CSVSeatsLeft      = Message{"남은 수량", "seats_left"}
	CSVFirstSettledAt = Message{"첫 정산 시각", "first_settled_at"}
	CSVLastSettledAt  = Message{"마지막 정산 시각", "last_settled_at"}
	CSVRunCount       = Message{"실행 수", "run_count"}
	CSVAuditSeq       = Message{"감사 번호", "audit_seq"}
	CSVAuditHash      = Message{"감사 해시", "audit_hash"}
	CSVReadError      = Message{"읽지 못한 사유", "error"}
)
