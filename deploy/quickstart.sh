#!/usr/bin/env bash
# From a fresh clone to a model that answers: installs the build's needs, builds, serves the demo model on loopback, sends it a
# request, and prints the next steps.
#
#    deploy/quickstart.sh [MODEL_DIR]
#
# Environment: TROUPE_PORT (default 8000; if it is in use, another free port is taken).
set -euo pipefail
model=${1:+$(realpath "$1")}
served_as=() # its folder
if [ -z "$model" ]; then served_as=(--served-model-name troupe-demo); fi
cd "$(dirname "$0")/.."
model=${model:-deploy/demo-model/model}
port=${TROUPE_PORT:-8000}
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD

step() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "   took $((SECONDS - start)) s"
}

build() {
  mkdir -p build
  # Tests need more packages; of the programs, these two serve on one machine.
  cmake --preset release -DBUILD_TESTING=OFF >build/release.configure.log 2>&1 || { cat build/release.configure.log; return 1; }
  cmake --build --preset release --target troupe troupe-template
}

in_use() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

server=
log=build/quickstart.log
stop() { if [ -n "$server" ]; then kill "$server" 2>/dev/null && wait "$server" 2>/dev/null || true; fi; }
trap stop EXIT

serve() {
  build/release/bin/troupe serve "$model" --port "$port" "${served_as[@]}" >"$log" 2>&1 &
  server=$!
  local deadline=$((SECONDS + 120))
  until curl -fsS -o /dev/null "http://127.0.0.1:$port/ready" 2>/dev/null; do
    if ! kill -0 "$server" 2>/dev/null || [ "$SECONDS" -ge "$deadline" ]; then
      cat "$log" >&2
      echo "quickstart: the server did not come up" >&2
      return 1
    fi
    sleep 0.1 # polls another process: there is no event for a shell to wait for
  done
}

ask() {
  curl -fsS "http://127.0.0.1:$port/v1/completions" -H 'Content-Type: application/json' \
    -d '{"prompt": "And the LORD said unto", "max_tokens": 48, "temperature": 0.7, "seed": 1}' >build/quickstart.json
  /usr/bin/python3 -c 'import json; print("   And the LORD said unto" + json.load(open("build/quickstart.json"))["choices"][0]["text"])'
}

while in_use "$port"; do port=$((port + 1)); done
step "install what the build needs" deploy/install-deps.sh build
step "build" build
step "serve $model" serve
step "ask it something" ask
stop
server=
cat <<EOT

It works. To go on:
  build/release/bin/troupe serve $model ${served_as[*]}
                                                        one process
  cmake --build --preset release                        builds the other programs: a cluster's, and troupe-load
  build/release/bin/troupe up $model --attention-workers 1 --expert-workers 2 --run-dir build/run
                                                        a local cluster of separate processes
  curl -N http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "What does mkdir do?"}], "stream": true, "temperature": 0.3}'
  README.md                                             everything else
EOT
