package text

// What examples/blackfriday says: `make demo`, `make rush` and `make try`. Numbers come formatted.
var (
	DemoNoSuchStory = Message{"%v: 그런 이야기는 없습니다. 비워 두거나 rush 또는 try를 지정하세요", "%v is no story: want none, rush or try"}
	DemoInterrupted = Message{"중단했습니다. 서버와 프로그램을 모두 끝내고 지웠습니다.", "Interrupted. All servers and programs are stopped and removed."}
	DemoTook        = Message{"모두 %v초 걸렸습니다.", "All of it took %v seconds."}

	DemoStart       = Message{"서버와 프로그램 시작", "Start the servers and the programs"}
	DemoStarting    = Message{"Redis와 MySQL 서버를 띄우고 프로그램을 빌드합니다(%v). 처음에는 몇 분 걸립니다.", "Starting Redis and a MySQL server, and building %v. The first time takes a few minutes."}
	DemoWorking     = Message{"%v초째 … 아직 준비 중: %v", "%v s … not ready yet: %v"}
	DemoUp          = Message{"%v 준비 완료, %v초", "%v is up after %v s."}
	DemoBuilt       = Message{"%v 빌드 완료, %v초", "%v is built after %v s."}
	DemoEnvironment = Message{"프로그램은 설정을 환경 변수에서 읽습니다. 서버의 주소, EVENT_SINK=redis, SERVICE_KEYS_FILE 등입니다.",
		"The programs read their settings from the environment: the addresses of the servers, EVENT_SINK=redis, SERVICE_KEYS_FILE and others."}

	DemoBlackFriday = Message{"Jajeong은 신청을 Redis에 줄 세우고 자정에 MySQL에서 쿠폰을 발급합니다. 이 데모는 실제 서버에서 하루를 몇 초 만에 보여 주고, " +
		"사라진 신청은 없는지, 같은 쿠폰을 두 번 받은 사람이 없는지, 먼저 신청한 사람이 받았는지 확인합니다. $로 시작하는 줄은 실행한 명령이고, 그 아래는 출력 그대로입니다. 터미널보다 넓은 표는 오른쪽이 잘려 보입니다.",
		"Jajeong queues applications in Redis and issues the coupons at midnight in MySQL. This demo plays one day in " +
			"seconds on real servers, and checks that no application is lost, that no user gets a coupon twice, and that the first " +
			"applicants get the coupons. Lines with $ are commands as they are run, with what they print; a terminal cuts tables that are wider than itself."}
	DemoCoupons      = Message{"쿠폰 세 가지와 5만 명", "Create three coupons and 50,000 people"}
	DemoFirst        = Message{"한 사람이 두 파드에 두 번 신청", "One person applies twice, on two pods"}
	DemoApplications = Message{"모두가 동시에 신청", "Everybody applies at the same time"}
	DemoSettlement   = Message{"앞당긴 자정: 정산", "Midnight comes early: the settlement"}
	DemoReview       = Message{"검토 중인 신청: DLQ", "Applications under review: the dead-letter queue (DLQ)"}
	DemoAfterwards   = Message{"다시 신청한 사람이 받는 응답", "The answers to people who apply again"}
	DemoRepetition   = Message{"다시 정산해도 그대로", "A second settlement changes nothing"}
	DemoCheckout     = Message{"결제에서 쿠폰 사용: 예약, 사용 확정, 사용 취소", "At checkout: reserve, use, give back"}
	DemoService      = Message{"고객센터에서 보는 기록", "What customer service sees"}
	DemoEvents       = Message{"다른 서비스에 전달되는 이벤트", "The rest of the shop: events"}
	DemoProof        = Message{"증명: 모든 불변식 확인", "The proof: every invariant is checked"}

	DemoPeople        = Message{"%v명 가운데 %v명은 차단되었고 %v명은 고객 테이블에 없습니다.", "Of %v people, %v are blocked, and %v are missing in the user table."}
	DemoTwice         = Message{"그 가운데 %v명은 두 번 신청합니다.", "%v of them will apply twice."}
	DemoPublishes     = Message{"발급한 쿠폰을 이벤트로 내보내는 프로세스를 띄웁니다.", "A process publishes what is issued:"}
	DemoSamePosition  = Message{"두 파드가 같은 순번과 같은 신청 시각을 돌려줍니다.", "Both pods return the same position and the same arrival time."}
	DemoApplying      = Message{"신청 %[2]v건 중 %[1]v건", "%v of %v applications"}
	DemoRate          = Message{"연결 %[2]v개로 요청 %[1]v건: 이 컴퓨터에서 클라이언트까지 포함해 초당 %[3]v건입니다.", "%v requests over %v connections: %v a second on this machine, client included."}
	DemoAnswerTimes   = Message{"응답의 절반은 %vms, 99%%는 %vms 안에 왔습니다.", "Half of the answers came within %v ms, 99%% within %v ms."}
	DemoOnePosition   = Message{"ACCEPTED(202) %v건, DUPLICATE(200) %v건: %v명 모두 순번이 하나씩 있습니다.", "%v ACCEPTED (202), %v DUPLICATE (200): all %v people have one position each."}
	DemoSettled       = Message{"정산은 %v초 걸렸습니다. 쿠폰마다 발급, 검토 중, 미선정을 더하면 신청 건수입니다. 사라진 신청이 없습니다.", "The settlement took %v seconds. For each coupon, issued, under review and not selected add up to the applications: none is lost."}
	DemoSeat          = Message{"발급 순번", "seat"}
	DemoAppliedAt     = Message{"신청 시각(KST)", "applied at (KST)"}
	DemoPosition      = Message{"API가 답한 대기 순번", "position in the answer of the API"}
	DemoWinners       = Message{"%v번째 쿠폰은 대기 순번 %v번에게 갔습니다. 앞선 신청 가운데 %v건은 쿠폰을 받을 수 없기 때문입니다. 데모가 발급 결과를 모두 API의 응답과 비교했습니다. 받을 수 있는 사람 가운데 먼저 신청한 사람들입니다.", "Seat %v went to position %v, because %v earlier applicant{|s} cannot have a coupon. The demo compared all winners with the answers of the API: they are the first eligible applicants."}
	DemoUnderReview   = Message{"신청 %v건이 순서를 지킨 채 기다립니다. INACTIVE_USER %v건, UNKNOWN_USER %v건이며 담당자가 결정합니다.", "%v applications keep their positions: %v INACTIVE_USER, %v UNKNOWN_USER. An operator decides."}
	DemoTitle         = Message{"제목", "title"}
	DemoChecksum      = Message{"체크섬", "checksum"}
	DemoSeatsTaken    = Message{"나간 수량", "seats taken"}
	DemoSettlements   = Message{"정산", "settlements"}
	DemoKey           = Message{"서비스 `checkout`에는 32바이트 난수 키가 있고, wallet-api는 그 SHA-256을 파일에서 읽습니다.", "The service `checkout` has a key of 32 random bytes; wallet-api reads its SHA-256 from a file."}
	DemoCallTo        = Message{"%v 호출", "call to %v"}
	DemoAnswer        = Message{"응답", "answer"}
	DemoToPay         = Message{"결제 금액", "to pay"}
	DemoReplyLost     = Message{"응답을 못 받아 다시", "the reply was lost"}
	DemoSameCoupon    = Message{"같은 쿠폰", "the same coupon"}
	DemoBeforeCapture = Message{"매입 전에", "before the capture"}
	DemoGoodsBack     = Message{"반품", "the goods came back"}
	DemoPaymentFailed = Message{"결제 실패", "the payment failed"}
	DemoTooLate       = Message{"너무 늦음", "too late"}
	DemoExpired       = Message{"마지막 두 호출 전에 쿠폰이 만료되었습니다. 데모가 관리자로서 유효 기간의 끝을 %v로 옮겼습니다.", "Before the last two calls the coupon expired: the demo, as an administrator, had moved its end to %v."}
	DemoKeeps         = Message{"%v번째로 발급받은 사람은 주문 B-1에 쿠폰을 쓰고 반품하지 않습니다.", "The winner of seat %v uses the coupon for order B-1, and keeps the goods."}
	DemoWrongKey      = Message{"틀린 키: %v %v.", "A wrong key: %v %v."}
	DemoNewKey        = Message{"파일의 키를 바꾸었습니다. 다시 시작하지 않아도 %v초 뒤에 적용됩니다. 옛 키의 응답은 %v, 새 키의 응답은 %v입니다.", "A new key in the file, without a restart: after %v s the old key gets %v, the new one %v."}
	DemoRead          = Message{"쇼핑몰의 프로그램이 이벤트 %v건을 %v초에 읽었습니다. %v건은 쓸 일이 없고, %v건은 다섯 번씩 실패해 DLQ 스트림에 있습니다.", "The shop's own program read %v event{|s} in %v seconds. It has no use for %v; %v failed five times each and are in its DLQ stream:"}
	DemoMended        = Message{"쇼핑몰의 장애를 고쳤습니다.", "The fault in the shop is mended."}
	DemoHandled       = Message{"쇼핑몰이 이벤트 %v건을 한 번씩 처리했습니다. MySQL에 있는 것과 id가 같습니다. 사용된 쿠폰은 %v장입니다.", "The shop has handled %v event{|s}, each once: the same ids as in MySQL. It knows %v coupon{|s} as used."}

	DemoRush = Message{"즉시 발급 쿠폰은 신청하는 대로 발급됩니다. `settle serve`가 대기열을 1초에 열 번 보고 신청 순서대로 쿠폰을 줍니다. 이 데모는 오후 2시 정각에 쿠폰 1,000장을 " +
		"5만 명에게 열고, 버튼을 누른 뒤 쿠폰함에 쿠폰이 들어오기까지 걸린 시간을 잽니다. $로 시작하는 줄은 실행한 명령이고, 그 아래는 출력 그대로입니다. 터미널보다 넓은 표는 오른쪽이 잘려 보입니다.",
		"Jajeong issues an immediate coupon as soon as a user applies: `settle serve` looks at the queue ten times a " +
			"second, and gives the seats in order of arrival. This demo opens 1,000 coupons to 50,000 people at 14:00:00, and " +
			"measures how long it takes from the press of the button to the coupon in the wallet. Lines with $ are commands as they are run, with what they print; a terminal cuts tables that are wider than itself."}
	DemoImmediate    = Message{"5만 명과 즉시 발급 쿠폰 1,000장", "50,000 people and 1,000 immediate coupons"}
	DemoEarly        = Message{"13시 59분 59초: 너무 일찍 누른 사람", "13:59:59: one person is early"}
	DemoOpening      = Message{"14시 정각: 모두가 누릅니다", "14:00:00: everybody presses"}
	DemoOthers       = Message{"나머지 사람들이 받는 응답", "Everybody else is told"}
	DemoPods         = Message{"apply-api 파드 %v개와 다음 프로세스 %v개를 띄웁니다.", "Beside %v pods of apply-api, %v of these:"}
	DemoTooBusy      = Message{"컴퓨터가 너무 바빠 쿠폰이 벌써 열렸습니다.", "This machine was too busy: the coupon is open already."}
	DemoPress        = Message{"%v명이 연결 %v개로, 연결이 비는 대로 누릅니다.", "%v people press over %v connections, each as soon as one is free."}
	DemoPressed      = Message{"누른 시각", "pressed"}
	DemoInMySQL      = Message{"MySQL에 쿠폰", "coupon in MySQL"}
	DemoPressToHave  = Message{"누른 뒤 쿠폰까지", "from press to coupon"}
	DemoFirstWinner  = Message{"가장 먼저 받은 사람은 누른 지 %vms 뒤에 쿠폰을 받았습니다. 눈 한 번 깜빡이는 데 300ms쯤 걸립니다.", "The first winner had the coupon %v ms after the press. A blink takes about 300 ms."}
	DemoPercentiles  = Message{"누른 뒤 쿠폰까지: 받은 사람의 절반은 %vms(p50), 99%%는 %vms(p99) 안에 받았습니다.", "From press to coupon: half of the winners within %v ms (p50), 99%% within %v ms (p99)."}
	DemoAllIssued    = Message{"%v장 모두 %v에 MySQL에 있었습니다. 신청 %v건을 접수했고, %v명은 그 자리에서 SOLD_OUT을 받았습니다.", "All %v coupons were in MySQL at %v. %v applications were accepted, and %v people were told SOLD_OUT at once."}
	DemoTold         = Message{"받은 응답", "what people are told"}
	DemoHowMany      = Message{"인원", "people"}
	DemoSamePeople   = Message{"MySQL에는 쿠폰 %v장과 미선정 %v명, DLQ에는 %v명이 있습니다. 응답과 같은 사람들입니다.", "MySQL has %v coupons and %v people who were not selected; the DLQ has %v. These are the same people."}
	DemoNext         = Message{"직접 해 보기", "What to try next"}
	DemoNextTry      = Message{"같은 프로그램을 브라우저에서: 페이지, 콘솔, API", "the same programs in a browser: a page, the console, the APIs"}
	DemoNextStories  = Message{"두 이야기: 자정에 발급하는 쿠폰, 바로 발급하는 쿠폰", "the two stories: coupons at midnight, and coupons at once"}
	DemoNextCompose  = Message{"같은 프로그램과 대시보드. `demo`의 로그에 시험해 볼 명령이 있습니다", "the same programs with dashboards; the log of `demo` has commands to try"}
	DemoNextBuild    = Message{"직접 준비한 Redis와 MySQL에서 쓸 프로그램을 bin/에: README.ko.md", "the programs in bin/, for your own Redis and MySQL: README.md"}
	DemoNextBench    = Message{"이 컴퓨터에서 정산을 단순한 INSERT, LOAD DATA와 비교", "the settlement beside plain INSERT and LOAD DATA, on this machine"}
	DemoNextOperator = Message{"매일 할 일과, 문제가 생겼을 때 할 일", "what to do each day, and when something fails"}

	TryTonight  = Message{"오늘 밤 쿠폰", "Tonight's coupon"}
	TryAtOnce   = Message{"바로 받는 쿠폰", "Coupon at once"}
	TrySoon     = Message{"곧 열리는 쿠폰", "Coupon that opens soon"}
	TryPast     = Message{"지난 쿠폰", "A past coupon"}
	TryData     = Message{"고객 1~%v번을 만들었습니다. %v번은 차단된 고객입니다. 쿠폰 네 가지:", "There are users 1 to %v; user %v is blocked. Four coupons:"}
	TryStates   = Message{"%[1]v번 쿠폰에는 %[2]v명이 대기 중입니다. %[3]v번은 정산이 끝났고, 차단된 고객의 신청은 검토 중입니다.", "%[2]v users wait for coupon %[1]v. Coupon %[3]v is settled, and the application of the blocked user is under review."}
	TryBrowser  = Message{"브라우저", "In a browser"}
	TryPage     = Message{"예제 페이지. 번호 하나로 로그인합니다. 비밀번호는 없습니다", "the sample page: sign in with a user's number, without a password"}
	TryPageSoon = Message{"같은 페이지: 쿠폰이 열릴 때까지 남은 시간", "the same page: it counts down to the opening"}
	TryConsole  = Message{"콘솔. 로그인 없이 %v(운영자)로 들어갑니다", "the console: you are %v, an operator, without a sign-in"}
	TryTerminal = Message{"다른 터미널", "In another terminal"}
	TryApply    = Message{"신청", "Apply:"}
	TryLook     = Message{"신청 결과와 쿠폰함", "Look at the application and the wallet:"}
	TryUse      = Message{"주문에 사용: 예약, 사용 확정", "Use the coupon for an order, as checkout does:"}
	TrySettle   = Message{"자정을 기다리지 않고 정산하고, 모든 불변식을 확인", "Settle now instead of at midnight, and check every invariant:"}
	TryMetrics  = Message{"상태와 지표", "State and metrics:"}
	TryEnded    = Message{"예기치 않게 끝난 프로그램: %v", "%v has ended"}
	TryReady    = Message{"준비되었습니다. 모두 이 컴퓨터에만 열려 있습니다. 끝내려면 Ctrl-C를 누르세요. 데이터도 지워집니다.", "Ready. All of it is open to this machine only. Ctrl-C ends it and removes the data."}
	TryStopped  = Message{"모두 끝내고 지웠습니다.", "All of it is stopped and removed."}
)
