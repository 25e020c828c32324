# Each target runs one module, which installs missing parts (packages, Docker engine, Python).
PYTHON ?= python3
AIO := $(PYTHON) -m storlet_middleware.aio

.PHONY: help demo up down clean status test check matrix bench bench-quick box attack release

help:
	@echo "make demo         start a cluster and run the sample storlets"
	@echo "make up           start a cluster: Swift with storlets on 127.0.0.1"
	@echo "make down         stop it; keep its data"
	@echo "make clean        stop it and delete its data"
	@echo "make status       show its processes"
	@echo "make test         run all tests on a cluster of their own"
	@echo "make check        run linters, type checks, import rules and unit tests under coverage;"
	@echo "                  SKIP=coverage: without the tests; ONLY=mypy: only some checkers"
	@echo "make matrix       run unit and library tests with each supported version of Python, Swift;"
	@echo "                  PYTHONS=\"/path/python3.13 ..\": interpreters that are not on PATH"
	@echo "make bench        compare storlets with plain Swift; ROWS=latency,load: only some rows"
	@echo "                  ROWS=bundle: a bundle with numpy, which pip fetches, 90 s"
	@echo "                  ROWS=study: IBM's study of its Storlet Engine, 15 minutes, with plots"
	@echo "make bench-quick  the same in three minutes"
	@echo "make attack       run hostile storlets on a cluster of their own; report what they reached"
	@echo "make box          build the one-box image of Dockerfile"
	@echo "make release VERSION=0.2.0  set the version, make the release notes, commit and tag"
	@echo "Environment variables: python3 -m storlet_middleware.aio --help"

check: ARGUMENTS = $(ONLY) $(SKIP:%=--skip %)

matrix: ARGUMENTS = $(PYTHONS)

demo up down status test check matrix:
	@$(AIO) $@ $(ARGUMENTS)

box:
	@$(AIO) box-image

release:
	@$(AIO) release "$(VERSION)"

clean:
	@$(AIO) down --purge

bench:
	@$(PYTHON) -m tests.bench --rows "$(ROWS)"

bench-quick:
	@$(PYTHON) -m tests.bench --quick --rows "$(ROWS)"

attack:
	@$(PYTHON) -m tests.attack
