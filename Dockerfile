# The operator image: /manager runs the operator, /dgdr-run-publisher publishes a search's candidates.
# Needs no shell at run time, runs as 65532 and works with a read-only root.
ARG BASE_IMAGE=docker.io/library/python:3.12-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /src
RUN python3 -m venv /opt/dynamo-operator
COPY hack/constraints.txt hack/constraints.txt
COPY pyproject.toml README.md LICENSE ./
COPY informers informers
COPY dynamo_operator dynamo_operator
COPY reconcilers reconcilers
RUN /opt/dynamo-operator/bin/pip install --no-cache-dir --disable-pip-version-check \
        --constraint hack/constraints.txt '.[webhooks,uvloop]' \
    && /opt/dynamo-operator/bin/pip uninstall --yes pip \
    && printf '%s\n' \
        '#!/opt/dynamo-operator/bin/python3' \
        'import sys' \
        'from dynamo_operator.cli.__main__ import main' \
        'sys.exit(main(["start", *sys.argv[1:]]))' > /manager \
    && chmod 0755 /manager

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="dynamo-operator" \
      org.opencontainers.image.description="The Dynamo deployment-search operator" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/dynamo-operator /opt/dynamo-operator
COPY --from=build /manager /manager
COPY --from=build /opt/dynamo-operator/bin/dgdr-run-publisher /dgdr-run-publisher
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["/manager"]
