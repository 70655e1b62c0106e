# Every target builds .venv first when it is missing or older than what it is built from.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PYTHONDONTWRITEBYTECODE =  # tests start forty interpreters: compile modules once

PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: run lab test sweep portable lint bench ledger figures clean

run: ledger
	$(BIN)/python -m notebooks run --jobs 2 --report

figures: $(READY)  # the only target that writes tracked figures
	$(BIN)/python -m notebooks run --jobs 2 --figures figures
	$(BIN)/python -m notebooks index --output build
	$(BIN)/python -m notebooks screenshot 06 figures/panel.png

ledger: $(READY)
	$(BIN)/python -m analytic ledger
	$(BIN)/python -m notebooks index

lab: $(READY)
	$(BIN)/python -m notebooks lab

test: lint
	OMP_NUM_THREADS=1 $(PYTEST)

sweep: $(READY)
	OMP_NUM_THREADS=1 $(PYTEST) -m sweep

portable: $(READY)
	$(BIN)/python tests/portable.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check

bench: $(READY)
	$(BIN)/python -m bench

clean:
	rm -rf .venv build

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("kernel-geometry needs Python 3.11 or newer, as in: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo 'Installing packages into .venv: a minute or two, once.'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,notebooks]'
	@touch $@
