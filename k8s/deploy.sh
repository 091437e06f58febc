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
# The template of a Job is immutable, so the Job of the previous version is deleted first. While its program runs, the script
# waits: a statement that is stopped in the middle has to begin again. A Job whose program cannot start, such as one without an
# image or a node, is replaced.
#
# Needs kubectl with a context for the cluster. The overlay sets the namespace. The script waits for MIGRATE_SECONDS at most for
# a migration, which has no limit of its own. The default is an hour.
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
namespace=$(kubectl create --dry-run=client --validate=false --filename - --selector app.kubernetes.io/component=migrate \
	--output 'jsonpath={.metadata.namespace}' <<<"$manifests")
seconds=${MIGRATE_SECONDS:-3600}

unfinished() {
	echo "$1 has not ended after $seconds s. No program was changed. Deploy again after its end. Does it run?" >&2
	echo "    kubectl --namespace $namespace get job,pod --selector app.kubernetes.io/component=migrate" >&2
	exit 1
}

# running says whether the program of the Job may run in a pod. The kubelet starts a container before it reports that, so the
# program of a pod with a node may run unless the kubelet reports a failure, such as ImagePullBackOff. The status of the Job says
# less: a pod is active before it can start, and counts as ready some time after it has started.
running() {
	local pods
	pods=$(kubectl --namespace "$namespace" get pods --selector app.kubernetes.io/component=migrate --output 'go-template=
		{{- range .items}}{{if .spec.nodeName}}
			{{- .status.phase}}{{range .status.containerStatuses}}{{with .state.waiting}} {{.reason}}{{end}}{{end}}{{"\n"}}
		{{- end}}{{end}}') || exit
	grep -Eqx '(Pending|Running)( ContainerCreating| PodInitializing)?' <<<"$pods"
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
	echo unfinished
}

if [ -n "$(kubectl --namespace "$namespace" get job migrate --ignore-not-found --output name)" ]; then
	until=$((SECONDS + seconds))
	! running || echo "Waiting for the earlier migration, which runs or starts." >&2
	while running; do
		((SECONDS < until)) || unfinished "The earlier migration"
		sleep 2
	done
	kubectl --namespace "$namespace" delete job migrate --ignore-not-found
fi
kubectl apply --filename - --selector "${program/=/!=}" <<<"$manifests"
case $(migrated) in
failed)
	echo "The migration failed. No program was changed. Read its log:" >&2
	echo "    kubectl --namespace $namespace logs job/migrate" >&2
	exit 1
	;;
unfinished) unfinished "The migration" ;;
esac
[ -z "$only" ] || exit 0
kubectl apply --filename - <<<"$manifests"
kubectl --namespace "$namespace" rollout status deployment --selector "$program" --timeout=15m
