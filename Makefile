# make lab   from nothing to JupyterLab on notebook 00   (servers: make lab ARGS=--no-browser)
# make test  from nothing to every test run
# Both make .venv themselves, with the system's python3 (another one: make lab PYTHON=python3.12).

PYTHON ?= python3
LAB_AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# Hundreds of processes import the same modules; each would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help env lab test test-live live-env live sim ray connectors dynamo lock
.DEFAULT_GOAL := help

help:
	@sed -n '1,/^$$/s/^# //p' Makefile

env:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here: install Python 3.11 or newer, or name one: make lab PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("Python %d.%d is too old: pdlab needs 3.11 or newer; install one and name it, for example make lab PYTHON=python3.12" % v[:2])'
	@$(PYTHON) pdlab/course/bootstrap.py

# What Jupyter keeps (settings, open tabs, history) stays in this folder, and so do a learner's guesses.
# In its terminals and notebooks `pdlab` is a command; a login shell would forget that.
LAB_ENV := JUPYTER_CONFIG_DIR="$(CURDIR)/.jupyter/config" JUPYTER_DATA_DIR="$(CURDIR)/.jupyter/data" \
  JUPYTER_RUNTIME_DIR="$(CURDIR)/.jupyter/runtime" JUPYTERLAB_SETTINGS_DIR="$(CURDIR)/.jupyter/settings" \
  JUPYTERLAB_WORKSPACES_DIR="$(CURDIR)/.jupyter/tabs" IPYTHONDIR="$(CURDIR)/.jupyter/ipython" \
  MPLCONFIGDIR="$(CURDIR)/.jupyter/matplotlib" PDLAB_GUESSES="$(CURDIR)/.progress/guesses.json" \
  PATH="$(CURDIR)/.venv/bin:$$PATH"

# Loopback only: the notebooks run code.
lab: env
	$(LAB_ENV) .venv/bin/jupyter lab --ip=127.0.0.1 $(LAB_AS_ROOT) --ServerApp.root_dir="$(CURDIR)" \
	  --ServerApp.terminado_settings="{'shell_command': ['$${SHELL:-/bin/sh}']}" \
	  --LabApp.default_url="/lab/tree/$(firstword $(wildcard notebooks/00-*.ipynb))" $(ARGS)

# Each notebook runs once: tests/test_build.py compares its cells with the source, nbval its outputs.
test: env
	.venv/bin/python -m pytest --nbval tests notebooks labs solutions -q -n logical $(ARGS)

# Tests that start real servers, in an environment of their own (.venv-live, about 2 GB).
test-live: live-env
	.venv/bin/python -m pytest --live -m live tests $(ARGS)

# Each of the environments beside .venv is made by the same rule: pdlab/live/environment.py.
# For GPUs where none is here (an image, a login node): make live-env PDLAB_DEVICE=cuda
live-env: env
	@.venv/bin/python -m pdlab.live.env live --python "$(PYTHON)"

# The labs on this machine's own servers; what they print and draw is in labs/live/.
live: live-env
	PDLAB_LIVE=1 .venv/bin/python -m pdlab.live.labs $(ARGS)

# The simulator, in an environment of its own.
sim: env
	@.venv/bin/python -m pdlab.live.env sim --python "$(PYTHON)"

# Dynamo's own frontend and mocker workers, then our grid through its router.
dynamo: env
	@.venv/bin/python -m pdlab.live.env dynamo --python "$(PYTHON)"
	.venv/bin/pdlab dynamo $(ARGS)

# Both designs on Ray Serve LLM, held against each other: a layer of 0.6 GB over .venv-live, then up to 5 minutes.
ray: live-env
	@.venv/bin/python -m pdlab.live.env ray
	.venv/bin/pdlab ray $(ARGS)

# Each KV connector on a pair of its own: a layer of 0.2 GB over .venv-live with Mooncake and LMCache, then a few minutes.
connectors: live-env
	@.venv/bin/python -m pdlab.live.env connectors
	.venv/bin/pdlab connectors $(ARGS)

# After a change of the dependencies in pyproject.toml; needs uv.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet -o requirements.lock pyproject.toml
