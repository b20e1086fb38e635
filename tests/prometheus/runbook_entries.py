"""The commands in docs/runbooks.md.

The file opens with a table of variables and a block of shell functions for each kind of cluster; each entry has blocks of commands
behind **Look.** and **Do.**. An entry without blocks sends to another one by its link.
"""
import pathlib
import re

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "runbooks.md"
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Runbooks:
    def __init__(self, text=None):
        text = FILE.read_text(encoding="utf-8") if text is None else text
        intro, *entries = re.split(r"^## ", text, flags=re.MULTILINE)
        self.preambles = {block.splitlines()[0]: block for block in BLOCK.findall(intro)}
        cells = re.findall(r"^\| (`\$[^|]*) \|", intro, re.MULTILINE)
        self.variables = {name for cell in cells for name in re.findall(r"\$(\w+)", cell)}
        self.entries = {entry.splitlines()[0].strip(): entry for entry in entries}

    def preamble(self, cluster):
        """The functions for a kind of cluster: "`troupe up`", "Kubernetes" or "systemd"."""
        return next(block for line, block in self.preambles.items() if cluster in line)

    def entry_of(self, alert):
        """The name of an alert's entry: its own, or the one that says "Also for"."""
        if alert in self.entries:
            return alert
        return next(name for name, text in self.entries.items() if re.search(rf"^Also for.*`{alert}`", text, re.MULTILINE))

    def commands(self, alert):
        """@returns (blocks to look, blocks to do) of an alert"""
        text = self.entries[self.entry_of(alert)]
        look, do = text.index("**Look"), text.find("**Do.**")
        if do < 0:  # "**Look** and **do** as for [another]"
            return self.commands(re.search(r"as for\s+\[(\w+)\]", text[look:])[1])
        return BLOCK.findall(text[look:do]), BLOCK.findall(text[do:text.index("**Otherwise.**")])


def lines_of(block):
    """The commands of a block, without comments and blank lines."""
    return [line for line in (re.sub(r"\s+#.*$", "", line).rstrip() for line in block.splitlines()) if line and not line.startswith("#")]
