#!/usr/bin/env bash
# Deploys an overlay: it migrates the schema first and then updates the programs.
#
#   k8s/deploy.sh k8s/overlays/prod
#   k8s/deploy.sh --migrate-only k8s/overlays/prod      # for sql/grants.sql between schema and programs
#
# Programs are the objects with the label jajeong.io/role=program, those of components included. All others come before the
# migration.
#
# From the first release on, migrations only add columns and tables, so the previous version keeps working. A repeated migration changes nothing.
# The template of a Job is immutable, so the Job of the previous version is deleted first. While a pod of it runs, the script
# waits: a statement that is stopped in the middle has to begin again.
#
# Needs kubectl with a context for the cluster. The overlay sets the namespace. MIGRATE_SECONDS limits each wait for a
# migration; the default is the deadline of the Job.
set -euo pipefail

program=jajeong.io/role=program
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

running() {
	echo "$1 still runs after $seconds s. No program was changed. Deploy again after its end:" >&2
	echo "    kubectl --namespace $namespace get job migrate" >&2
	exit 1
}

# migrated waits for the end of the Job and prints its result. `kubectl wait` can wait for success or failure, not for both.
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

if [ -n "$(kubectl --namespace "$namespace" get job migrate --ignore-not-found --output name)" ]; then
	echo "Waiting until no pod of the earlier migration runs." >&2
	kubectl --namespace "$namespace" wait job/migrate --for 'jsonpath={.status.ready}=0' --timeout "${seconds}s" >/dev/null ||
		running "The earlier migration"
	kubectl --namespace "$namespace" delete job migrate --ignore-not-found
fi
kubectl apply --filename - --selector "${program/=/!=}" <<<"$manifests"
case $(migrated) in
failed)
	echo "The migration failed. No program was changed. Read its log:" >&2
	echo "    kubectl --namespace $namespace logs job/migrate" >&2
	exit 1
	;;
running) running "The migration" ;;
esac
[ -z "$only" ] || exit 0
kubectl apply --filename - <<<"$manifests"
kubectl --namespace "$namespace" rollout status deployment --selector "$program" --timeout=15m
