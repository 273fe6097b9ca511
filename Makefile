PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALLED := $(VENV)/.installed

BACKENDS := jax tensorflow torch
# One thread per pytest worker: more only compete for the same cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS)

# Runs a command on every backend, and fails at the end if it failed on any.
define on_each_backend
status=0; for backend in $(BACKENDS); do \
  echo "== $$backend"; \
  KERAS_BACKEND=$$backend $(1) || status=1; \
done; exit $$status
endef

# TensorFlow, which Keras imports on every backend if it is there: quiet, and without
# oneDNN, which dies on machines that advertise AMX without granting it.
export TF_CPP_MIN_LOG_LEVEL := 2
export TF_ENABLE_ONEDNN_OPTS := 0

.DELETE_ON_ERROR:
.PHONY: help demo test $(BACKENDS:%=test-%) test-slow lint format benchmark clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  \1: /p' Makefile
	@echo "  $(BACKENDS:%=test-%): test on one backend"

demo: $(INSTALLED) ## run examples/quickstart.py on the default backend
	$(BIN)/python examples/quickstart.py

test: $(INSTALLED) ## test on the three backends, one after another
	@$(call on_each_backend,$(PYTEST))

$(BACKENDS:%=test-%): test-%: $(INSTALLED)
	KERAS_BACKEND=$* $(PYTEST)

test-slow: $(INSTALLED) ## run the slow tests on the three backends
	@$(call on_each_backend,$(PYTEST) -m slow)

lint: $(BIN)/ruff ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(BIN)/ruff ## format the code and sort its imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(INSTALLED) ## run benchmarks/*.py on jax, one after another
	@status=0; for script in $(sort $(wildcard benchmarks/*.py)); do \
	  echo "== $$script"; \
	  KERAS_BACKEND=jax $(BIN)/python $$script || status=1; \
	done; exit $$status

clean: ## remove caches and build products, not the environment
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml requirements-dev.txt | $(BIN)/python
	@echo "Installing the development environment; this takes some minutes."
	$(PIP) -r requirements-dev.txt
	@touch $@

$(BIN)/ruff: | $(BIN)/python
	$(PIP) ruff

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python >= 3.11 is needed. Try: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "The venv module is incomplete. On Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
