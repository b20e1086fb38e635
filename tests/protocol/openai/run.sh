#!/usr/bin/env bash
# Checks a server with a stock OpenAI client (npm `openai`).
#
#   tests/protocol/openai/run.sh WORK_DIR http://HOST:PORT      a server that runs
#   tests/protocol/openai/run.sh WORK_DIR --scripted PROGRAM    one that prints its port and serves until its stdin ends
#
# The client is installed into WORK_DIR, once. Without it the status is 77: skipped; under CI, where nobody looks for
# skipped tests, it is a failure.
set -euo pipefail

unfetched() {
  echo "skipped: $1"
  [ "${CI:-}" != true ] || exit 1
  exit 77
}

here=$(cd "$(dirname "$0")" && pwd)
work=$1
shift
mkdir -p "$work"
cp "$here/package.json" "$here/client_test.mjs" "$work/"
if [ ! -d "$work/node_modules/openai" ]; then
  command -v npm >/dev/null || unfetched "npm is missing"
  npm install --prefix "$work" --silent --no-audit --no-fund >&2 || unfetched "openai could not be fetched from npm"
fi

if [ "$1" = --scripted ]; then
  coproc server { exec "$2"; }
  read -r port <&"${server[0]}"
  url="http://127.0.0.1:$port"
  status=0
  node "$work/client_test.mjs" "$url/v1" || status=$?
  exec {server[1]}>&-
  wait "$server_PID"
  exit "$status"
fi
exec node "$work/client_test.mjs" "${1%/}/v1"
