package text

// HelpHeadings are kong's own words in a page of help.
var HelpHeadings = []Message{
	{"사용법:", "Usage:"},
	{"인자:", "Arguments:"},
	{"플래그:", "Flags:"},
	{"명령:", "Commands:"},
	{"명령의 도움말을 보려면 \"settle <command> --help\"를 실행하세요.", "Run \"settle <command> --help\" for more information on a command."},
}

// Texts of the examples in a page of help.
var (
	HelpExamples  = Message{"예:", "Examples:"}
	HelpOfMigrate = Message{"동시에 여러 번 실행하면 서로 기다리고, 이미 한 일은 다시 하지 않습니다. 기존 사용자 테이블은 그대로 두며, 읽을 수 없으면(--user-table과 그다음 플래그 참고) 아무것도 만들지 않고 오류로 끝납니다.",
		"Concurrent runs wait for each other, and completed steps are not repeated. An existing table of users is left alone. If it cannot be read (see --user-table and the flags after it), the verb fails before it creates anything."}
	HelpOfRun = Message{"여러 번 실행해도 안전합니다. 이미 정산된 신청은 그대로입니다.",
		"Running again is always safe: settled applications stay as they are."}
	HelpOfSchedule = Message{"CronJob 대신 쓸 수 있습니다. 둘을 함께 실행해도 안전합니다.",
		"An alternative to a CronJob; running both is safe."}

	ExampleNightlyRun  = Message{"야간 실행: 지난 자정 전의 모든 신청", "the nightly run: everything before the last midnight"}
	ExamplePush        = Message{"같은 실행, 메트릭을 Prometheus로도 전송", "the same, with metrics for Prometheus"}
	ExamplePreview     = Message{"미리 보기와 발급될 사람의 다이제스트", "the preview, with the digest of the winners"}
	ExampleVerify      = Message{"모든 쿠폰. 불변식 위반이 있으면 종료 코드 3", "every coupon; exits 3 when an invariant is violated"}
	ExampleThisSession = Message{"현재 세션에만. 항상 쓰려면 ~/.bashrc에 추가",
		"for this session; add it to ~/.bashrc for every session"}
)

// help is the help of verbs by their path, and of flags and arguments by the path of their verb and their name, or by the
// name alone where all verbs mean the same. kong puts the default of a flag in place of ${default}.
var help = map[string]Message{
	"apply-api": {"선착순 쿠폰의 신청을 받습니다.", "Takes applications for first-come-first-served coupons."},
	"settle": {"선착순 쿠폰을 정산합니다. 신청한 순서대로 쿠폰을 발급합니다.",
		"Settles first-come-first-served coupons: issues them in the order of the applications."},
	"settle migrate": {"데이터베이스 스키마를 최신으로 만듭니다.", "Bring the database schema up to date."},
	"settle run": {"정산할 쿠폰을 모두 한 번 정산합니다. 플래그가 없으면 야간 실행입니다.",
		"Settle every due coupon once. Without flags it is the nightly run."},
	"settle schedule": {"계속 실행하며 밤마다 정산합니다. 놓친 밤도 정산합니다.",
		"Keep running and settle every night; missed nights are caught up."},
	"settle dlq": {"검토 중인 신청을 보고, 다시 시도하고, 거절로 종료합니다.", "List, retry or drop applications under review."},
	"settle dlq list": {"검토 중인 신청을 쿠폰과 사유별로, 또는 한 건씩 봅니다.",
		"List applications under review, by coupon and cause or one by one."},
	"settle dlq retry": {"검토 중인 신청을 다시 시도하고 쿠폰을 정산합니다.", "Retry applications under review, and settle their coupon."},
	"settle dlq drop": {"검토 중인 신청을 종료합니다. 사유와 함께 REJECTED로 기록됩니다.",
		"End applications under review: they are recorded REJECTED, with the reason."},
	"settle coupon": {"쿠폰을 보고, 만들고, 바꿉니다.", "List, show, create and change coupons."},
	"settle coupon list": {"쿠폰의 수량, 신청 기간, 대기열을 봅니다.",
		"List coupons with their seats, application periods and queues."},
	"settle coupon show":   {"쿠폰 하나의 모든 것을 봅니다.", "Show everything about one coupon."},
	"settle coupon create": {"쿠폰을 만들고 번호를 출력합니다.", "Create a coupon and print its id."},
	"settle coupon close": {"지금 신청을 마감합니다. 이미 접수된 신청은 그대로 정산됩니다.",
		"Close applications now; accepted applications are kept."},
	"settle coupon extend": {"마감 시각을 늦춥니다. 마감된 쿠폰은 다시 열립니다.", "Close applications later; a closed coupon opens again."},
	"settle coupon pause":  {"resume 때까지 새 신청을 받지 않습니다.", "Refuse new applications until resume."},
	"settle coupon resume": {"다시 새 신청을 받습니다.", "Accept new applications again."},
	"settle coupon recount": {"issued_count를 쿠폰 수에 맞춥니다. 둘이 다르면 정산이 보류됩니다.",
		"Set issued_count to the number of coupons: runs hold a coupon while the two differ."},
	"settle coupon add-seats": {"수량을 늘립니다. NOT_SELECTED인 신청도 신청한 순서대로 다시 정산합니다.",
		"Add seats; NOT_SELECTED applications are considered again, by arrival."},
	"settle verify": {"모든 불변식을 확인합니다. 위반이 있으면 종료 코드 3으로 끝납니다.", "Check every invariant; exits 3 when one is violated."},
	"settle explain": {"한 사용자와 쿠폰의 기록, 그리고 고객에게 읽어 줄 문장을 봅니다.",
		"Show the records of one user and one coupon, and a sentence to read to the customer."},
	"settle runs": {"실행을 최신순으로 봅니다.", "List runs, newest first."},
	"settle show": {"한 실행이 한 일을 쿠폰별로 봅니다.", "Show what one run did, coupon by coupon."},
	"settle report": {"하루나 한 달의 신청 결과를 재무용으로 만듭니다.",
		"Report the outcomes of a day's or a month's applications, for finance."},
	"settle completion": {"bash, zsh, fish의 명령 자동 완성을 출력합니다.",
		"Print the completion of commands for bash, zsh or fish."},

	"--help":    {"도움말을 봅니다.", "Show context-sensitive help."},
	"--version": {"버전을 출력합니다.", "Print the version."},
	"--lang": {"사람이 읽는 출력의 언어: ko나 en. auto는 LANG을 따릅니다. 기본값 ${default}.",
		"Language of what people read: ko or en; auto follows LANG. Default ${default}."},
	"--output":   {"table이나 json. 기본값 ${default}.", "table or json. Default ${default}."},
	"--operator": {"담당자 이름. 기록에 남습니다.", "Name of the operator; it is recorded."},
	"--reason":   {"티켓 번호 같은 사유. 기록에 남습니다.", "Reason, such as a ticket; it is recorded."},
	"--coupon":   {"쿠폰 번호.", "The coupon."},
	"--yes":      {"확인을 묻지 않습니다.", "Do not ask for confirmation."},
	"--settle-time-zone": {"정산 기준 시각인 자정의 시간대. 기본값 ${default}.",
		"Time zone of the midnight that is the cutoff. Default ${default}."},
	"--settle-schedule": {"settle schedule이 정산하는 시각, 그 시간대의 cron 식. 기본값 ${default}.",
		"When settle schedule settles: a cron expression in that zone. Default ${default}."},
	"--parallel": {"동시에 정산하는 쿠폰 수, 1부터 12까지. 기본값 ${default}.",
		"How many coupons are settled at the same time, 1 to 12. Default ${default}."},
	"--shutdown-grace": {"SIGTERM 뒤 진행 중인 정산을 마치도록 기다리는 시간. 기본값 ${default}.",
		"How long an open settlement may continue after SIGTERM. Default ${default}."},
	"--log-level": {"debug, info, warn, error. 기본값 ${default}.", "debug, info, warn or error. Default ${default}."},
	"--mysql-dsn": {"MySQL이나 MariaDB: user:password@tcp(host:3306)/database.",
		"MySQL or MariaDB, as user:password@tcp(host:3306)/database."},
	"--mysql-dsn-file": {"DSN이 든 파일.", "File that holds the DSN."},
	"--redis-addrs": {"Redis 주소. 여러 개면 Cluster, 마스터 이름을 주면 Sentinel입니다. 기본값 ${default}.",
		"Redis; several are a Cluster, or Sentinels when a master name is set. Default ${default}."},
	"--redis-master-name":   {"Sentinel이 아는 마스터 이름.", "Sentinel's name of the master."},
	"--redis-username":      {"ACL 사용자.", "ACL user."},
	"--redis-password":      {"비밀번호. 환경 변수나 파일로 주는 것이 좋습니다.", "Password; better in the environment or a file."},
	"--redis-password-file": {"비밀번호가 든 파일.", "File that holds the password."},
	"--redis-tls":           {"TLS로 연결합니다.", "Connect with TLS."},
	"--redis-key-prefix":    {"모든 키의 접두사. 중괄호는 쓸 수 없습니다.", "Prefix of every key; no braces."},
	"--candidate-ttl": {"신청이 마감된 뒤 쿠폰의 키를 유지하는 시간. 54h 이상. 기본값 ${default}.",
		"How long a coupon's keys are kept after it has closed; at least 54h. Default ${default}."},
	"--user-table": {"쇼핑몰의 사용자 테이블: 테이블이나, 같은 서버의 데이터베이스.테이블. 기본값 ${default}.",
		"The shop's table of users: a table, or database.table on the same server. Default ${default}."},
	"--user-id-column": {"그 테이블의 사용자 id 열. 기본값 ${default}.", "Its column of user ids. Default ${default}."},
	"--user-status-column": {"그 테이블의 사용자 상태 열. 상태 열이 없으면 -를 주며, 이때 모든 사용자를 이용 가능으로 봅니다. 기본값 ${default}.",
		"Its column of user statuses, or - if there is none and every user is active. Default ${default}."},
	"--user-active-values": {"이용할 수 있는 사용자의 상태 값. 바이트 단위로 비교합니다. 기본값 ${default}.",
		"The statuses that mean active, compared byte by byte. Default ${default}."},
	"--push-gateway": {"실행의 메트릭을 10초마다, 그리고 끝날 때 이 Pushgateway로 보냅니다. 보내지 못하면 경고만 합니다.",
		"Push the metrics of the run to this Pushgateway, every 10 s and at its end; failures are warnings."},

	"settle run --date": {"이 영업일의 신청을 정산합니다. 2026-11-20처럼 줍니다.",
		"Settle the applications of this business date, such as 2026-11-20."},
	"settle run --cutoff": {"이 시각 전에 접수된 신청을 정산합니다. 2026-11-21T00:00:00+09:00 같은 RFC 3339나 now.",
		"Settle the applications that arrived before this instant: RFC 3339 such as 2026-11-21T00:00:00+09:00, or now."},
	"settle run --from": {"이 영업일부터 놓친 밤을 하루씩 차례로 정산합니다.",
		"Settle the missed nights from this business date, one run each, in order."},
	"settle run --to":     {"마지막 영업일. --from과 함께 줍니다.", "Last business date; goes with --from."},
	"settle run --coupon": {"이 쿠폰만 정산합니다. 여러 번 줄 수 있습니다.", "Settle only this coupon; may be repeated."},
	"settle run --dry-run": {"같은 코드로 결과를 미리 보여 주고 아무것도 바꾸지 않습니다.",
		"Show the result, computed by the same code, and change nothing."},
	"settle run --list": {"--dry-run과 함께: 발급되거나 검토로 옮겨질 사용자를 모두 보여 줍니다.",
		"With --dry-run: list every user who would be issued a coupon or moved to review."},
	"settle run --expect-digest": {"발급될 사람의 다이제스트가 --dry-run이 보여 준 것과 다르면 아무것도 발급하지 않고 종료 코드 3으로 끝납니다. --coupon 하나와 --date나 --cutoff가 필요합니다.",
		"Issue nothing and exit with 3 unless the winners have the digest that --dry-run showed; needs one --coupon and --date or --cutoff."},
	"settle run --accept-gap": {"접수 기록이 유실되어 보류된 쿠폰의 유실을 인정하고 정산합니다.",
		"Write off lost applications, and settle the coupons that are held for them."},

	"settle dlq list --coupon": {"이 쿠폰만 봅니다. 여러 번 줄 수 있습니다. 없으면 모두 봅니다.",
		"Only this coupon; may be repeated. Without it, all."},
	"settle dlq list --list":   {"건수 대신 신청을 한 건씩 보여 줍니다.", "List every application instead of counting them."},
	"settle dlq list --output": {"table, json, csv. 기본값 ${default}.", "table, json or csv. Default ${default}."},
	"--user": {"이 사용자만, DLQ에 적힌 그대로. 여러 번 줄 수 있습니다.",
		"Only this user, as written in the DLQ; may be repeated."},
	"--cause": {"UNKNOWN_USER 같은 이 사유만. 여러 번 줄 수 있습니다.",
		"Only this cause, such as UNKNOWN_USER; may be repeated."},
	"settle dlq retry --canary": {"먼저 N건을 시도하고, 모두 정산된 경우에만 나머지를 시도합니다.",
		"Try the first N applications, and the others only if all N were settled."},
	"settle dlq retry --cutoff": {"정산할 신청: 지난 자정 전까지나 지금까지 접수된 것. 기본값 ${default}.",
		"Settle applications that arrived before the last midnight, or before now. Default ${default}."},
	"settle dlq drop --yes": {"확인을 묻지 않습니다. 터미널 없이 --cause를 쓸 때 필요합니다.",
		"Do not ask for confirmation; required for --cause without a terminal."},

	"<id>": {"쿠폰 번호.", "The coupon."},
	"settle coupon list --status": {"scheduled, open, paused, closed, finalised 중 이 상태만.",
		"Only scheduled, open, paused, closed or finalised ones."},
	"settle coupon list --after": {"이 번호보다 큰 쿠폰만: 앞 페이지의 마지막 번호.",
		"Only coupons with a higher id: the last one of the previous page."},
	"settle coupon list --limit": {"최대 개수, 1부터 1000까지. 기본값 ${default}.",
		"Maximum number of coupons, 1 to 1000. Default ${default}."},
	"settle coupon create --name":  {"사람이 읽을 이름, 200자까지.", "Name for people, up to 200 characters."},
	"settle coupon create --seats": {"수량.", "Number of coupons to issue."},
	"settle coupon create --opens": {"신청 시작 시각: SETTLE_TIME_ZONE의 \"2026-11-20 14:00\"이나 RFC 3339.",
		"Start of applying: \"2026-11-20 14:00\" in SETTLE_TIME_ZONE, or RFC 3339."},
	"settle coupon create --closes": {"신청 마감 시각, 같은 형식.", "End of applying, in the same form."},
	"settle coupon create --validity-days": {"발급된 쿠폰의 유효 일수. 기본값 ${default}.",
		"Days for which an issued coupon is valid. Default ${default}."},
	"settle coupon create --discount-won": {"할인액(원). 기본값 ${default}.", "Discount in won. Default ${default}."},
	"settle coupon create --campaign":     {"이 회차가 속한 캠페인.", "Campaign that this round belongs to."},
	"settle coupon extend --closes": {"새 마감 시각: SETTLE_TIME_ZONE의 \"2026-11-20 14:00\"이나 RFC 3339.",
		"New end of applying: \"2026-11-20 14:00\" in SETTLE_TIME_ZONE, or RFC 3339."},
	"settle coupon add-seats --seats": {"추가할 수량.", "Number of seats to add."},
	"settle coupon add-seats --total": {"전체 수량. 발급된 수보다 적을 수 없습니다.",
		"Total number of seats; at least as many as are issued."},

	"settle verify --coupon": {"이 쿠폰만 확인합니다. 여러 번 줄 수 있습니다.", "Check only this coupon; may be repeated."},
	"settle verify --push-gateway": {"모든 쿠폰을 확인한 결과를 이 Pushgateway로 보냅니다. 보내지 못하면 경고만 합니다.",
		"Push the result of a check of every coupon to this Pushgateway; failures are warnings."},
	"settle explain --user": {"사용자 번호.", "The user."},
	"settle runs --date": {"정산 기준 시각이 이 영업일인 실행만. 2026-11-20처럼 줍니다.",
		"Only runs with a cutoff of this business date, such as 2026-11-20."},
	"settle runs --coupon": {"이 쿠폰을 바꾸었거나 정산하지 못한 실행만.", "Only runs that changed this coupon, or could not settle it."},
	"settle runs --status": {"RUNNING, SUCCEEDED, HELD, FAILED, ABANDONED 중 이 상태만.",
		"Only RUNNING, SUCCEEDED, HELD, FAILED or ABANDONED ones."},
	"settle runs --trigger": {"CRON, MANUAL, DLQ_RETRY 중 이 방식으로 시작한 실행만.",
		"Only runs started by CRON, MANUAL or DLQ_RETRY."},
	"settle runs --limit": {"최대 개수, 1부터 500까지. 기본값 ${default}.",
		"Maximum number of runs, 1 to 500. Default ${default}."},
	"settle runs --before": {"이 실행보다 앞선 실행만: 다음 페이지.", "Only runs before this one: the next page."},
	"settle runs --output": {"table, json, csv. 기본값 ${default}.", "table, json or csv. Default ${default}."},
	"<run>":                {"실행 번호. settle runs가 보여 줍니다.", "The run, as settle runs lists it."},
	"settle report --date": {"이 영업일의 신청. 2026-11-20처럼 줍니다.",
		"The applications of this business date, such as 2026-11-20."},
	"settle report --month":  {"이 달의 신청. 2026-11처럼 줍니다.", "The applications of this month, such as 2026-11."},
	"settle report --coupon": {"이 쿠폰만. 여러 번 줄 수 있습니다.", "Only this coupon; may be repeated."},
	"settle report --output": {"table, csv, json, html. 기본값 ${default}.",
		"table, csv, json or html. Default ${default}."},
	"settle report --out": {"이 파일에 씁니다.", "Write the report to this file."},
	"settle schedule --admin-listen": {"liveness, readiness, 메트릭, 프로파일을 제공하는 주소. :9090처럼 주고, 외부에 공개하지 마세요. 없으면 제공하지 않습니다.",
		"Address for liveness, readiness, metrics and profiles, such as :9090; never public. Without it, none."},
	"<shell>": {"bash, zsh, fish.", "bash, zsh or fish."},
}

// Help returns the help of a verb, or of one of its flags or arguments when name is not empty.
func Help(verb, name string) (m Message, known bool) {
	if name == "" {
		m, known = help[verb]
		return m, known
	}
	if m, known = help[verb+" "+name]; !known {
		m, known = help[name]
	}
	return m, known
}
