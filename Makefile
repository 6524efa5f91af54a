# `make demo` and `make test` set up .venv themselves; nothing else is needed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
INTEGRATIONS := .venv-integrations
LOWEST := .venv-lowest
DOCS := .venv-docs

.PHONY: demo test test-integrations test-lowest docs soak evidence studies campaign campaign-status playground lint check bench format clean

demo: $(READY)
	$(BIN)/anydepth demo --out demo-output

# Each worker starts with half of the tests, in their order, so that runs shared by a file are made once.
test: $(READY)
	$(BIN)/pytest -n 2 --dist worksteal

# The tests with Lightning, Accelerate and transformers, which `make test` skips, in an environment of their own.
test-integrations: $(INTEGRATIONS)/.ready
	$(INTEGRATIONS)/bin/pytest tests -m integrations -rs

# The tests with the oldest packages that pyproject.toml admits. Warnings of old packages are no errors here.
test-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/pytest tests -n 2 --dist worksteal -W default

# The documentation site, in site/index.html: tutorials are run, every public name must have a docstring, warnings are errors.
docs: $(DOCS)/.ready docs/playground.html
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet

# The pages of claims, from the results that `anydepth reproduce NAME --evidence papers/evidence` keeps.
evidence: $(READY)
	$(BIN)/python -m anydepth_papers.pages.ledger papers/evidence papers/docs

# All studies at the scale of two cores, one after another: a day. Parts that are in papers/evidence/ are not run again.
studies: $(READY)
	set -e; for name in $$($(BIN)/anydepth list --json | $(BIN)/python -c 'import json, sys; print(*json.load(sys.stdin)["reproductions"])'); do \
	  $(BIN)/anydepth reproduce $$name $(if $(DATA),--data $(DATA)) --evidence papers/evidence; done

# The long trainings that the studies at real scale share, one after another with one thread: days. May be killed at any
# moment and started again. DATA is the data directory, NETS where the nets are kept.
NETS ?= papers/evidence/nets
campaign: $(READY)
	$(BIN)/anydepth campaign $(if $(DATA),--data $(DATA)) --out $(NETS)

campaign-status: $(READY)
	$(BIN)/anydepth campaign --status --out $(NETS)

# The whole fault matrix: kills, damage, fuzzing, and the tests that `make test` leaves out. Hours; may be stopped at any moment
# and started again, it resumes where tests/soak/ledger.jsonl ends. A hundredth of it, with a ledger of its own:
# SOAK='--share 0.01 --ledger soak-output/ledger.jsonl'.
soak: $(READY)
	$(BIN)/python tests/soak/run.py --table docs/reliability.md $(SOAK)

# The page with two nets that run in the browser: docs/playground.html. Trains them if they are not there: about two minutes.
playground docs/playground.html: $(READY)
	$(BIN)/python playground/build.py --to docs/playground.html

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

check: lint test

bench: $(READY)
	$(BIN)/anydepth bench --growth --out benchmarks/results.json
	$(BIN)/python benchmarks/adjoint.py
	$(BIN)/python benchmarks/resnet_law.py
	$(BIN)/python benchmarks/compress.py
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/seeds.py
	$(BIN)/python benchmarks/evolving.py
	$(BIN)/python benchmarks/halving.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e papers
	touch $(READY)

$(INTEGRATIONS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(INTEGRATIONS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,lightning,accelerate,transformers]' -e papers
	touch $@

$(LOWEST)/.ready: pyproject.toml tests/lowest.py
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) tests/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(LOWEST)/constraints.txt -e '.[cli,onnx,fast,serve,lightning,accelerate,transformers]' pytest pytest-xdist hypothesis torchdiffeq
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e papers
	touch $@

$(DOCS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]' -e papers
	touch $@

clean:
	rm -rf .venv $(INTEGRATIONS) $(LOWEST) $(DOCS) .cache site demo-output
