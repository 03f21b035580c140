# Every target installs what it needs: Python 3.11 or newer, make and the package registry suffice.
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
unexport PYTHONDONTWRITEBYTECODE  # each process would compile all modules anew
export SENTEMB_HOME ?= $(CURDIR)/$(HOME_FOLDER)

PYTEST := $(BIN)/python -m pytest --numprocesses=2
FAST := $(filter-out tests/deployments/ tests/faults/ tests/flows/, $(wildcard tests/*/ tests/test_*.py))
FLOW := tests/flows/test_self_training.py::test_a_round_trains_and_annotates_with_the_encoder_before_it

.PHONY: demo test test-all soak check fix ui bench results lock audit clean

demo: $(READY)           ## two runs on the shipped corpus: two reports, five rows, serve it or not
	$(BIN)/python -m flows demo

test: $(READY)           ## unit, property, golden and parity tests, and one flow; the aim is at most 5 minutes
	$(PYTEST) -m "not (slow or server or soak)" $(FAST) $(FLOW)

test-all: $(READY)       ## everything that CI runs: also flows, services and kills
	$(PYTEST) --dist=loadfile -m "not soak"

soak: $(READY)           ## hundreds of kills, and 10,000 examples per property test; hours
	$(BIN)/python -m benchmarks.reliability --homes 20 --programs 200
	$(PYTEST) -m "hypothesis or soak" --hypothesis-profile=soak

check: $(READY)          ## lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pyright -p pyright-flows.json
	$(BIN)/lint-imports

fix: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: $(READY)             ## Prefect server, worker and nightly schedule, on loopback
	$(BIN)/python -m flows serve

bench: $(READY)          ## speed ratios, in CPU-seconds of this machine
	$(BIN)/python -m benchmarks

results: $(READY)        ## write docs/results/ from results/*.json
	$(BIN)/python -m benchmarks.results_pages

lock: $(READY)           ## write requirements.lock from the environment that just passed
	$(BIN)/pip freeze --exclude-editable --exclude setuptools | sed 's/+cpu//' > requirements.lock

audit: $(READY)          ## known vulnerabilities of the locked versions; asks PyPI
	test -x $(VENV)/audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)/audit && $(VENV)/audit/bin/pip install --quiet pip-audit; }
	$(VENV)/audit/bin/pip-audit --strict --disable-pip --no-deps -r requirements.lock

clean:                   ## delete the environment, .sentemb (store, reports, registry) and all caches
	rm -rf $(VENV) $(HOME_FOLDER) dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@
