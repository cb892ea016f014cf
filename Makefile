.PHONY: setup test browser lint format bench memory dev histories faults world deciding lock

PYTHON ?= python3
BIN := .venv/bin

setup: .venv/.ready

# uv installs the hashed lock in seconds; where it cannot be had, or cannot reach what pip is configured to, pip does.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
.venv/.ready: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }
	@sed -n '/^uv==/,/# via/p' requirements.lock > .venv/uv.lock
	@$(PIP) --require-hashes -r .venv/uv.lock || echo "Without uv, pip takes a minute or two."
	@$(UV) --require-hashes -r requirements.lock || $(PIP) --require-hashes -r requirements.lock
	@$(UV) --no-deps --no-build-isolation --editable . || $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# Ten test processes on two cores: most of them wait. What one of them compiled the others need not.
test: setup .venv/.browser .venv/.compiled
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 10 --dist worksteal $(TESTS)

# Looks for a browser, and gets one where there is none and it can.
browser: setup
	@$(BIN)/python -m tests.support.chromium
	@touch .venv/.browser

.venv/.browser: .venv/.ready
	@$(MAKE) --no-print-directory browser

# Compiles the tests once, so that ten processes do not do it at the same time.
.venv/.compiled: .venv/.ready
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq > /dev/null || true # the tests say what is wrong
	@touch $@

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup .venv/peer/.ready
	$(BIN)/python -m benchmarks

# DBOS beside us, with packages of its own; where it cannot be had, its row is missing.
.venv/peer/.ready: .venv/.ready
	@$(PYTHON) -m venv .venv/peer
	@$(BIN)/uv pip install --quiet --python .venv/peer/bin/python "dbos==3.3.*" || .venv/peer/bin/python -m pip install --quiet "dbos==3.3.*" || rm -rf .venv/peer
	@mkdir -p .venv/peer && touch $@

# What attacks on real processes cost in memory; fails where one grows without bounds.
memory: setup
	$(BIN)/python -m benchmarks.memory

dev: setup
	$(BIN)/python -m workers.dev

histories: setup
	$(BIN)/python -m tests.recording.histories

# The fault matrix and a thousand random schedules, or with SEED=… that one; COUNT=… and MINUTES=… bound them.
faults: setup
	$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(MINUTES),--minutes $(MINUTES))

# Histories of a generated world for a minute, or with SEED=… that one, step by step; COUNT=… and MINUTES=… bound them.
world: setup
	$(BIN)/python -m tests.world $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(MINUTES),--minutes $(MINUTES))

# Random histories of one approval, and of one question, decided by the core and by a naive model of the documents; COUNT=… and SEED=….
deciding: setup
	$(BIN)/python -m tests.support.approval_histories $(or $(COUNT),20000) $(SEED)
	$(BIN)/python -m tests.support.question_histories $(or $(COUNT),20000) $(SEED)

LOCK := $(BIN)/uv pip compile pyproject.toml requirements.in --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 --quiet

lock: setup
	$(LOCK) --extra dev -o requirements.lock
	$(LOCK) --extra service --extra longconn --constraint requirements.lock -o requirements-service.lock
