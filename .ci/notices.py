#!/usr/bin/env python3
"""Third-party notices of a shipped binary: every crate that is compiled into it, with its licence and licence texts.

    .ci/notices.py > LICENSE-THIRD-PARTY.txt
    .ci/notices.py --target aarch64-unknown-linux-gnu > LICENSE-THIRD-PARTY.txt

Reads the dependency graph from `cargo metadata --locked` and the texts from the sources that cargo has downloaded, so it
works offline once the crates are there (`cargo fetch --locked`). Crates that only build scripts, procedural macros or tests
use are not in the binary and are left out. Exits with 1 if a crate has no licence, or one that nobody has looked at yet
(ACCEPTED).
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# Licences whose terms a notice file like this one meets.
ACCEPTED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC",
    "MIT", "MIT-0", "Unicode-3.0", "Unlicense", "Zlib", "bzip2-1.0.6",
}
# Files of a crate that hold licence texts or notices.
TEXTS = re.compile(r"^(un)?licen[cs]es?([-_.].*)?$|^copying([-_.].*)?$|^notice([-_.].*)?$|^copyright([-_.].*)?$", re.I)


def metadata(target):
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    if target:
        command += ["--filter-platform", target]
    root = Path(__file__).resolve().parent.parent
    return json.loads(subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout)


def host():
    told = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(line.split()[1] for line in told.splitlines() if line.startswith("host:"))


def linked(graph):
    """Ids of the packages that are linked into the binary: reached by dependencies of the kind `normal`."""
    packages = {p["id"]: p for p in graph["packages"]}
    nodes = {n["id"]: n for n in graph["resolve"]["nodes"]}
    is_macro = {i: any("proc-macro" in t["kind"] for t in p["targets"]) for i, p in packages.items()}
    root = graph["resolve"]["root"]
    found, open_ = {root}, [root]
    while open_:
        for dependency in nodes[open_.pop()]["deps"]:
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and dependency["pkg"] not in found and not is_macro[dependency["pkg"]]:
                found.add(dependency["pkg"])
                open_.append(dependency["pkg"])
    found.remove(root)
    return sorted((packages[i] for i in found), key=lambda p: (p["name"], p["version"]))


def is_accepted(expression):
    """Whether one side of every `OR` is accepted as a whole. `/` is an old way to write OR."""
    expression = expression.replace("/", " OR ")
    while "(" in expression:
        inner = re.search(r"\(([^()]*)\)", expression)
        if not inner:
            return False
        expression = expression.replace(inner.group(0), "MIT" if is_accepted(inner.group(1)) else "none")
    sides = re.split(r"\s+OR\s+", expression.strip())
    return any(all(part.strip() in ACCEPTED for part in re.split(r"\s+AND\s+", side)) for side in sides)


def texts(package):
    """Names and texts of the licence files of a crate, of bundled sources of other languages too."""
    folder = Path(package["manifest_path"]).parent
    found = {path for path in folder.rglob("*") if path.is_file() and TEXTS.match(path.name) and path.suffix != ".rs"}
    if package.get("license_file"):
        found.add(folder / package["license_file"])
    return [(str(p.relative_to(folder)), p.read_text(errors="replace").strip()) for p in sorted(found) if p.is_file()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", help="target triple of the binary; this machine's by default")
    arguments = parser.parse_args()
    packages = linked(metadata(arguments.target or host()))
    bad = []
    out = [f"hta contains {len(packages)} other crates. Each is listed with its licence; the texts follow, each once.", ""]
    users = defaultdict(list)
    for package in packages:
        name = f"{package['name']} {package['version']}"
        licence = package.get("license") or ""
        found = texts(package)
        if not (is_accepted(licence) if licence else package.get("license_file")):
            bad.append(f"{name}: {licence or 'no licence'}")
        source = package.get("repository") or package.get("homepage") or ""
        note = "" if found else "  (the crate has no licence file)"
        out.append(f"{name}  {licence or 'see its text'}  {source}{note}")
        for path, text in found:
            users[text].append(f"{name} ({path})")
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        out += ["", "=" * 80, *names, "=" * 80, "", text]
    print("\n".join(out))
    for line in bad:
        print(f"licence to be looked at: {line}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
