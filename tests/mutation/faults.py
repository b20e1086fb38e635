"""The faults of the mutation check: the content of faults/*.toml, and whether it still fits the sources.

A fault is a small, plausible mistake: a text that occurs exactly once in a source file, and what stands there
instead. `kind` says what sort of mistake it is, `user` what somebody would suffer who runs the cluster.
"""
import collections
import pathlib
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parent / "faults"

# Fewest faults for a meaningful check.
LEAST = 60

Fault = collections.namedtuple("Fault", "name area file old new kind user")


def load(folder=FOLDER):
    """@returns all faults, by area and in the order of their files"""
    result = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["fault"]:
            result.append(Fault(area=path.stem, **entry))
    return result


def applied(fault, text):
    """@returns the text of fault.file with the fault in it; ValueError where it does not fit exactly once"""
    count = text.count(fault.old)
    if count != 1:
        raise ValueError(f"{fault.area}/{fault.name}: its text occurs {count} times in {fault.file}")
    return text.replace(fault.old, fault.new)


def problems(faults, source):
    """What is wrong with these faults for the sources in this folder: a list of sentences."""
    result = []
    for name, count in collections.Counter(fault.name for fault in faults).items():
        if count > 1:
            result.append(f"{name}: {count} faults have this name")
    for fault in faults:
        try:
            if applied(fault, (source / fault.file).read_text()) == (source / fault.file).read_text():
                result.append(f"{fault.area}/{fault.name}: changes nothing")
        except (OSError, ValueError) as error:
            result.append(str(error))
        if not fault.user or not fault.kind:
            result.append(f"{fault.area}/{fault.name}: does not say its kind, or what a user would suffer")
    return result
