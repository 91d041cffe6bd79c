# Every command of the project; `make help` lists them. Each one first makes ready what it needs.
PYTHON ?= $(firstword $(shell command -v python3.11 || command -v python3))
IN := .venv/bin/python -m
# A node that had to be brought into .venv comes before the system's.
NPM := PATH="$(CURDIR)/.venv/bin:$$PATH" npm
# More for pytest, such as an order of the tests (--randomly-seed=1); by default each run has a new one.
PYTEST_OPTIONS :=
# The API's clients for node, in a folder of the tests' own.
CLIENTS := tests/contract/node

.DEFAULT_GOAL := help
.PHONY: help run test test-fast lint fuzz soak bench format clean ready ready-dev ready-node ready-tests

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ready ## Set up what is missing and serve the demo on http://127.0.0.1:8000/ (HOST, PORT)
	@[ -n "$$STREAMSITE_DEBUG" ] || grep -qs '^STREAMSITE_DEBUG=' .env || export STREAMSITE_DEBUG=1; \
	exec .venv/bin/python manage.py serve

test: ready-tests ## Run every test: the page's JavaScript, Python, the real model, Chromium
	$(NPM) test
	$(NPM) run check-build
	$(IN) pytest -m "not browser" $(PYTEST_OPTIONS)
	DJANGO_ALLOW_ASYNC_UNSAFE=true $(IN) pytest -m browser $(PYTEST_OPTIONS)

test-fast: ready-dev ## Run the tests that need neither node, nor Chromium, nor the model
	$(IN) pytest -m "not browser and not model and not node"

lint: ready-node ## Check format, lint, types, import directions, templates, migrations, JavaScript
	$(IN) ruff format --check .
	$(IN) ruff check .
	$(IN) mypy
	.venv/bin/lint-imports
	find templates -name '*.html' -print0 | xargs -0 .venv/bin/djade --check
	.venv/bin/python manage.py check
	.venv/bin/python manage.py makemigrations --check --dry-run
	$(NPM) run lint

fuzz: ready-dev ## Search the text pipeline for failures with millions of examples, and the API with malformed bodies
	HYPOTHESIS_PROFILE=fuzz $(IN) pytest tests/generation/text tests/generation/views/test_malformed_bodies.py --timeout=0

soak: ready-dev ## Kill 200 recording processes at random moments, on SQLite and on PostgreSQL (STREAMSITE_TEST_POSTGRES)
	STREAMSITE_KILLS=200 $(IN) pytest tests/generation/recording/test_process_end.py --timeout=0
	STREAMSITE_KILLS=200 DATABASE_URL=$${STREAMSITE_TEST_POSTGRES:-postgres://postgres@127.0.0.1:5432/test} \
	$(IN) pytest tests/generation/recording/test_process_end.py --timeout=0

bench: ready-dev ## Measure beside the peers, and try real model servers behind the site (installs both into var/bench-env)
	$(IN) tests.toolchain openvino
	STREAMSITE_ENGINE=openvino .venv/bin/python manage.py fetch_model
	$(IN) bench.upstreams --build-llama
	$(IN) bench.engines --memory

format: ready-node ## Format the Python, the templates and the JavaScript
	$(IN) ruff format .
	$(IN) ruff check --fix .
	find templates -name '*.html' -print0 | xargs -0 .venv/bin/djade
	$(NPM) run format

clean: ## Remove .venv, node_modules and caches; var/ with the records and the model stays
	rm -rf .venv node_modules $(CLIENTS)/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

ready:
	@$(call bootstrap,requirements.txt)

ready-dev:
	@$(call bootstrap,requirements-dev.txt)

ready-node: ready-dev
	@$(IN) tests.toolchain node
	@$(MAKE) -s node_modules/.package-lock.json

ready-tests: ready-node $(CLIENTS)/node_modules/.package-lock.json
	@$(IN) tests.toolchain chromium openvino
	@STREAMSITE_ENGINE=openvino .venv/bin/python manage.py fetch_model

# npm writes this file last, so an interrupted installation is done again.
node_modules/.package-lock.json: package-lock.json
	$(NPM) ci
	@touch $@

$(CLIENTS)/node_modules/.package-lock.json: $(CLIENTS)/package-lock.json
	$(NPM) --prefix $(CLIENTS) ci
	@touch $@

define bootstrap
if [ -n "$(PYTHON)" ]; then "$(PYTHON)" streamsite/bootstrap.py $(1); \
else echo "Python 3.11 is needed, found none. Install it, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; fi
endef
