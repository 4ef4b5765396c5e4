# Two commands are enough on a fresh machine with Go, git and make:
#   make run           build, then serve the folder ROOT (default: this one)
#   make test          everything that must hold, with the race detector
ROOT ?= $(CURDIR)
GO   ?= go
BIN  := bin/holdpoint
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 22

build: ## build bin/holdpoint
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN) ./cmd/holdpoint

run: build ## serve ROOT on the embedded store
	$(BIN) serve --root "$(ROOT)"

test: build ## vet, format, floors, all tests with the race detector
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'gofmt wants to change these files'; exit 1; }
	$(GO) vet ./...
	$(GO) test -race -timeout 30m -parallel 8 ./...
	$(GO) test -run 'TestPageManyCards$$|TestTarget$$|TestDocuments$$|TestDocumentsBite$$|TestUnits$$' ./internal/e2e
	$(GO) test -run 'TestCeilings$$' ./shellexec
	GOOS=darwin $(GO) build -o /dev/null ./cmd/holdpoint
	GOOS=windows $(GO) build -o /dev/null ./cmd/holdpoint

requirements: ## which requirement ids a test covers, which do not apply, which are open
	@$(GO) run ./internal/requirements

FAULTS ?= 45
MODEL ?= 20
CRASHES ?= 30
SAFETY ?= EditProperties|DataCases|KindsOfData|NoRoom|Faults|Damage|Model|Filesystems|PowerCut|Kill

DRAWS ?= 5000

safety: ## cases of data, properties, failing system calls, damage, model, filesystems, power cuts and kills: one table of what the tests count (root; about 35 minutes)
	@mkdir -p bin
	@HOLDPOINT_FAULTS=$(FAULTS) HOLDPOINT_FLIPS=100 HOLDPOINT_MODEL=$(MODEL) HOLDPOINT_FILESYSTEMS=4 HOLDPOINT_CRASHES=$(CRASHES) HOLDPOINT_KILL=all \
	  $(GO) test -count=1 -timeout 90m -v -run '^Test($(SAFETY))$$' ./fileops ./internal/e2e -rapid.checks=$(DRAWS) >bin/safety.log 2>&1; $(GO) run ./internal/safety bin/safety.log

STEPS ?= 300000

properties: ## by hand: what an edit leaves alone, by STEPS draws for each property (about 20 minutes; the seed of a failure is printed)
	$(GO) test -count=1 -timeout 0 -v -run '^TestEditProperties$$' ./fileops -rapid.checks=$(STEPS)

POWER_CUTS ?= 300

power-cut: ## POWER_CUTS power cuts each of ext4 and XFS, loop-mounted: what was acknowledged is there, nothing is half-done (root; about 3 minutes)
	@mkdir -p bin; HOLDPOINT_CRASHES=$(POWER_CUTS) $(GO) test -count=1 -timeout 60m -v -run '^TestPowerCut$$' ./internal/e2e >bin/power-cut.log 2>&1; \
	  status=$$?; grep -E "power cuts,|needs root" bin/power-cut.log; test $$status = 0 || cat bin/power-cut.log; exit $$status

filesystems: ## the write, undo and crash suites and the engine's tests on ext4, XFS, btrfs, tmpfs and overlayfs (root; HOLDPOINT_ON=xfs,btrfs for some)
	@mkdir -p bin; HOLDPOINT_LOGS="$(CURDIR)/bin" $(GO) test -count=1 -timeout 0 -tags filesystems -v -run '^TestSuites$$' ./internal/e2e

VM := .bench/vm
CUTS ?= 10

$(VM)/.unpacked:
	mkdir -p $(VM) && cd $(VM) && apt-get download "$$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')" && dpkg-deb -x linux-image-*.deb . && rm linux-image-*.deb
	touch $@

power-cut-vm: $(VM)/.unpacked ## by hand: the power of a virtual machine cut CUTS times on ext4, XFS and btrfs, with a disk that loses what it did not flush (network; Debian: qemu-system-x86)
	HOLDPOINT_VM="$(CURDIR)/$(VM)" HOLDPOINT_VM_CUTS=$(CUTS) $(GO) test -count=1 -timeout 0 -tags vm -v -run '^TestMachinePowerCut$$' ./internal/e2e

big: ## a sparse file of 20 GiB, ten million lines, a directory of 100,000 entries: time and memory of each
	HOLDPOINT_BIG=1 $(GO) test -count=1 -timeout 2h -v -run '^TestBig$$' ./internal/e2e

SOAK ?= 2h

soak: ## a daemon kept busy with everything for SOAK: memory, descriptors and threads each time all is quiet (fails when they grow)
	HOLDPOINT_SOAK=$(SOAK) $(GO) test -count=1 -timeout 0 -v -run '^TestSoak$$' ./internal/e2e

FUZZTIME ?= 10m

# The fuzzer of Go may end with "context deadline exceeded" and nothing else when its time is over: that is no finding. Making an
# interesting input smaller may take a minute each, during which nothing is tried: it gets a hundred tries.
fuzz: ## every fuzz target for FUZZTIME, one after the other; what crashes one is kept in its testdata
	@mkdir -p bin; rm -f bin/fuzz.log
	@status=0; \
	for file in $$(grep -rlE --include='*_test.go' '^func Fuzz' . | sort); do for name in $$(sed -nE 's/^func (Fuzz[A-Za-z]+)\(.*/\1/p' $$file); do \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x -parallel 2 ./$$(dirname $$file) >bin/fuzz.one 2>&1 || \
	    { grep -qE '^ +context deadline exceeded$$' bin/fuzz.one && ! grep -q 'Failing input written' bin/fuzz.one; } || status=1; \
	  echo "$$name $$(grep -E '^fuzz: elapsed.*execs' bin/fuzz.one | tail -1 | cut -d' ' -f3-) $$(grep -cE 'Failing input written|failure while testing seed' bin/fuzz.one) crashes"; cat bin/fuzz.one >>bin/fuzz.log; \
	done; done; exit $$status

APPROVALS ?= 500
DAEMONS ?= 1000

fleet: ## three NATS nodes, one killed and one cut off during APPROVALS approvals; DAEMONS daemons that each land one (about 10 minutes)
	@mkdir -p bin
	@HOLDPOINT_FLEET_APPROVALS=$(APPROVALS) HOLDPOINT_FLEET_DAEMONS=$(DAEMONS) \
	  $(GO) test -count=1 -timeout 60m -parallel 1 -v -run '^(TestNATS|TestFleet)' ./cmd/holdpoint >bin/fleet.log 2>&1; \
	  status=$$?; sed -nE 's/^ +[a-z_]+_test.go:[0-9]+: (fleet: .*)/\1/p; /^(---|FAIL|ok)/p' bin/fleet.log; exit $$status

LOAD ?= 60s

load: ## 64 agents at once over HTTP and MCP, with a person who answers: errors and tails (LOAD=60s)
	@mkdir -p bin
	@HOLDPOINT_LOAD=$(LOAD) $(GO) test -count=1 -timeout 20m -v -run '^TestLoad$$' ./internal/e2e >bin/load.log 2>&1; \
	  status=$$?; sed -nE 's/^ +load_test.go:[0-9]+: (load: .*)/\1/p; /FAIL|Error|client [0-9]/p' bin/load.log; exit $$status

N ?= 40
SEED ?= 0

requirements-prove: ## take the guards of N covered ids out by an overlay, one by one (SEED=S for the same ones): which tests notice
	$(GO) run ./internal/requirements -prove $(N) -seed $(SEED)

fatigue: ## cards per hour by reason, over ten recorded hours of an agent's work
	@$(GO) run ./bench/fatigue

shots: ## pictures of the review page at 1280 and 390 pixels, light and dark, into docs/shots (needs Chromium)
	HOLDPOINT_SHOTS="$(CURDIR)/docs/shots" $(GO) test -count=1 -tags shots -run 'TestShots$$' ./internal/e2e

PEERS := .bench/peers
FS_SERVER := $(PEERS)/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js

$(FS_SERVER):
	mkdir -p $(PEERS)
	npm install --silent --no-audit --no-fund --prefix $(PEERS) @modelcontextprotocol/server-filesystem@2026.8.31

bench-quick: build $(FS_SERVER) ## six rows beside the reference file server and the raw limits (under 3 minutes)
	$(GO) run ./bench/quick -holdpoint $(BIN) -fs $(FS_SERVER) -out bench/results/quick.jsonl

READS ?= /var/tmp/holdpoint-reads

bench-reads: ## search, trees, hashing and git status beside rg, fd, find, b3sum and git, as ratios (1.8 GiB in READS, kept; Debian: ripgrep fd-find b3sum)
	mkdir -p "$(READS)"
	$(GO) run ./bench/reads -dir "$(READS)"

reads-reference: ## list, tree and search equal git ls-files, find, fd and rg, path for path, on the 200,000 files of bench-reads and four repositories; memory (about 15 minutes)
	HOLDPOINT_READS="$(READS)" $(GO) test -count=1 -timeout 60m -v -run '^(TestListings|TestSearches|TestReadsMemory)$$' ./internal/e2e

TORTURE_PEERS := .bench/torture

$(TORTURE_PEERS)/.installed:
	mkdir -p $(TORTURE_PEERS)
	npm install --ignore-scripts --omit=optional --silent --no-audit --no-fund --prefix $(TORTURE_PEERS) @modelcontextprotocol/server-filesystem@2026.8.31 @wonderwhy-er/desktop-commander@0.2.52
	touch $@

ifdef SERVER
torture: ## drive any MCP file server over stdio through hostile probes: make torture SERVER="command {ws}"; without SERVER this project beside two others
	$(GO) run ./bench/torture "server=$(SERVER)"
else
torture: build $(TORTURE_PEERS)/.installed
	$(GO) run ./bench/torture -out .bench/torture/table.md "holdpoint=$(CURDIR)/$(BIN) mcp --root {ws}" \
		"filesystem=node $(CURDIR)/$(TORTURE_PEERS)/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js {ws}" \
		"desktop-commander=node $(CURDIR)/$(TORTURE_PEERS)/node_modules/@wonderwhy-er/desktop-commander/dist/index.js"
endif

SECURITY_FUZZ ?= 10s

security: build ## the hostile cases by kind, the races tried and their escapes, fuzzing (SECURITY_FUZZ for each target), what doctor --attack finds, the table beside other servers, and all cases as an ordinary user (where root starts it)
	@mkdir -p bin; $(GO) run ./internal/requirements -kinds
	@status=0; \
	$(GO) test -count=1 -v -run 'TestConfinement$$|TestTarget$$|TestNoise$$|TestOwnInputs$$|TestEveryBridge$$' ./internal/e2e >bin/security.log 2>&1 || status=1; \
	$(GO) test -count=1 -v -run 'TestSymlinkRace$$|TestNoSwapWindow$$' ./internal/rooted >>bin/security.log 2>&1 || status=1; \
	grep -E 'attempts|tried|seed|messages|open,|^(ok|FAIL|---)' bin/security.log; \
	awk '/ confinement: | race: /{for(i=2;i<=NF;i++){if($$i~/^attempts/)a+=$$(i-1);if($$i~/^escapes/)e+=$$(i-1)}} END{printf "races: %d attempts, %d escapes\n",a,e; exit e>0||a==0}' bin/security.log || status=1; exit $$status
	@$(BIN) doctor --attack
	@$(MAKE) --no-print-directory fuzz FUZZTIME=$(SECURITY_FUZZ) >bin/security-fuzz.log; status=$$?; \
	awk '{t=$$2;sub(/,.*/,"",t);s=0;if(match(t,/[0-9]+h/))s+=3600*substr(t,RSTART,RLENGTH-1);if(match(t,/[0-9]+m/))s+=60*substr(t,RSTART,RLENGTH-1);if(match(t,/[0-9]+s/))s+=substr(t,RSTART,RLENGTH-1);n++;secs+=s;execs+=$$4;crashes+=$$(NF-1)} \
	  END{printf "fuzzing: %d targets, %.2f hours, %d inputs, %d crashes\n",n,secs/3600,execs,crashes}' bin/security-fuzz.log; test $$status = 0 || { cat bin/security-fuzz.log; exit 1; }
	@$(MAKE) --no-print-directory torture 2>bin/torture.log || echo 'the table beside other servers: not run, see bin/torture.log (it needs npm)'
	@test "$$(id -u)" != 0 || $(MAKE) --no-print-directory security-user

USER_UID ?= 65534

security-user: ## every test that names a hostile case, with tests, daemons and all as USER_UID, on a copy of this tree; what a case leaves to root is printed with its reason (root starts it)
	@internal/requirements/as-user.sh $(USER_UID)

lint: ## staticcheck, from its own module, with staticcheck.conf
	cd lint && $(GO) build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck -tests=false ./...

MCP_CLIENTS := .bench/mcp-clients

$(MCP_CLIENTS)/.installed: internal/e2e/testdata/mcp/package-lock.json
	mkdir -p $(MCP_CLIENTS)
	cp internal/e2e/testdata/mcp/package.json internal/e2e/testdata/mcp/package-lock.json $(MCP_CLIENTS)/
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --prefix $(MCP_CLIENTS)
	touch $@

test-mcp: $(MCP_CLIENTS)/.installed ## every tool with the official MCP clients (Go, TypeScript, inspector), stdio and HTTP
	cp internal/e2e/testdata/mcp/drive.mjs internal/e2e/testdata/mcp/calls.json $(MCP_CLIENTS)/
	HOLDPOINT_MCP_CLIENTS="$(CURDIR)/$(MCP_CLIENTS)" GOFLAGS="$(GOFLAGS) -tags=npm" $(GO) test -timeout 15m -run '^TestMCP' ./internal/e2e

first-minutes: ## clone, make run, init, connect, edit, held delete, approve, undo as a new user: the time of each step (a cold build; FIRST=-warm for a quick try)
	$(GO) run ./bench/first -from "$(CURDIR)" $(FIRST)

STEADY := $(shell chrt -r 5 true 2>/dev/null && echo chrt -r 5)

bench-start: ## what a program costs to start: plain at most 1.5 times, confined at most 3 times `sh -c true`; a rehearsal at most 3 times a confined start, over 10,000 and 100,000 files, as root also as user 65534 (medians, ahead of other load where the machine lets us)
	$(GO) test -c -o bin/start.test ./shellexec
	$(STEADY) bin/start.test -test.run '^$$' -test.bench 'Start$$' -test.benchtime 100x
	$(STEADY) bin/start.test -test.run '^$$' -test.bench 'StartView$$' -test.benchtime 1x
	@test "$$(id -u)" != 0 || { d=$$(mktemp -d); install -m 755 bin/start.test $$d/; install -d -o 65534 -g 65534 $$d/tmp; chmod 755 $$d; cd $$d; \
	  TMPDIR=$$d/tmp HOME=/nonexistent $(STEADY) setpriv --reuid=65534 --regid=65534 --clear-groups ./start.test -test.run '^$$' -test.bench 'StartView$$' -test.benchtime 1x; \
	  status=$$?; rm -rf $$d; exit $$status; }

man: build ## write the manual pages and completions into bin/man and bin/completions
	@mkdir -p bin/man bin/completions
	$(BIN) man bin/man
	for s in bash zsh fish; do $(BIN) completion $$s >bin/completions/$$s || exit 1; done

licenses: ## write anew what `holdpoint version --licenses` prints, after a change of modules
	$(GO) run ./internal/release licenses

bin/nfpm: packaging/go.mod packaging/go.sum
	cd packaging && $(GO) build -o ../bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm

release: bin/nfpm ## binaries, packages, bill of materials and checksums into dist (VERSION=v1.2.3, SIGN_KEY=an ssh key)
	packaging/release.sh

changelog: ## move changes/unreleased into CHANGELOG.md (VERSION=v1.2.3)
	$(GO) run ./internal/release changelog "$(VERSION)" "$$(date -u +%Y-%m-%d)"

test-packages: bin/nfpm ## build the packages of this machine, install, upgrade, remove and purge them on a copy of it (root; Debian: rpm)
	packaging/release.sh linux/amd64 >/dev/null
	packaging/test-packages.sh

test-reproducible: bin/nfpm ## build twice, from two places and with two build caches, and compare every byte (about 5 minutes)
	packaging/test-reproducible.sh

test-service: build ## boot a systemd in namespaces with the unit: confine, rehearse, reload, upgrade, watchdog (root; Debian: systemd)
	packaging/test-service.sh

test-container: ## carry the Dockerfile out on a copy of this machine, and run what it builds as docs/operating.md says (root, network; Debian 12)
	packaging/test-container.sh

FILES ?= 100000
DC_SERVER := $(TORTURE_PEERS)/node_modules/@wonderwhy-er/desktop-commander/dist/index.js

bench: build $(FS_SERVER) $(TORTURE_PEERS)/.installed ## the whole table of speed beside the other programs, and the plots of growth (30 minutes; FILES of the large tree; Debian: ripgrep b3sum git trash-cli)
	$(GO) run ./bench/full -holdpoint $(BIN) -fs $(FS_SERVER) -dc $(DC_SERVER) -files $(FILES)
