# Everything from nothing: each target makes the environment it needs. Nothing is installed outside .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXAMPLES := $(VENV)/.examples
# Tests wait for other processes, so 2 cores are busy with 4 of them. Together they take up to 6 GB of memory.
TEST_PROCESSES ?= 4
# Order of the tests and examples of random tests: the same in every run, unless another seed is given.
SEED ?= 1
# Rewritten tests are kept, also in an environment that keeps no bytecode.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --processes $(TEST_PROCESSES) --seed $(SEED)

.PHONY: help demo demo-media demo-vlm demo-speech demo-store compiled test-quick test test-slow test-times matrix interop fuzz check format docs house house-coverage bench clean .types .rules .house .tests

help:  ## what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $(READY)

$(EXAMPLES): $(READY)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[examples]'
	@touch $(EXAMPLES)

demo: $(READY)  ## raw photographs to training batches, saved and resumed
	@$(BIN)/python examples/demo.py

demo-media: $(READY)  ## questions about photographs, sounds and clips that lie apart from them
	@$(BIN)/python examples/demo_media.py

demo-vlm: $(EXAMPLES)  ## LLaVA-style conversations to packs for a vision-language model, on one rank and two
	@$(BIN)/python examples/demo_vlm.py

demo-speech: $(READY)  ## recordings and transcripts to batches of similar durations
	@$(BIN)/python examples/demo_speech.py

demo-store: $(READY)  ## photographs to an S3 server, trained from by two ranks and indexed by two Ray nodes
	@$(BIN)/python examples/demo_store.py

check: $(READY)  ## lint, types, import rules, generated documents
	@$(MAKE) --no-print-directory --output-sync=target -j 2 .types .rules .house

.types:
	$(BIN)/mypy

.rules:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

.house:
	$(BIN)/python docs/house.py --check
	$(BIN)/python docs/house_journeys.py --check
	$(BIN)/python docs/generate.py --check
	$(BIN)/python docs/json_schemas.py --check
	$(BIN)/python docs/python_api.py --check

compiled: $(READY)
	@$(BIN)/python -m compileall -q wdsctl  # once, instead of in each of the processes that tests start

test-quick: compiled  ## a few cases of each test that does not take long
	$(PYTEST) -m 'not slow' --quick

# Without a cache, mypy takes two minutes on one core, and collecting the tests half a minute: they run side by side.
test: compiled  ## check, and all tests but the slow ones (SEED=2 for another order and other examples)
	@$(MAKE) --no-print-directory --output-sync=target -j 2 .rules .house
	@$(MAKE) --no-print-directory -j 2 .types .tests

.tests:
	$(PYTEST) -m 'not slow'

test-slow: $(EXAMPLES) compiled  ## kill -9 campaigns and large files
	$(PYTEST) -m slow

test-times: compiled  ## measure how long each test takes, which says what is quick
	$(PYTEST) -m 'not slow' --record-times

matrix: $(READY)  ## install and try for every Python on this machine, and every torch for CPUs
	@$(BIN)/python -m tests.packaging.matrix $(MATRIX)

interop: $(READY)  ## install other frameworks, kill and resume a training in each (INTEROP=NAME), write the table
	$(BIN)/python -m tests.interop $(INTEROP)

fuzz: $(READY)  ## hostile input for what reads data: FUZZ_SECONDS (60) for each target, or FUZZ_INPUTS in total
	-@$(BIN)/python -m pip install --quiet atheris  # guides by coverage; where it does not install, inputs are drawn
	$(BIN)/python -m tests.fuzz

format: $(READY)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## write the generated documents
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/json_schemas.py
	$(BIN)/python docs/python_api.py
	$(BIN)/python docs/schema_text.py
	$(BIN)/python docs/recording.py
	$(BIN)/python -m benchmarks.chart

house: $(READY)  ## figures of the package's structure and of its journeys, now and on earlier days
	@$(BIN)/python docs/house.py
	@echo
	@$(BIN)/python docs/house_journeys.py

house-coverage: $(READY)  ## the share of the package's statements that a user's first week executes, in 3 minutes
	@$(BIN)/python docs/house_first_week.py

bench: $(READY)  ## measure against the peers, write docs/benchmarks.md
	$(BIN)/python -m benchmarks

clean:  ## remove what was made
	rm -rf $(VENV) tests/stores/.azurite benchmarks/.venv* benchmarks/.data
	find . -name __pycache__ -prune -exec rm -rf {} +
