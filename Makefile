# Everything from nothing: each target makes the environment it needs. Nothing is installed outside .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXAMPLES := $(VENV)/.examples
# Tests wait for other processes, so 2 cores are busy with 3 of them. Each takes up to 2 GB of memory.
TEST_PROCESSES ?= 3

.PHONY: help demo demo-media demo-vlm demo-speech demo-store test test-slow matrix interop fuzz check format docs house house-coverage bench clean

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
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/house.py --check
	$(BIN)/python docs/generate.py --check
	$(BIN)/python docs/json_schemas.py --check

test: check  ## check, then the tests
	@$(BIN)/python -m compileall -q wdsctl  # once, instead of in each of the processes that tests start
	$(BIN)/python -m pytest -m 'not slow' -n $(TEST_PROCESSES)

test-slow: $(EXAMPLES)  ## kill -9 campaigns and large files
	@$(BIN)/python -m compileall -q wdsctl
	$(BIN)/python -m pytest -m slow -n $(TEST_PROCESSES) --dist worksteal

matrix: $(READY)  ## install and try for every Python on this machine, and every torch for CPUs
	@$(BIN)/python -m tests.packaging.matrix $(MATRIX)

interop: $(READY)  ## install other frameworks, kill and resume a training in each (INTEROP=NAME), write the table
	$(BIN)/python -m tests.interop $(INTEROP)

fuzz: $(READY)  ## hostile input for what reads data, FUZZ_SECONDS (60) for each target
	-@$(BIN)/python -m pip install --quiet atheris  # guides by coverage; where it does not install, inputs are drawn
	$(BIN)/python -m tests.fuzz

format: $(READY)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## write the generated documents
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/json_schemas.py
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
