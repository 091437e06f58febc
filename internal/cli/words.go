package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/jajeong/jajeong/internal/connect"
	"github.com/jajeong/jajeong/internal/coupon"
	"github.com/jajeong/jajeong/internal/couponadmin"
	"github.com/jajeong/jajeong/internal/history"
	"github.com/jajeong/jajeong/internal/ledger"
	"github.com/jajeong/jajeong/internal/mysqltx"
	"github.com/jajeong/jajeong/internal/settle"
	shop "github.com/jajeong/jajeong/internal/users"
)

// language is what people are spoken to in. What programs read, JSON and logs, has none. CSV is opened by both: in English its
// headers are names that do not change, in Korean they are for people.
type language string

const (
	korean  language = "ko"
	english language = "en"
)

// systemLanguage is that of the session's locale: Korean, or else English.
func systemLanguage() language {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	if strings.HasPrefix(locale, string(korean)) {
		return korean
	}
	return english
}

// words are a text in both languages, with the same verbs of fmt in the same order.
type words struct{ ko, en string }

func (w words) in(l language) string {
	if l == korean {
		return w.ko
	}
	return w.en
}

func (l language) say(w words, args ...any) string { return fmt.Sprintf(w.in(l), args...) }

// say is a text in the language of whoever runs the program.
func (p *program) say(w words, args ...any) string { return p.language.say(w, args...) }

// header are the columns of a table.
func (p *program) header(columns ...words) (row table.Row) {
	for _, c := range columns {
		row = append(row, c.in(p.language))
	}
	return row
}

// wrongUse is what is wrong with a command, for whoever gave it: exit code 2. As an error among others it is in English.
type wrongUse struct {
	words
	args []any
}

func wrong(w words, args ...any) error { return &wrongUse{w, args} }

func (w *wrongUse) Error() string { return fmt.Sprintf(w.en, w.args...) }

// wrongDate is the only thing that can be wrong with a date.
func wrongDate(flag, date string) error {
	return wrong(words{"%s: %q은(는) 날짜가 아닙니다. 2026-11-20처럼 써 주세요", "%s: %q is not a date: want YYYY-MM-DD, such as 2026-11-20"}, flag, date)
}

// tell is an error in that language, as far as it was made for people; what servers and libraries say is in English.
func (l language) tell(err error) string {
	var settings *connect.SettingError
	if use, ok := err.(*wrongUse); ok {
		return fmt.Sprintf(use.in(l), use.args...)
	}
	var given *connect.GivenError
	switch {
	case l != korean:
		return err.Error()
	case errors.As(err, &given) && !errors.As(err, &settings):
		return given.Name + koreanSlips[given.Slip]
	case !errors.As(err, &settings):
		return inKorean(err)
	}
	var lines []string
	for _, problem := range settings.Unwrap() {
		line := l.tell(problem)
		if unread := new(kong.ParseError); errors.As(problem, &unread) {
			line = "명령을 읽을 수 없습니다. --help를 보세요: " + unread.Error()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// koreanTold is settle.Told in Korean, with the same Args.
var koreanTold = map[settle.Kind]string{
	settle.NoSuchCoupon:   "쿠폰 %d은(는) 없습니다",
	settle.NotUnderReview: "사용자 %q은(는) 쿠폰 %d에서 검토 중이 아닙니다",
	settle.TakenOver:      "신청 목록을 읽는 동안 Redis 서버가 거듭 교체되었습니다",
	settle.NotDropped:     "%q은(는) 기록할 수 없어 검토 중으로 남습니다: %v",
	settle.SameArrival:    "%q은(는) 검토 중으로 남습니다. 종료한 다른 항목과 도착이 똑같은데, 그런 신청은 있을 수 없습니다. Redis에서 직접 지우세요",
	settle.MoreStay:       "그 밖에 %d건이 검토 중으로 남습니다",
	settle.CouponBusy:     "다른 정산이나 세션이 이 쿠폰의 행이나 테이블을 잡고 있습니다. 더 옮긴 것은 없으니 다시 실행하세요",
	settle.OtherWinners: "발급될 사람이 %d명, 다이제스트 %s이어서 승인한 %s과(와) 다릅니다. 아무것도 발급하지 않았습니다. " +
		"미리 보기를 다시 보고 누가 달라졌는지 확인하세요",
	settle.Stopped:      "멈추라는 신호를 받았습니다: %v",
	settle.StoppedAfter: "멈추라는 신호를 받았습니다: %v. 쿠폰 %[3]d개 중 %[2]d개를 처리했습니다",
}

// koreanCoupons is couponadmin.Error in Korean, with the same Args.
var koreanCoupons = map[couponadmin.Kind]string{
	couponadmin.NoSuchCoupon:  "쿠폰 %d은(는) 없습니다",
	couponadmin.NotShut:       "쿠폰 %d의 신청을 마감하라고 Redis에 전하지 못했습니다. 쿠폰은 그대로이고, 길면 3분 동안 신청이 거절될 수 있습니다. 다시 실행하세요 (%v)",
	couponadmin.WrongName:     "이름 %q은(는) 안 됩니다. 줄바꿈 없이 1자부터 %d자까지 가능합니다",
	couponadmin.WrongSeats:    "수량 %d은(는) 안 됩니다. 1부터 %d까지 가능합니다",
	couponadmin.WrongDays:     "유효 기간 %d일은 안 됩니다. 1일부터 %d일까지 가능합니다",
	couponadmin.WrongDiscount: "할인 %d원은 안 됩니다. 0원부터 %d원까지 가능합니다",
}

// koreanUsers is shop.Problem in Korean, with the same Args.
var koreanUsers = map[shop.Kind]string{
	shop.WrongTable:          "USER_TABLE이 %q입니다. 영문자, 숫자, _, $로 된 테이블 이름이나 데이터베이스.테이블을 주세요",
	shop.WrongIDColumn:       "USER_ID_COLUMN이 %q입니다. 영문자, 숫자, _, $로 된 열 이름을 주세요",
	shop.WrongStatusColumn:   "USER_STATUS_COLUMN이 %q입니다. 영문자, 숫자, _, $로 된 열 이름을 주세요. 상태 열이 없으면 -를 줍니다",
	shop.WrongNumberOfValues: "USER_ACTIVE_VALUES의 값이 %d개입니다. 쉼표로 나누어 1개부터 %d개까지 주세요",
	shop.WrongValue:          "USER_ACTIVE_VALUES의 값 %q은(는) 안 됩니다. 앞뒤 공백 없이 1자부터 %d자까지 가능합니다",
	shop.ValuesOfNothing:     "USER_STATUS_COLUMN이 -인데 USER_ACTIVE_VALUES가 %q입니다. 상태 열이 없으면 모든 사용자가 이용할 수 있으므로 USER_ACTIVE_VALUES를 빼거나 열 이름을 주세요",

	shop.NoTable:           "사용자를 읽을 수 없습니다. 테이블 %s이(가) 없거나 이 계정에 읽을 권한이 없습니다. USER_TABLE을 설정하거나 sql/grants.sql처럼 열의 SELECT 권한을 주세요",
	shop.NotMadeYet:        "사용자를 읽을 수 없습니다. 테이블 %s이(가) 없거나 이 계정에 읽을 권한이 없습니다. `settle migrate`를 실행하거나 USER_TABLE을 설정하거나 sql/grants.sql처럼 열의 SELECT 권한을 주세요",
	shop.NotATable:         "사용자를 읽을 수 없습니다. %s은(는) 사용자를 찾을 키가 없는 %s입니다. USER_TABLE에 원본 테이블을 주세요",
	shop.NoIDColumn:        "사용자를 읽을 수 없습니다. %s에 %s 열이 없거나 이 계정에 읽을 권한이 없습니다. USER_ID_COLUMN을 설정하거나 SELECT 권한을 주세요",
	shop.IDNotANumber:      "사용자를 읽을 수 없습니다. 사용자 id는 정수인데 %s.%s은(는) %s입니다. USER_ID_COLUMN에 정수 열을 주세요",
	shop.IDWithoutKey:      "사용자를 읽을 수 없습니다. %s.%s에 그 열만의 기본 키나 유일 키가 없어 신청자마다 테이블 전체를 읽게 됩니다. 키를 만들거나 USER_ID_COLUMN을 바꾸세요",
	shop.NoStatusColumn:    "사용자를 읽을 수 없습니다. %s에 %s 열이 없거나 이 계정에 읽을 권한이 없습니다. USER_STATUS_COLUMN을 설정하거나 SELECT 권한을 주세요. 상태 열이 없고 모든 사용자가 이용할 수 있으면 -를 줍니다",
	shop.StatusUnreadable:  "사용자를 읽을 수 없습니다. %s.%s은(는) %s입니다. USER_STATUS_COLUMN에 CHAR, VARCHAR, TEXT, ENUM, BIT나 정수 열을 주세요. 모든 사용자가 이용할 수 있으면 -를 줍니다",
	shop.ValueNotANumber:   "사용자를 읽을 수 없습니다. %s.%s은(는) %s인데 USER_ACTIVE_VALUES에 %q이(가) 있습니다. 이용할 수 있다는 뜻의 숫자를 1처럼 주세요",
	shop.ValueNeverInTable: "사용자를 읽을 수 없습니다. %s.%s은(는) %s이어서 %q일 수 없습니다. 그 값 중에 이용할 수 있다는 뜻의 값을 USER_ACTIVE_VALUES에 주세요",
}

var koreanAdvice = map[string]string{
	settle.SafeToRunAgain: "다시 실행해도 안전합니다.",
	settle.AdviseMigrate:  "데이터베이스에 테이블이나 열이 없습니다. `settle migrate`를 실행하세요.",
	settle.AdviseGrants:   "MySQL이 이 사용자나 데이터베이스를 거부합니다. MYSQL_DSN과 권한을 확인하세요.",
	settle.AdviseRedis:    "Redis가 이 사용자나 명령을 거부합니다. REDIS_USERNAME, REDIS_PASSWORD, docs/redis-users.acl의 권한과 이 키를 쓰는 다른 것을 확인하세요.",
}

// advise is an advice in that language.
func (l language) advise(advice string) string {
	if l == korean {
		return cmp.Or(koreanAdvice[advice], advice)
	}
	return advice
}

// inKorean is an error, or each of several, by what it is; one that was not made for people stays as it is.
func inKorean(err error) string {
	if told, ok := err.(*settle.Told); ok {
		return fmt.Sprintf(koreanTold[told.Kind], told.Args...)
	}
	if of, ok := err.(*couponadmin.Error); ok {
		return fmt.Sprintf(koreanCoupons[of.Kind], of.Args...)
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(all.Unwrap()...).Error() {
		var lines []string
		for _, one := range all.Unwrap() {
			if line := korean.tell(one); line != "" {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n")
	}
	var classed *coupon.Error
	if errors.As(err, &classed) && err != classed {
		return inKorean(classed)
	}
	if classed != nil {
		return inKorean(classed.Unwrap())
	}
	var told *settle.Told
	var ofCoupon *couponadmin.Error
	var held *settle.GapHeld
	var counted *settle.CountHeld
	var unknown *couponadmin.ChangeUnknown
	var session *connect.SessionError
	var users *shop.Problem
	var interrupted *mysqltx.Interrupted
	switch {
	case errors.As(err, &interrupted) && interrupted.CommitUnknown:
		return fmt.Sprintf("멈추라는 신호를 받았습니다: %v. 커밋되었는지는 다음 실행이 확인합니다 (%v)", interrupted.Cause, interrupted.Err)
	case errors.As(err, &interrupted):
		return fmt.Sprintf("멈추라는 신호를 받아 진행 중이던 트랜잭션을 되돌렸습니다: %v (%v)", interrupted.Cause, interrupted.Err)
	case errors.As(err, &users):
		return fmt.Sprintf(koreanUsers[users.Kind], users.Args...)
	case errors.As(err, &session):
		return fmt.Sprintf("세션 변수 %s이(가) %q인데 %q이어야 합니다. MYSQL_DSN, init_connect, 중간의 프록시 중 무엇이 바꾸는지 찾으세요", session.Variable, session.Is, session.Want)
	case errors.As(err, &told):
		return fmt.Sprintf(koreanTold[told.Kind], told.Args...)
	case errors.As(err, &ofCoupon):
		return fmt.Sprintf(koreanCoupons[ofCoupon.Kind], ofCoupon.Args...)
	case errors.As(err, &held):
		return fmt.Sprintf("보류: 접수된 신청 %d건 중 %d건을 찾을 수 없습니다 (%s). 아무것도 발급하지 않았습니다. "+
			"Redis가 무엇을 잃었는지 확인한 뒤 --accept-gap --operator --reason으로 유실을 인정하면 풀립니다", held.Account.Accepted, held.Gap, held.Account)
	case errors.As(err, &counted):
		return fmt.Sprintf("보류: 쿠폰 %d의 issued_count는 %d인데 쿠폰은 %d장, 수량은 %d입니다. 아무것도 발급하지 않았습니다. "+
			"누가 테이블을 고쳤는지 확인한 뒤 `settle coupon recount %d --operator … --reason …`으로 발급 수를 맞추면 풀립니다",
			counted.Coupon, counted.Counted, counted.Found, counted.Seats, counted.Coupon)
	case errors.As(err, &unknown) && unknown.Coupon == 0:
		return fmt.Sprintf("쿠폰이 만들어졌는지 확인할 수 없습니다. 다시 만들기 전에 `settle coupon list`를 보세요 (%v)", unknown.Unwrap())
	case errors.As(err, &unknown):
		return fmt.Sprintf("쿠폰 %d이(가) 바뀌었는지 확인할 수 없습니다. 다시 하기 전에 `settle coupon show %d`을(를) 보세요 (%v)", unknown.Coupon, unknown.Coupon, unknown.Unwrap())
	case errors.Is(err, ledger.ErrNoCoupon):
		return "그런 쿠폰이 없습니다: " + strings.TrimSuffix(err.Error(), ": "+ledger.ErrNoCoupon.Error())
	case errors.Is(err, history.ErrNoRun):
		return "그런 실행이 없습니다. settle runs로 찾으세요: " + strings.TrimSuffix(err.Error(), ": "+history.ErrNoRun.Error())
	default:
		return err.Error()
	}
}

// languageOf is the language that a command asks for, which must be known also where the command cannot be read.
func languageOf(args []string) language {
	asked := "auto"
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--lang="); ok {
			asked = value
		} else if arg == "--lang" && i+1 < len(args) {
			asked = args[i+1]
		}
	}
	if l := language(asked); slices.Contains([]language{korean, english}, l) {
		return l
	}
	return systemLanguage()
}
