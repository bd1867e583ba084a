# The stages of CI: what each runs, and what has to succeed first. .ci/run calls this.

SHELL := bash
unexport MAKEFLAGS  # the makes inside the stages are no part of this one
export MAKE_PID := $(shell echo $$PPID)
stage = @exec .ci/stage '$@'
seed := $(EAGERSTREAM_SEED)

# The last of ~/.pyenv for each version. Some may be missing: their tests are skipped. A file of that name on PATH may be
# a shim that stands for no version.
find = $(or $(lastword $(sort $(wildcard $(HOME)/.pyenv/versions/$1.*/bin/python$1))),$(shell python$1 -c 'import sys; print(sys.executable)' 2>/dev/null))
others := $(foreach version,3.12 3.13,$(if $(call find,$(version)),$(version)))
pythons := $(others:%=python%) python3.14

# The slow tests of a package, and of a folder of the core, are a stage. Those of a package run if the commit concerns it:
# EAGERSTREAM_BASE is the commit before, and empty for all packages, as each night. Make starts the next one on whatever
# core is free. Those that take minutes start first. `top` has the files that are in no folder.
long := progress adapters durable loop reliability toolkit testing lab streaming
concerned := $(if $(EAGERSTREAM_BASE),$(shell .ci/packages changed $(EAGERSTREAM_BASE)),core $(patsubst packages/%/tests,%,$(wildcard packages/*/tests)))
packages := $(filter-out core,$(concerned))
alone := $(concerned:%=alone-%)
rooms := $(packages) $(filter-out data __pycache__,$(patsubst tests/%/,%,$(wildcard tests/*/)))
slow := $(patsubst %,slow-%,$(filter $(long),$(rooms)) $(filter-out $(long),$(rooms)) top)

.PHONY: all
all: quick check debian wheels $(filter slow-progress,$(slow)) $(pythons) compat installed flavors sanitize speed fuzz $(alone) $(slow)

install:
	$(stage) 'make .venv/.all .venv/.fuzz'

# What tests drive from outside: a browser, a terminal, the protocols' own clients, and the compilers of the runners.
debian:
	$(stage) 'missing=; for pair in chromium:chromium chromedriver:chromium-driver tmux:tmux node:nodejs npm:npm strace:strace bwrap:bubblewrap redis-server:redis-server go:golang-go cargo:cargo; do \
	    command -v $${pair%:*} || missing+=" $${pair#*:}"; done; [[ -d /usr/share/cargo/registry ]] || missing+=" librust-serde-json-dev"; [[ -z $$missing ]] || { apt-get update --quiet=2; \
	    DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends $$missing; }'

check: quick
	$(stage) 'make check'

# Alone, because it measures, and first, because it finds most mistakes. Without EAGERSTREAM_ALL_PACKAGES, a test that
# lacks a package is skipped.
quick: export EAGERSTREAM_ALL_PACKAGES := 1
quick: install debian
	$(stage) '.venv/bin/python -m tests.budget'

wheels: quick
	$(stage) .ci/wheels

# Programs of the pages with the installed wheel: on this Python, and on one of the others on this machine.
count := $(words $(others))
other := $(word $(shell echo $$(( $(or $(seed),0) % ($(count) + ! $(count)) + 1 ))),$(others))
installed: wheels
	$(stage) '.ci/installed whl python3 $(call find,$(other))'

sanitize: wheels
	$(stage) .ci/sanitize

# The compiled wheel and the sources, on the same inputs.
flavors: wheels
	$(stage) 'EAGERSTREAM_OTHER_PYTHON=build/wheel-compiled/bin/python .venv/bin/python -m tests.fuzz flavors --seconds 60 --seed $(seed) --max-len 64'

compat: quick
	$(stage) '.venv/bin/python -m tests.versions --count 2 --seed $(seed)'

speed: quick
	$(stage) 'make bench-check'

fuzz: quick
	$(stage) '.venv/bin/python -m tests.fuzz --without flavors --seconds 60 --seed $(seed) --max-len 64'

# The quick tests of each package that the commit concerns, with nothing but what the package asks for.
$(alone): alone-%: quick
	$(stage) 'make test P=$* VENV=build/ci/$@'

# The quick tests of the core and of wire on the other versions of Python.
python%: venv = build/ci/$@
$(others:%=python%): python%: quick
	$(stage) 'make test P=core VENV=$(venv) PYTHON=$(call find,$*); $(venv)/bin/pytest packages/wire/tests'

# From a later Debian. A machine that cannot get it says so, and passes.
python3.14: quick
	$(stage) 'python=$$(.ci/debian-python 3.14) || { code=$$?; [ $$code = 3 ] && exit 0; exit $$code; }; \
	    make test P=core VENV=$(venv) PYTHON=$$python; $(venv)/bin/pytest packages/wire/tests'

$(slow): export EAGERSTREAM_ALL_PACKAGES := 1
$(slow): slow-%: quick
	$(stage) '.venv/bin/pytest -m "slow or nightly" --timeout 600 --durations 10 $(if $(filter top,$*),tests/test_*.py,$(if $(filter $(packages),$*),packages/$*/tests,tests/$*)) || [ $$? = 5 ]'
.PHONY: slow
slow: $(slow)
