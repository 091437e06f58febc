package text

// Problems with the settings of Kafka, and with Kafka itself.
var (
	KafkaBrokersMissing = Message{"EVENT_SINK가 kafka이면 KAFKA_BROKERS에 Kafka 브로커의 주소를 host:port 형식으로 지정해야 합니다",
		"EVENT_SINK=kafka needs KAFKA_BROKERS, the host:port of Kafka's brokers"}
	KafkaBrokersMissingFor = Message{"%s를 지정하려면 KAFKA_BROKERS도 지정해야 합니다",
		"%s needs KAFKA_BROKERS, too"}
	KafkaWrongTopic = Message{"KAFKA_TOPIC이 %q입니다. 영문자, 숫자, '.', '_', '-'로 이루어진 249자 이하의 이름이어야 합니다",
		"KAFKA_TOPIC is %q: want a name of at most 249 letters, digits, '.', '_' and '-'"}
	KafkaCAWithoutTLS = Message{"KAFKA_TLS_CA_FILE을 지정하려면 KAFKA_TLS=true도 지정해야 합니다",
		"KAFKA_TLS_CA_FILE needs KAFKA_TLS=true, too"}
	KafkaMechanismMissing = Message{"%s를 지정하려면 KAFKA_SASL_MECHANISM도 PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 중 하나로 지정해야 합니다",
		"%s needs KAFKA_SASL_MECHANISM, too: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"}
	KafkaLoginMissing = Message{"KAFKA_SASL_MECHANISM을 지정하려면 KAFKA_SASL_USERNAME과 KAFKA_SASL_PASSWORD_FILE도 지정해야 합니다",
		"KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD_FILE, too"}
	KafkaPlainWithoutTLS = Message{"KAFKA_SASL_MECHANISM=PLAIN은 비밀번호를 그대로 보내므로 KAFKA_TLS=true가 필요합니다. TLS를 쓸 수 없으면 SCRAM-SHA-512를 사용하세요",
		"KAFKA_SASL_MECHANISM=PLAIN sends the password as it is and needs KAFKA_TLS=true; without TLS, use SCRAM-SHA-512"}

	KafkaTopicMissing = Message{"Kafka에 토픽 %s가 없습니다. 토픽은 자동으로 만들지 않으니 먼저 만들거나 KAFKA_TOPIC을 고치세요: %v",
		"Kafka has no topic %s, and it is not created automatically: create it, or correct KAFKA_TOPIC: %v"}
	KafkaTopicRefuses = Message{"Kafka의 토픽 %s가 이벤트를 거부했습니다. 토픽 이름과 토픽의 max.message.bytes를 확인하세요: %v",
		"the topic %s of Kafka refuses an event: check its name and its max.message.bytes: %v"}
	KafkaLoginRefused = Message{"Kafka가 로그인을 거부했습니다. KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME과 비밀번호를 확인하세요: %v",
		"Kafka refuses the login: check KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME and the password: %v"}
	KafkaRightsMissing = Message{"Kafka 사용자에게 토픽 %s의 WRITE와 DESCRIBE 권한이 없습니다. Kafka 3.0 이전이면 클러스터의 IDEMPOTENT_WRITE 권한도 필요합니다: %v",
		"the user of Kafka lacks rights: grant WRITE and DESCRIBE on topic %s and, before Kafka 3.0, IDEMPOTENT_WRITE on the cluster: %v"}
	KafkaCertificateRefused = Message{"Kafka 브로커의 인증서를 신뢰할 수 없습니다. KAFKA_TLS_CA_FILE과 KAFKA_BROKERS의 호스트 이름을 확인하세요: %v",
		"the certificate of Kafka's broker is not trusted: check KAFKA_TLS_CA_FILE and the host names in KAFKA_BROKERS: %v"}
)
