#!/usr/bin/env python3
"""Makes large inputs out of real traces: a job of many ranks, or one trace that lasts several times as long.

    replicate.py ranks FOLDER TRACE... [--ranks 1024] [--groups]
    replicate.py times OUT.json.gz TRACE [--times 2]

`ranks`: the ranks of a small job (a folder or its files, say 8 ranks of one tensor-parallel group) become the job of
the given size. Copy number c of rank r is rank c * job + r; its times are shifted by c * 37 us, `distributedInfo` tells
the new rank and world size, and the members of its process groups are moved with it, so that each copy of the job
stays a group of its own. Traces from before torch recorded groups name none, so all ranks are then one group; with
`--groups` each communication kernel is given the arguments that torch records today.

`times`: the events of a trace K times over, each copy behind the one before, with correlations, flows, external ids and
step numbers of its own, so that nothing but the length changes: for measuring that time is linear in events.

Works on the text where it can, packs at gzip level 1. Needs nothing but Python.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import re
import sys

SHIFT_US = 37
TIME = re.compile(rb'("ts"\s*:\s*)(\d+)')
RANK = re.compile(rb'("distributedInfo"\s*:\s*\{[^}]*?"rank"\s*:\s*)(\d+)')
WORLD = re.compile(rb'("distributedInfo"\s*:\s*\{[^}]*?"world_size"\s*:\s*)(\d+)')
# an argument of a collective: text of a list, "[0, 1, ...]"
MEMBERS = re.compile(rb'("Process Group Ranks"\s*:\s*"\[)([^\]"]*)')
# pg_config in the head of newer traces: real lists
CONFIG = re.compile(rb'("ranks"\s*:\s*\[)([^\]]*)')
NCCL = re.compile(rb'"name"\s*:\s*"nccl(?:DevKernel|Kernel)[^"]*"(?:[^{}]|\{[^{}]*\})*?"args"\s*:\s*\{')


def read(path):
    with open(path, "rb") as f:
        head = f.read(2)
    with (gzip.open if head == b"\x1f\x8b" else open)(path, "rb") as f:
        return f.read()


def write(path, text):
    packed = gzip.compress(text, compresslevel=1, mtime=0) if path.endswith(".gz") else text
    with open(path, "wb") as f:
        f.write(packed)


def own_rank(text, path):
    found = RANK.search(text)
    if not found:
        sys.exit(f"cannot replicate {path}: expected `distributedInfo` with a rank, found none")
    return int(found[2])


def moved(numbers, by):
    return b", ".join(str(int(n) + by).encode() if n.strip().isdigit() else n.strip() for n in numbers.split(b","))


def one_rank(job):
    folder, source, rank, copy, size, world, groups = job
    text = read(source)
    by = copy * size
    if copy:
        text = TIME.sub(lambda m: m[1] + str(int(m[2]) + copy * SHIFT_US).encode(), text)
        text = MEMBERS.sub(lambda m: m[1] + moved(m[2], by), text)
        text = CONFIG.sub(lambda m: m[1] + moved(m[2], by), text)
    text = RANK.sub(lambda m: m[1] + str(by + rank).encode(), text, count=1)
    text = WORLD.sub(lambda m: m[1] + str(world).encode(), text, count=1)
    if groups:
        members = ", ".join(str(by + i) for i in range(size))
        added = (
            f'"Process Group Name": "{copy + 1}", "Process Group Description": "TENSOR_MODEL_PARALLEL_GROUP", '
            f'"Process Group Ranks": "[{members}]", "Group size": {size}, '
        ).encode()
        text = NCCL.sub(lambda m: m[0] + added, text)
    write(os.path.join(folder, f"rank_{by + rank:05}.json.gz"), text)


def ranks(args):
    files = []
    for path in args.trace:
        inside = sorted(os.listdir(path)) if os.path.isdir(path) else None
        files += [path] if inside is None else [os.path.join(path, n) for n in inside if ".json" in n]
    own = sorted((own_rank(read(path), path), path) for path in files)
    size = len(own)
    if [r for r, _ in own] != list(range(size)):
        sys.exit(f"cannot replicate: expected ranks 0 to {size - 1}, found {[r for r, _ in own]}")
    if args.ranks % size:
        sys.exit(f"cannot make {args.ranks} ranks: expected a multiple of {size}")
    os.makedirs(args.folder, exist_ok=True)
    jobs = [
        (args.folder, path, rank, copy, size, args.ranks, args.groups)
        for copy in range(args.ranks // size)
        for rank, path in own
    ]
    with multiprocessing.Pool() as pool:
        for _ in pool.imap_unordered(one_rank, jobs, chunksize=4):
            pass


LINKED = ("correlation", "External id", "Ev Idx", "Python id", "Python parent id", "Sequence number")


def longer(trace, times):
    """The trace with its events `times` over."""
    if isinstance(trace, list):
        # a bare list of events is a trace too
        trace = {"traceEvents": trace}
    events = trace["traceEvents"]
    timed = [e for e in events if e.get("ph") != "M" and isinstance(e.get("ts"), (int, float))]
    start = min(e["ts"] for e in timed)
    shift = max(e["ts"] + e.get("dur", 0) for e in timed) - start + 1000

    def largest(values):
        return max((v for v in values if isinstance(v, int)), default=0) + 1

    ids = {k: largest(e.get("args", {}).get(k) for e in timed) for k in LINKED}
    flows = largest(e.get("id") for e in timed if e.get("ph") in "sft")
    labels = [int(m[1]) for e in timed if (m := re.match(r"ProfilerStep#(\d+)", str(e.get("name"))))]
    steps = max(labels) - min(labels) + 1 if labels else 0
    out = [e for e in events if e.get("ph") == "M"]
    for i in range(times):
        for e in timed:
            c = dict(e)
            c["ts"] = round(c["ts"] + i * shift, 3)
            if c.get("ph") in ("s", "t", "f") and isinstance(c.get("id"), int):
                c["id"] += i * flows
            if steps and (m := re.match(r"ProfilerStep#(\d+)(.*)", str(c.get("name")))):
                c["name"] = f"ProfilerStep#{int(m[1]) + i * steps}{m[2]}"
            if i and isinstance(c.get("args"), dict):
                a = c["args"] = dict(c["args"])
                for k, by in ids.items():
                    # 0 and -1 say that there is none
                    if isinstance(a.get(k), int) and a[k] > 0:
                        a[k] += i * by
            out.append(c)
    return {**trace, "traceEvents": out}


def times(args):
    trace = json.loads(read(args.trace).decode("utf-8", "replace"), strict=False)
    write(args.out, json.dumps(longer(trace, args.times), indent=1).encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(required=True)
    a = ways.add_parser("ranks", help="a job of many ranks")
    a.add_argument("folder", help="where the files go")
    a.add_argument("trace", nargs="+", help="the ranks of one job: files, or their folder")
    a.add_argument("--ranks", type=int, default=1024)
    a.add_argument("--groups", action="store_true", help="name the process group of each communication kernel")
    a.set_defaults(run=ranks)
    b = ways.add_parser("times", help="one longer trace")
    b.add_argument("out", help="file to write; packed when it ends in .gz")
    b.add_argument("trace")
    b.add_argument("--times", type=int, default=2)
    b.set_defaults(run=times)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
