# One way to do each everyday thing. LOCAL=dir make up: a cluster in another folder; NODES=n: its nodes; VERSION=1.30: its Kubernetes;
# MODE=extender|scheduler|gate: how its scheduler asks the server (docs/concepts/modes.md); MANAGED=true: manifests/managed-namespaces.
PYTHON ?= python3
RUN := .venv/bin/python -m
UV := $(shell sed -n 's/.*"\(uv==[^"]*\)".*/\1/p' pyproject.toml)

.PHONY: up down status pods pods-down test test-rest test-all test-fast test-long test-faults test-core test-pods test-browser test-cert-manager versions pythons lint bench soak docs site pictures chart image release

up: .venv/.stamp
	@$(RUN) localcluster up

down: .venv/.stamp
	@$(RUN) localcluster down

status: .venv/.stamp
	@$(RUN) localcluster status

pods: .venv/.stamp # real kubelets and real pods; Linux and root only. LOCAL=dir, NODES=n and MODE=... as above
	@$(RUN) localcluster.pods up

pods-down: .venv/.stamp
	@$(RUN) localcluster.pods down

# File by file, the long ones first (tests/weights.py).
# Python keeps what it has compiled, whatever the environment says: the server is started a hundred times.
PYTEST := PYTHONDONTWRITEBYTECODE= $(RUN) pytest --dist loadfile --no-loadscope-reorder
# Go collects garbage less often while it has room, which is less work for the control planes. So is one thread each:
# four of them share two cores, and Go looks for work on every core that it may use before it sleeps.
ROOMY := GOGC=800 GOMEMLIMIT=1200MiB
FOUR_AT_ONCE := $(ROOMY) GOMAXPROCS=1

# For two cores: four workers take the end-to-end tests, and two all others; each collects its own alone.
# The builds first: beside a compiler on both cores tests fail by time. Without them tests say what is missing.
# All rules as values, and of each capability one way through the real control plane (tests/ways.py).
test: .venv/.stamp
	-@$(RUN) localcluster build
	$(FOUR_AT_ONCE) $(PYTEST) -n 6 -m "not rest"

test-rest: .venv/.stamp # the other ways, faults, races, and the programs of other projects, which are built once
	-@$(RUN) localcluster build && $(RUN) localcluster.external_tools
	$(FOUR_AT_ONCE) $(PYTEST) -n 4 -m rest

test-all: # all suites: half an hour and more of two cores
	.ci/run

test-fast: .venv/.stamp # without the control plane and the files that take long; a worker more than cores, for some tests wait
	HYPOTHESIS_PROFILE=fast $(PYTEST) -p no:schemathesis -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 8 -m "not cluster and not slow"

test-long: .venv/.stamp # what takes long and few changes concern: upgrades, replicas that fail or hear late, thousands of queues
	@$(RUN) localcluster build && $(RUN) localcluster.external_tools helm
	-@$(RUN) localcluster.external_tools jobset leaderworkerset # minutes, once; without them a test says what is missing
	$(FOUR_AT_ONCE) $(PYTEST) -n 4 -m long tests/e2e

test-faults: .venv/.stamp # ten minutes of faults while 2,400 pods wait for room; MINUTES=1: a trial; SEED=n: with the same choices
	@$(RUN) localcluster build
	HANGS=5400 MINUTES=$${MINUTES:-10} $(ROOMY) $(PYTEST) -s -n 0 -m long tests/e2e/quota/test_never_over.py

test-core: .venv/.stamp # what is run on every Kubernetes version (tests/core.py), on the one that VERSION names
	@$(RUN) localcluster build && $(RUN) localcluster.external_tools
	$(FOUR_AT_ONCE) $(PYTEST) -n 4 -m core

versions: .venv/.stamp # the same on each version, as a table; VERSIONS="1.30 1.36": on these
	@$(ROOMY) $(RUN) tests.kubernetes_versions $(VERSIONS)

pythons: .venv/.stamp # the tests of `make test-fast` on each Python from 3.11 on that is here, as a table
	@$(RUN) tests.python_versions $(VERSIONS)

# Three clusters at the same time: most of their tests wait for kubelets and for pods to end. Four would need more
# inotify instances than a user usually has (128).
test-pods: .venv/.stamp # with real nodes and pods; no part of `make test`
	@$(RUN) localcluster.pods build && $(RUN) localcluster.external_tools helm
	$(ROOMY) $(PYTEST) -n 3 -m pods tests/pods

test-browser: .venv/.stamp # the page in Debian's Chromium, which is fetched once; no part of `make test`
	-@$(RUN) localcluster build && $(RUN) localcluster.chromium
	$(ROOMY) $(PYTEST) -n 0 -m browser tests/browser

test-cert-manager: .venv/.stamp # with cert-manager's own controllers, whose first build takes minutes; no part of `make test`
	@$(RUN) localcluster build && $(RUN) localcluster.external_tools helm certmanager
	$(PYTEST) -m cert_manager tests/e2e/certs/test_cert_manager.py

lint: .venv/.stamp
	.venv/bin/ruff check && .venv/bin/ruff format --check
	.venv/bin/mypy && .venv/bin/lint-imports

bench: .venv/.stamp
	$(RUN) benchmarks $(ROW)

soak: .venv/.stamp # twenty minutes; MINUTES=1 make soak: a trial
	$(RUN) benchmarks.soak

docs: .venv/.stamp
	$(RUN) pytest tests/docs

site: .venv/.stamp # the documentation as a site, in dist/site; strict about links
	.venv/bin/uv sync --quiet --frozen --inexact --group site
	@$(RUN) release.site

pictures: .venv/.stamp # docs/pictures/*.svg, from the texts beside them
	@$(RUN) release.pictures

image: .venv/.stamp # sluice:VERSION, from this checkout, by docker, podman or buildah
	@$(RUN) release image

chart: .venv/.stamp # the Helm chart, made from manifests/, in dist/
	@$(RUN) release.chart

release: .venv/.stamp # all that ships of a tagged commit, in dist/
	@$(RUN) release

.venv/.stamp: pyproject.toml uv.lock
	$(PYTHON) -m venv .venv
	$(RUN) pip install --quiet --disable-pip-version-check $(UV)
	.venv/bin/uv sync --quiet --frozen --inexact
	@touch $@
