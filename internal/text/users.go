package text

// Problems with the shop's table of users and with the settings that describe it.
var (
	WrongTable = Message{"USER_TABLE이 %q입니다. 글자, 숫자, _, $, -로 이루어진 테이블 이름 또는 데이터베이스.테이블을 지정하세요",
		"USER_TABLE is %q: want a table, or database.table, of letters, digits, _, $ and -"}
	WrongIDColumn = Message{"USER_ID_COLUMN이 %q입니다. 글자, 숫자, _, $, -로 이루어진 열 이름을 지정하세요",
		"USER_ID_COLUMN is %q: want a column of letters, digits, _, $ and -"}
	WrongStatusColumn = Message{"USER_STATUS_COLUMN이 %q입니다. 글자, 숫자, _, $, -로 이루어진 열 이름을 지정하세요. 상태 열이 없으면 -를 지정하세요",
		"USER_STATUS_COLUMN is %q: want a column of letters, digits, _, $ and -, or - if there is none"}
	WrongNumberOfValues = Message{"USER_ACTIVE_VALUES에 지정된 값이 %d개입니다. 쉼표로 구분하여 1개부터 %d개까지 지정하세요",
		"USER_ACTIVE_VALUES has %d value{|s}: want 1 to %d, separated by commas"}
	WrongActiveValue = Message{"USER_ACTIVE_VALUES에 %q 값은 사용할 수 없습니다. 앞뒤 공백 없이 1자부터 %d자까지 가능합니다",
		"USER_ACTIVE_VALUES has %q: want values of 1 to %d characters without spaces around them"}
	ValuesWithoutColumn = Message{"USER_STATUS_COLUMN이 -인데 USER_ACTIVE_VALUES에 %q 값이 지정되어 있습니다. 상태 열이 없으면 모든 고객을 활성 상태로 간주하므로, USER_ACTIVE_VALUES를 빼거나 USER_STATUS_COLUMN에 열 이름을 지정하세요",
		"USER_STATUS_COLUMN is - and USER_ACTIVE_VALUES is %q: without a status column every user is active; remove USER_ACTIVE_VALUES or name the column"}
	NoUserTable = Message{"고객 정보를 읽을 수 없습니다. %s 테이블이 없거나 이 계정에 읽기 권한이 없습니다. USER_TABLE을 설정하거나, sql/grants.sql을 참고하여 필요한 열의 SELECT 권한을 부여하세요",
		"the users cannot be read: there is no table %s, or this account may not read it. Set USER_TABLE, or grant SELECT of its columns as sql/grants.sql does"}
	UserTableNotMigrated = Message{"고객 정보를 읽을 수 없습니다. %s 테이블이 없거나 이 계정에 읽기 권한이 없습니다. `settle migrate`를 실행하거나, USER_TABLE을 설정하거나, sql/grants.sql을 참고하여 필요한 열의 SELECT 권한을 부여하세요",
		"the users cannot be read: there is no table %s, or this account may not read it. Run `settle migrate`, set USER_TABLE, or grant SELECT of its columns as sql/grants.sql does"}
	NoIDColumn = Message{"고객 정보를 읽을 수 없습니다. %s 테이블에 %s 열이 없거나 이 계정에 읽기 권한이 없습니다. USER_ID_COLUMN을 설정하거나 SELECT 권한을 부여하세요",
		"the users cannot be read: %s has no column %s, or this account may not read it. Set USER_ID_COLUMN, or grant SELECT of it"}
	IDNotANumber = Message{"고객 정보를 읽을 수 없습니다. 고객번호는 정수여야 하는데 %s.%s 열의 자료형은 %s입니다. USER_ID_COLUMN에 정수 열을 지정하세요",
		"the users cannot be read: %s.%s is %s, and user ids are whole numbers. Set USER_ID_COLUMN to an integer column"}
	IDWithoutKey = Message{"고객 정보를 읽을 수 없습니다. %s.%s 열 하나로 된 기본 키나 고유 키가 없어, 신청자를 조회할 때마다 테이블 전체를 읽게 됩니다. 키를 추가하거나 USER_ID_COLUMN을 변경하세요",
		"the users cannot be read: %s.%s has no primary or unique key of its own, so every lookup would scan the whole table. Add one, or set USER_ID_COLUMN"}
	NoStatusColumn = Message{"고객 정보를 읽을 수 없습니다. %s 테이블에 %s 열이 없거나 이 계정에 읽기 권한이 없습니다. USER_STATUS_COLUMN을 설정하거나 SELECT 권한을 부여하세요. 상태 열이 없고 모든 고객이 활성 상태라면 -를 지정하세요",
		"the users cannot be read: %s has no column %s, or this account may not read it. Set USER_STATUS_COLUMN, to - if there is none and every user is active, or grant SELECT of it"}
	StatusUnreadable = Message{"고객 정보를 읽을 수 없습니다. %s.%s 열의 자료형은 %s입니다. USER_STATUS_COLUMN에 CHAR, VARCHAR, TEXT, ENUM, BIT 또는 정수 열을 지정하세요. 모든 고객이 활성 상태라면 -를 지정하세요",
		"the users cannot be read: %s.%s is %s. Set USER_STATUS_COLUMN to a CHAR, VARCHAR, TEXT, ENUM, BIT or integer column, or to - if every user is active"}
	ValueNotANumber = Message{"고객 정보를 읽을 수 없습니다. %s.%s 열의 자료형은 %s인데 USER_ACTIVE_VALUES에 %q 값이 지정되어 있습니다. 활성 상태를 뜻하는 숫자를 지정하세요. 예: 1",
		"the users cannot be read: %s.%s is %s, and USER_ACTIVE_VALUES has %q. Set it to the numbers that mean active, such as 1"}
	ValueNotInEnum = Message{"고객 정보를 읽을 수 없습니다. %s.%s 열의 자료형은 %s이므로 %q 값은 있을 수 없습니다. 이 열의 값 가운데 활성 상태를 뜻하는 값을 USER_ACTIVE_VALUES에 지정하세요",
		"the users cannot be read: %s.%s is %s, which cannot be %q. Set USER_ACTIVE_VALUES to those of its values that mean active"}
)
