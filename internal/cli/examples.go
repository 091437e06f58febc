package cli

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/jajeong/jajeong/internal/text"
)

// detail is what --help of a verb shows besides its flags.
type detail struct {
	intro    text.Message
	examples []example
}

type example struct {
	command string
	comment text.Message
}

// examples are commands without comments.
func examples(commands ...string) detail {
	var d detail
	for _, command := range commands {
		d.examples = append(d.examples, example{command: command})
	}
	return d
}

// details are keyed by the path of the verb.
var details = map[string]detail{
	"migrate": {text.HelpOfMigrate, []example{{"settle migrate", text.Message{}}}},
	"run": {text.HelpOfRun, []example{
		{"settle run", text.ExampleNightlyRun},
		{"settle run --push-gateway http://pushgateway:9091", text.ExamplePush},
		{"settle run --dry-run --date 2026-11-20", text.ExamplePreview},
		{"settle run --coupon 42 --date 2026-11-20 --operator kim --reason TICKET-123", text.Message{}},
		{"settle run --coupon 42 --date 2026-11-20 --expect-digest sha256:… --operator kim --reason TICKET-123", text.Message{}},
		{`settle run --from 2026-11-18 --to 2026-11-20 --operator kim --reason "missed nights"`, text.Message{}},
		{`settle run --coupon 42 --cutoff now --accept-gap --operator kim --reason "Redis lost 3 applications"`, text.Message{}},
	}},
	"schedule": {text.HelpOfSchedule, examples(
		"settle schedule",
		"settle schedule --admin-listen :9090",
		`settle schedule --settle-schedule "0 0 * * *" --settle-time-zone Asia/Seoul`).examples},
	"dlq list": examples(
		"settle dlq list",
		"settle dlq list --coupon 42 --cause BAD_ROW --list",
		"settle dlq list --list --output csv"),
	"dlq retry": examples(
		"settle dlq retry --coupon 42 --user 7 --operator lee --reason CS-123",
		"settle dlq retry --coupon 42 --cause BAD_ROW --canary 1 --operator kim --reason INC-9"),
	"dlq drop":    examples(`settle dlq drop --coupon 42 --user 7 --operator kim --reason "CS-123: duplicate account"`),
	"coupon list": examples("settle coupon list", "settle coupon list --status open --output json"),
	"coupon show": examples("settle coupon show 42"),
	"coupon create": examples(`settle coupon create --name "Black Friday" --seats 500 --opens "2026-11-20 14:00" --closes "2026-11-21 00:00" \
      --discount-won 5000 --operator park --reason MKT-1`),
	"coupon close":   examples("settle coupon close 42 --operator park --reason MKT-4"),
	"coupon extend":  examples(`settle coupon extend 42 --closes "2026-11-22 00:00" --operator park --reason MKT-3`),
	"coupon pause":   examples("settle coupon pause 42 --operator park --reason INC-10"),
	"coupon resume":  examples("settle coupon resume 42 --operator park --reason INC-10"),
	"coupon recount": examples(`settle coupon recount 42 --operator kim --reason "INC-3: one given by hand"`),
	"coupon add-seats": examples(
		"settle coupon add-seats 42 --seats 100 --operator park --reason MKT-2",
		"settle coupon add-seats 42 --total 600 --operator park --reason MKT-2"),
	"verify": {examples: []example{
		{"settle verify", text.ExampleVerify},
		{"settle verify --push-gateway http://pushgateway:9091", text.ExamplePush},
		{"settle verify --coupon 42 --output json", text.Message{}},
	}},
	"explain": examples("settle explain --coupon 42 --user 7", "settle explain --coupon 42 --user 7 --lang ko"),
	"runs":    examples("settle runs", "settle runs --date 2026-11-20 --status FAILED", "settle runs --coupon 42 --output csv"),
	"show":    examples("settle show 17", "settle show 17 --output json"),
	"report": examples(
		"settle report --date 2026-11-20",
		"settle report --month 2026-11 --output html --out 2026-11.html --lang ko",
		"settle report --month 2026-11 --output csv --out 2026-11.csv --lang ko"),
	"completion": {examples: []example{
		{"source <(settle completion bash)", text.ExampleThisSession},
		{"source <(settle completion zsh)", text.Message{}},
		{"settle completion fish | source", text.Message{}},
	}},
}

// detailsIn gives each verb its details in a language.
func detailsIn(l text.Language) kong.Option {
	return kong.PostBuild(func(k *kong.Kong) error {
		for _, verb := range k.Model.Leaves(false) {
			if d, ok := details[verb.Path()]; ok {
				verb.Detail = d.in(l)
			}
		}
		return nil
	})
}

// commentColumn is where the comments of examples begin, behind commands that are shorter.
const commentColumn = 56

func (d detail) in(l text.Language) string {
	var shown strings.Builder
	if intro := d.intro.In(l); intro != "" {
		shown.WriteString(intro + "\n\n")
	}
	title := text.HelpExamples
	if len(d.examples) == 1 {
		title = text.HelpExample
	}
	shown.WriteString(title.In(l))
	for _, e := range d.examples {
		shown.WriteString("\n  " + e.command)
		if comment := e.comment.In(l); comment != "" {
			shown.WriteString(strings.Repeat(" ", max(1, commentColumn-len(e.command))) + comment)
		}
	}
	return shown.String()
}
