# `make` alone lists what there is. Needs Python 3.10 or later, Java 17 or later, and git.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first Python that is new enough; name another with `make PYTHON=python3.13 ...`.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
	&& command -v "$$python" && break; done)
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
UV := $(or $(shell uv venv --help 2>/dev/null | grep -q -e --clear && command -v uv),.cache/uv/bin/uv)
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/ready
# For pytest or the benchmarks: make test ARGS='-k side_inputs', make test-slow TESTS=integration
ARGS ?=
PROOFS ?=
TESTS ?= tests integration
# Processes for `make test`, each with a Spark of its own. A test waits for others more than half of
# its time, so there are twice as many as cores.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 2)))
# A process in which no Python runs any more says where it stands, and ends: no timeout of pytest's
# own, which comes sooner, could end it.
LAST_RESORT := -o faulthandler_timeout=660 -o faulthandler_exit_on_timeout=true

export UV_PYTHON_DOWNLOADS := never
# Two processes read all test files; without bytecode, each rewrites them anew in every run.
unexport PYTHONDONTWRITEBYTECODE
# Authorities that a company has added to the system's count, as they do for pip. npm is asked for
# emulators of services.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS ?= 1
export REQUESTS_CA_BUNDLE ?= /etc/ssl/certs/ca-certificates.crt
export NODE_EXTRA_CA_CERTS ?= /etc/ssl/certs/ca-certificates.crt
endif

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: demo
demo: java $(READY) ## Set up, then run the main job: New York's flights of 2013
	@$(RUN) examples/flights.py --runner=SparkDrainRunner --output=out/flights

.PHONY: live
live: java $(READY) ## Set up, then replay New York's flights of January 2013 as a stream
	@$(RUN) examples/flights_live.py --runner=SparkDrainRunner

.PHONY: enrich
enrich: java $(READY) ## Set up, then ask a slow HTTP service about each flight of a stream
	@$(RUN) examples/enrich_live.py --runner=SparkDrainRunner

# Tests start Spark many times; each start is shorter by more than a second.
.PHONY: prepared
prepared: java $(READY)
	@ls $(VENV)/share/sparkdrain/*.jsa >/dev/null 2>&1 || $(VENV)/bin/sparkdrain prepare

.PHONY: test
test: prepared ## Set up, then run the tests
	@$(RUN) -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(LAST_RESORT) $(ARGS)

.PHONY: test-slow
test-slow: java $(READY) ## Run the slow proofs too: large data, clusters, killed executors
	@$(RUN) -m pytest -m 'slow or not slow' -o faulthandler_timeout=0 $(TESTS) $(ARGS)

.PHONY: search
search: java $(READY) ## Try laws and state machines with other examples than make test (slow)
	@$(RUN) -m pytest -v -n $(WORKERS) --maxprocesses 4 -m hypothesis --hypothesis-profile=search --timeout=3600 \
		-o faulthandler_timeout=0 $(TESTS) $(ARGS)

.PHONY: prove
prove: java $(READY) ## Run slow proofs by name (PROOFS="kills yarn"), and write down which passed
	@status=0; $(RUN) -m tests.proofs $(PROOFS) || status=1; $(RUN) docs/generate.py; exit $$status

.PHONY: mutants
mutants: java $(READY) ## Break the product on purpose, and see that a test notices (slow)
	@status=0; $(RUN) -m tests.mutants $(ARGS) || status=1; $(RUN) docs/generate.py; exit $$status

.PHONY: test-versions
test-versions: java $(READY) ## Try the wheel with each Python, Beam and Spark of docs/versions.md (slow)
	@$(RUN) -m tests.versions $(ARGS)

.PHONY: test-oldest
test-oldest: java $(READY) ## Try the wheel with the oldest Python, Beam and Spark, in a small form
	@$(RUN) -m tests.versions --oldest --keep --check stream

.PHONY: bench
bench: java $(READY) ## Compare speed with other runners of Beam, PySpark and bytewax
	@rm -f $(VENV)/share/sparkdrain/*.jsa  # which users do not have by default
	@$(RUN) -m benchmarks $(ARGS)

.PHONY: lint
lint: $(READY) ## Check style, types and who imports whom
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@PYTHONPATH=runner:. $(VENV)/bin/lint-imports --no-cache

.PHONY: format
format: $(READY) ## Format the code
	@$(RUN) -m ruff format .

.PHONY: docs
docs: $(READY) ## Write again what is generated in docs/
	@$(RUN) docs/generate.py

.PHONY: proto
proto: $(READY) ## Compile proto/ into runner/sparkdrain/v1
	@$(RUN) -m grpc_tools.protoc -I proto --python_out=runner --pyi_out=runner proto/sparkdrain/v1/*.proto

.PHONY: lock
lock: $(UV) ## Choose the newest versions that fit and write requirements.lock
	@"$(UV)" pip compile pyproject.toml --all-extras --group dev --quiet --upgrade \
		--universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header \
		--output-file requirements.lock

.PHONY: audit
audit: $(READY) ## Ask the package index which locked packages are vulnerable
	@$(RUN) -m tests.audit "$(UV)" tool run --quiet --python $(RUN) --from 'pip-audit>=2.10,<3' \
		pip-audit --requirement requirements.lock --no-deps --disable-pip --progress-spinner=off

.PHONY: sbom
sbom: $(READY) ## Write a bill of materials of the package and its extras (CycloneDX)
	@mkdir -p out
	@"$(UV)" pip compile pyproject.toml --all-extras --quiet --universal --python-version 3.10 \
		--config-file .ci/sbom.toml --constraint requirements.lock --no-emit-index-url \
		--no-header --no-annotate --output-file out/requirements.txt
	@"$(UV)" tool run --quiet --python $(RUN) --from 'cyclonedx-bom>=7.5,<8' cyclonedx-py \
		requirements out/requirements.txt --pyproject pyproject.toml --mc-type application \
		--output-reproducible --of JSON --output-file out/sbom.json
	@echo out/sbom.json

.PHONY: clean
clean: ## Remove all that was made, but for what was fetched into .cache
	@rm -rf $(VENV) out build dist spark-warehouse metastore_db \
		.mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Before anything is fetched. The runner itself checks again when it starts Spark.
.PHONY: java
java:
	@printed=$$("$(JAVA)" -version 2>&1 || true); \
	version=$$(sed -n '1,/version "/s/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' <<<"$$printed"); \
	if [ -z "$$version" ]; then \
		echo "There is no Java at '$(JAVA)'. Spark needs Java 17 or later (any OpenJDK): install" \
			"it and put it on the PATH, or set JAVA_HOME to it." >&2; exit 1; \
	elif [ "$$version" -lt 17 ]; then \
		echo "'$(JAVA)' is Java $$version, too old for Spark. Install Java 17 or later (any" \
			"OpenJDK) and put it on the PATH, or set JAVA_HOME to it." >&2; exit 1; \
	fi

.PHONY: python
python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "There is no Python 3.10 or later on the PATH. Install one, or name it:" \
			"make PYTHON=/path/to/python3 ..." >&2; exit 1; \
	fi

.cache/uv/bin/uv: | python
	@echo "Fetching uv, which installs the Python packages ..."
	@"$(PYTHON)" -m pip install --quiet --disable-pip-version-check \
		--upgrade --root-user-action=ignore --target .cache/uv 'uv>=0.11,<1' \
	|| { "$(PYTHON)" -m venv .cache/uv && .cache/uv/bin/python -m pip install --quiet 'uv>=0.11,<1'; } \
	|| { echo "$(PYTHON) has neither pip nor venv; install one of them (on Debian: python3-venv)" \
		"or uv itself." >&2; exit 1; }

$(READY): requirements.lock pyproject.toml runner/sparkdrain_hook.py runner/sparkdrain_hook.pth \
		| python $(UV)
	@echo "Setting up $(VENV) ..."
	@"$(UV)" venv --quiet --clear --python "$(PYTHON)" $(VENV)
	@"$(UV)" pip install --quiet --python $(RUN) --require-hashes \
		-r requirements.lock
	@"$(UV)" pip install --quiet --python $(RUN) --no-deps --no-build-isolation --editable .
	@$(RUN) -m compileall -qq runner timers_state || true
	@touch $@
