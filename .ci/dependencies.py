#!/usr/bin/env python3
"""What `cargo deny` would check without a network: deny.toml's versions, licences and sources, of the crates that are built.

    .ci/dependencies.py

Reads deny.toml and `cargo tree`, which, unlike `cargo metadata`, leaves out optional crates that no feature turns on. Exits
with 1 and a line for each fault.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def is_own(source):
    """Whether a crate is of this workspace: `cargo tree` gives the folder of such a crate as its source."""
    folder = Path(source.removeprefix("(").removesuffix(")"))
    return folder.is_absolute() and folder.resolve().is_relative_to(ROOT)


def built():
    """Name, version, source (empty: crates.io) and licence of each crate of others that is built, for any platform."""
    command = ["cargo", "tree", "--locked", "--target", "all", "--edges", "normal,build", "--prefix", "none"]
    told = subprocess.run([*command, "--format", "{p}\t{l}"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = set()
    for line in filter(None, told.splitlines()):
        package, licence = line.removesuffix(" (*)").split("\t")
        name, version, *rest = package.split(" ", 2)
        source = " ".join(r for r in rest if r != "(proc-macro)")
        if not is_own(source):
            found.add((name, version.removeprefix("v"), source, licence.removesuffix(" (*)")))
    return sorted(found)


def is_allowed(expression, allowed):
    """Whether one side of every `OR` is allowed as a whole. `/` is an old way to write OR."""
    expression = expression.replace("/", " OR ")
    while inner := re.search(r"\(([^()]*)\)", expression):
        known = "MIT" if is_allowed(inner.group(1), allowed) else "none"
        expression = expression.replace(inner.group(0), known)
    sides = re.split(r"\s+OR\s+", expression.strip())
    return any(all(part.strip() in allowed for part in re.split(r"\s+AND\s+", side)) for side in sides)


def matches(spec, name, version):
    """Whether a crate is that of a `name` or `name@version` of deny.toml; the version may be the first parts of one."""
    wanted, _, begin = spec.partition("@")
    return wanted == name and (not begin or (version + ".").startswith(begin.removeprefix("=") + "."))


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    allowed, bans = set(rules["licenses"]["allow"]), rules["bans"]
    faults, versions = [], defaultdict(set)
    crates = built()
    for name, version, source, licence in crates:
        if not is_allowed(licence, allowed):
            faults.append(f"{name} {version}: licence {licence or 'unknown'}")
        if source and not source.startswith("(proc-macro"):
            faults.append(f"{name} {version}: not from crates.io: {source}")
        for ban in bans["deny"]:
            if matches(ban["crate"], name, version):
                faults.append(f"{name} {version}: {ban['reason']}")
        if not any(matches(skip["crate"], name, version) for skip in bans["skip"]):
            versions[name].add(version)
    faults += [f"{name}: several versions: {', '.join(sorted(v))}" for name, v in sorted(versions.items()) if len(v) > 1]
    for fault in faults:
        print(f"dependencies: {fault}", file=sys.stderr)
    print(f"{len(crates)} crates: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
