#!/usr/bin/env python3
"""Completion scripts and manual pages of the built programs: they contain every command and every flag of --help.

usage: completion_test.py BINARIES MODEL_DIR WORK_DIR
"""
import json
import os
import pathlib
import re
import shlex
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


def has_tool(name, what):
    """Whether a tool is here. Where CI=true it must be: else nobody would see that something is not checked."""
    if shutil.which(name):
        return True
    assert os.environ.get("CI") != "true", f"{name} is missing: run deploy/install-deps.sh test"
    print(f"not checked: {what}; {name} is missing (deploy/install-deps.sh test)")
    return False


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


class Zsh:
    """An interactive zsh with the script, in a terminal of zsh's own (zpty): keys are typed, and Tab completes."""

    # Records the offers where completion passes them on (compadd), and inserts nothing. `zle complete-word` ends when all have
    # been passed on.
    SETUP = r"""
PROMPT= RPROMPT=
setopt no_beep no_prompt_cr no_prompt_sp
zstyle ':completion:*' insert-tab false
autoload -Uz compinit
compinit -u -D
source {script}
compadd() {{
  if [[ ${{@[1,(i)(-|--)]}} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a offered_here
  builtin compadd -A offered_here "$@"
  print -rl -- $offered_here >> {answers}
  (( $#offered_here ))
}}
capture() {{
  zle complete-word
  BUFFER=
  print -r -- 'end of offers' >> {answers}
  print -r -- '<DO''NE>'
}}
zle -N capture
bindkey '^I' capture
print -r -- '<REA''DY>'
"""
    DRIVER = r"""
zmodload zsh/zpty || exit
zpty shell zsh -f -i
zpty -w shell {load}
zpty -r shell output '*<READY>*' || exit
while IFS= read -r line; do
  zpty -w -n shell "$line"$'\t'
  zpty -r shell output '*<DONE>*' || exit
done
zpty -d shell
"""

    def __init__(self, script, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.answers, setup, self.driver = (folder / name for name in ("answers", "setup.zsh", "driver.zsh"))
        (folder / "script.zsh").write_text(script)
        setup.write_text(self.SETUP.format(script=shlex.quote(str(folder / "script.zsh")), answers=shlex.quote(str(self.answers))))
        self.driver.write_text(self.DRIVER.format(load=shlex.quote(f"source {shlex.quote(str(setup))}")))

    def offered(self, lines):
        """For each line what is offered at its end, in any order."""
        self.answers.write_text("")
        subprocess.run(["zsh", "-f", self.driver], input="".join(f"{line}\n" for line in lines), check=True, text=True, timeout=120)
        answers = self.answers.read_text().split("end of offers\n")
        assert len(answers) == len(lines) + 1 and not answers[-1], answers
        return [set(answer.split()) for answer in answers[:-1]]


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


def test_zsh(binaries, commands, work):
    if not has_tool("zsh", "what zsh completes"):
        return
    zsh = Zsh(output_of(binaries / "troupe", "completion", "zsh"), work / "zsh")
    expected = {"troupe serve --dtype ": {"auto", "float32", "bfloat16"}, "troupe serve --dtype=b": {"bfloat16"},
                "troupe-gateway --log-level w": {"warning"}, "troupe up --port ": set(), "troupe completion ": {"bash", "zsh", "fish"}}
    for command in commands:
        if has_flags(command):
            expected[" ".join(command) + " --"] = {f"--{flag}" for flag in [*flags_of_help(binaries, command), "help", "version"]}
    for table in ["troupe"], ["troupe-load"], ["troupe", "placement"], ["troupe", "trace"]:
        expected[" ".join(table) + " "] = {command[-1] for command in commands if command[:-1] == table}
    for (line, wanted), offered in zip(expected.items(), zsh.offered(list(expected))):
        assert offered == wanted, (line, offered, wanted)


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
    if has_tool("mandoc", "the form of manual pages"):
        lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *files], capture_output=True, text=True, timeout=60)
        assert lint.returncode == 0, lint.stdout[:3000]
    if has_tool("groff", "how manual pages look"):
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
    test_zsh(binaries, commands, work.resolve())
    test_other_shells(binaries, commands)
    test_manual_pages(binaries, commands, work)


if __name__ == "__main__":
    main()
