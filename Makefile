# `make test` and `make demo` each do all of their own set-up on a machine with only Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Quiet pip, except for what went wrong.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet -c constraints.txt

.PHONY: help install test lint demo clean browser

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

# Browser tests need Chromium, and one of them axe-core; where they cannot be installed, those tests are skipped.
browser: install
	@command -v chromium >/dev/null || { \
		if [ "$$(id -u)" = 0 ] && [ -n "$$CI" ] && command -v apt-get >/dev/null; then \
			echo "== installing chromium for the browser tests"; \
			{ apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 || echo "== chromium could not be installed"; \
		else echo "== chromium is not installed, so the browser tests are skipped (apt-get install chromium)"; fi; }
	@[ -d $(VENV)/node_modules/axe-core ] || ! command -v npm >/dev/null || \
		npm install --prefix $(VENV) --no-save --no-audit --no-fund --silent axe-core >/dev/null 2>&1 || \
		echo "== axe-core could not be installed, so the accessibility test is skipped"

test: lint browser
	@echo "== pytest"
	@$(BIN)/python -m pytest -n 2

demo: install
	@$(BIN)/python -m clew demo

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo
