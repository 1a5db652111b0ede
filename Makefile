SHELL := bash

# This module and those beside it (bench/ keeps the peers that it measures out of our go.mod).
MODULES := $(patsubst %/,%,$(dir $(wildcard go.mod */go.mod)))

GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.14.0

GO_FILES = find . -name node_modules -prune -o -name '*.go' -print0

.PHONY: test lint bench fmt soak

# Under the race detector SQLite takes ten times as long, so the tests of these
# packages use the databases less there (package internal/race). They run a second
# time without it, in full.
WITHOUT_RACE := ./checkpoint ./store ./ledger ./sqlite ./postgres ./internal/threadtest ./internal/crashtest

# What CI runs. A skipped test fails it; the last line is the tally. Many tests wait
# for a database or a process, so more packages run at a time than there are
# processors.
test:
	@.ci/postgres
	@.ci/npm
	@.ci/python
	@set -euo pipefail; \
	unformatted=$$($(GO_FILES) | xargs -0 gofmt -s -l); \
	if [ -n "$$unformatted" ]; then printf 'not formatted (make fmt):\n%s\n' "$$unformatted"; exit 1; fi
	@set -euo pipefail; \
	for m in $(MODULES); do (cd "$$m" && go vet ./...); done
	@set -uo pipefail; { \
		status=0; \
		for m in $(MODULES); do (cd "$$m" && go test -race -p 4 -timeout 60m -json ./...) || status=1; done; \
		go test -p 4 -timeout 60m -json $(WITHOUT_RACE) || status=1; \
		exit $$status; \
	} | go run ./internal/testreport

# The crash tests with ten times as many kills, on graphs that no run before has had.
soak:
	@TREADLE_SOAK=1 go test -race -timeout 60m -count 1 -v -run Killed ./internal/crashtest

lint:
	@set -euo pipefail; \
	for m in $(MODULES); do (cd "$$m" && $(GOLANGCI_LINT) run ./...); done

bench:
	@cd bench && go run . -json

fmt:
	@$(GO_FILES) | xargs -0 gofmt -s -w
