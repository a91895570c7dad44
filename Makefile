# Every task of the project. `make help` lists them; each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
READY := $(VENV)/.ready
INSTALLED := $(VENV)/.installed
ASSETS := traceroof/report/html/assets

.DEFAULT_GOAL := help

help:  ## list what make can do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## make the virtual environment .venv with everything in it

# What people use: no test tool, no browser.
$(INSTALLED): pyproject.toml parsers/torch/_scan.c $(wildcard parsers/torch/scan/*.h)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "traceroof needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable .
	@$(BIN)/python -m compileall -q traceroof parsers rules  # as pip does with what it copies
	@touch $@

$(READY): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

demo: $(INSTALLED)  ## ingest a sample trace and read its bottlenecks
	@rm -rf .traceroof-demo
	@echo '$$ traceroof ingest sample_traces/nsight_compute/transformer_layer.raw.csv'
	@TRACEROOF_STORE=.traceroof-demo $(BIN)/traceroof ingest sample_traces/nsight_compute/transformer_layer.raw.csv
	@echo
	@echo '$$ traceroof diagnose --top 5'
	@TRACEROOF_STORE=.traceroof-demo $(BIN)/traceroof diagnose --top 5
	@rm -rf .traceroof-demo
	@echo
	@echo 'Where to look next: traceroof formats (what it reads and how to collect it),'
	@echo 'traceroof rules dram-at-wall (what a rule means), README.md, docs/.'

test: lint types layers docs-check rule-coverage unit  ## everything a change must pass

# Reads out of bounds, overflows and the like in the compiled scanner, by gcc's sanitizers.
scan-sanitized: $(READY)  ## test the compiled scanner with gcc's sanitizers
	@$(BIN)/python tests/parsers/sanitized.py

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)
	@$(BIN)/mypy

layers: $(READY)
	@$(BIN)/lint-imports --no-cache

docs-check: $(READY)
	@$(BIN)/python docs/generate.py --check

# A test that hangs fails with its stack instead of taking the whole run with it.
LIMIT := --timeout 600 --timeout-method thread

unit: $(READY)  # tests/rules ran already, with coverage
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --max-worker-restart 1 $(LIMIT) --ignore=tests/rules $(PYTEST)

rule-coverage: $(READY)
	@$(BIN)/python -m pytest -q tests/rules $(LIMIT) $(PYTEST) --cov=rules --cov-branch --cov-fail-under=100 \
		--cov-report=term-missing:skip-covered

lowest:  ## the sample goldens on the lowest versions of all dependencies
	@$(PYTHON) -m venv --clear $(LOWEST)
	@$(PYTHON) .ci/lowest.py >$(LOWEST)/requirements.txt
	@$(LOWEST)/bin/python -m pip install --quiet --only-binary :all: -r $(LOWEST)/requirements.txt
	@$(LOWEST)/bin/python -m pip install --quiet --no-deps --editable .
	@$(LOWEST)/bin/python -m pytest -q -p no:cacheprovider tests/test_golden_traces.py tests/test_sample_traces.py

docs: $(READY)  ## write the generated pages of docs/
	@$(BIN)/python docs/generate.py

samples: $(READY)  ## write sample_traces/ anew (they are deterministic)
	@for script in sample_traces/make_*.py; do $(BIN)/python $$script; done

vendor-plotly: $(READY)  ## fetch the Plotly bundle of the HTML report anew (needs npm)
	@version=$$($(BIN)/python -c 'from plotly.offline import get_plotlyjs_version as v; print(v())') && \
	folder=$$(mktemp -d) && cd $$folder && \
	npm pack --silent plotly.js-basic-dist-min@$$version >/dev/null && tar -xzf plotly.js-basic-dist-min-*.tgz && \
	cp package/plotly-basic.min.js $(CURDIR)/$(ASSETS)/ && \
	cp package/LICENSE $(CURDIR)/$(ASSETS)/plotly.LICENSE.txt && \
	sum=$$(sha256sum package/plotly-basic.min.js | cut -d' ' -f1) && rm -r $$folder && \
	sed -i -E "s/^- version: .*/- version: $$version/; s/^- SHA-256: .*/- SHA-256: $$sum/" \
		$(CURDIR)/$(ASSETS)/README.md

format: $(READY)  ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

fuzz: $(READY)  ## the long form of the mutation tests: 20,000 inputs a format
	@TRACEROOF_FUZZ=20000 $(BIN)/python -m pytest -q -m fuzz

accuracy: $(READY)  ## compare with ../shared/corpus and its references: docs/accuracy.md
	@$(BIN)/python -m benchmarks.accuracy ../shared/corpus >docs/accuracy.md

# Measure nothing of speed: the comparison above, and what it is made of.
NO_BENCH := benchmarks/accuracy.py benchmarks/thresholds.py benchmarks/expert_labels.py \
            benchmarks/kernel_labels.py benchmarks/fuzz.py

bench: $(READY)  ## measure speed and memory
	@for script in $(filter-out $(NO_BENCH),$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script; done

clean:  ## remove everything that make made
	@rm -rf $(VENV) $(LOWEST) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .traceroof-demo

.PHONY: help setup demo test lint scan-sanitized types layers docs-check rule-coverage unit lowest docs samples vendor-plotly format fuzz accuracy bench clean
