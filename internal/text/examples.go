package text

import "strings"

var HelpExamples = Message{"예시:", "Examples:"}

// intros are the paragraphs above the examples in a verb's help. The key is the path of the verb.
var intros = map[string]Message{
	"settle migrate": {"동시에 여러 번 실행해도 하나씩 차례로 처리되며, 이미 완료된 단계는 반복하지 않습니다. 기존 고객 테이블은 변경하지 않습니다. 그 테이블을 읽을 수 없으면(--user-table과 그 아래 옵션 참고) 아무것도 만들지 않고 오류로 끝납니다.",
		"Concurrent runs wait for each other, and completed steps are not repeated. An existing table of users is left alone. If it cannot be read (see --user-table and the flags after it), the verb fails before it creates anything."},
	"settle run": {"야간 실행: 지난 자정 전에 접수된 모든 신청",
		"Running again is always safe: settled applications stay as they are."},
	"settle serve": {"여러 프로세스를 동시에 실행해도, CronJob과 함께 실행해도 안전합니다. 쿠폰마다 잠금을 얻은 프로세스 하나만 처리합니다.",
		"Any number of replicas may run, also beside a CronJob: whoever has the lock of a coupon settles it."},
}

// examples are the commands that a verb's help shows. The key is the path of the verb.
var examples = map[string][]string{
	"settle migrate": {"settle migrate"},
	"settle run": {
		"settle run",
		"settle run --push-gateway http://pushgateway:9091",
		"settle run --dry-run --date 2026-11-20",
		"settle run --coupon 42 --date 2026-11-20 --operator kim --reason TICKET-123",
		"settle run --coupon 42 --date 2026-11-20 --expect-digest sha256:… --operator kim --reason TICKET-123",
		`settle run --coupon 42 --cutoff now --accept-gap --operator kim --reason "Redis lost 3 applications"`,
	},
	"settle serve": {
		"settle serve",
		"settle serve --admin-listen :9090",
		"settle serve --tasks issue,journal --issue-interval 50ms",
		`settle serve --tasks nights --settle-schedule "0 0 * * *"`,
	},
	"settle dlq list": {
		"settle dlq list",
		"settle dlq list --coupon 42 --cause BAD_ROW --list",
		"settle dlq list --list --output csv",
	},
	"settle dlq retry": {
		"settle dlq retry --coupon 42 --user 7 --operator lee --reason CS-123",
		"settle dlq retry --coupon 42 --cause BAD_ROW --canary 1 --operator kim --reason INC-9",
	},
	"settle dlq drop": {
		`settle dlq drop --coupon 42 --user 7 --operator kim --reason "CS-123: duplicate account"`,
		"settle dlq drop --coupon 42 --file users.csv --dry-run",
		"settle dlq drop --coupon 42 --cause BAD_ROW --dry-run",
		"settle dlq drop --coupon 42 --cause BAD_ROW --yes --expect-digest sha256:… --operator kim --reason INC-9",
	},
	"settle user show":     {"settle user show --user 7"},
	"settle user export":   {"settle user export --user 7"},
	"settle events status": {"settle events status", "EVENT_SINK=redis settle events status --output json"},
	"settle events replay": {
		"settle events replay --coupon 42 --dry-run",
		"EVENT_SINK=redis settle events replay --coupon 42 --yes",
		"settle events replay --from '2026-11-27 00:00' --to '2026-11-28 00:00' --sink kafka",
	},
	"settle events verify": {
		"EVENT_SINK=redis settle events verify --from '2026-11-27 09:50' --to '2026-11-27 10:10'",
		"EVENT_SINK=kafka settle events verify --from '2026-11-27 09:50' --output json",
	},
	"settle console": {
		"settle console --console-dev-user kim",
		"CONSOLE_URL=https://coupons.example.com CONSOLE_OIDC_ISSUER=https://login.example.com CONSOLE_OIDC_CLIENT_ID=jajeong CONSOLE_OIDC_CLIENT_SECRET_FILE=/run/secrets/console CONSOLE_ROLES=finance-team=finance,cs-team=cs,sre=operator settle console",
	},
	"settle approvals":   {"settle approvals", "settle approvals 12"},
	"settle policy show": {"settle policy show"},
	"settle approve":     {"settle approve 12 --operator lee --reason FIN-8", "settle approve 12 --refuse --operator lee --reason 'FIN-8: wrong coupon'"},
	"settle policy set": {
		"settle policy set --actions accept-gap,create:10000000,add-seats,drop --shared-accounts jajeong_settle --operator park --reason SEC-4",
		"settle policy set --person kim@example.com=jajeong_kim --person lee@example.com=jajeong_lee --operator park --reason SEC-5",
		"settle policy set --actions none --ask --operator park --reason SEC-9",
	},
	"settle restore": {
		"settle restore --coupon 42 --dry-run",
		"settle restore --coupon 42 --operator kim --reason INC-9",
	},
	"settle purge": {
		"settle purge --before 2021-11-22 --dry-run",
		"settle purge --before 2021-11-22 --operator kim --reason PRIVACY-13",
		"PURGE_AFTER_DAYS=1826 settle purge --yes",
	},
	"settle user forget": {"settle user forget --user 7 --operator kim --reason PRIVACY-12"},
	"settle coupon list": {"settle coupon list", "settle coupon list --status open --output json", "settle coupon list --campaign 7"},
	"settle coupon show": {"settle coupon show 42"},
	"settle coupon create": {`settle coupon create --name "Black Friday" --seats 500 --opens "2026-11-20 14:00" --closes "2026-11-21 00:00" \
      --discount-won 5000 --key BF-2026-1 --operator park --reason MKT-1`,
		`settle coupon create --name "Rush, round 2" --seats 1000 --opens "2026-11-27 14:00" --closes "2026-11-27 15:00" \
      --cadence immediate --line-limit 50000 --campaign 7 --operator park --reason MKT-5`},
	"settle coupon grant": {`settle coupon grant 42 --user 7 --operator lee --reason "CS-210: lost by our fault"`,
		`settle coupon grant 42 --file users.csv --dry-run`},
	"settle coupon revoke": {
		`settle coupon revoke 42 --user 7 --operator lee --reason "CS-211: account was shared"`,
		"settle coupon revoke 42 --user 7 --free-seat --operator lee --reason CS-212",
	},
	"settle coupon reissue":     {`settle coupon reissue 42 --user 7 --operator lee --reason "CS-213: revoked by mistake"`},
	"settle coupon unuse":       {`settle coupon unuse 42 --user 7 --operator lee --reason "CS-215: the order was cancelled"`},
	"settle coupon extend-user": {"settle coupon extend-user 42 --user 7 --until 2026-12-31 --operator lee --reason CS-214"},
	"settle coupon winners":     {"settle coupon winners 42", "settle coupon winners 42 --output csv > winners.csv"},
	"settle coupon freeze":      {`settle coupon freeze 42 --operator choi --reason "FIN-8: budget under review"`},
	"settle coupon unfreeze":    {`settle coupon unfreeze 42 --operator choi --reason "FIN-8: budget approved"`},
	"settle coupon cadence":     {"settle coupon cadence 42 immediate --operator park --reason MKT-6"},
	"settle coupon close":       {"settle coupon close 42 --operator park --reason MKT-4"},
	"settle coupon change": {
		`settle coupon change 42 --name "Black Friday, round 1" --seats 800 --operator park --reason MKT-2`,
		`settle coupon change 42 --opens "2026-11-20 15:00" --closes "2026-11-21 00:00" --dry-run`,
		"settle coupon change 42 --discount-percent 10 --discount-max-won 20000 --operator park --reason MKT-2",
	},
	"settle coupon extend":  {`settle coupon extend 42 --closes "2026-11-22 00:00" --operator park --reason MKT-3`},
	"settle coupon pause":   {"settle coupon pause 42 --operator park --reason INC-10"},
	"settle coupon resume":  {"settle coupon resume 42 --operator park --reason INC-10"},
	"settle coupon recount": {`settle coupon recount 42 --operator kim --reason "INC-3: one given by hand"`},
	"settle coupon add-seats": {
		"settle coupon add-seats 42 --seats 100 --operator park --reason MKT-2",
		"settle coupon add-seats 42 --total 600 --operator park --reason MKT-2",
	},
	"settle verify": {
		"settle verify",
		"settle verify --all",
		"settle verify --push-gateway http://pushgateway:9091",
		"settle verify --coupon 42 --output json",
	},
	"settle explain":        {"settle explain --coupon 42 --user 7", "settle explain --coupon 42 --user 7 --lang ko"},
	"settle receipt show":   {"settle receipt show eyJhbGciOiJIUzI1NiIs…", "settle receipt show - --output json < receipt.txt"},
	"settle receipt honour": {`settle receipt honour eyJhbGciOiJIUzI1NiIs… --operator lee --reason "CS-310: lost in the failover"`},
	"settle runs": {
		"settle runs",
		"settle runs --date 2026-11-20 --status FAILED",
		"settle runs --coupon 42 --output csv",
	},
	"settle show": {"settle show 17", "settle show 17 --output json"},
	"settle report": {
		"settle report --date 2026-11-20",
		"settle report --month 2026-11 --output html --out 2026-11.html --lang ko",
		"settle report --month 2026-11 --output csv --out 2026-11.csv --lang ko",
		"settle report --campaign 7",
	},
	"settle completion": {
		"source <(settle completion bash)",
		"source <(settle completion zsh)",
		"settle completion fish | source",
	},
}

// exampleComments explain the examples. The key is the command.
var exampleComments = map[string]Message{
	"settle run": {"야간 실행: 지난 자정 전에 접수된 모든 신청", "the nightly run: everything before the last midnight"},
	"settle run --push-gateway http://pushgateway:9091": {"같은 실행. Prometheus용 지표도 전송",
		"the same, with metrics for Prometheus"},
	"settle run --dry-run --date 2026-11-20": {"미리 보기와 발급 대상의 다이제스트", "the preview, with the digest of the winners"},
	"settle verify": {"바뀌었을 수 있는 모든 쿠폰 확인. 불변식 위반 시 종료 코드 3",
		"what may have changed; exits 3 when an invariant is violated"},
	"settle verify --all": {"봉인된 쿠폰까지 모두 확인", "sealed coupons, too"},
	"source <(settle completion bash)": {"현재 세션에만 적용. 항상 사용하려면 ~/.bashrc에 추가",
		"for this session; add it to ~/.bashrc for every session"},
}

// commentColumn is the column in which the comment of an example begins, unless its command is too long.
const commentColumn = 56

// Detail returns the intro and the examples of a verb; empty if the verb has no examples.
func Detail(verb string, l Language) string {
	commands, known := examples[verb]
	if !known {
		return ""
	}
	var shown strings.Builder
	if intro := intros[verb].In(l); intro != "" {
		shown.WriteString(intro + "\n\n")
	}
	shown.WriteString(HelpExamples.In(l))
	for _, command := range commands {
		shown.WriteString("\n  " + command)
		if comment := exampleComments[command].In(l); comment != "" {
			shown.WriteString(strings.Repeat(" ", max(1, commentColumn-len(command))) + comment)
		}
	}
	return shown.String()
}
