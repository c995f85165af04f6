# The one image: operator, bookies, auto-replication and shell. From a clean checkout:
#
#     docker build --tag registry.example/zonekeeper:0.1.0 .
#
# All that runs in it is pinned with hashes in requirements.image.lock, and what builds the wheel in
# requirements.build.lock (`make lock`). tests/repo/test_image.py installs the same way, and sees the
# commands start; `make sbom` writes what is in it.
#
# The base is named by its tag here: a digest that nobody has compared with a registry proves
# nothing. A release names it by its digest (docs/releasing.md).
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /source
COPY requirements.image.lock requirements.build.lock ./
# Only wheels: no package runs code of its own to be installed. pip stays outside of both.
RUN python -m venv --without-pip /opt/zonekeeper && \
    python -m venv --without-pip /opt/build && \
    pip --python /opt/zonekeeper install --no-cache-dir --require-hashes --only-binary :all: --requirement requirements.image.lock && \
    pip --python /opt/build install --no-cache-dir --require-hashes --only-binary :all: --requirement requirements.build.lock
COPY . .
RUN /opt/build/bin/python -m hatchling build -t wheel -d /wheels && \
    pip --python /opt/zonekeeper install --no-cache-dir --no-index --no-deps /wheels/*.whl

FROM ${BASE}
# Nothing that we run installs packages, or needs a shell: commands are lists.
RUN ["/usr/local/bin/python", "-m", "pip", "uninstall", "--yes", "setuptools", "wheel", "pip"]
COPY --from=build /opt/zonekeeper /opt/zonekeeper
ENV PATH=/opt/zonekeeper/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The user of the pods' security contexts.
USER 65532:65532
ENTRYPOINT []
CMD ["zonekeeper", "--help"]
