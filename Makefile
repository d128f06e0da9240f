# Everything happens in .venv; nothing else on the machine is touched.
PYTHON ?= python3
# loadfile: what the tests of a file share is made once.
PYTEST_ARGS ?= -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
# `make test TORCH=` leaves torch out (a large download on some platforms); tests that need it are then skipped.
TORCH ?= torch==2.13.0
# As FURTHER_TORCH of tests/device/emulation/wheel.py.
DEVICE_TORCH ?= 2.1.2 2.6.0 2.9.1
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test test-extended device test-device device-versions test-device-versions lint reports pictures vendor playbook prepared catalogue bench soak clean

demo: .venv/installed
	@echo "A script that keeps every batch in a list runs under oomdoctor until a memory limit stops it:"
	@$(BIN)/oomdoctor run --name demo -- $(BIN)/python examples/keep_every_batch.py; status=$$?; \
	  if [ $$status -eq 0 ]; then echo "The script was expected to run out of memory, and did not."; exit 1; fi

# With the tests on the emulated CUDA device (tests/device/README.md) where its environment has been made.
test: .venv/installed-test
	@$(BIN)/python -m pytest -m 'not extended' $(PYTEST_ARGS); status=$$?; \
	  why=$$($(BIN)/python tests/device/emulate.py --check 2>&1) || \
	  printf '%s\n' "Skipped: the tests on the emulated CUDA device ($$why)." "To run them: make test-device"; exit $$status

# What goes through more versions of torch and more scenarios than a change needs each time.
test-extended: .venv/installed-test
	@$(BIN)/python -m pytest -m extended $(PYTEST_ARGS)

# The environment of the emulated CUDA device: 1.3 GB, outside the repository.
device: .venv/installed-test
	@$(BIN)/python tests/device/emulate.py -- true

# Those of the other versions of torch that some scenarios are tested with: 1.3 GB each.
device-versions: .venv/installed-test
	@for version in $(DEVICE_TORCH); do \
	  $(BIN)/python tests/device/emulate.py --torch $$version -- true; status=$$?; \
	  if [ $$status -eq 125 ]; then echo "Skipped: the tests with torch $$version on the emulated device."; \
	  elif [ $$status -ne 0 ]; then exit $$status; fi; done

test-device: device
	$(BIN)/python -m pytest tests/device $(PYTEST_ARGS)

test-device-versions: device device-versions
	$(BIN)/python -m pytest tests/device/test_scenarios.py tests/device/test_device.py $(PYTEST_ARGS) \
	  -k 'older_torch or this_version'

lint: .venv/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vermin --quiet --no-tips --target=3.8- --violations oomdoctor/probe

reports: .venv/installed
	$(BIN)/python scripts/make_reports.py

# The reports as a browser shows them, wide, narrow, dark, without scripts and as PDF, in build/pictures/ to look through.
pictures: .venv/installed-test
	OOMDOCTOR_PICTURES=build/pictures $(BIN)/python -m pytest tests/browser $(PYTEST_ARGS)

# The report's JavaScript libraries, from npm; only when scripts/vendor/package.json changes.
vendor:
	python3 scripts/vendor_javascript.py

# The texts to translate, after a change of one.
catalogue: .venv/installed-test
	$(BIN)/python scripts/make_catalogue.py

playbook: .venv/installed
	$(BIN)/python scripts/make_playbook.py

# Rules, knobs and templates read beforehand, after a change of one or of the code that reads them.
prepared: .venv/installed
	$(BIN)/python scripts/make_prepared.py

# On an idle machine. The last part needs the environment that `make device` makes.
bench: .venv/installed device
	$(BIN)/python scripts/bench.py
	$(BIN)/python scripts/bench_log.py
	$(BIN)/python scripts/bench_masking.py
	$(BIN)/python scripts/bench_report.py
	$(BIN)/python scripts/bench_run.py
	$(BIN)/python scripts/bench_device.py

# A day under `oomdoctor run` in twenty minutes.
soak: .venv/installed
	$(BIN)/python scripts/soak.py

clean:
	rm -rf .venv build dist *.egg-info

# Once the packages are there, none of these needs the network again.
.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python setup.cfg pyproject.toml
	$(PIP) install 'setuptools>=68' wheel
	$(PIP) install --no-build-isolation --editable .
	@touch $@

.venv/installed-test: .venv/installed
	$(PIP) install --no-build-isolation --editable '.[test]'
	@if [ -n "$(TORCH)" ] && ! $(BIN)/python -c 'import torch' 2>/dev/null; then \
	  $(PIP) install '$(TORCH)' || echo "torch could not be installed: the tests that need it are skipped"; fi
	@touch $@

.venv/installed-lint: .venv/installed
	$(PIP) install --no-build-isolation --editable '.[lint]'
	@touch $@
