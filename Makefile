VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
FUZZ_TIME := 30s
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help setup build dist demo try rush gotest test-short test test-mysql test-k8s soak bench check fmt

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what tests need and the machine lacks
	@scripts/setup.sh

build: ## build bin/apply-api, bin/settle and bin/wallet-api, static
	CGO_ENABLED=0 go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/apply-api ./cmd/settle ./cmd/wallet-api

dist: ## static linux/amd64 and linux/arm64 binaries with checksums in dist/
	rm -rf dist && mkdir dist
	for arch in amd64 arm64; do for program in apply-api settle wallet-api; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' \
			-o dist/$$program-linux-$$arch ./cmd/$$program; \
	done; done
	cd dist && sha256sum apply-api-* settle-* wallet-api-* > SHA256SUMS

# examples/blackfriday speaks for itself as soon as it is built. The line before is in the same language as internal/text. It is no
# go run, which ends with 1 after Ctrl-C.
blackfriday = @case "$${LC_ALL:-$${LC_MESSAGES:-$${LANG:-}}}" in \
	ko*) echo '필요한 것을 확인하고 데모를 빌드합니다 …' ;; \
	*) echo 'Looking for what is needed, and building the demo …' ;; esac; \
	scripts/setup.sh servers; \
	CGO_ENABLED=0 go build -o bin/blackfriday ./examples/blackfriday; \
	exec bin/blackfriday

demo: ## a black Friday on this machine, from the opening to the proof
	$(blackfriday)

try: ## a page, the console and the APIs with sample data at localhost, until Ctrl-C
	$(blackfriday) try

rush: ## 14:00:00 on this machine: 50,000 people press, and 1,000 coupons are issued at once
	$(blackfriday) rush

# bin/gotest runs go test and ends with what failed: internal/testenv/gotest. The time of a package is the only limit of its
# waits: it ends what hangs, and fails no machine for being slow.
GOTEST := bin/gotest go
# -vet=off: `make check` vets. -ldflags=-s: no debugger reads a test's program.
TESTS := -shuffle=on -count=1 -timeout 60m -vet=off -ldflags=-s
# kong parses the flags of every verb that a test runs, and regexp works for kong. Neither shares memory with others, and
# watched by the race detector they take a third of the processor time of internal/cli. internal/promisemodel visits as many
# states as it has time for.
RACE := -race -gcflags=github.com/jajeong/jajeong/internal/promisemodel=-race=false -gcflags=github.com/alecthomas/kong=-race=false -gcflags=regexp=-race=false -gcflags=regexp/syntax=-race=false
# Tests allocate much and keep little. A program with the race detector would sleep for a second before it exits.
test test-short test-mysql test-k8s soak: export GOGC ?= 400
test test-mysql soak: export GORACE ?= atexit_sleep_ms=0
gotest:
	@CGO_ENABLED=0 go build -o bin/gotest ./internal/testenv/gotest

test-short: gotest ## tests that need no server, under a minute
	CGO_ENABLED=0 $(GOTEST) test -short $(TESTS) ./...
	CGO_ENABLED=0 $(GOTEST) -C k8s/manifests test -short $(TESTS) .
	CGO_ENABLED=0 $(GOTEST) -C bench test -short $(TESTS) ./...

# Six tests run at the same time on any machine, because most of them wait for servers.
test: setup gotest ## run all tests, with the race detector
	CGO_ENABLED=1 $(GOTEST) test $(RACE) -parallel 6 $(TESTS) ./...
	CGO_ENABLED=0 $(GOTEST) -C k8s/manifests test $(TESTS) .
	CGO_ENABLED=0 $(GOTEST) -C bench test $(TESTS) ./...

# All tests, because a list of those that use a database could be wrong. Those of manifests use none.
test-mysql: setup gotest ## the tests on the server of TEST_MYSQL_DSN or with the mysqld of TESTENV_MYSQLD
	@CGO_ENABLED=0 go run ./internal/testenv/mysqlfound
	CGO_ENABLED=1 $(GOTEST) test $(RACE) -parallel 6 $(TESTS) ./...
	CGO_ENABLED=0 $(GOTEST) -C bench test $(TESTS) ./...

# The first run builds Kubernetes, which takes minutes. Ten tests run at the same time on any machine, because all of them
# wait for the same minute.
test-k8s: gotest ## both overlays and whole nights in the control plane of a real Kubernetes
	@scripts/setup.sh servers monitoring k8s
	CGO_ENABLED=0 $(GOTEST) -C k8s/e2e test -parallel 10 $(TESTS) .

soak: setup gotest ## all tests, those of kills, losses and chance at length, and every fuzzer for a while; some hours
	@rm -f bin/tests/*.log
	SOAK=1 CGO_ENABLED=1 $(GOTEST) test $(RACE) -parallel 6 $(TESTS) -timeout 170m ./...
	@grep -hE 'kill points|operations$$|runs;|killed' bin/tests/*.log
	@for package in $$(go list ./...); do \
		listed=$$(go test -list '^Fuzz' "$$package"); \
		for fuzzer in $$(grep '^Fuzz' <<< "$$listed" || true); do \
			echo "$$package $$fuzzer"; \
			go test -run '^$$' -fuzz "^$$fuzzer$$" -fuzztime $(FUZZ_TIME) "$$package" > soak.out 2>&1 || { tail -n 40 soak.out; exit 1; }; \
		done; \
	done

# A program of a module of its own.
bench: ## measure SUBJECT=apply, settle, issue, redeem, events, live or journal: tables and charts in docs/bench
	@scripts/setup.sh servers
	CGO_ENABLED=0 go -C bench build -o ../bin/bench .
	bin/bench $(SUBJECT) -page docs/bench/$(SUBJECT).md

check: export CGO_ENABLED = 0 # as in the builds above
check: ## formatting, go.mod, linters and import rules (.golangci.yaml)
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted, run make fmt:" >&2; echo "$$unformatted" >&2; exit 1; fi
	for module in . bench k8s/manifests k8s/e2e k8s/e2e/kubernetes; do go -C $$module mod tidy -diff; done
	for module in . bench k8s/manifests k8s/e2e; do (cd $$module && go run $(GOLANGCI_LINT) run --allow-parallel-runners ./...); done

fmt: ## format the code
	gofmt -w .
