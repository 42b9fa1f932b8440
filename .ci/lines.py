#!/usr/bin/env python3
"""Prints the lines of Rust by room of `src`, before and after, so that its slope is seen.

    .ci/lines.py [BEFORE]        # BEFORE: a commit; by default the first parent of HEAD

A commit that adds more than MOST lines to `src` says why in its message, in a line that has the word `lines`; of the last
commits each is held to that. Without a history of commits only the lines of today are printed.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST, LAST = 1500, 30


def git(*args):
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def room(path):
    """`src/analysis/idle` for a file there, `src` for one in `src` itself."""
    return "/".join(path.split("/")[:3][: path.count("/")])


def lines(commit):
    """Lines by room in a commit."""
    rooms = {}
    # The number of lines that a commit adds to an empty tree.
    empty = git("hash-object", "-t", "tree", "/dev/null").strip()
    for line in git("diff", "--numstat", empty, commit, "--", "src").splitlines():
        added, _, path = line.split("\t")
        if path.endswith(".rs"):
            rooms[room(path)] = rooms.get(room(path), 0) + int(added)
    return rooms


def changed(commit):
    """Lines that a commit adds to the source, less those that it removes."""
    rows = [line.split("\t") for line in git("show", "--format=", "--numstat", commit, "--", "src").splitlines()]
    return sum(int(added) - int(removed) for added, removed, path in rows if path.endswith(".rs"))


def main():
    if git("rev-parse", "HEAD") is None:
        print("no history here: lines are not compared", file=sys.stderr)
        return
    before = sys.argv[1] if len(sys.argv) > 1 else "HEAD^"
    now, then = lines("HEAD"), lines(before) if git("rev-parse", "--verify", before) else {}
    for name in sorted(now.keys() | then.keys(), key=lambda name: -now.get(name, 0)):
        count, change = now.get(name, 0), now.get(name, 0) - then.get(name, 0)
        if count >= 1000 or change:
            print(f"{count:8,}  {f'{change:+,}' if then and change else '':>8}  {name}")
    total = sum(now.values())
    print(f"{total:8,}  {f'{total - sum(then.values()):+,}' if then else '':>8}  src")
    untold = []
    for commit in (git("log", f"-{LAST}", "--format=%H", "--no-merges") or "").split():
        # The oldest commit of a clone without a whole history seems to add everything.
        if git("rev-parse", "--verify", "--quiet", f"{commit}^") is None:
            continue
        if changed(commit) > MOST and "lines" not in git("log", "-1", "--format=%b", commit):
            untold.append(git("log", "-1", "--format=%h %s", commit).strip())
    if untold:
        sys.exit(f"these commits add more than {MOST} lines of src and do not say why:\n" + "\n".join(untold))


if __name__ == "__main__":
    main()
