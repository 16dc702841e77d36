# The image of the server, 112 MB in addition to its base.
#
#     docker build -t tensor-reshape .
#     docker run --read-only --cap-drop=all -p 50051:50051 tensor-reshape
#     docker run --read-only --cap-drop=all -p 8080:8080 --no-healthcheck tensor-reshape http --listen 0.0.0.0:8080
#
# BASE_IMAGE can be any image with python3 (3.11 or newer) and its venv module. Both stages use the same one, because a
# virtual environment needs the interpreter that created it. If you use a private index or a proxy, pass your pip
# configuration to the build with `--secret id=pip.conf,src=pip.conf`. The image does not contain it.
ARG BASE_IMAGE=python:3.13-slim-bookworm


FROM ${BASE_IMAGE} AS builder
# Two environments, so the one in the image contains neither pip nor build tools.
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/tensor-reshape
WORKDIR /src
COPY . .
# Only wheels with hashes in the lock files are installed: first the build tools, then the packages of the image, then
# the project itself, which is built without access to an index. Source distributions are not allowed, because their
# build requirements have no hashes.
# All modules are compiled here, because the root file system may be read-only at run time. The mode unchecked-hash does
# not depend on timestamps, which a copy can change. Tests, stubs and headers are removed.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    export PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1 PATH=/opt/pip/bin:$PATH \
    && pinned="install --require-hashes --only-binary=:all:" && into="pip --python /opt/tensor-reshape/bin/python" \
    && pip $pinned --requirement requirements-build.lock \
    && $into $pinned --requirement requirements.lock \
    && pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
    && $into install --no-index --no-deps /wheels/*.whl \
    && cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
        --output-file /opt/tensor-reshape/sbom.cdx.json /opt/tensor-reshape/bin/python \
    && find /opt/tensor-reshape/lib -depth \
        \( -type d \( -name tests -o -path '*/numpy/*/include' -o -path '*/numpy/f2py/src' \) \
        -o -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.pyx' -o -name '*.a' -o -name '*.h' \) \) \
        -exec rm -rf {} + \
    && /opt/tensor-reshape/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/tensor-reshape/lib


FROM ${BASE_IMAGE}
# Removes the pip of the base image, because nothing is installed at run time.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip \
    /usr/bin/pip* /usr/lib/python3/dist-packages/pip* /usr/lib/python3*/ensurepip /usr/share/python-wheels
COPY --from=builder /opt/tensor-reshape /opt/tensor-reshape
# A container uses the cores that its CPU limit grants, as far as its memory suffices. The manifests in `deploy` name a
# number instead, because a CPU request of Kubernetes is not a limit.
ENV PATH=/opt/tensor-reshape/bin:$PATH \
    TENSOR_RESHAPE_LISTEN=0.0.0.0:50051 \
    TENSOR_RESHAPE_WORKERS=auto \
    TENSOR_RESHAPE_LOG_FORMAT=json
# Tests that all imports work, and writes the bytecode of the standard library, which some base images lack. Each start
# and each health check is faster with it.
RUN ["tensor-reshape", "serve", "--help"]
RUN ["tensor-reshape", "http", "--help"]
# Set the source revision with `--build-arg REVISION=$(git rev-parse HEAD)`.
ARG BASE_IMAGE
ARG REVISION=
LABEL org.opencontainers.image.title="tensor-reshape" \
    org.opencontainers.image.description="A gRPC microservice that reshapes tensors as oneDNN Graph and OpenVINO define it" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.base.name="${BASE_IMAGE}"
# A number, so Kubernetes can verify that the user is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 50051 8080
# Without a shell, the server is process 1 and receives SIGTERM.
STOPSIGNAL SIGTERM
# It checks the port of TENSOR_RESHAPE_HEALTH_LISTEN, or else of TENSOR_RESHAPE_LISTEN, and never uses http_proxy. The
# command `http` has neither, so disable it there.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["tensor-reshape", "health", "--timeout", "3"]
ENTRYPOINT ["tensor-reshape"]
CMD ["serve"]
