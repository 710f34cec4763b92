# Everything a person or CI does with this tree. `make` alone lists it.

# A clone may have no tags, or no git at all; the version says so.
VERSION  ?= $(shell git -c safe.directory='*' describe --tags --always --dirty 2>/dev/null || echo devel)
REVISION ?= $(shell git -c safe.directory='*' rev-parse HEAD 2>/dev/null)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)
GO       ?= go

GOLANGCI := $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZTIME ?= 20s
# Arguments for the end-to-end tests, such as E2E_ARGS='-run TestScenario02'.
E2E_ARGS ?=
# Flags of the benchmark on real brokers, such as BENCH_ARGS='-only cost -pairs 7'.
BENCH_ARGS ?=
# How long make soak runs.
FOR      ?= 1h

.DEFAULT_GOAL := help
.PHONY: help build demo test race e2e e2e-full conformance soak bench lint fuzz generate clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' Makefile

build: ## build bin/geobridge
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o bin/geobridge ./cmd/geobridge

demo: build ## show a bridge between two embedded clusters for a minute, with a verdict
	bin/geobridge demo --for 60s

test: ## run the tests, faults included: a minute or two, no broker
	$(GO) test -timeout 30m ./...

# -race also checks pointer arithmetic, and murmur3's makes a pointer past the end that it never reads from.
race: ## the same under the race detector
	$(GO) test -race -timeout 30m -gcflags='github.com/spaolacci/murmur3=-d=checkptr=0' ./...

e2e: build ## run every scenario once against real Pulsar 5 brokers; needs Maven and a JDK 21 or later
	GEOBRIDGE_E2E_BINARY=$(CURDIR)/bin/geobridge $(GO) test -tags e2e -count=1 -timeout 60m -v ./e2e $(E2E_ARGS)

e2e-full: build ## the long versions of the scenarios
	GEOBRIDGE_E2E_BINARY=$(CURDIR)/bin/geobridge GEOBRIDGE_E2E_FULL=1 \
	  $(GO) test -tags e2e -count=1 -timeout 180m -v ./e2e $(E2E_ARGS)

conformance: ## run the protocol scenarios of make test against real Pulsar 5 brokers; needs what make e2e needs
	GEOBRIDGE_CONFORMANCE=real $(GO) test -count=1 -v -timeout 40m ./internal/conformance

# The test binary runs on its own, so that Ctrl-C reaches it and it ends with the summary.
soak: ## copies under random faults, for FOR=1h, watching memory
	$(GO) test -c -o bin/ladder.test ./internal/ladder
	cd internal/ladder && GEOBRIDGE_SOAK=$(FOR) $(CURDIR)/bin/ladder.test -test.run '^TestSoak$$' -test.timeout 0

# The bare binary is geobridge without exactly once, to measure what that costs.
bench: build ## run the benchmarks; the last one needs what make e2e needs
	$(GO) test -run '^$$' -bench . -benchmem ./...
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -tags bare -ldflags '$(LDFLAGS)' -o bin/geobridge-bare ./cmd/geobridge
	$(GO) run ./bench $(BENCH_ARGS)

lint: ## run the linters
	$(GOLANGCI) run ./...

fuzz: ## fuzz each fuzz target for FUZZTIME (20s)
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 2s $$pkg || exit 1; \
	  done; \
	done

generate: ## generate code again, as committed
	$(GO) generate ./...

clean: ## remove what was built
	rm -rf bin dist
