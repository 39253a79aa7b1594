# Every target sets up what it needs in .venv; a set-up is done once and again when
# pyproject.toml or constraints.txt change. `make PYTHON=python3.12 test` picks the interpreter.

PYTHON ?= python3
# Those that a release is tried with, where they are installed.
PYTHONS ?= python3.11 python3.12 python3.13
VENV := .venv
RUN := $(VENV)/bin/python
SMALL_THREADS := OMP_NUM_THREADS=1
# Modules are compiled once, also where an image of Python says not to: many processes start here.
export PYTHONDONTWRITEBYTECODE :=
# A process per core, each with whole files, so that what a file's tests share is made once.
ON_ALL_CORES := --numprocesses logical --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help demo demo-gittins demo-feedback test test-all test-postgres test-ray test-upstream checked compiled lint \
  format types tutorials gallery docs package wheel wheel-tried release-check clean

help:
	@echo "make demo          choose control sets on the stack-loss data (under four minutes)"
	@echo "make demo-gittins  tune a classifier at the cost of training it (under four minutes)"
	@echo "make demo-feedback tune augmentation while a network is trained (under four minutes)"
	@echo "make test          lint, format check, types, tests"
	@echo "make test-all      the same with the slow tests"
	@echo "make test-postgres tests on a PostgreSQL server, which is installed and started"
	@echo "make test-ray      tests on a Ray cluster, which is started"
	@echo "make test-upstream tests with Ax, BoTorch and what they build on as they are being developed"
	@echo "make format        apply the format and the safe lint fixes"
	@echo "make tutorials     run the tutorials and keep their outputs"
	@echo "make gallery       draw the pictures of the documentation anew, with an installed Chrome or Chromium"
	@echo "make docs          build the documentation into docs/_build/html"
	@echo "make package       build sdist and wheel into dist, and try the wheel where nothing else is"
	@echo "make release-check try what a release is made of; RELEASE_TAG=v1.2.3 for the one of that tag"
	@echo "make clean         remove .venv and what tools left behind"

demo: $(VENV)/.installed-demo
	$(RUN) -m demo

demo-gittins: $(VENV)/.installed-demo
	$(RUN) -m demo.gittins

demo-feedback: $(VENV)/.installed-demo
	$(RUN) -m demo.feedback

test: checked
	$(SMALL_THREADS) $(RUN) -m pytest -m "not slow" $(ON_ALL_CORES)

test-all: checked
	$(SMALL_THREADS) $(RUN) -m pytest $(ON_ALL_CORES)

# While types are checked all that tests import is compiled, which each of their processes would do.
checked:
	$(MAKE) --no-print-directory --jobs=2 lint types compiled

compiled: $(VENV)/.installed-dev
	@$(SMALL_THREADS) $(RUN) -m pytest --collect-only --quiet > /dev/null 2>&1 || true

test-postgres: $(VENV)/.installed-dev $(VENV)/.installed-postgres
	@$(RUN) -m tests.postgres.server
	AX_COSTAWARE_POSTGRES=start $(SMALL_THREADS) $(RUN) -m pytest tests/postgres

test-ray: $(VENV)/.installed-dev
	$(SMALL_THREADS) $(RUN) -m pytest tests/runners/test_ray_runner.py

# In an environment of its own, as these versions are outside our ranges. Each wants the ones before.
UPSTREAM := build/upstream
test-upstream:
	$(MAKE) VENV=$(UPSTREAM) $(UPSTREAM)/.installed-dev
	for name in cornellius-gp/linear_operator cornellius-gp/gpytorch pytorch/botorch facebook/Ax; do \
	  $(UPSTREAM)/bin/python -m pip install --quiet --upgrade "git+https://github.com/$$name" || exit 1; done
	$(UPSTREAM)/bin/python -m pip freeze | grep github
	$(SMALL_THREADS) $(UPSTREAM)/bin/python -m pytest -m "not slow" $(ON_ALL_CORES)

# Docstrings may be missing in tests, whose names say what they test, but not in the package.
lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff check --select D1 --ignore D105,D107 ax_costaware
	$(RUN) -m ruff format --check .
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-issue-forms \
	  .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/question.yml
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.readthedocs .readthedocs.yaml
	$(VENV)/bin/zizmor --offline --quiet .github

format: $(VENV)/.installed-dev
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

types: $(VENV)/.installed-dev
	$(RUN) -m mypy

tutorials: $(VENV)/.installed-dev
	$(SMALL_THREADS) $(RUN) -m tutorials

gallery: $(VENV)/.installed-gallery
	$(RUN) docs/gallery
	$(RUN) benchmarks/published.py

# Warnings are errors: a link that leads nowhere, a docstring that is no proper markup.
docs: $(VENV)/.installed-docs
	$(RUN) -m sphinx --builder html --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

package: wheel
	$(MAKE) --no-print-directory wheel-tried
	@ls dist/*.whl dist/*.tar.gz

wheel: $(VENV)/.installed-package
	rm -rf build/lib build/bdist.* dist
	$(RUN) -m build --outdir dist
	$(RUN) -m twine check --strict dist/*.whl dist/*.tar.gz

# The wheel in an environment of its own, and tests of it where there is no checkout: the README's
# blocks, and stores of this version and of earlier ones resumed.
EMPTY = build/empty/$(notdir $(PYTHON))
wheel-tried:
	rm -rf $(EMPTY)
	$(PYTHON) -m venv $(EMPTY)/.venv
	$(EMPTY)/.venv/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(EMPTY)/.venv/bin/python -m pip install --quiet --constraint constraints.txt \
	  "$$(echo dist/*.whl)[sql]" pytest
	cp -R README.md CONTRIBUTING.md docs pyproject.toml tests $(EMPTY)
	cd $(EMPTY) && $(SMALL_THREADS) .venv/bin/python -m pytest \
	  "tests/test_documentation.py::test_python_examples_run[README]" \
	  tests/stores/test_stores.py -k "README or goes_on"

# Nothing is published by this. The version comes first, as what follows takes long.
release-check: $(VENV)/.installed-dev
	RELEASE_TAG=$(RELEASE_TAG) $(RUN) -m pytest tests/test_release.py
	$(MAKE) --no-print-directory docs wheel
	for python in $(PYTHONS); do \
	  if $$python --version > /dev/null 2>&1; \
	  then $(MAKE) --no-print-directory PYTHON=$$python wheel-tried || exit 1; \
	  else echo "$$python is not installed: the wheel was not tried with it"; fi; done
	@ls dist/*.whl dist/*.tar.gz

clean:
	rm -rf $(VENV) build dist docs/_build docs/tutorials *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Torch goes first: on its own, its version alone decides which build is taken. A module is compiled
# when it is first imported, which most of what is installed never is; a recent pip is twice as fast.
INSTALL = $(RUN) -m pip install --quiet --no-compile --constraint constraints.txt
$(VENV)/.installed-%: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than Python 3.11; say for example: make PYTHON=python3.12 $*"; exit 1; }
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(INSTALL) torch
	$(INSTALL) --editable '.[$*]'
	touch $@
