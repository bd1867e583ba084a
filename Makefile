PYTHON ?= python3
# P=wire, or another package, or the core: an environment for the tests of one package.
VENV := .venv$(P:%=/%)
FOLDER := $(if $(filter core,$P),.,packages/$P)
CORE := $(addprefix tests/,_support inputs tools calls recordings transports streaming loop test_command.py test_errors.py test_limits.py test_package.py)
BIN := $(VENV)/bin

# Containers often set it; without byte code, every program would compile all that it imports, every time.
unexport PYTHONDONTWRITEBYTECODE

# Editable installations run the source: without it, each of them would ask for the compiler's packages.
export EAGERSTREAM_COMPILE := 0

.PHONY: demo test test-all compat-matrix fuzz fuzz-flavors check format docs bench bench-check conformance wheel wheels screenshots schema page version pins audit vectors clean
.DEFAULT_GOAL := demo

# All local packages, editable: in one call, so that the exact versions that they ask for are found without an index.
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml))
METADATA := pyproject.toml $(PACKAGES:%=%/pyproject.toml)
local = $(addprefix --editable ,$(if $P,$(shell .ci/packages needs $P),. $(PACKAGES)))
test_groups = $(if $P,--group $(FOLDER)/pyproject.toml:test,--group test $(PACKAGES:%=--group %/pyproject.toml:test))

# One environment, which grows: each command installs what it needs when it runs for the first time, and again after a
# pyproject.toml has changed. uv does it if it is installed, otherwise pip, with what editable packages are built with
# installed once: in an environment of its own, each package would take 1.5 s longer.
ifneq ($(shell command -v uv),)
install = VIRTUAL_ENV=$(VENV) uv pip install
install_groups = $(install)
else
# Without a pip of its own, the environment is there two seconds earlier. Groups need one that is newer than Python's.
pip_for = -m pip $1 --disable-pip-version-check install --no-compile
install = $(PYTHON) $(call pip_for,--python $(BIN)/python) --no-build-isolation
install_groups = $(install) --quiet 'pip>=25.1' && $(BIN)/python $(pip_for) --no-build-isolation
build_backend = $(install) --quiet hatchling editables
endif

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "eagerstream needs Python 3.11 or newer; set PYTHON=...")'
	@echo '==> Creating $(VENV)'
	@$(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(build_backend)
	@touch $@

$(VENV)/.demo: $(METADATA) | $(VENV)/.python
	@echo '==> Installing what shows runs into $(VENV): about 40 packages, 60 MB'
	@$(install) $(addprefix --editable ,$(shell .ci/packages needs progress))
	@touch $@

# LOCKED=1 installs the versions of uv.lock instead of the newest ones. It needs uv.
install_locked = VIRTUAL_ENV=$(VENV) uv sync --active --frozen --inexact --no-default-groups --all-packages

# The dependency groups of pyproject.toml, each with what the tests of the packages need, and what else is there once one
# of them is: `all` takes 1.9 GB, `test` 290 MB.
with_test := demo
with_all := demo test docs
with_docs := demo test
with_fuzz := demo test
$(VENV)/.test $(VENV)/.all $(VENV)/.docs $(VENV)/.fuzz: $(VENV)/.%: $(METADATA) | $(VENV)/.python
	@echo '==> Installing $(if $P,what the tests of $P need,eagerstream and its dependency group "$*") into $(VENV)'
	@$(if $(LOCKED),$(install_locked) --group $* --group test,$(install_groups) $(local) $(if $(filter test,$*),,--group $*) $(test_groups))
	@touch $@ $(addprefix $(VENV)/.,$(with_$*))

demo: $(VENV)/.demo  ## the main job, on the embedded server
	$(BIN)/eagerstream demo

# At most four processes: each collects all tests, for some seconds.
test: $(VENV)/.test  ## the quick tests; with P=wire or P=core, those of one package, with nothing but what it asks for
	@$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist worksteal $(if $(filter core,$P),$(CORE),$(if $P,$(FOLDER)/tests))

test-all: $(VENV)/.all  ## all tests, the slow ones too
	@$(BIN)/pytest -m '' --timeout 600 --numprocesses auto --maxprocesses 2 --dist loadfile

compat-matrix: $(VENV)/.all  ## the tests about transports, on the oldest supported anthropic package to the newest
	$(BIN)/python -m tests.versions

SECONDS ?= 600
fuzz: $(VENV)/.fuzz  ## attack the parsers, or those of TARGETS=..., for SECONDS=600; what is found stays in build/fuzz
	$(BIN)/python -m tests.fuzz $(TARGETS) --seconds $(SECONDS)

fuzz-flavors: $(VENV)/.fuzz  ## the compiled core and the pure one on the same inputs, for a minute
	$(BIN)/python -m tests.fuzz flavors --seconds 60

# The lab exports no names: it is a command.
check: $(VENV)/.all  ## lint, format, types and plain English
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@mkdir -p build
	for package in eagerstream $(subst packages/,eagerstream_,$(filter-out packages/lab,$(PACKAGES))); do \
	    PATH="$(CURDIR)/$(BIN):$$PATH" basedpyright --verifytypes $$package --ignoreexternal >build/types 2>&1 \
	    && PATH="$(CURDIR)/$(BIN):$$PATH" pyright --verifytypes $$package --ignoreexternal >>build/types 2>&1 \
	    || { cat build/types; exit 1; }; \
	done
	$(BIN)/python -m tests.plain_english

format: $(VENV)/.all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# From nothing each time: Sphinx does not know what the generated parts are made of.
docs: $(VENV)/.docs  ## the documentation, into build/docs; a warning fails it, and so does a link that leads nowhere
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet --builder html -d build/doctrees docs build/docs

# Typed partial values are compared with those of these two. They are in no group, because they ask for versions of rich
# and jiter that are older than the ones that everything else is tested with.
$(VENV)/.bench: $(VENV)/.all
	@$(install) 'genkit>=0.12' 'instructor>=1.17'
	@touch $@

# Code that runs while it is written is compared with that of pydantic-ai-harness, which asks for one version of
# pydantic-ai.
CODE_MODE := $(VENV)/code-mode
$(CODE_MODE)/.installed: benchmarks/code_tool/requirements.txt | $(VENV)/.all
	@echo '==> Creating $(CODE_MODE)'
	@$(PYTHON) -m venv --clear --without-pip $(CODE_MODE)
	@$(subst $(VENV),$(CODE_MODE),$(install)) $(addprefix --editable ,$(shell .ci/packages needs toolkit)) --requirement $<
	@touch $@

bench: $(VENV)/.bench $(CODE_MODE)/.installed $(VENV)/.conformance  ## the benchmarks, both sides in one run; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

# The libraries that only these two commands need: 10 MB from PyPI, and 380 MB from npm. google-adk asks for older packages
# than the tests do, so it has 110 MB of its own. The programs in Go and Rust need golang-go, cargo and
# librust-serde-json-dev.
PEERS := benchmarks/conformance
ADK := build/google-adk
$(VENV)/.conformance: $(PEERS)/requirements.txt $(PEERS)/google-adk.txt $(PEERS)/npm/package-lock.json | $(VENV)/.all
	@$(install) --requirement $(PEERS)/requirements.txt
	@$(PYTHON) -m venv --clear --without-pip $(ADK)
	@$(subst $(VENV),$(ADK),$(install)) --requirement $(PEERS)/google-adk.txt
	npm ci --no-progress --prefix $(PEERS)/npm
	@touch $@

conformance: $(VENV)/.conformance  ## the scores of other libraries on the conformance vectors; writes benchmarks/conformance.json
	$(BIN)/python -m benchmarks.conformance

bench-check: $(VENV)/.all  ## whether the hot path costs more than it did, or more with size; instructions, where there is valgrind
	$(BIN)/python -m benchmarks.guard

MAKER := build/maker
$(MAKER)/.installed: packages/wire/build.txt .ci/build-env | $(VENV)/.python
	@.ci/build-env $(MAKER) $(PYTHON)
	@touch $@

make_wheel := $(MAKER)/bin/python -m build --no-isolation --wheel --outdir dist
wheel: $(MAKER)/.installed  ## the wheels of all packages into dist/, that of wire also with compiled modules for this platform and this Python
	rm -f dist/*.whl
	for package in . $(PACKAGES); do $(make_wheel) $$package || exit 1; done
	@if echo '#include <Python.h>' | $${CC:-cc} -E -I"$$($(MAKER)/bin/python -c 'import sysconfig; print(sysconfig.get_path("include"))')" - >/dev/null 2>&1; \
	then EAGERSTREAM_COMPILE=1 $(make_wheel) packages/wire; \
	else echo 'The compiled wheel is left out: it needs a C compiler and the headers of Python (python3-dev).'; fi

wheels:  ## the wheels of all Pythons of pyenv, or of PYTHONS=..., into dist/; each is tested
	.ci/wheels-of $(PYTHONS)

schema: $(VENV)/.all  ## the JSON Schemas of the records of runs and of the results of benchmarks, written anew
	$(BIN)/python -m tests.schemas

RECORDS := packages/progress/clients/eagerstream-records
page:  ## the web page's module for records, built anew from the TypeScript package, and that package; needs Node.js
	cd $(RECORDS) && npm ci --no-progress && npm run types && npm run build

version:  ## V=1.2.3 as the version of all packages, and of what they ask of each other
	.ci/packages version '$(V)'

pins:  ## the requirements with hashes of what builds wheels and releases, written anew from uv.lock; needs uv
	for file in packages/wire/build.txt .ci/release.txt; do \
	    uv export --quiet --frozen --no-annotate --only-group $$(basename $$file .txt) --output-file $$file >/dev/null || exit 1; \
	done

audit: $(VENV)/.test  ## known vulnerabilities of the locked dependencies, and of the oldest ones that pyproject.toml allows; asks OSV
	$(BIN)/python -m tests.audit

vectors: $(VENV)/.test  ## the conformance vectors, written anew
	$(BIN)/python -m packages.wire.tests.conformance

screenshots: $(VENV)/.all  ## the pictures of the README and the docs, taken anew; needs Chromium and its driver
	CI=1 EAGERSTREAM_SCREENSHOTS=examples $(BIN)/pytest -m 'slow or nightly' packages/progress/tests/test_web_page.py packages/lab/tests/test_report_page.py packages/lab/tests/test_load_page.py packages/progress/tests/test_notebook_kernel.py -k 'from_its_beginning or picture or notebook'

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*
