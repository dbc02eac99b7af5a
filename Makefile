# The commands of the project. `make` alone prints them.
.DEFAULT_GOAL := help
# In a CI run the file STEPS gets what each line of a recipe costs.
SHELL := $(if $(STEPS),scripts/timed.sh,/bin/bash)
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:

# Tests run optimised, with every assertion on: see [profile.checked] in Cargo.toml.
# Always the whole workspace, filtered by test: with `-p` the features of dependencies would differ, and all be built again.
CHECKED := --workspace --locked --profile checked
# Every test but those in documentation. Without these names cargo would also build all examples, which clippy has checked.
ALL_TESTS := --lib --bins --tests
PYTHON := .venv/bin/python
# Chat clients of other makers, through the gateway, before weir-mock. `cargo test` has built both binaries for the tests of their crates.
BUILT := $(or $(CARGO_TARGET_DIR),target)/checked
CHAT_CLIENTS := WEIR_BINARY=$(BUILT)/weir WEIR_MOCK_BINARY=$(BUILT)/weir-mock PYTHONPATH=clients .cache/clients/venv/bin/python -m conformance.chat
# Where `make quality` finds its sets; also a setting of the tests that measure with them.
DATA ?= $(WEIR_EVAL_DATA)
SETS ?=

.PHONY: help
help: ## print this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile

.PHONY: setup
setup: ## install what is missing: system packages, .venv, the clients that are tested, the default model
	@scripts/setup.sh

.PHONY: run
run: ## build, serve on 127.0.0.1:8000, ingest the sample on the first start
	@scripts/run.sh

.PHONY: check
check: setup clippy style ## format, lints, types of the Python client, the crate graph, licences and bans, dead links
	cargo test $(CHECKED) --test repository

.PHONY: clippy
clippy:
	cargo clippy $(CHECKED) --all-targets -- -D warnings

.PHONY: style
style:
	cargo fmt --all --check
	@scripts/deny.sh bans licenses $(if $(WEIR_ADVISORIES),advisories)
	$(PYTHON) scripts/check_links.py
	cd clients/python && ../../.venv/bin/ruff check --quiet && ../../.venv/bin/ruff format --quiet --check && ../../.venv/bin/mypy
	for part in conformance contract; do .venv/bin/ruff check --quiet clients/$$part && .venv/bin/ruff format --quiet --check clients/$$part; done

# The tests are built by clippy, which is a compiler with more lints: one build for lints and tests.
test: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
test: export CLIPPY_ARGS := -Dwarnings

.PHONY: test
test: setup style ## everything that CI runs
	$(PYTHON) -m unittest discover --start-directory scripts --pattern 'test_*.py'
	cargo build $(CHECKED) --all-targets
	cargo test $(CHECKED) $(ALL_TESTS)
	WEIR_BINARY=$(BUILT)/weir $(PYTHON) -m unittest discover --start-directory clients/python/tests
	$(CHAT_CLIENTS) --compare docs/clients.md
	cargo test $(CHECKED) --doc
	PYTHONPATH=bench $(PYTHON) -m unittest discover --start-directory bench/encoder --pattern 'test_*.py'
	PYTHONPATH=bench $(PYTHON) -m unittest discover --start-directory bench/search --pattern 'test_*.py'
	PYTHONPATH=bench $(PYTHON) -m unittest discover --start-directory bench/gateway --pattern 'test_*.py'
	PYTHONPATH=bench $(PYTHON) -m unittest discover --start-directory bench/fairness --pattern 'test_*.py'
	PYTHONPATH=bench $(PYTHON) -m unittest discover --start-directory bench/wire --pattern 'test_*.py'
	PYTHONPATH=bench $(PYTHON) -m unittest discover --start-directory bench/llm --pattern 'test_*.py'
	PYTHONPATH=bench $(PYTHON) -m unittest discover --start-directory bench/published --pattern 'test_*.py'
	PYTHONPATH=bench:bench/llm $(PYTHON) -m unittest discover --start-directory bench/scale --pattern 'test_*.py'
	PYTHONPATH=bench:bench/llm $(PYTHON) -m unittest discover --start-directory bench/pgo --pattern 'test_*.py'
	@echo 'once more by the scalar reference: kernels, encoder, index'
	$(PYTHON) scripts/scalar.py cargo test $(CHECKED)
	env -u RUSTC_WORKSPACE_WRAPPER scripts/neon.sh

.PHONY: scalar
scalar: ## encoder and index by the scalar reference, with all texts of their tests; some are part of `make test`
	@scripts/setup.sh
	WEIR_SCALAR=full $(PYTHON) scripts/scalar.py cargo test $(CHECKED)

.PHONY: neon
neon: ## the kernels of 64-bit ARM under qemu, which is part of `make test`
	@scripts/setup.sh
	@scripts/neon.sh

.PHONY: miri
miri: ## undefined behaviour in kernels and mapped, by Miri; needs a nightly compiler
	@scripts/miri.sh

.PHONY: crash
crash: ## 50 rounds of SIGKILL while documents and files are sent, jobs cancelled and a folder watched; ROUNDS=n for another number
	@scripts/setup.sh
	WEIR_CRASH_ROUNDS=$(or $(ROUNDS),50) cargo test $(CHECKED) --test weir -- --nocapture crash::

.PHONY: cluster
cluster: ## 100 SIGKILLs of three gateways, PostgreSQL and Redis while documents are stored and found and chats spend budgets, and outages of 30 s; KILLS=n, OUTAGE=seconds for others
	@scripts/setup.sh
	WEIR_OUTAGE_SECONDS=$(or $(OUTAGE),30) cargo test $(CHECKED) --test weir -- --nocapture --test-threads 1 cluster::outages
	WEIR_CLUSTER_KILLS=$(or $(KILLS),100) cargo test $(CHECKED) --test weir -- --nocapture cluster::kills

.PHONY: older
older: ## an older binary and today's over one PostgreSQL: both store, find and delete; OLD=path of the binary
	@scripts/setup.sh
	WEIR_OLD_BINARY="$(abspath $(OLD))" cargo test $(CHECKED) --test weir -- --include-ignored --nocapture cluster::older_binary

.PHONY: qdrant
qdrant: ## 50 SIGKILLs of gateways and nodes of a Qdrant cluster (those of the tests) under 200 searches and 20 changes a second; KILLS=n for another number
	@scripts/setup.sh
	WEIR_QDRANT_KILLS=$(or $(KILLS),50) cargo test $(CHECKED) --test weir -- --nocapture qdrant::kills

.PHONY: move
move: ## a collection of 20,000 chunks is moved into a Qdrant cluster (that of the tests) and back under 50 searches a second; CHUNKS=n for another number
	@scripts/setup.sh
	WEIR_MOVE_CHUNKS=$(or $(CHUNKS),20000) cargo test $(CHECKED) --test weir -- --nocapture qdrant::move_load

.PHONY: contract
contract: ## 500 generated requests to each route, compared with the OpenAPI file; EXAMPLES=n for another number
	@scripts/setup.sh
	WEIR_CONTRACT_EXAMPLES=$(or $(EXAMPLES),500) cargo test $(CHECKED) --test weir -- --nocapture generated_requests

.PHONY: attack
attack: ## attacks on a server of their own, at full length: one line for each that was held
	@scripts/setup.sh
	WEIR_ATTACK=full cargo test $(CHECKED) --test weir --test encoder -- --nocapture --test-threads 1 attack:: folders::
	WEIR_CRASH_ROUNDS=1000 cargo test $(CHECKED) --test weir -- --nocapture nothing_acknowledged
	WEIR_CONTRACT_EXAMPLES=500 cargo test $(CHECKED) --test weir --test server -- --nocapture full_disk:: clock:: panics:: generated_requests

.PHONY: bench
bench: ## measure at real size: every script of bench/, or BENCH=name; BENCH=published for the rows of published experiments
	@scripts/setup.sh
	cargo build --release --locked -p weir -p weir-loadgen
	@scripts/bench.sh $(BENCH)

.PHONY: soak
soak: ## ten minutes of mixed chat traffic on one gateway, and whether its memory or open files grow; MINUTES=n for another time
	@scripts/setup.sh
	cargo build --release --locked -p weir -p weir-loadgen -p weir-mock
	@RELEASE=$(or $(CARGO_TARGET_DIR),target)/release MINUTES=$(or $(MINUTES),10) scripts/soak.sh

.PHONY: cachesoak
cachesoak: ## ten minutes of chat traffic with the reply cache at its limit, and whether its memory is what its metric says; MINUTES=n for another time
	@scripts/setup.sh
	cargo build --release --locked -p weir -p weir-mock
	@RELEASE=$(or $(CARGO_TARGET_DIR),target)/release MINUTES=$(or $(MINUTES),10) scripts/cache_soak.sh

.PHONY: quality
quality: ## retrieval quality by `weir eval`, and STS-B, against targets; DATA=folder, SETS="scifact cacm", EVAL="--fusion rrf"
	@scripts/setup.sh
	cargo build --release --locked -p weir
	$(PYTHON) scripts/quality.py --data "$(DATA)" $(SETS) -- $(EVAL)
	WEIR_EVAL_DATA="$(abspath $(DATA))" cargo test $(CHECKED) --test encoder -- --nocapture sts::

.PHONY: guardrails
guardrails: ## accuracy of guardrails on labelled sets against targets, and what they cost; DATA=folder
	$(if $(DATA),cargo run --release --locked -p weir-guardrails --example guardrails_accuracy -- "$(DATA)",@echo 'accuracy: skipped, because there is no DATA=folder')
	cargo run --release --locked -p weir-guardrails --example bench_guardrails

.PHONY: fuzz
fuzz: ## every fuzz target, an hour in all; MINUTES=n for another time, TARGETS="sse query" for some; needs a nightly compiler and cargo-fuzz
	@MINUTES=$(or $(MINUTES),60) TARGETS="$(TARGETS)" scripts/fuzz.sh

.PHONY: mutations
mutations: ## 10,000 damaged copies of documents, each read alone or refused; COPIES=n of each original for another number
	WEIR_MUTATIONS=$(or $(COPIES),3400) cargo test $(CHECKED) --test documents -- --include-ignored --nocapture damaged_files

.PHONY: deny
deny: ## licences, bans, sources and security advisories by cargo-deny; WEIR_ADVISORIES=folder for a clone of the RustSec database
	@scripts/setup.sh
	@scripts/deny.sh

.PHONY: dist
dist: ## what is released, in dist/: binary, symbol file, wheel, .deb, archive, completions, manual pages, SBOM, checksums
	@scripts/setup.sh
	@scripts/dist.sh

.PHONY: distcheck
distcheck: ## install what `make dist` built, each in a place of its own, and ask it a question; needs root
	scripts/test_dist.sh

.PHONY: clean
clean: ## remove what is built and fetched; models/ and weir-data/ stay
	rm -rf target dist .venv .cache
