package text

// The management API: its keys, and values of its requests. The texts of its problems are beside its routes.
var (
	WrongAdminKeyLine = Message{"ADMIN_KEYS_FILE의 %d번째 줄이 올바르지 않습니다. 키의 이름, 역할(viewer, marketing, cs, finance, operator), 키의 SHA-256 값(64자리 16진수)을 공백으로 구분해 적고, 필요하면 만료 시각을 2027-01-31T00:00:00+09:00 형식으로 덧붙이세요. 이름에는 영문자, 숫자, '.', '_', '-'만 64자까지 사용할 수 있습니다",
		"line %d of ADMIN_KEYS_FILE is wrong: want a name, a role (viewer, marketing, cs, finance, operator), the SHA-256 of the key (64 hexadecimal digits), and perhaps when it expires, such as 2027-01-31T00:00:00+09:00; a name has up to 64 letters, digits, '.', '_' and '-'"}
	AdminKeyTwice = Message{"ADMIN_KEYS_FILE의 %d번째 줄과 %d번째 줄에 같은 키가 있습니다. 한 줄을 지우세요",
		"lines %d and %d of ADMIN_KEYS_FILE have the same key: remove one"}
	AdminKeyOfTwoRoles = Message{"ADMIN_KEYS_FILE의 %d번째 줄: 같은 이름의 앞 줄과 역할이 다릅니다. 이름이 같은 키는 역할도 같아야 합니다",
		"line %d of ADMIN_KEYS_FILE: an earlier line with this name has another role; keys of one name have one role"}

	WantID        = Message{"1 이상의 정수여야 합니다. 부호, 공백, 맨 앞의 0은 사용할 수 없습니다", "want a whole number from 1, without sign, spaces or leading zeros"}
	WantType      = Message{"이런 JSON 값이 필요합니다: %s", "want a JSON value of this type: %s"}
	JSONBoolean   = Message{"true 또는 false", "boolean"}
	JSONNumber    = Message{"숫자", "number"}
	JSONString    = Message{"문자열", "string"}
	JSONArray     = Message{"%s의 배열", "array of %ss"}
	UnknownMember = Message{"이 요청에는 이런 이름의 값이 없습니다", "this call has no such value"}
	QueryTwice    = Message{"한 번만 지정할 수 있습니다", "it is given once at most"}
	WrongQuery    = Message{"쿼리 문자열을 읽을 수 없습니다", "the query cannot be read"}
)
