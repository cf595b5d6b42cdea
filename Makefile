# `make train` and `make test` need nothing but Python ≥ 3.11 and make: they create .venv and install into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: train test test-slow mutants lint bench clean

train: $(INSTALLED)  ## train CartPole and show its curve
	$(BIN)/pqn train cartpole

test: $(INSTALLED)  ## the test suite
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(INSTALLED)  ## the learning tests that take minutes
	$(BIN)/python -m pytest -n 2 -m slow

mutants: $(INSTALLED)  ## deliberate mistakes in a copy of the code, each of which a test must notice; most of an hour
	$(BIN)/python -m tests.mutants --jobs 2

lint: $(INSTALLED)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(INSTALLED)  ## speed on this machine
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pqn needs Python 3.11 or newer; set PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
