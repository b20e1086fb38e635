#!/usr/bin/python3
"""Checks that the kernels of each instruction set share no code with other objects.

usage: tests/check_isa_symbols.py NM OBJECT...

The kernels of each instruction set are compiled with flags that not every processor bears. Of a function that several
objects define (a weak symbol: an inline function or a template that was not inlined) the linker keeps one copy for the
whole program, which then ends with SIGILL on a processor that does not bear the flags it was compiled with. So every
weak symbol of these objects has to be of a set's own namespace, and defined in one of them alone. Prints each that is
not; exit status 1 when there is one.
"""
import collections
import re
import subprocess
import sys

# nm's letters for symbols that are defined here and merged with other objects' definitions.
WEAK = "WVu"
# Mangled names in troupe::kernels::cpu::isa_<set>, and of templates of anything in it.
OWN_NAMESPACE = re.compile(r"6troupe7kernels3cpu\d+isa_")
# Not code: the handle of the exception routine, and the address sanitizer's marks in each object.
NOT_CODE = re.compile(r"DW\.ref\.|__odr_asan|___asan_")


def weak_symbols(nm, path):
    lines = subprocess.run([nm, "--defined-only", path], check=True, capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        _, kind, name = line.split(maxsplit=2)
        if kind in WEAK and not NOT_CODE.match(name):
            yield name


def main(arguments):
    nm, *paths = arguments
    if not paths:
        sys.exit("no objects to look into")
    objects = collections.defaultdict(list)
    for path in paths:
        for name in weak_symbols(nm, path):
            objects[name].append(path)
    shared = [name for name, where in objects.items() if len(where) > 1 or not OWN_NAMESPACE.search(name)]
    for name in shared:
        print(f"{name} in {', '.join(objects[name])}")
    if shared:
        sys.exit(f"{len(shared)} functions may be shared with other objects: make them TROUPE_INLINE or static")


if __name__ == "__main__":
    main(sys.argv[1:])
