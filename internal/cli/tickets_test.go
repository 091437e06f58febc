package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/wallet"
)

// ticket is a row of the table of questions in the operators' handbook.
type ticket struct {
	says    string // the customer
	command []string
	answers []string // quotes of the output
}

// ticketsOf reads the table below a heading.
func ticketsOf(t *testing.T, page, heading string) (tickets []ticket) {
	t.Helper()
	document, err := os.ReadFile("../../docs/" + page)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(document), "\n## "+heading+"\n")
	require.True(t, found, page)
	section, _, _ = strings.Cut(section, "\n## ")
	row := regexp.MustCompile("(?m)^\\| (.+) \\| `settle ([^`]+)` \\| (.+) \\|$")
	for _, cells := range row.FindAllStringSubmatch(section, -1) {
		one := ticket{says: cells[1], command: strings.Fields(cells[2])}
		for _, quote := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(cells[3], -1) {
			one.answers = append(one.answers, quote[1])
		}
		tickets = append(tickets, one)
	}
	require.Equal(t, strings.Count(section, "\n| ")-2, len(tickets), "%s: every row has one command", page)
	return tickets
}

// desk is a deployment where customer 7 asks about coupon 42.
type desk struct {
	*spoken
	asked ticket
}

// answer runs the command of the ticket as it is printed.
func (d *desk) answer() {
	d.T.Helper()
	args := slices.Clone(d.asked.command)
	if i := slices.Index(args, "--operator"); i >= 0 { // serversFor looks for the form with =
		args = slices.Replace(args, i, i+2, "--operator="+args[i+1])
	}
	d.says(args...)
}

// opens adds a coupon that closes after the next midnight, at any hour.
func (d *desk) opens(seats int) {
	d.T.Helper()
	d.AddCouponBetween(seats, d.Now().Add(-time.Hour), d.Now().Add(48*time.Hour))
}

// issues makes coupon 42 with one seat for user 7.
func (d *desk) issues() {
	d.T.Helper()
	d.opens(1)
	d.Exec("UPDATE coupon SET discount_won = 5000 WHERE id = 42")
	d.Apply(42, 7)
	d.SettleNow()
}

func (d *desk) checksOut(order string, verbs ...wallet.Verb) {
	d.T.Helper()
	require.Equal(d.T, wallet.Done, d.checkout(42, 7, order, verbs...))
}

func (d *desk) does(args ...string) {
	d.T.Helper()
	succeeds(d.T)(d.settle(append(args, "--operator=lee", "--reason=test")...))
}

// situations brings about what each ticket is about, and runs its command, in the order of the tables.
var situations = []struct {
	name string
	is   func(d *desk)
}{
	{"lost reply", func(d *desk) {
		d.opens(1000)
		d.Apply(42, 1, 7) // the reply to 7 is lost
		d.answer()
	}},
	{"gives it back", func(d *desk) {
		d.opens(1)
		d.Apply(42, 7, 8)
		d.SettleNow()
		d.answer()
		d.SettleNow()
		require.Equal(d.T, []coupon.UserID{7, 8}, d.Issued(42), "8 has the seat")
		d.verify()
	}},
	{"withdrew", func(d *desk) {
		d.opens(2)
		d.Apply(42, 7)
		d.SetStatus("WITHDRAWN", 7)
		d.SettleNow()
		d.answer()
	}},
	{"which coupons", func(d *desk) {
		d.issues()
		d.opens(1)
		d.Apply(43, 7)
		d.opens(1)
		d.Apply(44, 1, 7)
		d.SettleNow()
		d.opens(1)
		d.Apply(45, 7)
		d.checksOut("A-1", wallet.Reserve, wallet.Confirm)
		d.answer()
	}},
	{"expired", func(d *desk) {
		d.issues()
		d.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6)")
		d.answer()
	}},
	{"blocked by mistake", func(d *desk) {
		d.AddCouponBetween(1, d.Now().Add(-72*time.Hour), d.Now().Add(time.Hour))
		d.ApplyAt(42, "7", d.Now().Add(-48*time.Hour))
		d.SetStatus("BLOCKED", 7)
		succeeds(d.T)(d.settle("run"))
		d.SetStatus("ACTIVE", 7)
		d.SetSeats(42, 0)
		d.answer()
		d.SetSeats(42, 1)
		d.answer()
		require.Equal(d.T, []coupon.UserID{7}, d.Issued(42))
		d.verify()
	}},
	{"delete my data", func(d *desk) {
		d.opens(1)
		d.Apply(42, 1, 7)
		d.SettleNow()
		job := d.world
		d.world = job.asPrivacy()
		d.answer()
		job.finalise(42)
		d.answer()
		d.world = job
		require.Empty(d.T, d.person("7").Applications)
		d.verify()
	}},
	{"used twice", func(d *desk) {
		d.issues()
		d.checksOut("A-1", wallet.Reserve, wallet.Confirm)
		d.answer()
		d.checksOut("A-1", wallet.Refund)
		d.checksOut("A-2", wallet.Reserve, wallet.Confirm)
		d.answer()
		d.verify()
	}},
	{"cancelled, and did not come back", func(d *desk) {
		d.issues()
		d.checksOut("A-1", wallet.Reserve, wallet.Confirm)
		d.answer()
		require.Equal(d.T, wallet.OrderRefunded, d.checkout(42, 7, "A-1", wallet.Reserve))
		d.checksOut("A-2", wallet.Reserve, wallet.Confirm)
		d.verify()
	}},
	{"friend got one later", func(d *desk) {
		d.opens(1)
		d.Apply(42, 1, 8, 7)
		d.SettleNow()
		d.does("coupon", "revoke", "42", "--user=1", "--free-seat")
		d.SettleNow()
		d.answer()
	}},
	{"1,001st of 1,000", func(d *desk) {
		d.AddUsers(between(10, 1001)...)
		d.opens(1000)
		d.ApplyLine(42, slices.Concat(between(1, 6), between(8, 1001), between(7, 7))...)
		d.SettleNow()
		d.answer()
	}},
	{"not in the wallet", func(d *desk) {
		d.opens(1)
		d.answer()
		d.Apply(42, 7)
		d.answer()
		d.SettleNow()
		d.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6)")
		d.answer()
		d.does("coupon", "revoke", "42", "--user=7")
		d.answer()
	}},
}

// Each command of the table answers its ticket, and the table quotes what the command prints.
func TestGoldenTickets(t *testing.T) {
	t.Parallel()
	korean := ticketsOf(t, "operators.ko.md", "고객센터에 들어오는 문의")
	english := ticketsOf(t, "operators.md", "What people ask customer service")
	require.Len(t, korean, len(situations))
	require.Len(t, english, len(situations))
	for i, situation := range situations {
		require.Equal(t, english[i].command, korean[i].command, situation.name)
	}
	for language, tickets := range map[string][]ticket{"ko": korean, "en": english} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			var all strings.Builder
			for i, situation := range situations {
				require.Equal(t, language == "ko", hangul.MatchString(tickets[i].says))
				require.NotEmpty(t, tickets[i].answers)
				t.Run(situation.name, func(t *testing.T) {
					d := &desk{&spoken{world: newWorld(t), name: "tickets." + language}, tickets[i]}
					d.Exec("ALTER TABLE coupon AUTO_INCREMENT = 42")
					d.AddUsers(between(1, 9)...)
					situation.is(d)
					for _, quote := range tickets[i].answers {
						require.Contains(t, normalised(d.text.String()), quote, "the page quotes it")
					}
					all.WriteString(d.text.String())
				})
			}
			compare(t, "tickets."+language, all.String())
		})
	}
}
