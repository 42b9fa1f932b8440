#!/usr/bin/env python3
"""How the cost of `hta merge` grows with the number of ranks and of partials.

    cargo build --release --bin hta
    python3 tests/bench/merge.py [--hta PATH] [--ranks 100,1000,10000] [--per-part 100] [--nameless] [--folder DIR]

Makes jobs of the given sizes (tests/bench/many_ranks.py: groups of 8, and 8 groups across), writes a partial for every so
many ranks, merges them, and prints CPU and peak anonymous memory (RssAnon) by rank. With --nameless no rank says which
group a collective is of, so that groups have to be inferred. Exits with 1 if a rank of the largest job costs more than 1.3
times what one of the job before costs. Needs about 100 KB of disk a rank (500 KB with --per-part 1); what was made before
in the same folder is used again.
"""

import argparse
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

from end_to_end import ROOT, anonymous

LIMIT = 1.3
NAMES = re.compile(r',"Process Group (Name|Description|Ranks)":"[^"]*"')


def job(folder, ranks, collectives, is_nameless):
    traces = folder / f"traces-{ranks}{'-nameless' if is_nameless else ''}"
    if not traces.exists():
        maker = str(pathlib.Path(__file__).parent / "many_ranks.py")
        arguments = ["--ranks", str(ranks), "--collectives", str(collectives), "--steps", "3"]
        subprocess.run([sys.executable, maker, str(traces), *arguments], check=True)
        if is_nameless:
            for path in traces.iterdir():
                path.write_text(NAMES.sub("", path.read_text()))
    return traces


def partials(hta, traces, ranks, each):
    out = traces.with_name(f"{traces.name}-by-{each}")
    made = []
    for first in range(0, ranks, each):
        part = out / f"part-{first}"
        made.append(str(part))
        if not part.exists():
            part.parent.mkdir(exist_ok=True)
            files = [str(traces / f"rank_{r}.json") for r in range(first, min(first + each, ranks))]
            command = [hta, "analyze", "--partial", "--no-events", "-o", str(part), *files]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return made


def merged(hta, parts, out):
    """CPU seconds and peak anonymous bytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = anonymous([hta, "merge", *parts, "-o", out, "--force"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    page = pathlib.Path(out) / "report.html"
    if not page.exists():
        sys.exit(f"cannot merge {len(parts)} partials: run {hta} merge on {pathlib.Path(parts[0]).parent}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, peak, page.stat().st_size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hta", default=str(pathlib.Path(ROOT) / "target/release/hta"))
    parser.add_argument("--ranks", default="100,1000,10000")
    parser.add_argument("--per-part", type=int, default=100)
    parser.add_argument("--collectives", type=int, default=60)
    parser.add_argument("--nameless", action="store_true")
    parser.add_argument("--folder", help="keep what is made in this folder")
    args = parser.parse_args()
    folder = pathlib.Path(args.folder or tempfile.mkdtemp(prefix="hta-merge-"))
    folder.mkdir(parents=True, exist_ok=True)
    print("| ranks | partials | CPU s | CPU ms a rank | RssAnon MiB | KiB a rank | report.html MB |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    costs = []
    try:
        for ranks in map(int, args.ranks.split(",")):
            traces = job(folder, ranks, args.collectives, args.nameless)
            parts = partials(args.hta, traces, ranks, args.per_part)
            cpu, peak, page = merged(args.hta, parts, str(folder / "out"))
            costs.append(cpu / ranks)
            print(
                f"| {ranks} | {len(parts)} | {cpu:.1f} | {1000 * cpu / ranks:.1f} | {peak / 2**20:.0f} "
                f"| {peak / 1024 / ranks:.0f} | {page / 1e6:.1f} |",
                flush=True,
            )
    finally:
        if not args.folder:
            shutil.rmtree(folder)
    if len(costs) > 1 and costs[-1] > LIMIT * costs[-2]:
        print(f"a rank costs {costs[-1] / costs[-2]:.2f} times as much as one of the job before, more than {LIMIT}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
