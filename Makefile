# `make train` and `make test` need nothing but Python ≥ 3.11 and make: they create .venv and install into it.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALLED = $(VENV)/.installed
TRAINS = $(VENV)/.trains
# The versions that the suite last passed with. `CONSTRAINTS=` installs the newest that pyproject.toml allows instead.
CONSTRAINTS ?= requirements/pinned.txt
CHROMIUM ?= $(or $(shell command -v chromium || command -v chromium-browser || command -v google-chrome),chromium)

# A part of the suite for other versions of Python and of the libraries: equations, options, training and resuming, the
# command line, what is equal to the bit between programs, memories, and a few cases of the numpy oracle.
QUICK = tests/test_returns.py tests/test_exploration.py tests/test_config.py tests/test_training.py tests/cli \
	tests/programs/simulators/test_collect.py tests/networks/test_linear_memory.py tests/oracle -k "not oracle or vdn-none or vdn-lstm-batch_renorm-short or vdn-lru-layer-short"
PYTHONS = python3.13 $(HOME)/.pyenv/versions/3.13.*/bin/python3 \
	python3.12 $(HOME)/.pyenv/versions/3.12.*/bin/python3 $(PYTHON)
NEWEST = $(shell for python in $(PYTHONS); do $$python -c '' 2> /dev/null && echo $$python && break; done)

.PHONY: train test test-slow test-browser docs test-quick test-python test-newest newer-python smoke baked-commit mutants lint \
	bench peers pin clean

train: $(TRAINS)  ## train CartPole and show its curve
	$(BIN)/pqn train cartpole

test: $(INSTALLED)  ## the test suite
	$(BIN)/python -m pytest -n 2 -m "not slow and not browser"

test-slow: $(INSTALLED)  ## the learning tests that take minutes
	$(BIN)/python -m pytest -n 2 -m slow

test-browser: $(INSTALLED)  ## reports and the documentation's pages in headless Chromium
	@command -v $(CHROMIUM) > /dev/null || { echo 'make: there is no Chromium; install it (Debian, Ubuntu: apt-get install chromium) or name it with CHROMIUM=/path/to/it' >&2; exit 2; }
	CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest -n 0 -m browser

docs: $(INSTALLED)  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo site/index.html

test-quick: $(INSTALLED)  ## a part of the suite, in a few minutes
	$(BIN)/python -m pytest -n 2 -m "not slow and not browser" $(QUICK)

test-python:  ## that part with another Python, in a virtual environment of its own: make test-python PYTHON=python3.12
	$(MAKE) test-quick PYTHON=$(PYTHON) VENV=.venv-$(notdir $(PYTHON))

test-newest:  ## that part with the newest Python found here and the newest versions allowed
	$(MAKE) test-quick PYTHON=$(NEWEST) VENV=.venv-newest CONSTRAINTS=

newer-python:  ## succeeds where there is a newer Python than PYTHON
	@$(NEWEST) -c 'import sys; sys.exit(sys.version_info[:2] <= ($(shell $(PYTHON) -c 'import sys; print(*sys.version_info[:2], sep=",")')))'

smoke: $(INSTALLED)  ## every experiment of the paper, tiny, and the whole report
	rm -rf runs/smoke
	$(BIN)/pqn reproduce smoke --out runs/smoke

baked-commit:  ## write the commit into the package, for a copy of the code without its history
	git rev-parse HEAD > src/pqn/baked-commit

mutants: $(INSTALLED)  ## deliberate mistakes in a copy of the code, each of which a test must notice; most of an hour
	$(BIN)/python -m tests.mutants --jobs 2

lint: $(INSTALLED)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(INSTALLED)  ## speed on this machine
	$(BIN)/python -m bench

peers: $(INSTALLED)  ## our DQN and PPO beside other implementations, in virtual environments of their own; half an hour
	$(BIN)/python -m bench.peers

pin: $(INSTALLED)  ## write down the installed versions as those that the suite passed with
	{ grep '^#' requirements/pinned.txt; $(BIN)/python -m pip freeze --exclude-editable; } > requirements/pinned.new
	mv requirements/pinned.new requirements/pinned.txt

clean:
	rm -rf .venv .venv-* .pytest_cache .ruff_cache

# Training needs a third of what the tests need: it does not wait for the rest.
$(TRAINS): EXTRAS =
$(INSTALLED): EXTRAS = [dev]
$(TRAINS) $(INSTALLED): pyproject.toml requirements/pinned.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pqn needs Python 3.11 or newer; set PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(CONSTRAINTS:%=--constraint %) -e '.$(EXTRAS)'
	@touch $@
