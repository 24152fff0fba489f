# From a bare checkout: every target makes .venv and installs what it needs, once per change of pyproject.toml.

PYTHON ?= python3
ARGS ?=

VENV := .venv
comma := ,
RUN := $(VENV)/.installed-run
TEST := $(VENV)/.installed-test
PIP_INSTALL := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check
# uv installs the same packages in a fraction of the time. Where it is missing, or cannot (it knows no mirror that only
# pip is told of), pip does it. make UV= leaves it out.
UV ?= $(shell command -v uv 2>/dev/null)
UV_INSTALL := $(UV) pip install --quiet --python $(VENV)/bin/python
install = { [ -n '$(UV)' ] && $(UV_INSTALL) $(1) 2>$(VENV)/uv.log; } || $(PIP_INSTALL) $(1)
# One more than the two cores: many tests wait for a process or a clock. Each begins with tests that lie together,
# so that what they share is made once, and takes over from the others at the end.
WORKERS := -n 3 --dist worksteal
# A worker takes fifteen seconds to compile the tests: they are compiled once, before there are workers, and what was
# compiled is kept, whatever the machine's habit is.
unexport PYTHONDONTWRITEBYTECODE
# Workers share the cores already: a BLAS that starts a thread per core in each of them only waits for itself.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-postgres lint soak proof bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo 'ARGS="…" passes arguments on: make demo ARGS="--seconds 30 --no-web"'

demo: $(RUN) ## run the whole system offline on the seeded world
	@$(VENV)/bin/tapebook demo $(ARGS)

test: $(TEST) ## lint, types and all tests, on SQLite and PostgreSQL
	@$(RUFF)
	@$(MYPY) >$(VENV)/types.log 2>&1 & types=$$!; \
	[ -d tests/__pycache__ ] || $(VENV)/bin/python -m pytest --collect-only -qq >/dev/null 2>&1; \
	$(VENV)/bin/python -m pytest $(WORKERS) $(ARGS); tests=$$?; \
	wait $$types; typed=$$?; cat $(VENV)/types.log; \
	[ $$typed -eq 0 ] || echo 'failed: types (mypy --strict, just above)'; \
	[ $$tests -eq 0 ] || echo 'failed: tests (pytest, above the types)'; \
	[ $$typed -eq 0 ] && [ $$tests -eq 0 ]
	@echo 'passed: lint (ruff check), types (mypy --strict), tests (pytest, counted above)'

test-postgres: $(TEST) ## all tests with the homes they make on a PostgreSQL server (TAPEBOOK_STORE names one)
	@$(VENV)/bin/python -m tests.on_postgres $(WORKERS) $(ARGS)

lint: $(TEST) ## ruff check and mypy --strict
	@$(RUFF)
	@$(MYPY)

soak: $(TEST) ## storms, kills and long runs
	@$(call run_marked,soak)

proof: $(TEST) ## matrices, mutation and attack tables, and ten times the examples of every property
	@$(call run_marked,proof)
	@TAPEBOOK_TEST_EXAMPLES=500 $(call run_marked,"hypothesis and not soak and not proof")

bench: $(TEST) ## measure, and write the figures to docs/figures/
	@$(VENV)/bin/python -m bench $(ARGS)

clean: ## remove .venv, caches and builds; a home is never touched
	@rm -rf $(VENV) dist build .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

RUFF := $(VENV)/bin/python -m ruff check .
# One process, beside the tests: half a minute of one core, and workers of mypy break on a busy machine.
MYPY := $(VENV)/bin/python -m mypy --strict $(wildcard src tests bench)

# pytest leaves with 5 when it found no test: that is said, and is no failure.
run_marked = $(VENV)/bin/python -m pytest -m $(1) $(ARGS) || { code=$$?; [ $$code -eq 5 ] || exit $$code; echo 'nothing ran: no test is marked "$(1)"'; }

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'tapebook needs Python 3.11 or newer: name one with make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo 'no virtual environment could be made: install the venv module (Debian: apt-get install python3-venv)' >&2; exit 1; }

$(RUN): pyproject.toml | $(VENV)/bin/pip
	@echo 'installing into $(VENV) …'
	@$(call install,--editable .)
	@touch $@

$(TEST): pyproject.toml | $(VENV)/bin/pip
	@echo 'installing into $(VENV) …'
	@$(call install,--editable '.[test$(comma)postgres]')
	@touch $(RUN) $@
