# Everything runs in .venv. `make demo` installs what the demo needs, the first other command adds the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := $(VENV)/.ready-demo
READY  := $(VENV)/.ready
PEERS  := $(VENV)/.ready-peers
DOCS   := $(VENV)/.ready-docs
DIST   ?= dist
DIST_VENV ?= .venv-dist
MINUTES ?= 5
SEEDS ?= 10000
COVERED := tests/wire tests/message tests/zmtp
# Tests wait more than they compute, so a few run at a time. The tests of a file stay on one worker, and the files start in
# the order of collection: tests/conftest.py.
WORKERS ?= 3
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PINNED := --disable-pip-version-check --constraint constraints.txt
# pip as it comes with Python 3.11 knows neither dependency groups nor constraints for builds.
NEW_PIP := -m pip install --quiet $(PINNED) --upgrade pip
INSTALL := -m pip install $(PINNED) --build-constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo docs examples test test-slow test-pythons coverage lint format generate dist bench-wire bench-security bench-runtime bench-network bench-capture bench-pipeline bench-explorer bench-formation bench-large-networks fuzz simulate soak screenshots clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 14) else f"Hopline needs Python 3.11 to 3.13, {sys.executable} is {v[0]}.{v[1]}; try make PYTHON=python3.12 ...")'
	@echo "Setting up $(VENV) for the demo, once: about 400 MB to download, most of it Spark"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python $(NEW_PIP)
	@$(BIN)/python $(INSTALL) --editable '.[explorer]'
	@$(BIN)/python -c 'from hopline.pipeline.java import find_java; find_java()' 2>/dev/null || $(BIN)/python $(INSTALL) --editable '.[java]'
	@touch $@

$(READY): $(DEMO)
	@echo "Adding the other extras, the linters and what the tests need to $(VENV), once"
	@$(BIN)/python $(INSTALL) --quiet --editable '.[all]' --group dev
	@touch $@

setup: $(READY) ## Make the virtual environment with the pinned dependencies

demo: $(DEMO) ## Show everything, end to end: a network, its faults, capture, Spark, findings; ARGS='--orders 500' for less
	@$(BIN)/hopline demo $(ARGS)

examples: $(READY) ## Run the small programs of examples/, one after the other
	@for example in wire_tour request_answer pipeline broadcast network flows losses; do \
		printf '\n== examples/%s.py\n\n' $$example; $(BIN)/python examples/$$example.py || exit 1; done

test: $(READY) ## Run the tests, with branch coverage of hopline.wire and hopline.zmtp at 100%; ARGS='-k word' runs some, without
ifdef ARGS
	@$(BIN)/pytest $(ARGS)
else
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(SIDE_BY_SIDE:loadfile=worksteal) $(COVERED)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --include='src/hopline/wire/*,src/hopline/zmtp/*' --fail-under=100
	@$(BIN)/pytest $(SIDE_BY_SIDE) $(COVERED:%=--ignore=%)
endif

test-slow: $(READY) ## Run the tests that make test leaves out: longer versions of others, with more records and all tables
	@$(BIN)/pytest $(SIDE_BY_SIDE) -m slow $(ARGS)

test-pythons: $(READY) ## Run the fast tests on each of Python 3.11, 3.12 and 3.13 that is installed, pyenv's included
	@$(BIN)/python -m tools.test_pythons $(ARGS)

coverage: $(READY) ## Show what no test runs, of the whole package; takes its time
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -m ''
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --include='src/hopline/*'

lint: $(READY) ## Style, types and import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --no-incremental tools benchmarks examples tests
	@$(BIN)/lint-imports

format: $(READY) ## Rewrite the sources in the house format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

generate: $(READY) ## Write again what is derived: codecs and docs page from the layout tables, service messages, lists of keys and columns, the snapshot of the public API
	@$(BIN)/python -m tools.compiler
	@$(BIN)/python -m tools.wire_formats_page
	@$(BIN)/python -m tools.service_messages
	@$(BIN)/python -m tools.configuration_page
	@$(BIN)/python -m tools.table_pages
	@$(BIN)/python -m tools.public_api
	@$(BIN)/python -m tools.cli_page

$(DOCS): $(READY)
	@echo "Adding what builds the documentation to $(VENV), once"
	@$(BIN)/python $(INSTALL) --quiet --group docs
	@touch $@

docs: $(DOCS) ## Build the documentation into build/docs; a warning is an error
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	@echo "wrote build/docs/index.html"

bench-wire: $(READY) ## Time the codecs beside msgspec and protobuf
	@$(BIN)/python -m benchmarks.bench_wire

bench-security: $(READY) ## Time signing and verifying beside the bare HMAC
	@$(BIN)/python -m benchmarks.bench_security

$(PEERS): $(READY)
	@echo "Adding the runtimes to compare with to $(VENV) (once)"
	@$(BIN)/python $(INSTALL) --quiet --group bench
	@touch $@

bench-runtime: $(PEERS) ## Time request and answer beside Pykka, xoscar and bare queues; ARGS=--quick for a glance
	@$(BIN)/python -m benchmarks.bench_runtime $(ARGS)

bench-network: $(PEERS) ## Time messages between processes beside raw pyzmq, xoscar, Ray and NATS; ARGS=--quick for a glance
	@$(BIN)/python -m benchmarks.bench_network $(ARGS)

bench-capture: $(READY) ## Time what capture costs a network, at each level; ARGS=--quick for a glance
	@$(BIN)/python -m benchmarks.bench_capture $(ARGS)

bench-pipeline: $(PEERS) ## Time the Spark pipeline over 1 and 10 million records beside a plain scan; ARGS='--messages 100000' for a glance
	@$(BIN)/python -m benchmarks.bench_pipeline $(ARGS)

bench-explorer: $(READY) ## Time the explorer's pages over 10 million records beside plain DuckDB; ARGS='--tables FOLDER' for tables that are there
	@$(BIN)/python -m benchmarks.bench_explorer $(ARGS)

bench-formation: $(READY) ## Let networks of 25 to 200 real nodes form and change, and count what they say; ARGS='--nodes 10' for a glance
	@$(BIN)/python -m benchmarks.bench_formation $(ARGS)

bench-large-networks: $(READY) ## Simulate networks of 10 to 1,000 nodes, and count what changes cost; ARGS='--nodes 100' for a glance
	@$(BIN)/python -m benchmarks.bench_large_networks $(ARGS)

fuzz: $(READY) ## Mutate messages of each format, and conversations in ZMTP, for MINUTES (default 5) each, looking for anything but a refusal
	@$(BIN)/python -m tests.wire.fuzz --minutes $(MINUTES)
	@$(BIN)/python -m tests.zmtp.fuzz --minutes $(MINUTES)

simulate: $(READY) ## Live through SEEDS (default 10,000) simulated networks with faults
	@$(BIN)/python -m hopline.simulation --seeds $(SEEDS)

soak: MINUTES := $(if $(filter file,$(origin MINUTES)),10,$(MINUTES))
soak: $(READY) ## Run a network under load and faults for MINUTES (default 10), and judge what became of it; ARGS='--seed 7'
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

screenshots: $(READY) ## Make the pictures of the explorer in docs/images again; needs Chromium
	@$(BIN)/python -m tools.screenshots $(ARGS)

$(DIST_VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -m venv --clear $(DIST_VENV)
	@$(DIST_VENV)/bin/python $(NEW_PIP)
	@$(DIST_VENV)/bin/python $(INSTALL) --quiet --group dist
	@touch $@

dist: $(DIST_VENV)/.ready ## Build the wheel and the source distribution in dist/
	@$(DIST_VENV)/bin/python -m build --no-isolation --outdir $(DIST) .

clean: ## Remove the environment and every cache
	@rm -rf $(VENV) $(VENV)-3.* $(DIST_VENV) .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
