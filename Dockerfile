# dssl in a container: `docker run -v $PWD:/work dssl run pipelines/quickstart.yaml`
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY dssl ./dssl
RUN python -m venv /opt/dssl && /opt/dssl/bin/pip install --no-cache-dir .

FROM python:3.12-slim
RUN useradd --create-home --uid 1000 dssl && mkdir /work && chown dssl:dssl /work
COPY --from=build /opt/dssl /opt/dssl
ENV PATH=/opt/dssl/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NUMBA_CACHE_DIR=/tmp/numba \
    MPLCONFIGDIR=/tmp/matplotlib \
    OMP_NUM_THREADS=1
USER dssl
WORKDIR /work
ENTRYPOINT ["dssl"]
CMD ["--help"]
