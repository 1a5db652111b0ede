SHELL := bash

# This module and those beside it (bench/ keeps the peers that it measures out of our go.mod).
MODULES := $(patsubst %/,%,$(dir $(wildcard go.mod */go.mod)))

GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.14.0

GO_FILES = find . -name node_modules -prune -o -name '*.go' -print0

.PHONY: test lint bench fmt soak chaos api release install-check

# The race detector watches Go's heap and global variables. SQLite is C translated to Go
# and keeps its data, apart from globals, in memory that it maps itself, which the
# detector ignores. To instrument it takes most of the time of tests on SQLite, so it is
# left out. The driver around it and all other code is instrumented.
TRANSLATED := modernc.org/sqlite/lib modernc.org/libc modernc.org/memory
RACE := -race $(foreach p,$(TRANSLATED),'-gcflags=$(p)=-race=false -d=checkptr=0')

# The detector makes a program sleep a second before it exits, for goroutines that still
# run. Most packages check that there are none. Each test binary and each process that a
# test starts would sleep.
export GORACE := atexit_sleep_ms=50

GO_TEST := go test -vet=off -timeout 60m -json

# Under the race detector some tests of these packages do less (package internal/race).
# With LONG they run a second time, without it.
WITHOUT_RACE := ./postgres ./internal/threadtest ./sqlite ./internal/crashtest ./checkpoint ./store ./ledger ./server .

# The packages that take longest, to begin with, so that none of them is left at the end.
FIRST := ./postgres ./natsbus ./internal/threadtest ./sqlite ./server ./internal/crashtest . ./mcptool ./internal/faulttest

# Tests of processes that die and of pages in a browser, which promise times. With LONG
# they run before the others, so that pages are as fast as for a user, and without the
# race detector: the servers that they use have tests of their own under it. The first
# one mostly waits.
ALONE := ./internal/chaostest ./internal/studiotest ./examples/platform/conformance/browser

# Tests that mostly wait for other programs: LangGraph's SDKs, and the Go command, which
# builds what the command line makes. They run with LONG, under the race detector.
FOREIGN := ./examples/platform/conformance ./cmd/treadle

# What a change has to pass, in about ten minutes; CI runs it with LONG=1. A skipped test
# fails it; the last line is the tally. Packages are vetted as they are built for the
# tests, so that what they import is compiled once. Many tests wait for a database or a
# process, so more packages run at a time than there are processors.
#
# LONG=1 adds the tests of FOREIGN and what runs without the race detector: before the
# others those that run alone, and beside them, with their events in a file, the tests
# that do less under it and the modules that only measure.
LONG :=
LEFT_OUT := $(ALONE) $(if $(LONG),,$(FOREIGN))
test:
	@.ci/postgres
	@.ci/chromium
	@.ci/npm
	@.ci/python
	@set -euo pipefail; \
	unformatted=$$($(GO_FILES) | xargs -0 gofmt -s -l); \
	if [ -n "$$unformatted" ]; then printf 'not formatted (make fmt):\n%s\n' "$$unformatted"; exit 1; fi
	@set -euo pipefail; \
	go vet $(RACE) ./... ./internal/linked/testdata/*/; \
	for m in $(filter-out .,$(MODULES)); do (cd "$$m" && go vet ./...); done
	@set -uo pipefail; \
	events=$$(mktemp); trap 'rm -f "$$events"' EXIT; { \
		status=0; \
		[ -z "$(LONG)" ] || $(GO_TEST) -p 2 $(ALONE) || status=1; \
		[ -z "$(LONG)" ] || { \
			status=0; \
			TREADLE_AGAIN=1 $(GO_TEST) -p 2 -run "$$(go run ./internal/race/again $(WITHOUT_RACE))" $(WITHOUT_RACE) || status=1; \
			for m in $(filter-out .,$(MODULES)); do (cd "$$m" && $(GO_TEST) -p 2 ./...) || status=1; done; \
			exit $$status; \
		} >"$$events" & \
		$(GO_TEST) -p 3 $(RACE) $(if $(LONG),$(FOREIGN)) $(FIRST) $$(go list ./... | grep -vxF "$$(go list $(LEFT_OUT))") || status=1; \
		wait $$! || status=1; \
		cat "$$events"; \
		exit $$status; \
	} | go run ./internal/testreport

# The crash tests with ten times as many kills, on graphs that no run before has had, and the flows of
# the studio in dark colours too.
soak:
	@TREADLE_SOAK=1 go test $(RACE) -timeout 60m -count 1 -v -run Killed ./internal/crashtest
	@TREADLE_SOAK=1 go test -count 1 ./internal/studiotest

# Servers on SQLite, Postgres, and Postgres with NATS, with more than 1,000 faults. TREADLE_CHAOS_SEED repeats
# a run.
chaos:
	@TREADLE_SOAK=1 go test -timeout 90m -count 1 -v ./internal/chaostest

lint:
	@set -euo pipefail; \
	for m in $(MODULES); do (cd "$$m" && $(GOLANGCI_LINT) run ./...); done

bench:
	@cd bench && go run . -json

fmt:
	@$(GO_FILES) | xargs -0 gofmt -s -w

# What has changed in the exported API since the last tag. A change that breaks programs fails it, unless
# the next version may.
api:
	@.ci/api

# Archives of the command for all platforms, in dist/. The same commit gives the same bytes.
release:
	@go run ./internal/release -out dist

# Installs the command as users do, from a module proxy that has this commit and with an empty cache.
CHECK := v0.0.1-check
install-check:
	@set -euo pipefail; \
	dir=$$(mktemp -d); trap 'chmod -R u+w "$$dir"; rm -rf "$$dir"' EXIT; \
	at=$$dir/proxy/$$(go list -m)/@v; mkdir -p "$$at"; \
	git archive --format=zip --prefix="$$(go list -m)@$(CHECK)/" -o "$$at/$(CHECK).zip" HEAD -- . $(foreach m,$(filter-out .,$(MODULES)),':!$(m)'); \
	git show HEAD:go.mod >"$$at/$(CHECK).mod"; \
	echo '{"Version":"$(CHECK)"}' >"$$at/$(CHECK).info"; echo $(CHECK) >"$$at/list"; \
	cd "$$dir"; \
	GOFLAGS= GOBIN="$$dir/bin" GOMODCACHE="$$dir/cache" GONOSUMDB=github.com/treadle-go/treadle \
		GOPROXY="file://$$dir/proxy,file://$$(go env GOMODCACHE)/cache/download,$$(go env GOPROXY)" \
		go install github.com/treadle-go/treadle/cmd/treadle@$(CHECK); \
	"$$dir/bin/treadle" version
