# One box: a whole Swift with storlets in a container. Its sandboxes are containers of the host's
# engine, beside it and not inside it.
#
# Build it as storlets/box (without an image registry, the base is bootstrapped):
#   make box
# or by hand:
#   docker build --network host -t storlets/box .
#
# Run it:
#   docker run --rm --name storlets --network host --cap-add SYS_PTRACE \
#       -v /var/run/docker.sock:/var/run/docker.sock -v /srv/storlets:/srv/storlets \
#       -v /run/storlets-aio:/run/storlets-aio storlets/box
#   docker exec storlets python3 -m storlet_middleware.aio demo
#   docker stop -t 60 storlets
#
# The two directories have the same name on both sides because the engine mounts parts of them in the
# sandboxes. The cluster listens on 127.0.0.1:8080; -e STORLETS_PORT=... changes the port. For a build
# behind a TLS proxy, first put the proxy's certificates as *.crt into .box/.
ARG BASE=debian:bookworm-slim

# The sandbox image's base, as a tree that the box imports into the host's engine.
FROM ${BASE} AS sandbox
COPY sandbox_images/base/packages sandbox_images/base/trim.sh /
RUN apt-get update \
    && apt-get install -y --no-install-recommends $(cat /packages) \
    && sh /trim.sh / \
    && rm -f /packages /trim.sh

# The files that the libraries are built of. COPY --from compares contents, so a change of other files
# does not repeat the minutes of their build.
FROM ${BASE} AS sources
WORKDIR /all
COPY . ./
RUN mkdir /some \
    && cp -a --parents requirements.txt \
        storlet_middleware/aio/__init__.py storlet_middleware/aio/build.py \
        storlet_middleware/aio/cache.py storlet_middleware/aio/home.py \
        storlet_middleware/aio/java.py storlet_middleware/aio/native.py \
        storlet_middleware/aio/ports.py storlet_middleware/aio/progress.py \
        storlet_middleware/aio/settings.py storlet_middleware/aio/venv.py \
        storlet_daemon/java storlet_daemon/native sandbox_images/data \
        storlets/build_java.sh storlets/java_* /some

# All compiled parts, so that the box itself needs no compiler: first the libraries, then our code.
FROM ${BASE} AS libraries
ENV DEBIAN_FRONTEND=noninteractive
COPY LICENSE .box*/*.crt /usr/local/share/ca-certificates/
RUN rm /usr/local/share/ca-certificates/LICENSE && apt-get update && apt-get install -y --no-install-recommends \
        ca-certificates gcc libc6-dev libjansson-dev maven openjdk-17-jdk-headless python3 python3-venv \
    && update-ca-certificates
WORKDIR /opt/storlets
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
COPY --from=sources /some ./
RUN python3 -m storlet_middleware.aio.build

FROM libraries AS code
COPY . ./
RUN python3 -m storlet_middleware.aio build \
    && mkdir /code \
    && mv /var/cache/storlets-aio/code-* /code

FROM ${BASE}
ENV DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
    && apt-get install -y --no-install-recommends curl memcached mount python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin swift
COPY --from=sandbox / /opt/sandbox-base
COPY --from=libraries /var/cache/storlets-aio /var/cache/storlets-aio
COPY --from=code /code /var/cache/storlets-aio
COPY . /opt/storlets
WORKDIR /opt/storlets
ENV STORLETS_BOX=1 STORLETS_HOME=/srv/storlets STORLETS_BASE=rootfs STORLETS_ROOTFS=/opt/sandbox-base
ENTRYPOINT ["python3", "-m", "storlet_middleware.aio"]
CMD ["box"]
