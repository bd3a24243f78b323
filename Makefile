VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
MINIMUM := .venv-minimum
QUICK_TESTS := tests/test_package.py tests/test_oracle.py $(wildcard tests/test_numerics_*.py) \
	tests/test_estimators_common.py tests/test_estimators_notebook.py tests/test_report_run.py \
	tests/test_plotting_displays.py tests/test_cli_app.py
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test test-minimum lint bench docs dist results clean

demo: $(VENV)/.demo  ## Fit J-Play on a real hyperspectral scene and write a report
	$(BIN)/jplay demo

test: $(VENV)/.test  ## Run the tests
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup

test-minimum: $(MINIMUM)/.installed  ## Run the quick tests with the oldest versions allowed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(MINIMUM)/bin/python -m pytest -q -m "not slow" $(QUICK_TESTS)

lint: $(VENV)/.lint  ## Style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test  ## Speed as ratios within one run
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.docs  ## Build the documentation, warnings as errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

dist: $(VENV)/.test  ## Build wheel and source distribution into dist/
	$(BIN)/python -m build --outdir dist

results: $(VENV)/.demo  ## Run what is missing of the paper's tables, then write all tables and figures
	for table in table1 table2 multilabel; do \
	  $(BIN)/jplay reproduce $$table --output-dir results --resume --keep-fits || exit 1; done

clean:
	rm -rf $(VENV) $(MINIMUM) build dist docs/_build docs/auto_examples docs/api/generated docs/sg_execution_times.rst

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

$(MINIMUM)/.installed: pyproject.toml requirements/minimum.txt
	$(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/bin/python -m pip install --quiet --constraint requirements/minimum.txt \
		--editable '.[cli,report]' array-api-strict hypothesis pandas polars pytest
	@touch $@
