package text

// Errors of lists of users.
var (
	ListUnread          = Message{"명단을 읽을 수 없습니다: %v", "the list cannot be read: %v"}
	ListTooSlow         = Message{"명단이 %d분 안에 도착하지 않았습니다. 더 빠른 연결에서 다시 보내거나 나누어 보내세요", "the list did not arrive within %d minutes: send it again over a faster connection, or split it"}
	ListTooLong         = Message{"명단이 너무 깁니다. 고객 %d명, %d MB까지 가능합니다. 나누어 실행하세요", "the list is too long: want at most %d users and %d MB; split it"}
	ListEmpty           = Message{"명단에 고객이 없습니다. 한 줄에 고객번호 하나를 적거나, 첫 줄에 %s 열이 있는 CSV로 저장하세요", "the list has no user: want an id a line, or CSV with a column %s in its first line"}
	ListDuplicates      = Message{"중복된 줄 %d개는 세지 않습니다.", "%d line{|s} with a user of another line left out."}
	ListNotUTF8         = Message{"UTF-8이 아닌 파일입니다. Excel에서 'CSV UTF-8(쉼표로 분리)' 형식으로 저장하세요", "the file is not UTF-8: save it in Excel as “CSV UTF-8”"}
	ListOtherHeader     = Message{"첫 줄 %q은(는) 고객번호가 아닙니다. 열 제목이면 %s(으)로 바꾸거나 그 줄을 지우세요", "the first line, %q, is no user id: if it is the name of the column, make it %s, or delete the line"}
	ListTwoColumns      = Message{"%s 열이 둘입니다. 하나만 남기세요", "there are two columns %s: leave one"}
	ListIsWorkbook      = Message{"Excel 통합 문서(xlsx)입니다. Excel에서 'CSV UTF-8(쉼표로 분리)' 형식으로 저장하세요", "the file is an Excel workbook: save it as “CSV UTF-8”"}
	ListWithoutHeader   = Message{"열이 여러 개인 명단은 첫 줄에 %s 열이 있어야 합니다", "a list of several columns needs a column %s in its first line"}
	ListWrongUser       = Message{"%d번째 줄: %q은(는) 고객번호가 아닙니다", "line %d: %q is no user id"}
	ListNumberShortened = Message{"%d번째 줄: %q은(는) 고객번호가 아닙니다. Excel이 긴 번호를 줄인 것 같으니 셀 서식을 '숫자'(소수 자릿수 0)로 바꾸어 저장하세요", "line %d: %q is no user id. Excel seems to have shortened it: give the cells the format “number” without decimals, and save again"}
	ListWrongJSON       = Message{"%d번째 줄: JSON이 아닙니다: %v", "line %d is no JSON: %v"}
)
