# `make demo` and `make test` do all the set-up themselves: they need Python 3.11 or newer and make.
# Everything is installed in .venv, once, and again when what it is made from changes.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
WORKERS ?= 2
REQUIRED := requirements/test.txt

# PYTHON=... names the interpreter to use; else the first of these that is 3.11 or newer.
PYTHONS := $(or $(PYTHON),python3.11 python3 python3.12 python3.13 python3.14 python)

# A folder of data sets beside the checkout is used where there is one; tests that need a missing
# data set are skipped.
ATOLL_DATA ?= $(if $(wildcard ../shared/data),$(CURDIR)/../shared/data)
ifneq ($(strip $(ATOLL_DATA)),)
export ATOLL_DATA
endif

# Work is shared out over processes, so each keeps its linear algebra to one thread.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# Tests start many programs, which then find the package compiled, whatever the shell says of that.
TESTED := $(ONE_THREAD) PYTHONDONTWRITEBYTECODE=

# The version is read from the package when it is installed, so its file counts as well.
PROJECT := pyproject.toml src/atoll/__init__.py
RUNTIME := $(VENV)/.runtime-installed
TESTING := $(VENV)/.test-installed
BROWSING := $(VENV)/.browser-installed
DOCUMENTING := $(VENV)/.docs-installed
REFEREES := $(VENV)/.referees-installed
OLDEST := .venv-oldest

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-slow test-oldest test-browser proof proof-referees bench bench-peers \
  bench-check mutants hostile faults numbers docs lint clean

help: ## show this list
	@echo "make targets:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## the default classifier, its supervised twin and islands, in demo-output/
	@$(ONE_THREAD) $(BIN)/atoll demo --out demo-output

# Types take a minute of one core if nothing is remembered: they are checked beside the tests.
test: $(TESTING) ## every check: lint, types, import rule, doctests and tests
	@echo "checking style and imports"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports
	@echo "running the tests, and checking types beside them"
	@$(BIN)/mypy > $(VENV)/.types 2>&1 & types=$$!; \
	$(TESTED) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal; tests=$$?; \
	wait $$types; types=$$?; \
	cat $(VENV)/.types; \
	[ $$types -eq 0 ] && exit $$tests

test-slow: $(TESTING) ## the tests that take minutes each
	@$(TESTED) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m slow

# The oldest packages warn of one another, and that is not for atoll to mend.
test-oldest: ## the tests with the oldest packages that atoll takes
	@$(MAKE) --no-print-directory VENV=$(OLDEST) REQUIRED=requirements/oldest.txt \
	  $(OLDEST)/.test-installed
	@$(TESTED) $(OLDEST)/bin/python -m pytest -q -n $(WORKERS) --dist worksteal \
	  -o filterwarnings=default -W ignore::DeprecationWarning \
	  --deselect tests/test_package.py::test_everything_that_atoll_and_its_tests_need_is_pinned

test-browser: $(BROWSING) ## the labelling page in a real browser, if chromium is installed
	@$(ONE_THREAD) $(BIN)/python -m pytest -q -rs -m browser tests/browser

# LIMIT=600 begins nothing after ten minutes; the next call goes on from there.
proof: $(TESTING) ## simulation-based calibration and joint tests: hours, resumed, for docs/proof/
	@for what in sbc geweke; do \
	  $(ONE_THREAD) $(BIN)/python -W ignore tests/proof/run.py $$what --workers $(WORKERS) \
	    $(if $(LIMIT),--seconds $(LIMIT)) || exit 1; \
	done
	@$(BIN)/python tests/proof/run.py page

proof-referees: $(REFEREES) ## posteriors and evidence beside NumPyro's NUTS and GPy
	@$(ONE_THREAD) $(BIN)/python -W ignore tests/proof/run.py referees --workers $(WORKERS) \
	  $(if $(LIMIT),--seconds $(LIMIT))
	@$(BIN)/python tests/proof/run.py page
	@$(ONE_THREAD) $(BIN)/python -m pytest -q -rs -m "slow or not slow" tests/referees/test_densities.py \
	  tests/referees/test_evidence.py \
	  tests/referees/test_mixtures.py tests/proof/test_page.py

bench: $(TESTING) ## every benchmark, one after the other
	@set -e; for file in benchmarks/[!_]*.py; do \
	  echo "== $$file"; \
	  $(ONE_THREAD) $(BIN)/python "$$file"; \
	done

bench-peers: $(TESTING) ## error and calibration against peers, those installed in .venv
	@set -e; for file in benchmarks/bench_peers.py benchmarks/bench_graph_gp.py; do \
	  echo "== $$file"; \
	  $(ONE_THREAD) $(BIN)/python "$$file"; \
	done

bench-check: $(TESTING) ## headline ratios of speed, and what got slower than those stored
	@$(ONE_THREAD) $(BIN)/python benchmarks/bench_speed.py

mutants: $(TESTING) ## would the tests notice? a thousand small mistakes in the code (an hour or more)
	@$(ONE_THREAD) $(BIN)/python tests/mutation/mutate.py --processes $(WORKERS)

hostile: $(TESTING) ## a hundred thousand hostile problems for every model (hours)
	@$(ONE_THREAD) $(BIN)/python tests/hostile/run_hostile.py --processes $(WORKERS)

faults: $(TESTING) ## two hundred kills, ten thousand damaged files (minutes)
	@$(ONE_THREAD) $(BIN)/python tests/faults/kills.py
	@$(ONE_THREAD) $(BIN)/python tests/faults/damage.py

numbers: $(TESTING) ## write the numbers of README and docs from the result files
	@$(BIN)/python docs/measured.py
	@$(BIN)/python docs/write_papers.py

docs: $(DOCUMENTING) ## the documentation, in docs/_build/html/
	@echo "building the documentation; the gallery's examples are run"
	@$(ONE_THREAD) $(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

lint: $(TESTING) ## style, types and the one-way import rule
	@echo "checking style, types and imports"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

clean: ## remove the virtual environment and everything built
	rm -rf $(VENV) $(OLDEST) build dist demo-output benchmarks/output
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	rm -rf docs/_build docs/_outputs docs/gallery docs/reference/generated docs/sg_execution_times.rst
	find src tests benchmarks examples docs -name __pycache__ -prune -exec rm -rf {} +

# --- set-up ---------------------------------------------------------------------------------------

$(RUNTIME): $(PROJECT) requirements/test.txt | $(BIN)/python
	@echo "installing atoll and what the demo needs, at the tested versions (minutes the first time)"
	@$(PIP) install -q -c requirements/test.txt -e ".[cli,report,scale]"
	@touch $@

$(TESTING): $(PROJECT) $(REQUIRED) | $(BIN)/python
	@echo "installing every extra and the test requirements (minutes the first time)"
	@$(PIP) install -q -r $(REQUIRED)
	@echo "installing atoll"
	@$(PIP) install -q --no-deps --no-build-isolation -e .
	@touch $(RUNTIME) $@

$(BROWSING): $(TESTING) requirements/browser.txt
	@echo "installing what drives a browser"
	@$(PIP) install -q -c requirements/test.txt -r requirements/browser.txt
	@touch $@

$(REFEREES): $(TESTING) requirements/proof.txt
	@echo "installing the referees"
	@$(PIP) install -q -c requirements/test.txt -r requirements/proof.txt
	@touch $@

$(DOCUMENTING): $(RUNTIME) requirements/docs.txt
	@echo "installing every extra and the documentation's requirements"
	@$(PIP) install -q -c requirements/test.txt -r requirements/docs.txt -e ".[all]"
	@touch $@

$(BIN)/python:
	@for candidate in $(PYTHONS); do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$candidate ($$($$candidate -V))"; \
	    $$candidate -m venv $(VENV) && exit 0; \
	    echo "$$candidate cannot make a virtual environment; install its venv module" \
	      "(python3-venv on Debian and Ubuntu), or name another: make PYTHON=/path/to/python" >&2; \
	    rm -rf $(BIN)/python; \
	    exit 1; \
	  fi; \
	done; \
	echo "no Python 3.11 or newer among: $(PYTHONS)." \
	  "Install one, or name it: make PYTHON=/path/to/python" >&2; \
	exit 1
