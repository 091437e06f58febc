#!/usr/bin/env bash
# Brings an overlay to the cluster: first the schema, then the programs that need it.
#
#   k8s/deploy.sh k8s/overlays/prod
#
# A migration only adds, so that the version before goes on working beside it, and is done already when it is met again.
# A Job's template cannot be changed: the one of the version before is deleted first.
#
# Needs kubectl, whose context and KUBECONFIG say which cluster. NAMESPACE is jajeong unless it is set: that of the overlay.
set -euo pipefail

if [ $# -ne 1 ]; then
	sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
	exit 2
fi
manifests=$(kubectl kustomize "$1")
namespace=${NAMESPACE:-jajeong}
programs='apply-api, settle, verify'

# migrated waits until the Job has ended, one way or the other: `kubectl wait` knows one way alone.
migrated() {
	local until=$((SECONDS + ${MIGRATE_SECONDS:-900}))
	while ((SECONDS < until)); do
		case $(kubectl --namespace "$namespace" get job migrate --output 'jsonpath={.status.conditions[?(@.status=="True")].type}') in
		*Failed*) return 1 ;;
		*Complete*) return 0 ;;
		esac
		sleep 2
	done
	return 1
}

kubectl --namespace "$namespace" delete job migrate --ignore-not-found
kubectl apply --filename - --selector "app.kubernetes.io/component notin ($programs)" <<<"$manifests"
if ! migrated; then
	echo "The schema was not migrated, and no program was touched. What it says:" >&2
	echo "    kubectl --namespace $namespace logs job/migrate" >&2
	exit 1
fi
kubectl apply --filename - <<<"$manifests"
kubectl --namespace "$namespace" rollout status deployment/apply-api --timeout=15m
