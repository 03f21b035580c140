# Every verb sets itself up: it needs Python 3.11, make and the package registry, nothing else.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
HOME_FOLDER := .sentemb

export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
export GOMP_SPINCOUNT := 3000
export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export MLFLOW_DISABLE_TELEMETRY := true
export SENTEMB_HOME ?= $(CURDIR)/$(HOME_FOLDER)

WHOLE_RUNS := tests/deployments tests/faults tests/flows

.PHONY: demo test test-runs test-parts check fix ui bench lock audit clean

demo: $(READY)           ## documents in, a better encoder out, on the shipped corpus
	$(BIN)/python -m flows demo

test: test-runs test-parts ## the whole test suite; its halves go side by side with --jobs=2

test-runs: $(READY)      ## flows, services and kills, which wait for processes as much as they compute
	$(BIN)/python -m pytest $(WHOLE_RUNS)

test-parts: $(READY)     ## all other tests
	$(BIN)/python -m pytest $(WHOLE_RUNS:%=--ignore=%)

check: $(READY)          ## lint, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pyright -p pyright-flows.json
	$(BIN)/lint-imports

fix: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: $(READY)             ## Prefect server, worker and nightly schedule on loopback
	$(BIN)/python -m flows serve

bench: $(READY)          ## ratios side by side, in CPU-seconds of this machine
	$(BIN)/python -m benchmarks

lock: $(READY)           ## rewrite requirements.lock from the environment that just passed
	$(BIN)/pip freeze --exclude-editable --exclude setuptools | sed 's/+cpu//' > requirements.lock

audit: $(READY)          ## known vulnerabilities of the locked versions; asks PyPI for its advisories
	test -x $(VENV)/audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)/audit && $(VENV)/audit/bin/pip install --quiet pip-audit; }
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --no-deps -r requirements.lock

clean:                   ## the environment, .sentemb (store, reports, registry) and all caches
	rm -rf $(VENV) $(HOME_FOLDER) dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@
