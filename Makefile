VENV := .venv
PYTHON ?= python3
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
MINIMUM := .venv-minimum
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n auto --dist loadgroup
QUICK_TESTS := tests/test_package.py tests/test_oracle.py $(wildcard tests/test_numerics_*.py) \
	tests/test_estimators_common.py tests/test_estimators_notebook.py tests/test_report_run.py \
	tests/test_plotting_displays.py tests/test_cli_app.py
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo app test coverage test-minimum test-quick test-kernels lint format bench bench-change bench-full fuzz docs dist results clean

demo: $(VENV)/.all  ## Fit J-Play on a real hyperspectral scene and write a report
	$(BIN)/jplay demo

app: $(VENV)/.app  ## Open scenes and tables in the browser
	$(BIN)/jplay app

test: $(VENV)/.test  ## Run the tests
	$(PYTEST)

coverage: $(VENV)/.test  ## Run the tests; fail if they run less than 90 % of the package
	$(PYTEST) --cov --cov-report=term --cov-report=xml

test-minimum: $(MINIMUM)/.installed  ## Run the quick tests with the oldest versions allowed
	$(ONE_THREAD) $(MINIMUM)/$(SCRIPTS)/python -m pytest -q -m "not slow" $(QUICK_TESTS)

test-quick: $(VENV)/.test  ## Run the quick tests
	$(PYTEST) -q -m "not slow" $(QUICK_TESTS)

test-kernels: $(VENV)/.test  ## Run the tests of numbers as on other processors
	$(ONE_THREAD) $(BIN)/python tests/kernels.py $(KERNEL)

lint: $(VENV)/.lint  ## Style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint  ## Mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test  ## Fail if something got more than half slower; about a minute
	$(ONE_THREAD) $(BIN)/python benchmarks/gate.py

bench-change: $(VENV)/.test  ## The same, against the sources in BASE on this machine
	$(ONE_THREAD) PYTHONPATH="$(BASE)/src" $(BIN)/python benchmarks/gate.py --record base-speed.json
	$(ONE_THREAD) $(BIN)/python benchmarks/gate.py --against base-speed.json

bench-full: $(VENV)/.test  ## All CPU benchmarks, an hour or so; writes benchmarks/results/cpu.md
	$(BIN)/python benchmarks/run.py

fuzz: $(VENV)/.test  ## Attack everything: 20,000 cases in some twenty minutes; SEED=1 repeats a run, and goes on with it
	$(ONE_THREAD) $(BIN)/python -m fuzz $(if $(SEED),--seed $(SEED))

docs: $(VENV)/.docs  ## Build the documentation, warnings as errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

dist: $(VENV)/.test  ## Build wheel and source distribution into dist/ and check them
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*

results: $(VENV)/.all  ## Run what is missing of the paper's tables, then write all tables and figures
	for table in table1 table2 multilabel; do \
	  $(BIN)/jplay reproduce $$table --output-dir results --resume --keep-fits || exit 1; done

clean:
	rm -rf $(VENV) .venv-* build dist docs/_build docs/auto_examples docs/api/generated docs/sg_execution_times.rst

$(VENV)/pyvenv.cfg:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%: pyproject.toml | $(VENV)/pyvenv.cfg
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

$(MINIMUM)/.installed: pyproject.toml requirements/minimum.txt
	$(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/$(SCRIPTS)/python -m pip install --quiet --constraint requirements/minimum.txt \
		--editable '.[cli,report]' array-api-strict hypothesis pandas polars pytest
	@touch $@
