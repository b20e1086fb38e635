#!/usr/bin/env bash
# Installs the Debian packages that Troupe needs: the only list of them.
#
#    deploy/install-deps.sh GROUP...
#
# Groups: build (for the programs and deploy/quickstart.sh), run (for built programs: the image), test (additionally for
# tests/run.sh), train (the demo-model recipe). Installed packages are left alone; when none is missing, nothing is run and no
# root is needed.
set -euo pipefail

packages_build=(
  ccache cmake curl g++ git lld ninja-build pkg-config
  libboost-dev libcaf-dev libpcre2-dev libssl-dev libucx-dev libutf8proc-dev libxxhash-dev nlohmann-json3-dev prometheus-cpp-dev zlib1g-dev
  libpython3-dev python3 python3-jinja2 # chat templates run in Jinja2 itself
)
packages_run=(
  ca-certificates libcaf-core0.17 libgcc-s1 libpcre2-8-0 libprometheus-cpp-core1.0 libpython3.11 libssl3 libstdc++6 libucx0
  libutf8proc2 libxxhash0 python3 python3-jinja2 zlib1g
)
packages_test=(
  clang clang-format clang-tidy debootstrap fish groff-base iproute2 libbenchmark-dev libclang-rt-14-dev libgmock-dev libgtest-dev
  mandoc nginx-light nodejs npm openssl procps prometheus python3-matplotlib python3-numpy python3-torch python3-yaml zsh
)
# OpenBLAS: with Debian's reference BLAS, PyTorch trains some fifty times slower.
packages_train=(
  bible-kjv bible-kjv-text groff-base libopenblas0-openmp manpages manpages-de manpages-dev npm
  python3-matplotlib python3-numpy python3-torch sword-text-sparv
)

wanted=()
for group in "$@"; do
  case "$group" in
    build) wanted+=("${packages_build[@]}") ;;
    run) wanted+=("${packages_run[@]}") ;;
    test) wanted+=("${packages_test[@]}") ;;
    train) wanted+=("${packages_train[@]}") ;;
    *)
      echo "install-deps: unknown group '$group' (build, run, test, train)" >&2
      exit 2
      ;;
  esac
done
if [ ${#wanted[@]} -eq 0 ]; then
  echo "usage: deploy/install-deps.sh build|run|test|train ..." >&2
  exit 2
fi

# A tool from another source (such as node from nodejs.org) counts as installed.
provided_elsewhere() {
  case "$1" in
    nodejs) command -v node ;;
    npm) command -v npm ;;
    *) return 1 ;;
  esac >/dev/null 2>&1
}

missing=()
for package in "${wanted[@]}"; do
  case $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) in
    *'ok installed'*) ;;
    *) provided_elsewhere "$package" || missing+=("$package") ;;
  esac
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

echo "install-deps: installing ${missing[*]}" >&2
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q >&2
"${as_root[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >&2
