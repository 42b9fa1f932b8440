#!/usr/bin/env python3
"""Fetches the traces of third parties that tests need into the folder `../shared` beside the repository (or another).

    tests/shared/fetch.py [--into FOLDER] [PATH...]        # all, or those whose path begins with one of these

`MANIFEST.tsv` lists every file below `FOLDER/traces`: size, SHA-256 of what is in it (unpacked where it is gzipped),
licence, and where it is published: a git repository with the id of the blob in it, which may be in its history only; a
source distribution on PyPI; or a sample of this repository. A file without a source is not published, and tests that
need it say so. JSON that is published plain and listed as `.gz` is compressed here. What is there and right is kept.

Needs git, and the network. Exits 1 if a file is missing in the end.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = Path(__file__).with_name("MANIFEST.tsv")
GZIP = b"\x1f\x8b"


def unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == GZIP else content


def is_right(row: dict, content: bytes) -> bool:
    return hashlib.sha256(unpacked(content)).hexdigest() == row["sha256"]


def from_git(url: str, rows: list[dict]) -> dict[str, bytes]:
    """Blobs of a repository, without cloning it: each is fetched when it is asked for."""
    with tempfile.TemporaryDirectory() as folder:

        def git(*command: str) -> bytes:
            return subprocess.run(["git", "-C", folder, *command], check=True, stdout=subprocess.PIPE).stdout

        git("init", "--quiet", "--bare")
        git("remote", "add", "origin", url)
        git("config", "extensions.partialClone", "origin")
        git("config", "remote.origin.promisor", "true")
        git("fetch", "--quiet", "--no-tags", "--filter=blob:none", "origin", *(r["blob"] for r in rows))
        return {r["path"]: git("cat-file", "blob", r["blob"]) for r in rows}


def from_pypi(url: str, rows: list[dict]) -> dict[str, bytes]:
    """Files of a source distribution, known by their content."""
    name, version = url.rsplit("/", 2)[1:]
    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with urllib.request.urlopen(urllib.request.Request(f"https://pypi.org/simple/{name}/", headers=accept)) as answer:
        files = json.load(answer)["files"]
    source = next(f["url"] for f in files if f["filename"].endswith(f"-{version}.tar.gz"))
    with urllib.request.urlopen(source) as answer, tarfile.open(fileobj=io.BytesIO(answer.read())) as archive:
        members = [archive.extractfile(m).read() for m in archive if m.isfile()]
    return {r["path"]: content for r in rows for content in members if is_right(r, content)}


def from_samples(_: str, rows: list[dict]) -> dict[str, bytes]:
    return {r["path"]: (ROOT / r["source"]).read_bytes() for r in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", default=[""], help="beginnings of paths in the manifest [all]")
    parser.add_argument("--into", type=Path, default=ROOT.parent / "shared", help="[../shared]")
    args = parser.parse_args()
    with MANIFEST.open(newline="") as file:
        rows = [r for r in csv.DictReader(file, delimiter="\t") if r["path"].startswith(tuple(args.paths))]
    missing: dict[str, list[dict]] = defaultdict(list)
    for row in rows:
        path = args.into / "traces" / row["path"]
        if not (path.is_file() and is_right(row, path.read_bytes())):
            missing["data/samples" if row["source"].startswith("data/") else row["source"]].append(row)
    not_there = [r["path"] for r in missing.pop("", [])]
    for url, wanted in missing.items():
        fetch = from_samples
        if url.startswith("https:"):
            fetch = from_pypi if url.startswith("https://pypi.org/") else from_git
        try:
            found = fetch(url, wanted)
        except (OSError, StopIteration, subprocess.CalledProcessError) as e:
            print(f"cannot fetch from {url}: {e}", file=sys.stderr)
            found = {}
        for row in wanted:
            content = found.get(row["path"])
            if content is None or not is_right(row, content):
                not_there.append(row["path"])
                continue
            path = args.into / "traces" / row["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            is_packed = content[:2] != GZIP and row["path"].endswith(".gz")
            path.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)
        print(f"{url}: {sum(r['path'] in found for r in wanted)} of {len(wanted)} files", flush=True)
    for path in not_there:
        print(f"not there: {path}", file=sys.stderr)
    print(f"{len(rows) - len(not_there)} of {len(rows)} files are in {args.into / 'traces'}")
    return 1 if not_there else 0


if __name__ == "__main__":
    sys.exit(main())
