#!/usr/bin/env python3
"""Completion scripts and manual pages of the programs as they are built: every command and every flag of --help is in them.

usage: completion_test.py BINARIES MODEL_DIR WORK_DIR
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

PROGRAMS = ["troupe", "troupe-attention", "troupe-expert", "troupe-gateway", "troupe-load", "troupe-scheduler"]


def output_of(*argv):
    return subprocess.run([str(word) for word in argv], check=True, capture_output=True, text=True, timeout=60).stdout


def flags_of_help(binaries, command):
    program, *words = command
    return re.findall(r"^  --([\w-]+)", output_of(binaries / program, *words, "--help"), re.MULTILINE)


def commands_of(description):
    """[words] of every command, those of commands included."""
    found = [description["name"].split()]
    for inner in description["commands"]:
        found += commands_of(inner)
    return found


def has_flags(command):
    """Whether its --help lists flags: tables of commands alone list these."""
    return command not in (["troupe"], ["troupe-load"], ["troupe", "trace"])


class Bash:
    """Bash with the script; asks for many completions at once."""

    def __init__(self, script):
        self.script = script

    def offered(self, lines):
        """For each list of words what is offered for the last one."""
        text = self.script
        for words in lines:
            typed = " ".join(f"'{word}'" for word in words)
            text += f"\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _troupe_complete; echo \"${{COMPREPLY[*]}}\"\n"
        answers = subprocess.run(["bash", "-eu"], input=text, check=True, capture_output=True, text=True, timeout=60)
        assert not answers.stderr, answers.stderr
        return [line.split() for line in answers.stdout.splitlines()]


def test_bash(binaries, commands):
    bash = Bash(output_of(binaries / "troupe", "completion", "bash"))
    with_flags = [command for command in commands if has_flags(command)]
    for command, offered in zip(with_flags, bash.offered([command + ["--"] for command in with_flags])):
        expected = [f"--{flag}" for flag in flags_of_help(binaries, command)] + ["--help", "--version"]
        assert offered == expected, (command, offered, expected)
    for table in ["troupe"], ["troupe-load"], ["troupe", "placement"], ["troupe", "trace"]:
        inner = [command[-1] for command in commands if command[:-1] == table]
        assert inner and bash.offered([table + [""]])[0] == inner, (table, inner)
    values = bash.offered([["troupe", "serve", "--dtype", ""], ["troupe-gateway", "--log-level", "w"],
                           ["troupe", "up", "--port", ""], ["troupe", "completion", ""]])
    assert values == [["auto", "float32", "bfloat16"], ["warning"], [], ["bash", "zsh", "fish"]], values


def test_other_shells(binaries, commands):
    """Each flag stands in the scripts of the others, too."""
    for shell, form in ("zsh", "--{}[=[]"), ("fish", "-l {} "):
        script = output_of(binaries / "troupe", "completion", shell)
        for command in commands:
            if has_flags(command):
                for flag in flags_of_help(binaries, command):
                    assert re.search(form.format(flag), script), (shell, command, flag)
    refused = subprocess.run([binaries / "troupe", "completion", "csh"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "'csh' is no shell that is known here" in refused.stderr, refused


def page_of(command):
    """The page that tells of a command: those of a command's commands are in its own."""
    return "-".join(command[:2] if command[0] in ("troupe", "troupe-load") else command[:1])


def test_manual_pages(binaries, commands, work):
    folder = work / "man1"
    subprocess.run([binaries.parent / "tests" / "manual_pages", folder, "1.2.3", "2026-01-31",
                    *(binaries / program for program in PROGRAMS)], check=True, timeout=60)
    pages = {path.stem: path.read_text() for path in folder.iterdir()}
    assert set(pages) == {page_of(command) for command in commands}, sorted(pages)
    for command in commands:
        if has_flags(command):
            for flag in flags_of_help(binaries, command):
                roff = "\\fB\\-\\-" + flag.replace("-", "\\-") + "\\fR"
                assert roff in pages[page_of(command)], (command, flag)
    for name in PROGRAMS:
        assert f"{name.replace('-', chr(92) + '-')} " in pages[name], name
    check_form(folder)


def check_form(folder):
    files = sorted(str(path) for path in folder.iterdir())
    if shutil.which("mandoc"):
        lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *files], capture_output=True, text=True, timeout=60)
        assert lint.returncode == 0, lint.stdout[:3000]
    if shutil.which("groff"):
        run = subprocess.run(["groff", "-man", "-Tutf8", "-ww", *files], capture_output=True, timeout=60)
        assert run.returncode == 0 and not run.stderr, run.stderr[:3000]
        assert b"--planner-imbalance" in re.sub(b".\x08|\x1b[^m]*m", b"", run.stdout)  # bold is written twice, or with colours


def main():
    binaries, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    os.chdir(work)
    commands = []
    for program in PROGRAMS:
        commands += commands_of(json.loads(output_of(binaries / program, "--describe")))
    assert ["troupe", "placement", "move"] in commands and ["troupe-load", "run"] in commands, commands
    test_bash(binaries, commands)
    test_other_shells(binaries, commands)
    test_manual_pages(binaries, commands, work)


if __name__ == "__main__":
    main()
