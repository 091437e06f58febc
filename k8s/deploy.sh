#!/usr/bin/env bash
# Brings an overlay to the cluster: first the schema, then the programs that need it.
#
#   k8s/deploy.sh k8s/overlays/prod
#   k8s/deploy.sh --migrate-only k8s/overlays/prod      # and ends there, so that sql/grants.sql can follow before the programs
#
# A migration only adds, so that the version before goes on working beside it, and is done already when it is met again.
# A Job's template cannot be changed: the one of the version before is deleted first.
#
# Needs kubectl, whose context and KUBECONFIG say which cluster. The overlay says which namespace. MIGRATE_SECONDS is how long
# to wait for the schema; unless it is set, until the Job itself gives up.
set -euo pipefail

programs='apply-api, settle, verify'
only=
if [ "${1-}" = --migrate-only ]; then
	only=1
	shift
fi
if [ $# -ne 1 ]; then
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 2
fi
manifests=$(kubectl kustomize "$1")
job=$(kubectl create --dry-run=client --validate=false --filename - --selector app.kubernetes.io/component=migrate \
	--output 'jsonpath={.metadata.namespace} {.spec.activeDeadlineSeconds}' <<<"$manifests")
read -r namespace deadline <<<"$job"
seconds=${MIGRATE_SECONDS:-$((deadline + 60))}

# migrated waits until the Job has ended, one way or the other, and says which: `kubectl wait` knows one way alone.
migrated() {
	local until=$((SECONDS + seconds))
	while ((SECONDS < until)); do
		case $(kubectl --namespace "$namespace" get job migrate --output 'jsonpath={.status.conditions[?(@.status=="True")].type}') in
		*Failed*) echo failed && return ;;
		*Complete*) echo complete && return ;;
		esac
		sleep 2
	done
	echo running
}

kubectl --namespace "$namespace" delete job migrate --ignore-not-found
kubectl apply --filename - --selector "app.kubernetes.io/component notin ($programs)" <<<"$manifests"
case $(migrated) in
failed)
	echo "The schema was not migrated, and no program was touched. What it says:" >&2
	echo "    kubectl --namespace $namespace logs job/migrate" >&2
	exit 1
	;;
running)
	echo "The schema is still being migrated after $seconds s, and no program was touched. Deploy again when it has ended:" >&2
	echo "    kubectl --namespace $namespace get job migrate" >&2
	exit 1
	;;
esac
[ -z "$only" ] || exit 0
kubectl apply --filename - <<<"$manifests"
kubectl --namespace "$namespace" rollout status deployment/apply-api --timeout=15m
