PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all compat-matrix fuzz check format bench bench-check wheel screenshots schema clean
.DEFAULT_GOAL := demo

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "eagerstream needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(READY)  ## the main job, on the embedded server
	$(BIN)/eagerstream demo

test: $(READY)  ## the quick tests
	$(BIN)/pytest

test-all: $(READY)  ## all tests, the slow ones too
	$(BIN)/pytest -m ''

compat-matrix: $(READY)  ## the tests about transports, on the oldest supported anthropic package to the newest
	$(BIN)/python -m tests.versions

SECONDS ?= 600
fuzz: $(READY)  ## attack the parsers, for SECONDS=600; what is found stays in build/fuzz
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

check: $(READY)  ## lint, format and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY)  ## the benchmarks, both sides in one run; writes benchmarks/RESULTS.md
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[peers]'
	$(BIN)/python -m benchmarks

bench-check: $(READY)  ## whether the hot path costs more than it did, or more with size; instructions, where there is valgrind
	$(BIN)/python -m benchmarks.guard

wheel: $(READY)  ## both wheels into dist/: pure Python, and with compiled modules for this platform and this Python
	rm -f dist/*.whl
	$(BIN)/python -m build --wheel --outdir dist
	@if echo '#include <Python.h>' | $${CC:-cc} -E -I"$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')" - >/dev/null 2>&1; \
	then EAGERSTREAM_COMPILE=1 $(BIN)/python -m build --wheel --outdir dist; \
	else echo 'The compiled wheel is left out: it needs a C compiler and the headers of Python (python3-dev).'; fi

SCHEMA := src/eagerstream/progress/record.schema.json
schema: $(READY)  ## the JSON Schema of the records of runs, written anew
	$(BIN)/python -c 'import json; from eagerstream.progress import record_schema; print(json.dumps(record_schema(), indent=2))' > $(SCHEMA).part
	mv $(SCHEMA).part $(SCHEMA)

screenshots: $(READY)  ## the pictures of pages in the README, taken anew; needs Chromium and its driver
	CI=1 EAGERSTREAM_SCREENSHOTS=examples $(BIN)/pytest -m slow tests/progress/test_web_page.py tests/latency/test_report_page.py -k 'from_its_beginning or picture'

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
