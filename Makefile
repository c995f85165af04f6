# The two commands of a newcomer are `make demo` and `make test`; `make help` lists the rest.
# Python >= 3.11 with its venv module (Debian: python3-venv) and make: each target sets up the rest
# in .venv. `make test` runs ZooKeeper and Spark, too, for which a Java runtime must be there.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
  "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
# What the product needs on one machine; and everything, with Spark, Kubernetes' client and the tools.
RUNS := $(VENV)/.runs
INSTALLED := $(VENV)/.installed
WORKERS ?= auto

.PHONY: help install demo demo-spark java console-pictures test test-long sim flaky rotations kind test-kind interop check canaries format lint types layers proto crds dashboards map lock sbom bench race clean

help: ## say what each target does
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## create .venv with everything pinned in requirements.lock, and this project in it

# The product's part first, so that both ways end with the same environment.
define into_venv
	@test -n "$(PYTHON)" || { echo "zonekeeper needs Python 3.11 or newer on the PATH (or: make PYTHON=/path/to/python3.11 ...)" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make environments: install its venv module (Debian: apt install python3-venv)" >&2; exit 2; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	for try in 1 2 3; do \
	  $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --requirement $(1) && break; \
	  test $$try != 3; done # a download that breaks off is not taken up again by pip
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
endef

$(RUNS): requirements.demo.lock pyproject.toml
	$(call into_venv,requirements.demo.lock)
	@touch $@

$(INSTALLED): requirements.lock pyproject.toml
	$(call into_venv,requirements.lock)
	@touch $(RUNS) $@

demo: $(RUNS) ## run the main job: a bookie dies, a zone goes and comes back, a zone is lost, all under load; a minute and a half
	@$(BIN)/zonekeeper local demo

# Asked for before anything is downloaded.
java:
	@test -x "$${JAVA_HOME:-/nowhere}/bin/java" || { test -z "$${JAVA_HOME:-}" && command -v java >/dev/null; } || \
	  { echo "Spark needs Java 17 or newer: install a JRE (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME" >&2; exit 2; }

demo-spark: java $(INSTALLED) ## a stream of Spark from a log into a log: an executor dies in the middle, and all is compared; a minute (needs Java)
	@$(BIN)/python -m zonekeeper.pipeline.demo

console-pictures: $(INSTALLED) ## pictures of the console during an outage, light and dark, wide and narrow: make console-pictures FOLDER=/tmp/console
	CONSOLE_PICTURES=$(or $(FOLDER),/tmp/console-pictures) $(BIN)/pytest -q -m demo tests/shell/console/test_console_browser.py -k outage

SLOW := contracts or fuzz or processes or crash or simulation or spark or demo or cluster or interop or long

test: check ## all that a change must pass: `check`, then every slower lane
	$(BIN)/pytest -n $(WORKERS) -m "(contracts or fuzz or processes) and not (long or spark or demo or cluster)"
	$(BIN)/pytest -m "(spark or demo) and not long"
	@# The lab waits more than it works. The simulator takes what it leaves, and speaks when it has ended.
	told=$$(mktemp); nice $(BIN)/pytest -n $(WORKERS) -m "(crash or simulation) and not long" >"$$told" 2>&1 & beside=$$!; \
	  trap 'kill $$beside 2>/dev/null || true; rm -f "$$told"' EXIT; \
	  $(BIN)/pytest -m "cluster and not long"; \
	  ended=0; wait $$beside || ended=$$?; cat "$$told"; exit $$ended

canaries: $(INSTALLED) ## does any test of the fast lane let a password or a key out?
	ZONEKEEPER_CANARIES=1 $(BIN)/pytest -n $(WORKERS) -m "not ($(SLOW))"

test-long: check ## `test` with the full sweeps; hours, not minutes
	$(BIN)/pytest -n $(WORKERS) -o faulthandler_timeout=0 -m "(contracts or fuzz or processes or crash or simulation or long) and not (cluster or spark or demo)"
	$(BIN)/pytest -m "spark or demo"
	$(BIN)/pytest -m cluster

sim: $(INSTALLED) ## run the simulator: make sim SEEDS=100000 FIRST=5000 MINUTES=60 PROFILE=relay
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),400) $(if $(FIRST),--first $(FIRST)) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(PROFILE),--profile $(PROFILE))

flaky: $(INSTALLED) ## run zones, cluster and processes again and again beside load: make flaky ROUNDS=20 LANES="zones cluster" LOAD=2 MINUTES=60
	@$(BIN)/python -m tests.flaky --workers $(WORKERS) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(LANES),--lanes $(LANES)) $(if $(LOAD),--load $(LOAD)) $(if $(MINUTES),--minutes $(MINUTES))

rotations: $(INSTALLED) ## in the lab, another authority every two seconds under writes: make rotations MINUTES=10
	ROTATION_MINUTES=$(or $(MINUTES),10) $(BIN)/pytest -s -m "cluster and long" tests/cluster/test_rotations.py

kind: $(INSTALLED) ## a Kubernetes cluster in Docker with zonekeeper and a sample in it
	@$(BIN)/python -m tests.cluster.on_kind up

test-kind: $(INSTALLED) ## the lab's suite in a Kubernetes cluster in Docker
	@$(BIN)/python -m tests.cluster.on_kind test

interop: $(INSTALLED) ## Apache BookKeeper reads what we write, and the other way round (needs Maven and Java)
	$(BIN)/pytest -m interop tests/interop

check: lint types layers ## the fast part, under five minutes: format, ruff, mypy, layers, unit tests
	$(BIN)/pytest -n $(WORKERS) -m "not ($(SLOW))"

format: $(INSTALLED) ## rewrite the code in the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --exit-zero --quiet .

lint: $(INSTALLED) ## is the code in the house's format, and free of what ruff refuses?
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(INSTALLED) ## mypy, strict, tests included
	$(BIN)/mypy

layers: $(INSTALLED) ## do imports still go one way?
	$(BIN)/lint-imports

proto: $(INSTALLED) ## generate the gRPC code again from the .proto
	$(BIN)/python -m grpc_tools.protoc -I wire --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy \
	  --python_out=wire --mypy_out=wire wire/zonekeeper/wire/pb/bookie.proto

crds: $(INSTALLED) ## write the custom resource definitions again
	for folder in manifests/crds charts/zonekeeper/definitions; do $(BIN)/zonekeeper operator crds > $$folder/bookieclusters.yaml; done

dashboards: $(INSTALLED) ## write the dashboard and the alert rules again, for the chart
	mkdir -p charts/zonekeeper/monitoring
	$(BIN)/zonekeeper monitoring dashboard > charts/zonekeeper/monitoring/dashboard.json
	$(BIN)/zonekeeper monitoring rules > charts/zonekeeper/monitoring/rules.yaml

map: $(INSTALLED) ## draw the map of components and rooms again (docs/map.md, docs/map.svg)
	$(BIN)/python -m tests.repo.drawn.make

sbom: $(INSTALLED) ## write into dist: the wheel, and the bills of materials of wheel and image (CycloneDX)
	@$(BIN)/python -m tests.supply.make dist

lock: $(INSTALLED) ## resolve requirements.lock, and the parts of it that images, demo and build have, again from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra bookie --extra operator --extra shell \
	  --constraint requirements.lock --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --output-file requirements.image.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra pipeline \
	  --constraint requirements.lock --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --output-file requirements.spark.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra bookie --extra shell --group editable \
	  --constraint requirements.lock --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --output-file requirements.demo.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --group build \
	  --constraint requirements.lock --generate-hashes \
	  --no-emit-index-url --no-header --no-annotate --output-file requirements.build.lock

bench: $(INSTALLED) ## print the figures of every benchmark
	@for file in benchmarks/*.py; do name=$$(basename "$$file" .py); echo "== $$name"; $(BIN)/python -m "benchmarks.$$name"; done

race: $(INSTALLED) ## zonekeeper and Apache BookKeeper in one run; hours (needs Maven and a JDK): make race CASES="append-1024 rate-5000" ROUNDS=3 SETTINGS=tuned
	@$(BIN)/python -m benchmarks.apache $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(CASES),--cases $(CASES)) \
	  $(if $(VERSIONS),--versions $(VERSIONS)) $(if $(SETTINGS),--settings $(SETTINGS)) $(if $(WAYS),--ways $(WAYS)) $(if $(TLS),--tls)

clean: ## remove .venv and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
