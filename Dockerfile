# The server as an image, about 80 MB on top of its base.
#
#     docker build -t tensor-reshape .
#     docker run --read-only --cap-drop=all -p 50051:50051 tensor-reshape
#
# BASE_IMAGE is any image with python3 (3.11 or newer) and its venv module; both stages use the same one, because a
# virtual environment is bound to the interpreter that made it. Behind a private index or proxy, hand pip's own
# configuration to the build: `--secret id=pip.conf,src=pip.conf`. It leaves no trace in the image.
ARG BASE_IMAGE=python:3.13-slim-bookworm


FROM ${BASE_IMAGE} AS builder
# Two environments: the one that ships never holds pip, nor what builds the project.
RUN python3 -m venv /opt/pip && python3 -m venv --without-pip /opt/tensor-reshape
WORKDIR /src
COPY . .
# Nothing is installed but wheels whose hashes are in the locks: those of the build, then those that ship, then the
# project itself, built without a network of its own. A source distribution would run code that no hash covers: what it
# asks for to be built.
# Every module is compiled here, since the root file system is read-only later; unchecked-hash, so that no timestamp
# that a copy changes can void it. Tests, stubs and headers serve nobody at run time.
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
# A base may bring pip along; nothing is installed into a running service.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3*/site-packages/pip* /usr/local/lib/python3*/ensurepip \
    /usr/bin/pip* /usr/lib/python3/dist-packages/pip* /usr/lib/python3*/ensurepip /usr/share/python-wheels
COPY --from=builder /opt/tensor-reshape /opt/tensor-reshape
ENV PATH=/opt/tensor-reshape/bin:$PATH \
    TENSOR_RESHAPE_LISTEN=0.0.0.0:50051 \
    TENSOR_RESHAPE_LOG_FORMAT=json
# Shows that everything still imports, and leaves the bytecode of the standard library that it needs (some bases come
# without): every start and every health check is faster for it.
RUN ["tensor-reshape", "serve", "--help"]
# What was built, of what, and on what: `--build-arg REVISION=$(git rev-parse HEAD)` names the source.
ARG BASE_IMAGE
ARG REVISION=
LABEL org.opencontainers.image.title="tensor-reshape" \
    org.opencontainers.image.description="A gRPC microservice that reshapes tensors as oneDNN Graph and OpenVINO define it" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.base.name="${BASE_IMAGE}"
# A number, so that Kubernetes can tell that it is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 50051
# No shell: the server is process 1 and gets SIGTERM itself.
STOPSIGNAL SIGTERM
# The client goes to localhost without a proxy, whatever http_proxy the host hands in.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
    CMD ["tensor-reshape", "health", "--timeout", "3"]
ENTRYPOINT ["tensor-reshape"]
CMD ["serve"]
