package text

import "strings"

// detail is what --help of a verb shows besides its flags.
type detail struct {
	intro    Message
	examples []example
}

type example struct {
	command string
	comment Message
}

// examples are commands without comments.
func examples(commands ...string) detail {
	var d detail
	for _, command := range commands {
		d.examples = append(d.examples, example{command: command})
	}
	return d
}

// details are keyed by the full path of the verb.
var details = map[string]detail{
	"settle migrate": {HelpOfMigrate, []example{{"settle migrate", Message{}}}},
	"settle run": {HelpOfRun, []example{
		{"settle run", ExampleNightlyRun},
		{"settle run --push-gateway http://pushgateway:9091", ExamplePush},
		{"settle run --dry-run --date 2026-11-20", ExamplePreview},
		{"settle run --coupon 42 --date 2026-11-20 --operator kim --reason TICKET-123", Message{}},
		{"settle run --coupon 42 --date 2026-11-20 --expect-digest sha256:… --operator kim --reason TICKET-123", Message{}},
		{`settle run --from 2026-11-18 --to 2026-11-20 --operator kim --reason "missed nights"`, Message{}},
		{`settle run --coupon 42 --cutoff now --accept-gap --operator kim --reason "Redis lost 3 applications"`, Message{}},
	}},
	"settle schedule": {HelpOfSchedule, examples(
		"settle schedule",
		"settle schedule --admin-listen :9090",
		`settle schedule --settle-schedule "0 0 * * *" --settle-time-zone Asia/Seoul`).examples},
	"settle dlq list": examples(
		"settle dlq list",
		"settle dlq list --coupon 42 --cause BAD_ROW --list",
		"settle dlq list --list --output csv"),
	"settle dlq retry": examples(
		"settle dlq retry --coupon 42 --user 7 --operator lee --reason CS-123",
		"settle dlq retry --coupon 42 --cause BAD_ROW --canary 1 --operator kim --reason INC-9"),
	"settle dlq drop":    examples(`settle dlq drop --coupon 42 --user 7 --operator kim --reason "CS-123: duplicate account"`),
	"settle coupon list": examples("settle coupon list", "settle coupon list --status open --output json"),
	"settle coupon show": examples("settle coupon show 42"),
	"settle coupon create": examples(`settle coupon create --name "Black Friday" --seats 500 --opens "2026-11-20 14:00" --closes "2026-11-21 00:00" \
      --discount-won 5000 --operator park --reason MKT-1`),
	"settle coupon close":   examples("settle coupon close 42 --operator park --reason MKT-4"),
	"settle coupon extend":  examples(`settle coupon extend 42 --closes "2026-11-22 00:00" --operator park --reason MKT-3`),
	"settle coupon pause":   examples("settle coupon pause 42 --operator park --reason INC-10"),
	"settle coupon resume":  examples("settle coupon resume 42 --operator park --reason INC-10"),
	"settle coupon recount": examples(`settle coupon recount 42 --operator kim --reason "INC-3: one given by hand"`),
	"settle coupon add-seats": examples(
		"settle coupon add-seats 42 --seats 100 --operator park --reason MKT-2",
		"settle coupon add-seats 42 --total 600 --operator park --reason MKT-2"),
	"settle verify": {examples: []example{
		{"settle verify", ExampleVerify},
		{"settle verify --push-gateway http://pushgateway:9091", ExamplePush},
		{"settle verify --coupon 42 --output json", Message{}},
	}},
	"settle explain": examples("settle explain --coupon 42 --user 7", "settle explain --coupon 42 --user 7 --lang ko"),
	"settle runs":    examples("settle runs", "settle runs --date 2026-11-20 --status FAILED", "settle runs --coupon 42 --output csv"),
	"settle show":    examples("settle show 17", "settle show 17 --output json"),
	"settle report": examples(
		"settle report --date 2026-11-20",
		"settle report --month 2026-11 --output html --out 2026-11.html --lang ko",
		"settle report --month 2026-11 --output csv --out 2026-11.csv --lang ko"),
	"settle completion": {examples: []example{
		{"source <(settle completion bash)", ExampleThisSession},
		{"source <(settle completion zsh)", Message{}},
		{"settle completion fish | source", Message{}},
	}},
}

// commentColumn is where the comments of examples begin, after shorter commands.
const commentColumn = 56

// Detail is the part of a verb's help after its flags; empty for other nodes.
func Detail(verb string, l Language) string {
	d, known := details[verb]
	if !known {
		return ""
	}
	var shown strings.Builder
	if intro := d.intro.In(l); intro != "" {
		shown.WriteString(intro + "\n\n")
	}
	shown.WriteString(HelpExamples.In(l))
	for _, e := range d.examples {
		shown.WriteString("\n  " + e.command)
		if comment := e.comment.In(l); comment != "" {
			shown.WriteString(strings.Repeat(" ", max(1, commentColumn-len(e.command))) + comment)
		}
	}
	return shown.String()
}
