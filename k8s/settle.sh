#!/usr/bin/env bash
# One command of settle as a Job of its own: the CronJob's pod, account and failure policy, with other arguments.
#
#   k8s/settle.sh run --coupon 42 --date 2026-11-20 --operator kim --reason TICKET-123
#   k8s/settle.sh explain --coupon 42 --user 7
#
# Safe beside the nightly run and beside another of these: the coupon's row lock parts them, and what is settled stays as it
# is. Exit codes mean what they mean at night: 1 is tried again, 2 and 3 fail the Job at once.
#
# The Job belongs to no CronJob, whose history it would push nights out of, and is gone a week after its end.
#
# Needs kubectl, whose context and KUBECONFIG say which cluster, and jq. NAMESPACE is jajeong unless it is set.
set -euo pipefail

if [ $# -eq 0 ]; then
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 2
fi
namespace=${NAMESPACE:-jajeong}
job=settle-$1-$(date -u +%Y%m%d-%H%M%S)-$$

kubectl --namespace "$namespace" create job "$job" --from=cronjob/settle --dry-run=client --output json |
	jq 'del(.metadata.ownerReferences) | .spec.template.spec.containers[0].args = $ARGS.positional' --args -- "$@" |
	kubectl --namespace "$namespace" create --filename -

cat >&2 <<EOF
What it says:       kubectl --namespace $namespace logs --follow job/$job
How it came out:    kubectl --namespace $namespace get job $job
EOF
