# The operator image: /manager runs the operator, /dgdr-run-publisher publishes a search's candidates.
# Needs no shell at run time, runs as 65532 and works with a read-only root. `hack/image` builds and checks it.
#
# The base needs Python 3.11 to 3.13 with venv; a mirror, a digest or an organization's own are named by BASE_IMAGE.
ARG BASE_IMAGE=docker.io/library/python:3.12.12-slim-bookworm

FROM ${BASE_IMAGE} AS build
# Where pip finds packages, if not on PyPI: pip reads both.
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
WORKDIR /src
RUN python3 -m venv /opt/dynamo-operator
COPY hack/constraints.txt hack/bill_of_materials hack/
COPY pyproject.toml README.md LICENSE ./
COPY informers informers
COPY dynamo_operator dynamo_operator
COPY reconcilers reconcilers
# What only developers of these packages need goes: their tests, their sources in C, pip; and the byte code of the
# generated client, which is not loaded in a cluster.
RUN /opt/dynamo-operator/bin/pip install --no-cache-dir --disable-pip-version-check \
        --constraint hack/constraints.txt '.[webhooks,uvloop]' \
    && /opt/dynamo-operator/bin/pip uninstall --yes --quiet pip setuptools \
    && find /opt/dynamo-operator/lib \( -name tests -o -name test \) -type d -prune -exec rm -r {} + \
    && find /opt/dynamo-operator/lib \( -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' \) \
        -type f -delete \
    && find /opt/dynamo-operator/lib/*/site-packages/kubernetes_asyncio -name __pycache__ -prune -exec rm -r {} + \
    && rm -f /opt/dynamo-operator/bin/[Aa]ctivate* \
    && printf '%s\n' \
        '#!/opt/dynamo-operator/bin/python3' \
        'import sys' \
        'from dynamo_operator.cli.__main__ import main' \
        'sys.exit(main(["start", *sys.argv[1:]]))' > /manager \
    && chmod 0755 /manager \
    && /opt/dynamo-operator/bin/python3 hack/bill_of_materials > /opt/dynamo-operator/sbom.cdx.json

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="dynamo-operator" \
      org.opencontainers.image.description="The Dynamo deployment-search operator" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/dynamo-operator /opt/dynamo-operator
COPY --from=build /manager /opt/dynamo-operator/bin/dgdr-run-publisher /
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["/manager"]
