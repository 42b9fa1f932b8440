#!/usr/bin/env python3
"""Whether recordings of all formats are written as they were read, and changes arrive in the answers of `hta`.

    python3 tests/bench/scoreboard/check_formats.py target/release/hta FILE_OR_FOLDER...

Of each file (or folder, a set of ranks): written unchanged, and with all times later by the same, it must give the
same findings; with 5 ms inserted at a moment it must be longer by that; kernels that were removed must be missing, and
one that was added must be there with its launch. Prints one line a file, and exits with 1 if one fails.
"""

import argparse
import csv
import itertools
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from scoreboard import kineto, nsys, pftrace  # noqa: E402
from scoreboard.recording import DEVICE, HOST, WAITS  # noqa: E402

FORMATS = [kineto, nsys, pftrace]
LATER, INSERTED, ADDED = 1_234_567, 5_000_000, "added_kernel"
SAME = [
    "SELECT * FROM findings", "SELECT * FROM time_account",
    "SELECT rank, name, dur_ns, ts_ns - MIN(ts_ns) OVER () AS since FROM events ORDER BY rank, since, dur_ns, name",
]  # fmt: skip
EXTENTS = "SELECT rank, last_ts_ns - first_ts_ns FROM ranks ORDER BY rank"
COUNTS = "SELECT rank, COUNT(*) FROM kernels GROUP BY rank ORDER BY rank"
LINKED = f"SELECT correlation FROM kernels WHERE name LIKE '{ADDED}%' AND launch_event_id IS NOT NULL"


def read(path):
    """All recordings of a file or folder."""
    found = []
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        module = next((m for m in FORMATS if m.reads(file)), None)
        if module is not None:
            found += module.read_all(file) if hasattr(module, "read_all") else [module.read(file)]
    if not found:
        raise ValueError("no file of a known format")
    return found


class Answers:
    """The answers to the recordings of a folder."""

    def __init__(self, hta, folder, traces):
        self.hta, self.out = hta, folder / "answers"
        run = subprocess.run([hta, "analyze", traces, "--out", self.out], capture_output=True, text=True)
        if run.returncode:
            raise ValueError(run.stderr.strip().splitlines()[0] if run.stderr else "not read")

    def rows(self, sql):
        command = [self.hta, "query", sql, self.out, "--format", "csv"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return list(csv.reader(text.splitlines()))[1:]


def written(hta, recordings):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "traces").mkdir()
        for recording in recordings:
            recording.write(folder / "traces" / recording.name)
        answers = Answers(hta, folder, folder / "traces")
        return {sql: answers.rows(sql) for sql in [*SAME, EXTENTS, COUNTS, LINKED]}


def moved(recordings, later):
    """Copies whose times are changed by a function of the recording, which gives a function of a time."""
    copies = [recording.copy() for recording in recordings]
    for copy in copies:
        to = later(copy)
        for e in copy.events:
            e.start, e.end = to(e.start), to(e.end)
    return copies


def insertion(recording):
    """Moves what begins in the second half of the time, and so lengthens what is open in the middle."""
    known = recording.of_kind(*DEVICE, *HOST) or recording.events
    at = (known[0].start + max(e.end for e in known)) // 2
    return lambda time: time + INSERTED * (time >= at)


def with_other_kernels(recordings):
    """Copies without every fifth kernel, and the links of new kernels: of one on the first rank that has launches."""
    copies, added = [recording.copy() for recording in recordings], []
    for copy in copies:
        kernels = copy.of_kind("kernel")
        gone = {id(e) for e in kernels[::5]}
        copy.events = [e for e in copy.events if id(e) not in gone]
        is_launch = lambda call: call.link and "Graph" not in call.name and not WAITS.search(call.name)
        launches = {e.link: e for e in copy.of_kind("runtime") if is_launch(e)}
        pairs = [(launches[e.link], e) for e in kernels if e.link in launches]
        if pairs and not added:
            call, kernel = pairs[0]
            link = max(e.link for e in copy.events if e.link) + 1
            end = max(e.end for e in kernels)
            copy.events.append(call.like(start=call.end, end=call.end + 1000, link=link))
            copy.events.append(kernel.like(start=end + 1000, end=end + 6000, link=link, name=ADDED))
            added.append(link)
    return copies, added


def is_near(one, other):
    """Whether two cells are equal; times in us may lose 1 or 2 ns as floats."""
    return one == other or one.lstrip("-").isdigit() and other.lstrip("-").isdigit() and abs(int(one) - int(other)) <= 2


def is_same(one, other):
    """Whether answers are the same."""
    rows = [pair for sql in SAME for pair in itertools.zip_longest(one[sql], other[sql], fillvalue=[])]
    return all(len(a) == len(b) and all(map(is_near, a, b)) for a, b in rows)


def original(hta, path):
    """The recordings of a path, and the answers to them as they are."""
    recordings = read(path)
    with tempfile.TemporaryDirectory() as folder:
        answers = Answers(hta, pathlib.Path(folder), path)
        return recordings, {sql: answers.rows(sql) for sql in SAME}


def faults(hta, recordings, recorded):
    """What is wrong with what is written."""
    same = written(hta, recordings)
    if not is_same(same, recorded):
        yield "unchanged"
    later = written(hta, moved(recordings, lambda _: lambda time: time + LATER))
    if not is_same(same, later):
        yield "all later"
    longer = written(hta, moved(recordings, insertion))[EXTENTS]
    if [int(after) - int(before) for (_, before), (_, after) in zip(same[EXTENTS], longer)] != [INSERTED] * len(longer):
        yield f"inserted {INSERTED} ns: {same[EXTENTS]} {longer}"
    copies, added = with_other_kernels(recordings)
    other = written(hta, copies)
    kernels = lambda answers: sum(int(count) for _, count in answers[COUNTS])
    expected = kernels(same) - sum(len(r.of_kind("kernel")[::5]) for r in recordings) + len(added)
    if kernels(other) != expected or other[LINKED] != [[str(link)] for link in added]:
        yield f"other kernels: {kernels(other)} of {expected}, links {other[LINKED]} of {added}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hta")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    is_right = True
    for path in args.paths:
        try:
            recordings, recorded = original(args.hta, path)
        except ValueError as error:
            print(f"left out  {path}: {error}")
            continue
        try:
            found = list(faults(args.hta, recordings, recorded))
        except ValueError as error:
            found = [f"what is written is refused: {error}"]
        is_right &= not found
        print(f"fail      {path}: {'; '.join(found)}" if found else f"ok        {path}", flush=True)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
