# The image for NVIDIA GPUs (H100, H200): that of deploy/Dockerfile, of a build with -DTROUPE_CUDA=ON. From the repository's root:
#
#   docker build -f deploy/cuda.Dockerfile -t troupe:0.1.0-cuda --build-arg REVISION=$(git rev-parse --short=12 HEAD) .
#
# CUDA's runtime is linked into the programs; the driver is the node's, which NVIDIA's container toolkit mounts. NCCL's library is
# loaded where workers use it. Nobody has built this image where the project is made: there is no engine.
ARG DEBIAN=debian:bookworm-slim

FROM ${DEBIAN} AS build
ARG REVISION=unknown
ARG CUDA=13-0
ARG CUDA_REPOSITORY=https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64
COPY deploy/install-deps.sh /src/deploy/install-deps.sh
RUN /src/deploy/install-deps.sh build
RUN curl -fsSLo /tmp/keyring.deb ${CUDA_REPOSITORY}/cuda-keyring_1.1-1_all.deb && dpkg -i /tmp/keyring.deb && rm /tmp/keyring.deb \
    && apt-get update && apt-get install -y --no-install-recommends cuda-nvcc-${CUDA} cuda-cudart-dev-${CUDA} libcublas-dev-${CUDA} libnccl-dev
WORKDIR /src
COPY . .
RUN cmake --preset release -DBUILD_TESTING=OFF -DTROUPE_CUDA=ON -DTROUPE_REVISION=${REVISION} -DCUDAToolkit_ROOT=/usr/local/cuda \
    && cmake --build --preset release
RUN cmake --install build/release --strip --prefix /out && mkdir /out/lib-nccl && cp -P /usr/lib/*/libnccl.so.2* /out/lib-nccl/

FROM ${DEBIAN}
ARG REVISION=unknown
LABEL org.opencontainers.image.title="troupe" \
      org.opencontainers.image.description="Serves Mixture-of-Experts language models as a cluster of actors, on NVIDIA GPUs" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
# What the toolkit mounts into the container.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY deploy/install-deps.sh deploy/image/runtime.sh /tmp/deploy/
RUN /tmp/deploy/runtime.sh && rm -rf /tmp/deploy
COPY deploy/image/troupe-health deploy/image/troupe-fetch /usr/local/bin/
COPY --from=build /out/bin/ /usr/local/bin/
COPY --from=build /out/lib-nccl/ /usr/local/lib/
RUN ldconfig
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=5s --retries=6 --start-period=15m CMD ["troupe-health"]
CMD ["troupe", "--help"]
