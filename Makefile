# `make demo` runs the gate on the example; `make test` runs the tests. Both need Python 3.11+, make and git only.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
DEMO   := examples/docs-qa
PYTEST_ARGS ?=
CORPUS_ARGS ?=
# One test process per core, each with whole files, so that fixtures of a file are made once; WORKERS= for one process.
WORKERS ?= -n auto --dist loadfile --no-loadscope-reorder
LONG := heavy or container or browser or integrations
# $(call install,ENVIRONMENT,WHAT): with uv, in seconds; with pip, in minutes, where uv has no wheel.
install = if [ -x $(BIN)/uv ]; then $(BIN)/uv pip install --quiet --python $(1)/bin/python $(2); \
	else $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); fi
# The tests start ragstone by the hundred: it is compiled once, not in each process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-regression demo-baseline lock test test-process test-all corpus lint types test-heavy test-lowest test-browser test-container test-as-root test-integrations docs pictures generated github-description release-check hooks check clean

demo: $(VENV)/.installed $(DEMO)/.venv/.installed
	$(BIN)/ragstone gate --config $(DEMO)/ragstone.toml --baseline $(DEMO)/baseline

demo-regression: $(VENV)/.installed $(DEMO)/.venv/.installed
	$(BIN)/ragstone gate --config $(DEMO)/ragstone.toml --baseline $(DEMO)/baseline \
		--entrypoint python:regressed:answer --out $(DEMO)/ragstone-run-regressed \
		|| { code=$$?; echo "Exit code $$code is the gate's: the variant is worse on purpose."; exit $$code; }

# Run after a change to the example that is meant to change its scores; look at the comparison before committing it.
demo-baseline: $(VENV)/.installed $(DEMO)/.venv/.installed
	$(BIN)/ragstone run --config $(DEMO)/ragstone.toml --out $(DEMO)/baseline

# Pin everything in the image, what builds the packages, and what tests and linters use, by hash, for every platform. Run after a change to the dependencies;
# make lock LOCK_ARGS=--upgrade upgrades every package to the newest version allowed.
LOCK_ARGS ?=
LOCK_OPTIONS := --universal --python-version 3.11 --generate-hashes --only-binary :all: --no-annotate \
	--custom-compile-command "make lock" --quiet $(LOCK_ARGS)
lock: $(VENV)/bin/python
	$(call install,$(VENV),--group image)
	$(BIN)/uv pip compile pyproject.toml --group image --extra bedrock $(LOCK_OPTIONS) --output-file requirements/image.txt
	$(BIN)/uv pip compile $(LOCK_OPTIONS) --group build --output-file requirements/build.txt
	$(BIN)/uv pip compile pyproject.toml --group test --group lint $(LOCK_OPTIONS) --output-file requirements/test.txt

# They wait for loopback servers, git and the disk a good part of the time: two processes per core.
test: WORKERS = -n $(shell $(PYTHON) -c 'import os; print(2 * (os.cpu_count() or 1))') --dist loadfile --no-loadscope-reorder
test: $(VENV)/.installed-dev $(DEMO)/.venv/.installed
	$(BIN)/python -m pytest -m "not (process or $(LONG))" $(WORKERS) $(PYTEST_ARGS)

# Tests that start processes of their own: pipes, signals, kill and resume, installed packages.
test-process: $(VENV)/.installed-dev $(DEMO)/.venv/.installed
	$(BIN)/python -m pytest -m "process and not ($(LONG))" $(WORKERS) $(PYTEST_ARGS)

test-all: test test-process test-heavy test-integrations test-browser test-container

# What the gate decides in many small cases, compared with what is stored: see CONTRIBUTING.md.
corpus: $(VENV)/.installed-dev
	$(BIN)/python -m tests.corpus.compare $(CORPUS_ARGS)

test-heavy: $(VENV)/.installed-oracles $(DEMO)/.venv/.installed
	$(BIN)/python -m pytest -m "heavy and not container and not browser" $(WORKERS) $(PYTEST_ARGS)

# Reports, and the pages of the site.
test-browser: docs $(DEMO)/.venv/.installed
	$(BIN)/python -m pytest -m browser $(PYTEST_ARGS)

test-container: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m container $(PYTEST_ARGS)

# Tests that need root but no container: changing users, and killing another user's processes.
test-as-root: $(VENV)/.installed-dev
	test "$$(id -u)" = 0
	$(BIN)/python -m pytest tests/container/test_strays.py tests/container/test_runner_folders.py \
		tests/container/test_confinement.py tests/container/test_user_environment.py \
		tests/container/test_base_user.py tests/system/test_environment.py $(PYTEST_ARGS)

# The lowest versions that pyproject.toml allows, in a separate environment: the example, and what make test runs but
# the tests that hold our tables of models to the newest SDKs, and the report's schema to the newest pydantic.
test-lowest: $(VENV)-lowest/.installed $(DEMO)/.venv/.installed
	$(VENV)-lowest/bin/ragstone gate --config $(DEMO)/ragstone.toml --baseline $(DEMO)/baseline --out $(DEMO)/ragstone-run-lowest
	$(VENV)-lowest/bin/python -m pytest -m "not (process or $(LONG))" $(WORKERS) \
		--deselect tests/report/test_junit_and_json.py::test_the_shipped_schema_is_made_from_the_parts_of_the_document \
		--deselect tests/judge/test_lifecycle.py::test_dated_names_are_in_the_sdks_lists \
		--deselect tests/judge/test_lifecycle.py::test_the_ends_of_anthropics_models_are_those_of_its_sdk_which_drops_models_that_ended \
		$(PYTEST_ARGS)

# Real LangChain and LlamaIndex objects, in a separate environment of many packages.
test-integrations: $(VENV)-integrations/.installed
	$(VENV)-integrations/bin/python -m pytest -m integrations $(PYTEST_ARGS)

# The documentation site, in build/site/html; fails on a link that leads nowhere.
docs: $(VENV)/.installed-docs
	$(BIN)/python scripts/docs_site.py

# Run after a change to the reports: the pictures of the README, from the regressed example. Needs Chromium.
pictures: $(VENV)/.installed-dev $(DEMO)/.venv/.installed
	$(BIN)/python scripts/pictures.py

# Files that are written from the code: action.yml, the tables of its inputs and outputs, docs/configuration.md, JSON Schemas,
# and, from the marks of the tests, the lists of attacks in docs/threat-model.md.
generated: $(VENV)/.installed-dev
	$(BIN)/python scripts/action_file.py
	$(BIN)/python scripts/configuration_page.py > docs/configuration.md
	$(BIN)/python scripts/schemas.py
	$(BIN)/python scripts/attack_table.py
	$(BIN)/python scripts/phrases.py

# The part of GitHub's OpenAPI description that the tests use. Run after a change to scripts/github_description.py; needs npm.
# make github-description CHECK=--check compares only.
CHECK ?=
github-description: $(VENV)/bin/python
	$(BIN)/python scripts/github_description.py $(CHECK)

# Rehearse a release; nothing is published. RELEASE_ARGS="--no-image" leaves out the image, which needs root and buildah.
RELEASE_ARGS ?=
release-check: $(VENV)/.installed-dev $(DEMO)/.venv/.installed
	$(call install,$(VENV),--group release)
	$(BIN)/python scripts/release_check.py $(RELEASE_ARGS)

# Check every commit from here on: see .pre-commit-config.yaml.
hooks: $(VENV)/.installed-dev
	$(BIN)/pre-commit install

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo

types: $(VENV)/.installed-dev
	$(BIN)/mypy

check: lint types test

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Ragstone needs Python 3.11 or newer: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9,<1" \
		|| { echo "uv has no wheel for this machine: pip installs instead, which takes minutes"; \
			$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"; }

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(call install,$(VENV),--editable .)
	touch $@

# From the lock, so that a release of somebody else's breaks nothing here.
$(VENV)/.installed-dev: pyproject.toml requirements/test.txt | $(VENV)/bin/python
	$(call install,$(VENV),--requirement requirements/test.txt)
	$(call install,$(VENV),--no-deps --editable .)
	touch $@ $(VENV)/.installed

# With what a rehearsed release needs, so that its test installs nothing beside the others.
$(VENV)/.installed-oracles: $(VENV)/.installed-dev
	$(call install,$(VENV),--group oracles --group release)
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(call install,$(VENV),--group docs)
	touch $@

$(VENV)-integrations/.installed: pyproject.toml | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)-integrations
	[ -x $(BIN)/uv ] || $(VENV)-integrations/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(call install,$(VENV)-integrations,--editable . --group test --group integrations)
	touch $@

# pip can't choose the lowest versions, so this needs uv.
$(VENV)-lowest/.installed: pyproject.toml | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct --editable . --group test
	touch $@

# The example is a user's system: it has a separate environment, without Ragstone.
$(DEMO)/.venv/.installed: $(DEMO)/requirements.txt | $(VENV)/bin/python
	$(PYTHON) -m venv $(DEMO)/.venv
	$(call install,$(DEMO)/.venv,--requirement $<)
	touch $@

clean:
	rm -rf build $(VENV) $(VENV)-integrations $(VENV)-lowest $(DEMO)/.venv $(DEMO)/ragstone-run* .mypy_cache .ruff_cache .pytest_cache .hypothesis
