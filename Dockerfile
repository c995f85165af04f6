# The one image: operator, bookies, auto-replication and shell. From a clean checkout:
#
#     docker build --tag registry.example/zonekeeper:0.1.0 .
#
# All that runs in it is pinned with hashes in requirements.image.lock (`make lock`);
# tests/repo/test_image.py installs the same way, and sees the commands start.

FROM python:3.11-slim-bookworm AS build
WORKDIR /source
COPY requirements.image.lock .
RUN python -m venv /opt/zonekeeper && \
    /opt/zonekeeper/bin/pip install --no-cache-dir --require-hashes --requirement requirements.image.lock
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . && \
    /opt/zonekeeper/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.11-slim-bookworm
COPY --from=build /opt/zonekeeper /opt/zonekeeper
ENV PATH=/opt/zonekeeper/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# The user of the pods' security contexts.
USER 65532:65532
ENTRYPOINT []
CMD ["zonekeeper", "--help"]
