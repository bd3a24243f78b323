VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint bench docs results clean

demo: $(VENV)/.demo  ## Fit J-Play on a real hyperspectral scene and draw the map
	$(BIN)/jplay demo

test: $(VENV)/.test  ## Run the tests
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

lint: $(VENV)/.lint  ## Style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.test  ## Speed as ratios within one run
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.docs  ## Build the documentation, warnings as errors
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

results: $(VENV)/.demo  ## Run what is missing of the paper's tables, then write all tables and figures
	for table in table1 table2 multilabel; do \
	  $(BIN)/jplay reproduce $$table --output-dir results --resume --keep-fits || exit 1; done

clean:
	rm -rf $(VENV) build dist docs/_build docs/auto_examples

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@
