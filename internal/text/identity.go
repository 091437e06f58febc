package text

// Problems with the settings of identity.
var (
	WrongProxy = Message{"TRUSTED_PROXIES에 %q이(가) 있습니다. 10.0.0.0/8과 같은 CIDR이나 IP 주소를 지정하세요",
		"TRUSTED_PROXIES has %q: want addresses or networks such as 10.0.0.0/8"}
	TokensNotAsked = Message{"%s이(가) 지정되었지만 IDENTITY가 header입니다. 토큰을 사용하려면 IDENTITY=jwt로 지정하고, 아니면 이 설정을 빼세요",
		"%s is set, but IDENTITY is header: set IDENTITY=jwt, or remove it"}
	OneKeySource = Message{"IDENTITY=jwt에는 JWT_SECRET_FILE, JWT_JWKS_URL, JWT_JWKS_FILE 중 하나만 지정하세요",
		"IDENTITY=jwt needs one of JWT_SECRET_FILE, JWT_JWKS_URL and JWT_JWKS_FILE, and only one"}
	TokenSettingMissing = Message{"IDENTITY=jwt에는 %s이(가) 필요합니다", "IDENTITY=jwt needs %s"}
	WrongJWKSURL        = Message{"JWT_JWKS_URL이 올바른 주소가 아닙니다. 사용자 이름과 비밀번호 없이 https://login.example.com/keys와 같은 형식으로 지정하세요",
		"JWT_JWKS_URL is not an address such as https://login.example.com/keys, without a user name and password"}
	WrongJWKSFile    = Message{"JWT_JWKS_FILE이 올바르지 않습니다: %v", "JWT_JWKS_FILE is wrong: %v"}
	WrongTokenSecret = Message{"JWT_SECRET_FILE의 %d번째 줄이 올바르지 않습니다. 한 줄에 비밀값 하나를 공백 없이 그대로, 또는 base64:… 형식으로 적으세요. %d바이트 이상이어야 합니다",
		"JWT_SECRET_FILE: line %d is wrong: want one secret in a line, as it is and without spaces, or as base64:…, of at least %d bytes"}
	TokenSecretCount = Message{"JWT_SECRET_FILE에 비밀값이 %d개 있습니다. 1개부터 %d개까지 가능합니다",
		"JWT_SECRET_FILE has %d secrets: want 1 to %d"}
	WrongJWKS    = Message{"올바른 JWKS가 아닙니다: %v", "not a JSON Web Key Set: %v"}
	JWKSKeyCount = Message{"JWKS에 사용할 수 있는 키가 %d개입니다(전체 %d개). RS256(2048비트 이상), ES256, EdDSA 서명용 공개 키가 1개부터 %d개까지 있어야 합니다",
		"the JSON Web Key Set has %d usable keys of %d: want 1 to %d public keys for signatures by RS256 (2048 bits or more), ES256 or EdDSA"}
)
