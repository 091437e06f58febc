package text

// Messages about signing in at the console.
var (
	SeveralSignIns = Message{"콘솔의 로그인 방식이 여러 가지로 지정되었습니다. 한 방식의 설정만 남기세요: %s",
		"these settings are of several ways to sign in at the console: keep those of one: %s"}
	OneSignIn = Message{"콘솔의 로그인 방식을 하나만 지정하세요: CONSOLE_OIDC_ISSUER 등의 OIDC 설정, CONSOLE_TRUSTED_PROXIES, 또는 개발용 CONSOLE_DEV_USER",
		"the console needs one way to sign in, and only one: the settings of OpenID Connect such as CONSOLE_OIDC_ISSUER, CONSOLE_TRUSTED_PROXIES, or CONSOLE_DEV_USER for development"}
	WrongDevUser = Message{"CONSOLE_DEV_USER의 값 %q이(가) 올바르지 않습니다. 이름, 또는 이름=역할(viewer, marketing, cs, finance, operator)로 지정하세요",
		"CONSOLE_DEV_USER is %q: want a name, or name=role with viewer, marketing, cs, finance or operator"}
	WrongConsoleRole = Message{"CONSOLE_ROLES에 %q이(가) 있습니다. 그룹=역할(viewer, marketing, cs, finance, operator) 형식으로 지정하세요",
		"CONSOLE_ROLES has %q: want group=role with viewer, marketing, cs, finance or operator"}
	NoConsoleRoles = Message{"CONSOLE_ROLES가 없습니다. 어느 그룹이 어떤 역할을 갖는지 지정하세요. 예: finance-team=finance",
		"CONSOLE_ROLES is missing: say which group has which role, such as finance-team=finance"}
	OIDCSettingMissing = Message{"OIDC 로그인에는 %s이(가) 필요합니다", "signing in by OpenID Connect needs %s"}
	WrongConsoleURL    = Message{"%s이(가) 올바른 주소가 아닙니다. https://로 시작하는 주소를 지정하세요(localhost만 http 가능). CONSOLE_URL에는 경로를 붙이지 마세요",
		"%s is not a usable address: want https:// (http only for localhost), and no path in CONSOLE_URL"}
	WrongScopes = Message{"CONSOLE_OIDC_SCOPES의 값 %q에 openid가 없습니다. 스코프를 공백으로 구분하여 지정하세요. 예: openid profile email",
		"CONSOLE_OIDC_SCOPES is %q: want names with blanks between them, one of which is openid, such as openid profile email"}
	WrongConsoleProxy = Message{"CONSOLE_TRUSTED_PROXIES에 %q이(가) 있습니다. 10.0.0.0/8과 같은 CIDR이나 IP 주소를 지정하세요",
		"CONSOLE_TRUSTED_PROXIES has %q: want addresses or networks such as 10.0.0.0/8"}

	OtherOrigin        = Message{"다른 사이트에서 보낸 요청이므로 처리하지 않았습니다. 콘솔 화면에서 다시 시도하세요.", "The request came from another site, and was not carried out. Try again from a page of the console."}
	NoRole             = Message{"%s 님에게는 콘솔 역할이 없습니다. 담당 그룹에 넣어 달라고 관리자에게 요청하세요.", "%s has no role in the console. Ask an administrator for a group that has one."}
	DevUserElsewhere   = Message{"개발용 계정은 이 컴퓨터에서 localhost 주소로만 접속할 수 있습니다.", "The development user reaches the console only from this machine, by localhost."}
	NotSignedInAtProxy = Message{"로그인 정보를 확인할 수 없습니다. 회사 로그인 프록시를 거쳐 접속하세요.", "The sign-in cannot be verified. Open the console through the sign-in proxy."}
	SessionEnded       = Message{"로그인이 만료되었습니다. 변경된 내용이 없습니다. 다시 로그인한 뒤 시도하세요.", "The session has ended. Nothing was changed. Sign in, and try again."}
	ProviderAway       = Message{"지금은 로그인할 수 없습니다. 로그인 서버에 연결되지 않습니다. 잠시 뒤 다시 시도하세요.", "Nobody can sign in now: the provider of identities does not answer. Try again in a moment."}
	SignInFailed       = Message{"로그인하지 못했습니다. 처음부터 다시 로그인하세요.", "The sign-in failed. Begin again."}
	SignedOut          = Message{"로그아웃했습니다.", "You are signed out."}
)
