.PHONY: setup test collected lint format bench dev histories faults lock

PYTHON ?= python3
BIN := .venv/bin

setup: .venv/.ready

.venv/.ready: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# Six test processes on two cores: half of them wait. What one of them compiled the others need not.
test: setup
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 6 --dist worksteal

# Compiles the tests, so that six processes do not do it at the same time.
collected: setup
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only --quiet --quiet > /dev/null

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m benchmarks

dev: setup
	$(BIN)/python -m workers.dev

histories: setup
	$(BIN)/python -m tests.record_histories

# A thousand random schedules, or with SEED=… that one; COUNT=… and MINUTES=… bound them.
faults: setup
	$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(MINUTES),--minutes $(MINUTES))

LOCK := $(BIN)/uv pip compile pyproject.toml requirements.in --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 --quiet

lock:
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(LOCK) --extra dev -o requirements.lock
	$(LOCK) --extra service --extra longconn --constraint requirements.lock -o requirements-service.lock
