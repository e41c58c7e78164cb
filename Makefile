# Each target makes .venv when it is missing or stale, from nothing but a system Python 3.11 or newer.
#   make PYTHON=/path/to/python3.12 venv      another interpreter
#   make test ARGS='-k journal -x'            options for pytest

EXTRAS := dev
ifndef PYTHON
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
endif
BIN := .venv/bin

# The stamp is named after all that the environment was made from: a change of any of these makes it stale. That includes
# the folder, since the environment of a checkout that was moved still points to the old one.
STAMP := .venv/.made-$(if $(PYTHON),$(shell "$(PYTHON)" -c 'import os, platform, sys, zlib; \
	source = os.getcwd().encode() + sys.base_prefix.encode() + sys.argv[1].encode() + open("pyproject.toml", "rb").read(); \
	print(platform.python_version(), format(zlib.crc32(source), "08x"), sep="-")' '$(EXTRAS)'))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help venv demo test check bench clean

help:
	@echo 'make demo    run a scripted tree of agents: no key, no network'
	@echo 'make test    run the tests (ARGS=… for pytest)'
	@echo 'make check   ruff, its formatter, mypy'
	@echo 'make bench   measure against the peers; exit 1 when a target is missed'
	@echo 'make venv    only make .venv'
	@echo 'make clean   remove .venv, caches and builds'

venv: $(STAMP)

demo: $(STAMP)
	@$(BIN)/sapwood demo

test: $(STAMP)
	@$(BIN)/python -m pytest $(ARGS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	@$(BIN)/python -m tests.bench $(ARGS)

clean:
	rm -rf .venv dist .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info
	find . -name node_modules -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP):
	@if [ -z '$(PYTHON)' ]; then \
		echo 'sapwood needs Python 3.11 or newer, and none was found as python3 or python3.11 … python3.14.' >&2; \
		echo 'On Debian: apt-get install python3 python3-venv. Elsewhere: make PYTHON=/path/to/python' >&2; exit 1; fi
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'sapwood needs Python 3.11 or newer; $(PYTHON) is older or does not run.' >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo '$(PYTHON) cannot make a virtual environment: its modules venv and ensurepip are not installed.' >&2; \
		echo "On Debian: apt-get install python3-venv (or $$("$(PYTHON)" -c \
			'import sys; print("python%d.%d-venv" % sys.version_info[:2])') for this very version)" >&2; exit 1; }
	@echo 'Making .venv …'
	@rm -rf .venv
	@"$(PYTHON)" -m venv .venv
	@$(BIN)/python -m pip install -q -e '.[$(EXTRAS)]'
	@touch '$@'
