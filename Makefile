# Tokenweir: `make run` starts everything, `make test` checks everything. `make help` lists the rest.
# Needs GNU make, Python 3.11 or newer and a network for the first run; the rest goes into .venv.

VENV ?= .venv
BIN := $(VENV)/bin
# A Python to build the environment with; empty: the first of the usual names that is new enough.
PYTHON ?=
# Wheel index to take torch from; empty: pip's own. PyTorch publishes one with CPU wheels alone.
TORCH_INDEX ?=
# Processes that share the tests.
JOBS ?= 3
# More arguments for `weir up`, pytest or the benchmark, such as ARGS="--workers 2".
ARGS ?=
# Parts that must not be skipped by tests, such as REQUIRE=model. See CONTRIBUTING.md.
REQUIRE ?=
export REQUIRE
# Where it is set, each process compiles all that it imports: seconds of a core for each service.
unexport PYTHONDONTWRITEBYTECODE

PACKAGES := pyproject.toml libs/weir_client/pyproject.toml constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Errors only: the first URL that `make run` prints is to be the one to paste into a client.
# Not compiled: most of torch is never imported, and what is gets compiled then; half the time.
INSTALL := $(PIP) install -qq --no-compile --constraint constraints.txt
RUFF := $(BIN)/python -m ruff

.DEFAULT_GOAL := help
.PHONY: help run test soak lint types format proto docs docs-serve kernels bench-stack bench-limiter bench-simulation bench-fairness bench-engine bench-gateway bench-seeing bench-gpu peers clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.installed-run ## Start the four services and stream an answer of a real model
	@exec $(BIN)/python -m weir_cli up $(ARGS)

test: $(VENV)/.installed-dev $(VENV)/.installed-node ## Everything that a change can break (under 15 minutes on 2 cores)
	$(BIN)/python -m tests.warm_model
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

soak: $(VENV)/.installed-dev ## The long runs
	$(BIN)/python -m pytest -m soak --timeout 3600 $(ARGS)

lint: $(VENV)/.installed-dev ## ruff, buf lint, import contracts
	$(RUFF) check .
	$(RUFF) format --check .
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev ## mypy, strict
	$(BIN)/python -m mypy --num-workers 2

format: $(VENV)/.installed-dev ## Format Python and protos, apply safe fixes
	$(RUFF) check --fix .
	$(RUFF) format .
	$(BIN)/buf format --write

proto: $(VENV)/.installed-dev ## Regenerate the gRPC stubs and the generated pages of docs/
	$(BIN)/python tools/generate_stubs.py
	$(BIN)/python tools/generate_docs.py
	$(BIN)/python tools/generate_monitoring.py

docs: $(VENV)/.installed-dev ## Build the documentation site into build/site; dead links fail
	$(BIN)/python -m tools.site_pages.build

docs-serve: docs ## Serve the site at http://localhost:8008
	$(BIN)/python -m http.server --directory build/site --bind 127.0.0.1 8008

kernels: $(VENV)/.installed-run ## Compile the CPU kernels now (a worker does at its first start)
	$(BIN)/python -m weir_worker.kernels

bench-stack: $(VENV)/.installed-run ## Measure the whole stack; the last line is JSON
	$(BIN)/python -m bench.stack $(ARGS)

bench-limiter: $(VENV)/.installed-dev ## Measure the token account; the last line is JSON
	$(BIN)/python -m bench.limiter $(ARGS)

bench-simulation: $(VENV)/.installed-run ## Simulate the re-run table (traces under $$TRACES); the last line is JSON
	$(BIN)/python -m bench.simulation.main $(ARGS)

bench-fairness: $(VENV)/.installed-run ## Measure what a light tenant feels of a heavy one; the last line is JSON
	$(BIN)/python -m bench.fairness_live $(ARGS)

peers: $(VENV)/.created ## Install the engines and gateways that ours are measured beside (under $PEERS)
	$(BIN)/python -m bench.peers.install $(ARGS)

bench-gpu: $(VENV)/.installed-run ## Measure what the engine makes of a GPU; the last line is JSON
	$(BIN)/python -m bench.gpu $(ARGS)

bench-engine: $(VENV)/.installed-run ## Measure the engine and its peers; the last line is JSON
	$(BIN)/python -m bench.engine $(ARGS)

bench-gateway: $(VENV)/.installed-run ## Measure the gateway beside others; the last line is JSON
	$(BIN)/python -m bench.gateway.main $(ARGS)

bench-seeing: $(VENV)/.installed-run ## Measure what traces cost; the last line is JSON
	$(BIN)/python -m bench.seeing.main $(ARGS)

clean: ## Remove the environment, caches and build output (not the downloaded model)
	rm -rf $(VENV) tests/contract/node/node_modules build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is written last, so that an interrupted installation is taken up again.
$(VENV)/.created:
	@python=$$(PYTHON="$(PYTHON)" sh tools/find_python.sh) || exit 1; \
	echo "Creating $(VENV) with $$python"; \
	"$$python" -m venv $(VENV) || \
	{ echo "error: $$python cannot create a virtual environment; install its venv module (Debian: apt install python3-venv)" >&2; exit 1; }
	@touch $@

# From an index of its own torch comes without dependencies, which that index may lack in the
# pinned versions; the next step takes them from the usual one.
$(VENV)/.installed-torch: constraints.txt | $(VENV)/.created
	@echo "Installing torch (200 MB; up to 3 GB from an index of CUDA wheels)"
	@$(INSTALL) $(if $(TORCH_INDEX),--no-deps --index-url "$(TORCH_INDEX)") torch
	@touch $@

$(VENV)/.installed-run: $(PACKAGES) $(VENV)/.installed-torch
	@echo "Installing Tokenweir and what it needs (minutes the first time)"
	@$(INSTALL) --editable libs/weir_client --editable '.[worker,sim]'
	@touch $@

$(VENV)/.installed-dev: $(PACKAGES) $(VENV)/.installed-torch
	@echo "Installing Tokenweir and the tools of its tests (minutes the first time)"
	@$(INSTALL) --editable libs/weir_client --editable '.[worker,sim,dev]'
	@touch $@ $(VENV)/.installed-run

# OpenAI's SDK for Node, which the contract suite runs.
$(VENV)/.installed-node: tests/contract/node/package-lock.json $(VENV)/.installed-dev
	@if $(BIN)/python -m tests.contract.node_sdk; then touch $@; \
	else echo "note: no OpenAI SDK for Node; the tests that need it are skipped" >&2; fi
