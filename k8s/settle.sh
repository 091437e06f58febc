#!/usr/bin/env bash
# Runs a verb of settle as a Job, with the pod template, account and failure policy of the CronJob settle.
#
#   k8s/settle.sh run --coupon 42 --date 2026-11-20 --operator kim --reason TICKET-123
#   k8s/settle.sh explain --coupon 42 --user 7
#   SECRET=jajeong-privacy k8s/settle.sh user forget --user 7 --operator kim --reason PRIVACY-9
#   SECRET=settle-lee k8s/settle.sh approve 12 --operator lee --reason MKT-2 --yes
#
# SECRET is the Secret with the accounts of the Job, without it that of the CronJob. No other pod mounts jajeong-privacy. Who
# approves is a person, so `approve` needs a Secret of that person: those of the programs begin with jajeong-.
#
# Concurrent runs are safe, because each coupon has a row lock and a settled application is not settled again. After exit
# code 1 the Job tries again. Exit codes 2 and 3 fail it immediately.
#
# The Job has no owner, so it does not displace nightly Jobs from the history. Its arguments and its log may name users, so
# Kubernetes deletes it ten minutes after its end.
#
# Needs jq, and kubectl with a context for the cluster. The default of NAMESPACE is jajeong.
set -euo pipefail

if [[ ${1:--} = -* ]]; then # no verb
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 2
fi
case "$1 ${SECRET-}" in
'approve ' | 'approve jajeong-'*)
	echo "approve needs the account of a person: SECRET=settle-lee k8s/settle.sh approve …" >&2
	exit 2
	;;
esac
namespace=${NAMESPACE:-jajeong}
job=settle-$1-$(date -u +%Y%m%d-%H%M%S)-$$

kubectl --namespace "$namespace" create job "$job" --from=cronjob/settle --dry-run=client --output json |
	jq --arg secret "${SECRET-}" 'del(.metadata.ownerReferences) | .spec.ttlSecondsAfterFinished = 600 |
		.spec.template.spec.containers[0].args = $ARGS.positional |
		if $secret != "" then (.spec.template.spec.volumes[] | select(.name == "secrets").secret.secretName) = $secret else . end' \
		--args -- "$@" |
	kubectl --namespace "$namespace" create --filename -

cat >&2 <<EOF
Read its log:      kubectl --namespace $namespace logs --follow job/$job
Read its result:   kubectl --namespace $namespace get job $job
Kubernetes deletes both ten minutes after its end.
EOF
