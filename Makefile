# Two commands are enough: `make run` shows the product, `make test` checks all of it.
# Both set themselves up. Everything Python goes into .venv, beside this file.

# python3 by default, or the newest of its kind that is at least 3.11; `make PYTHON=python3.13 run`.
PYTHON ?=
# Further options: `make run ARGS="--speed 2"`, `make unit ARGS="-k demo"`.
ARGS ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1

BIN := .venv/bin
# One process more than the cores that CI has, as many tests wait; what a file shares is set up once.
SIDE_BY_SIDE := -n 3 --dist loadfile --no-loadscope-reorder
PARTS := exporter alerts dashboards runbooks tests docs
DECLARED := setup.cfg pyproject.toml

# An environment that was copied along with the tree would run the tree it came from.
ifneq ($(shell cat .venv/.tree 2>/dev/null),$(CURDIR))
$(shell rm -f .venv/.ready-*)
endif

.DEFAULT_GOAL := help
.PHONY: help run test lint types unit servers docs examples bench clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

run: .venv/.ready-run ## run the live demo: a small stack and the exporter on it
	@$(BIN)/orphanwatch demo $(ARGS)

test: lint types servers ## run every check and every test; installs the servers they need
	$(BIN)/pytest $(SIDE_BY_SIDE) $(ARGS)

lint: .venv/.ready-test ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.ready-test ## check types
	$(BIN)/mypy $(PARTS)

unit: .venv/.ready-test ## run the tests that need no server
	$(BIN)/pytest -m "not servers" $(SIDE_BY_SIDE) $(ARGS)

servers: ## make sure that the servers which tests start are installed
	@.ci/servers

docs: .venv/.ready-test ## write the generated pages of docs/ again
	$(BIN)/python docs/write.py

examples: .venv/.ready-run ## write the generated files of examples/ and deploy/ again
	examples/write "$(BIN)/orphanwatch"
	deploy/write "$(BIN)/orphanwatch"

bench: .venv/.ready-test ## measure refreshes, memory and scrapes; prints a table
	$(BIN)/python tests/bench $(ARGS)

clean: ## remove everything that was made here, the environment included
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.ready-run: $(DECLARED)
	@.ci/environment $(PYTHON)
	$(BIN)/python -m pip install --quiet --editable .
	@pwd -P > .venv/.tree
	@touch $@

.venv/.ready-test: $(DECLARED)
	@.ci/environment $(PYTHON)
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@pwd -P > .venv/.tree
	@touch .venv/.ready-run $@
