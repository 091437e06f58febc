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
	*world
	asked map[string]ticket   // by language
	said  map[string][]string // by language
}

func newDesk(t *testing.T, asked map[string]ticket) *desk {
	t.Helper()
	d := &desk{world: newWorld(t), asked: asked, said: map[string][]string{}}
	d.Exec("ALTER TABLE coupon AUTO_INCREMENT = 42")
	d.AddUsers(between(1, 9)...)
	return d
}

// answer runs the command of the ticket as it is printed. The output has one of these sentences.
func (d *desk) answer(exit int, want map[string]string) {
	d.T.Helper()
	for language, asked := range d.asked {
		w := d.world
		if slices.Equal(asked.command[:2], []string{"user", "forget"}) {
			w = d.asPrivacy()
		}
		args := slices.Clone(asked.command)
		if i := slices.Index(args, "--operator"); i >= 0 { // serversFor looks for the form with =
			args = slices.Replace(args, i, i+2, "--operator="+args[i+1])
		}
		code, stdout, stderr := w.settle(append(args, "--lang="+language)...)
		output := normalised(stdout + stderr)
		require.Equal(d.T, exit, code, output)
		require.Contains(d.T, output, want[language])
		d.said[language] = append(d.said[language], output)
	}
}

// issues makes coupon 42 with one seat for user 7.
func (d *desk) issues() {
	d.T.Helper()
	d.AddCoupon(1)
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

const (
	applied7 = "고객번호 7번 고객님은 <time>에 첫 번째로 신청하셨고, "
	issued7  = applied7 + "<time>에 쿠폰이 발급되었습니다. 전체 1장 가운데 첫 번째로 발급된 쿠폰입니다. "
	enIssued = "Customer 7 applied at <time> as number 1; the coupon was issued at <time>. It is coupon 1 of 1. "
)

// situations brings about what each ticket is about, and runs its command, in the order of the tables.
var situations = []struct {
	name    string
	is      func(d *desk)
	changes bool // the command does, so that it is run once
}{
	{"lost reply", func(d *desk) {
		d.AddCoupon(1000)
		d.Apply(42, 1, 7) // the reply to 7 is lost
		d.answer(0, map[string]string{
			"ko": "고객번호 7번 고객님은 <time>에 신청하셨고, 정상적으로 접수되어 대기 중인 신청 2건 가운데 2번째입니다. 현재 남은 수량은 1000장입니다. 정산은 <time>에 예정되어 있으며, 신청하신 순서대로 처리됩니다.\n",
			"en": "Customer 7 applied at <time>; the application was received, and is number 2 of 2 that are waiting. Coupons left at present: 1000. The settlement is planned for <time> and goes in the order of application.\n"})
	}, false},
	{"gives it back", func(d *desk) {
		d.AddCoupon(1)
		d.Apply(42, 7, 8)
		d.SettleNow()
		d.answer(0, map[string]string{"ko": "쿠폰 42 심야 쿠폰: 7번 고객에게서 회수했습니다.\n", "en": "coupon 42 심야 쿠폰 is revoked from user 7.\n"})
		d.SettleNow()
		require.Equal(d.T, []coupon.UserID{7, 8}, d.Issued(42), "8 has the seat")
		d.verify()
	}, true},
	{"withdrew", func(d *desk) {
		d.AddCoupon(2)
		d.Apply(42, 7)
		d.SetStatus("WITHDRAWN", 7)
		d.SettleNow()
		d.answer(0, map[string]string{
			"ko": "고객번호 7번 고객님은 <time>에 신청하셨고, 정산 당시 계정을 이용할 수 없는 상태여서 쿠폰이 발급되지 않았으며, 현재 검토 중입니다. 처리 방법은 담당자가 결정해야 합니다.\n",
			"en": "Customer 7 applied at <time>; no coupon could be issued, since the account could not be used at the time. Our staff have to decide on it.\n"})
	}, false},
	{"which coupons", func(d *desk) {
		d.issues()
		d.AddCoupon(1)
		d.Apply(43, 7)
		d.AddCoupon(1)
		d.Apply(44, 1, 7)
		d.SettleNow()
		d.AddCoupon(1)
		d.Apply(45, 7)
		d.checksOut("A-1", wallet.Reserve, wallet.Confirm)
		d.answer(0, map[string]string{
			"ko": "고객 7에게 발급된 쿠폰은 2장이며, 그중 지금 사용할 수 있는 쿠폰은 1장입니다.\n", "en": "User 7 was given 2 coupons; usable now: 1.\n"})
		for language, lines := range map[string][]string{
			"ko": {`42 │ 심야 쿠폰 │ <time> │ 사용함 │ <time> │ A-1 │`, `43 │ 심야 쿠폰 │ <time> │ 사용 가능 │ <time> │ │`, `44 │ 심야 쿠폰 │ <time> │ 미선정 │ │ │`, `45 │ 심야 쿠폰 │ <time> │ 대기 중 │ │ │`},
			"en": {`42 │ 심야 쿠폰 │ <time> │ used │ <time> │ A-1 │`, `43 │ 심야 쿠폰 │ <time> │ usable │ <time> │ │`, `44 │ 심야 쿠폰 │ <time> │ not selected │ │ │`, `45 │ 심야 쿠폰 │ <time> │ waiting │ │ │`},
		} {
			for _, line := range lines {
				require.Contains(d.T, d.said[language][0], line)
			}
		}
	}, false},
	{"expired", func(d *desk) {
		d.issues()
		d.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6)")
		d.answer(0, map[string]string{
			"ko": issued7 + "사용되지 않은 채 <time>에 쿠폰의 유효 기한이 만료되었습니다.\n", "en": enIssued + "It was not used, and expired at <time>.\n"})
	}, false},
	{"blocked by mistake", func(d *desk) {
		d.AddCouponBetween(1, d.Now().Add(-72*time.Hour), d.Now().Add(time.Hour))
		d.ApplyAt(42, "7", d.Now().Add(-48*time.Hour))
		d.SetStatus("BLOCKED", 7)
		succeeds(d.T)(d.settle("run"))
		d.SetStatus("ACTIVE", 7)
		d.SetSeats(42, 0)
		d.answer(0, map[string]string{"ko": "남은 수량이 없어 1건은 검토 중 상태로 남습니다.", "en": "No seat is left: 1 stays under review."})
		d.SetSeats(42, 1)
		d.answer(0, map[string]string{"ko": "검토 중이던 신청 1건에 42번 쿠폰을 발급했습니다.\n", "en": "1 application that was under review got coupon 42.\n"})
		require.Equal(d.T, []coupon.UserID{7}, d.Issued(42))
		d.verify()
	}, true},
	{"delete my data", func(d *desk) {
		d.AddCoupon(1)
		d.Apply(42, 1, 7)
		d.SettleNow()
		d.answer(exitUse, map[string]string{
			"ko": "이 고객의 신청 결과가 아직 확정되지 않았습니다(쿠폰 42). 쿠폰이 종결된 뒤 다시 실행하세요.",
			"en": "the user still has applications that are not decided for good (coupons 42); run again once these coupons are finalised."})
		d.finalise(42)
		d.answer(0, map[string]string{
			"ko": "신청 결과 1건을 삭제하고 감사 기록 0건에서 고객번호를 지웠습니다.\n",
			"en": "Deleted 1 outcome of applications, and took the user out of 0 audit events.\n"})
		require.Empty(d.T, d.person("7").Applications)
		d.verify()
	}, true},
	{"used twice", func(d *desk) {
		d.issues()
		d.checksOut("A-1", wallet.Reserve, wallet.Confirm)
		d.answer(0, map[string]string{
			"ko": issued7 + "주문번호 A-1에 한 번 사용되었습니다. 사용 시각은 <time>, 할인액은 5,000원입니다.\n",
			"en": enIssued + "It was used once, for order A-1 at <time>, with a discount of 5,000 won.\n"})
		d.checksOut("A-1", wallet.Refund)
		d.checksOut("A-2", wallet.Reserve, wallet.Confirm)
		d.answer(0, map[string]string{
			"ko": issued7 + "주문번호 A-1에 사용되었다가, 그 주문이 환불되면서 <time>에 사용이 취소되었습니다. 그 뒤 주문번호 A-2에 한 번 사용되었습니다. 사용 시각은 <time>, 할인액은 5,000원입니다.\n",
			"en": enIssued + "It was used for order A-1, and given back at <time> because that order was refunded. Since then it was used once, for order A-2 at <time>, with a discount of 5,000 won.\n"})
		d.verify()
	}, false},
	{"friend got one later", func(d *desk) {
		d.AddCoupon(1)
		d.Apply(42, 1, 8, 7)
		d.SettleNow()
		d.does("coupon", "revoke", "42", "--user=1", "--free-seat")
		d.SettleNow()
		d.answer(0, map[string]string{
			"ko": "고객번호 8번 고객님은 <time>에 2번째로 신청하셨고, <time>에 쿠폰이 발급되었습니다. 전체 2장 가운데 2번째로 발급된 쿠폰입니다. 처음 정산할 때는 남은 수량이 없었고, 나중에 수량이 생겨 신청하신 순서대로 발급되었습니다. <time>까지 사용하실 수 있습니다.\n",
			"en": "Customer 8 applied at <time> as number 2; the coupon was issued at <time>. It is coupon 2 of 2. No coupon was left at first; when one became available later, it went to the next in the order of application. It can be used until <time>.\n"})
		require.Contains(d.T, d.said["ko"][0], "다른 고객의 쿠폰이 회수되어 수량 1장이 생김")
		require.Contains(d.T, d.said["en"][0], "its seat became free")
	}, false},
	{"1,001st of 1,000", func(d *desk) {
		d.AddUsers(between(10, 1001)...)
		d.AddCoupon(1000)
		d.ApplyLine(42, slices.Concat(between(1, 6), between(8, 1001), between(7, 7))...)
		d.SettleNow()
		d.answer(0, map[string]string{
			"ko": "고객번호 7번 고객님은 <time>에 1001번째로 신청하셨고, 쿠폰 1000장이 모두 먼저 신청하신 분들께 발급되어 선정되지 않으셨습니다. 선정되지 않으신 분들 가운데 첫 번째이며, ",
			"en": "Customer 7 applied at <time> as number 1001; all coupons (1000) went to those who applied earlier, so the application was not selected. It is number 1 of those not selected; "})
	}, false},
	{"not in the wallet", func(d *desk) {
		d.AddCoupon(1)
		d.answer(0, map[string]string{
			"ko": "고객번호 7번 고객님이 이 쿠폰을 신청하신 기록이 없습니다. 신청 기간은 <time>까지입니다.\n",
			"en": "There is no record that customer 7 applied for this coupon. Applications close at <time>.\n"})
		d.Apply(42, 7)
		d.answer(0, map[string]string{"ko": "정산은 <time>에 예정되어 있으며", "en": "The settlement is planned for <time>"})
		d.SettleNow()
		d.Exec("UPDATE user_coupon SET expires_at = UTC_TIMESTAMP(6)")
		d.answer(0, map[string]string{"ko": "<time>에 쿠폰의 유효 기한이 만료되었습니다.\n", "en": "expired at <time>.\n"})
		d.does("coupon", "revoke", "42", "--user=7")
		d.answer(0, map[string]string{
			"ko": issued7 + "담당자 lee님이 <time>에 쿠폰을 회수했습니다. 사유: test.\n",
			"en": enIssued + "A member of our staff (lee) revoked it at <time> because of: test.\n"})
	}, false},
}

// Each command of the table answers its ticket, and the table quotes what the command prints.
func TestTickets_AreAnsweredByOneCommand(t *testing.T) {
	t.Parallel()
	pages := map[string][]ticket{
		"ko": ticketsOf(t, "operators.ko.md", "고객센터에 들어오는 문의"),
		"en": ticketsOf(t, "operators.md", "What people ask customer service"),
	}
	require.Len(t, pages["ko"], len(situations))
	require.Len(t, pages["en"], len(situations))
	for i, situation := range situations {
		ko, en := pages["ko"][i], pages["en"][i]
		require.Equal(t, en.command, ko.command, situation.name)
		require.Regexp(t, hangul, ko.says)
		require.NotRegexp(t, hangul, en.says)
		desks := []map[string]ticket{{"ko": ko, "en": en}}
		if situation.changes {
			desks = []map[string]ticket{{"ko": ko}, {"en": en}}
		}
		for _, asked := range desks {
			t.Run(situation.name, func(t *testing.T) {
				t.Parallel()
				d := newDesk(t, asked)
				situation.is(d)
				for language, one := range asked {
					require.NotEmpty(t, one.answers)
					for _, quote := range one.answers {
						require.Contains(t, strings.Join(d.said[language], ""), quote, "the page quotes it")
					}
				}
			})
		}
	}
}
