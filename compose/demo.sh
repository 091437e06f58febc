#!/bin/bash
# Creates ten users and a coupon in a new deployment, and prints what to try. compose.yaml runs it at each `up`.
# A second run creates nothing while an open coupon has free seats.
#
#   demo.sh API_HOST API_PORT KEY_FILE MYSQL_ARGUMENT...
#
# KEY_FILE has the key of the service `checkout`. The arguments from the fourth on are for the mysql client. settle reads MYSQL_DSN and REDIS_ADDRS.
set -euo pipefail

api=/dev/tcp/$1/$2
key=$(<"$3")
shift 3

mysql "$@" --execute "INSERT IGNORE INTO \`user\` (id, status) VALUES (1, 'ACTIVE'), (2, 'ACTIVE'), (3, 'ACTIVE'),
	(4, 'ACTIVE'), (5, 'ACTIVE'), (6, 'ACTIVE'), (7, 'ACTIVE'), (8, 'ACTIVE'), (9, 'ACTIVE'), (10, 'BLOCKED')"

open="SELECT id, total_quantity FROM coupon WHERE status = 'OPEN' AND finalised_at IS NULL AND issued_count < total_quantity
	AND UTC_TIMESTAMP(6) BETWEEN apply_opens_at AND apply_closes_at ORDER BY id DESC LIMIT 1"
coupon=$(mysql "$@" --skip-column-names --execute "$open")
if [ -z "$coupon" ]; then
	read -r opens closes < <(mysql "$@" --skip-column-names --execute "SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%TZ'),
		DATE_FORMAT(UTC_TIMESTAMP() + INTERVAL 30 DAY, '%Y-%m-%dT%TZ')")
	settle coupon create --name "Midnight coupon · 자정 쿠폰" --seats 3 --discount-won 5000 --opens "$opens" --closes "$closes" \
		--operator demo --reason "docker compose up" >/dev/null
	coupon=$(mysql "$@" --skip-column-names --execute "$open")
fi
read -r id seats <<<"$coupon"

# The public port opens as soon as apply-api can serve.
for _ in {1..120}; do
	if (exec 3<>"$api") 2>/dev/null; then
		cat <<-END

			Coupon $id has $seats seats. Users 1 to 9 are ACTIVE, user 10 is BLOCKED.
			쿠폰 번호 $id, 수량 $seats장. 고객 1~9는 정상(ACTIVE), 10은 차단(BLOCKED) 상태입니다.

			Apply · 신청
			    curl -X POST -H 'X-User-ID: 10' http://localhost:8080/v1/coupons/$id/applications
			    for user in 1 2 3 4; do curl -X POST -H "X-User-ID: \$user" http://localhost:8080/v1/coupons/$id/applications; done
			See one application · 신청 상태 조회
			    curl -H 'X-User-ID: 1' http://localhost:8080/v1/coupons/$id/applications/me
			Settle now instead of at midnight · 자정을 기다리지 않고 정산
			    docker compose run --rm settle run --cutoff now --operator me --reason "first try" --yes
			See who is under review, and why · 검토 중인 신청과 원인
			    docker compose run --rm settle dlq list
			Explain one outcome · 한 사람의 결과 설명
			    docker compose run --rm settle explain --coupon $id --user 4
			See the wallet · 쿠폰함 조회
			    curl -H 'X-User-ID: 1' http://localhost:8082/v1/wallet/coupons
			Use the coupon for an order, as checkout does · 주문에 사용: 예약, 사용 확정, 환불
			    curl -X PUT -H 'Authorization: Bearer $key' -d '{"couponId":$id,"userId":1,"amountWon":12000}' http://localhost:8082/v1/orders/A-$id/coupon
			    curl -X POST -H 'Authorization: Bearer $key' http://localhost:8082/v1/orders/A-$id/coupon/confirm
			    curl -X POST -H 'Authorization: Bearer $key' http://localhost:8082/v1/orders/A-$id/coupon/refund
			See the events for other services · 다른 서비스에 발행된 이벤트 보기
			    docker compose exec redis redis-cli XRANGE coupon:events - +
			Check every invariant · 모든 불변식 검사
			    docker compose run --rm settle verify
			Dashboards · 대시보드
			    http://localhost:3000

		END
		exit 0
	fi
	sleep 1
done
echo "apply-api does not answer; its log has the cause: docker compose logs apply-api" >&2
exit 1
