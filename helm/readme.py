#!/usr/bin/python3
"""Writes troupe/README.md: readme_head.md, and a table of the values with what values.yaml says of each.

  readme.py            writes the file
  readme.py --check    says whether it is current, and whether each value has a comment

A value's comment stands above it and begins with "# --"; the lines below it go on with "#".
"""
import json
import pathlib
import re
import sys

import yaml

HERE = pathlib.Path(__file__).parent
FILE = HERE / "troupe" / "README.md"
KEY = re.compile(r"^( *)([\w-]+):")


def comments(text):
    """@returns {path of a value: its comment}"""
    found, comment, parents = {}, None, []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# -- "):
            comment = stripped[5:]
        elif stripped.startswith("#") and comment is not None:
            comment += " " + stripped.lstrip("# ")
        elif match := KEY.match(line):
            depth = len(match[1]) // 2
            parents = [*parents[:depth], match[2]]
            if comment is not None:
                found[".".join(parents)] = comment
            comment = None
        else:
            comment = None
    return found


def leaves(value, path, documented):
    """Yields (path, default) of each value that has a comment; of one that has none, its members."""
    if path in documented or not isinstance(value, dict) or not value:
        yield path, value
        return
    for key, member in value.items():
        yield from leaves(member, f"{path}.{key}" if path else key, documented)


def cell(default):
    text = "" if default is None else json.dumps(default, ensure_ascii=False)
    return f"`{text}`" if text else ""


def document():
    """@returns (text of README.md, the values without a comment)"""
    text = (HERE / "troupe" / "values.yaml").read_text(encoding="utf-8")
    documented = comments(text)
    groups, missing = {"general": []}, []
    for path, default in leaves(yaml.safe_load(text), "", documented):
        group = groups.setdefault(path.split(".")[0] if "." in path else "general", [])
        if path not in documented:
            missing.append(path)
        group.append(f"| `{path}` | {cell(default)} | {documented.get(path, '').replace('|', chr(92) + '|')} |")
    lines = []
    for name, rows in groups.items():
        lines += ["", f"### {name}", "", "| value | default | |", "|---|---|---|", *rows]
    head = (HERE / "readme_head.md").read_text(encoding="utf-8")
    return head.rstrip() + "\n" + "\n".join(lines) + "\n", missing


def main():
    text, missing = document()
    if missing:
        sys.exit(f"values.yaml says nothing of {', '.join(missing)}")
    if sys.argv[1:] == ["--check"]:
        if not FILE.exists() or FILE.read_text(encoding="utf-8") != text:
            sys.exit(f"{FILE} is not what helm/readme.py writes; run it")
        return
    FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
