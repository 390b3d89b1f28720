# One image for all ranks, and for whoever submits them: `docker build -t dssl .`, then
# `docker run --read-only --tmpfs /tmp -v $PWD:/work dssl run mine.yaml`. Base images are named by digest, packages by hash.
FROM python:3.12.13-slim-trixie@sha256:57cd7c3a7a273101a6485ba99423ee568157882804b1124b4dd04266317710de AS build
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/dssl \
    && pip --python /opt/dssl/bin/python install --no-cache-dir --require-hashes --only-binary :all: -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY dssl ./dssl
RUN pip --python /opt/dssl/bin/python install --no-cache-dir --no-deps --no-build-isolation .

# The client with which runs are handed over, of a schedule's pod too.
FROM registry.k8s.io/kubectl:v1.36.1@sha256:d08f476d04d0e30f426f06bc6ff6c38913aaa4591943046b77e2f74a72d3611c AS kubectl

FROM python:3.12.13-slim-trixie@sha256:57cd7c3a7a273101a6485ba99423ee568157882804b1124b4dd04266317710de
RUN useradd --create-home --uid 1000 dssl && mkdir /work && chown dssl:dssl /work
COPY --from=kubectl /bin/kubectl /usr/local/bin/kubectl
COPY --from=build /opt/dssl /opt/dssl
# Nothing is written but to /work and /tmp.
ENV PATH=/opt/dssl/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    NUMBA_CACHE_DIR=/tmp/numba \
    MPLCONFIGDIR=/tmp/matplotlib \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1
# By number, so that Kubernetes can see that it is not root.
USER 1000:1000
WORKDIR /work
ENTRYPOINT ["dssl"]
CMD ["--help"]
