# syntax=docker/dockerfile:1
# The image that `pdlab plan render --target kubernetes` names: the course at /opt/pdlab with both of its environments.
#
#     docker build --tag REGISTRY/pdlab:0.1.0 .  &&  docker push REGISTRY/pdlab:0.1.0
#     pdlab plan render PLAN --target kubernetes --image REGISTRY/pdlab:0.1.0 …
#
# Not built by this course: no container engine and no GPU were at hand.  The tests see that every file it copies is
# there and that user and folder are those of the manifests; its two make targets are the ones that are tested without an
# image.  vLLM for GPUs is installed from requirements-live-gpu.lock although the build sees none (PDLAB_DEVICE=cuda), about
# 10 GB.  The driver comes from the node, by NVIDIA's container toolkit.  A plan and its trace go along with the manifests.
FROM python:3.12-slim-bookworm

# make for the two targets; libibverbs and its providers so that UCX finds RDMA; a C compiler since Triton calls one
# where vLLM itself runs from this image (in the manifests it runs from the vLLM project's).
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc ibverbs-providers libc6-dev libibverbs1 libnuma1 librdmacm1 make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home pdlab \
    && install --directory --owner=pdlab --group=pdlab /opt/pdlab

ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility PIP_NO_CACHE_DIR=1
USER 1000
WORKDIR /opt/pdlab

# What the environments are made of, before what changes often.
COPY --chown=1000:1000 LICENSE LICENSE-prose Makefile README.md pyproject.toml ./
COPY --chown=1000:1000 requirements.lock requirements-live-cpu.lock requirements-live-gpu.lock ./
COPY --chown=1000:1000 pdlab/ pdlab/
RUN make env live-env PDLAB_DEVICE=cuda

COPY --chown=1000:1000 data/ data/

# Pods name their own command; by hand: docker run --rm IMAGE plan check data/plans/node-2gpu.yaml
ENTRYPOINT ["/opt/pdlab/.venv/bin/pdlab"]
CMD ["--help"]
