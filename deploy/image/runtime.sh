#!/usr/bin/env bash
# Prepares a Debian root for the programs: their libraries, their user, and no leftovers. A step of deploy/Dockerfile;
# install-deps.sh is beside it there, and one folder up in the repository.
set -euo pipefail
here=$(dirname "$0")
deps=$here/install-deps.sh
[ -e "$deps" ] || deps=$here/../install-deps.sh
"$deps" run

groupadd --gid 65532 troupe
useradd --uid 65532 --gid troupe --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin troupe
# Mount points of volumes: a new volume takes over the owner.
install -d -o troupe -g troupe /etc/troupe/cluster /var/lib/troupe /var/cache/troupe
install -d /models

# Chat templates need Python's interpreter and library, but not its tests, editors and installers. Compiled files stay: on a
# read-only root a gateway would compile Jinja again at each start.
rm -rf /usr/lib/python3*/{test,idlelib,lib2to3,ensurepip,turtledemo,pydoc_data,distutils}
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/ldconfig/* /var/log/*
find /usr/share/doc -mindepth 1 -not -name copyright -not -type d -delete
rm -rf /usr/share/man/* /usr/share/info/* /usr/share/locale/* /usr/share/lintian

# No program here changes its user.
find / -xdev -type f -perm /6000 -exec chmod a-s {} +
