# Thin: each target calls one module. What is missing (packages, Docker engine, Python environment) is installed on the way.
PYTHON ?= python3
AIO := $(PYTHON) -m storlet_middleware.aio

.PHONY: help demo up down clean status test check bench bench-quick box attack

help:
	@echo "make demo    start everything and run the sample storlets"
	@echo "make up      start everything       make down    stop it       make status  what runs"
	@echo "make test    every test             make check   linters, types, import rules"
	@echo "make bench   what a storlet costs against plain Swift; ROWS=latency,load for some rows; make bench-quick: three minutes"
	@echo "             ROWS=study: IBM's study of its Storlet Engine, 15 minutes, with plots"
	@echo "make attack  hostile storlets against a cluster of its own, with a report of what they reached"
	@echo "make box     build the one-box image of Dockerfile"
	@echo "make clean   down, and delete the cluster's data"

demo up down status test check:
	@$(AIO) $@

box:
	@$(AIO) box-image

clean:
	@$(AIO) down --purge

bench:
	@$(PYTHON) -m tests.bench --rows "$(ROWS)"

bench-quick:
	@$(PYTHON) -m tests.bench --quick --rows "$(ROWS)"

attack:
	@$(PYTHON) -m tests.attack
