# `make test` and `make demo` each do all of their own set-up on a machine with only Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Quiet pip, except for what went wrong.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet -c constraints.txt

.PHONY: help install test lint demo clean

help:
	@echo "make demo   install, then see what Clew does, in six minutes"
	@echo "make test   install, then ruff, mypy and pytest"
	@echo "make clean  remove the virtual environment and caches"

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "clew needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version); use make PYTHON=python3.11"; exit 1; }
	@echo "== making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@echo "== installing PyTorch (the largest part; a few minutes on a slow line)"
	@$(PIP) torch
	@echo "== installing clew and its tools"
	@$(PIP) -e ".[dev]"
	@touch $@

lint: install
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "== mypy"
	@$(BIN)/mypy

test: lint
	@echo "== pytest"
	@$(BIN)/python -m pytest -n 2

demo: install
	@$(BIN)/python -m clew demo

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo
