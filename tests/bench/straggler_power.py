"""Measures how often a rank is named as a straggler: in balanced jobs, and in jobs with one rank that is longer.

    python3 tests/bench/straggler_power.py target/release/hta [--jobs 100] [--ranks 8] [--steps 3]

Every job has one all-reduce a step, 20 % of the step; the host submits a step ahead and then waits for the device. In
balanced jobs the local times differ by chance: log-normal (sigma 2, 5, 10 %), pauses (5 % of the times are 30 % longer),
or jitter that lasts for several steps (autoregressive, 0.7, 5 %). Then rank 0 is longer by 10 or 30 % of the step.
Prints the share of jobs in which some, but not every, rank is named, and those in which rank 0 is. Needs nothing but
Python.
"""

import argparse
import csv
import io
import json
import math
import pathlib
import random
import subprocess
import tempfile

TRANSFER_US = 2_000
LOCAL_US = 8_000
STEP_US = LOCAL_US + TRANSFER_US
BASE_US = 1_750_000_000_000_000
BALANCED = [("log-normal", 0.02), ("log-normal", 0.05), ("log-normal", 0.1), ("pauses", 0.01), ("autoregressive", 0.05)]
EFFECTS = [0.1, 0.3]


def factors(kind, sigma, chance, ranks, steps):
    """The local time of each rank in each step, as a multiple of the usual one."""
    lasting = [chance.gauss(0, 1) for _ in range(ranks)]
    for _ in range(steps):
        of_step = []
        for r in range(ranks):
            lasting[r] = 0.7 * lasting[r] + math.sqrt(1 - 0.49) * chance.gauss(0, 1)
            noise = lasting[r] if kind == "autoregressive" else chance.gauss(0, 1)
            pause = 1.3 if kind == "pauses" and chance.random() < 0.05 else 1.0
            of_step.append(math.exp(sigma * noise) * pause)
        yield of_step


def complete(name, category, thread, start, length, **args):
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": length}
    return {**event, "args": args} if args else event


def write_job(folder, ranks, steps, effect, kind, sigma, chance):
    events = [[] for _ in range(ranks)]
    members = "[" + ", ".join(str(r) for r in range(ranks)) + "]"
    collective = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": members, "Group size": ranks,
        "In msg nelems": 1_000_000, "Out msg nelems": 1_000_000, "dtype": "Float",
    }
    ends = [BASE_US - STEP_US, BASE_US]
    for step, of_step in enumerate(factors(kind, sigma, chance, ranks, steps)):
        local = [int(LOCAL_US * f + (effect * STEP_US if r == 0 else 0)) for r, f in enumerate(of_step)]
        start, submitted = ends[-1], ends[-2]
        end = start + max(local) + TRANSFER_US
        for r in range(ranks):
            launch = 10 * step + 1
            events[r] += [
                complete(f"ProfilerStep#{step + 1}", "user_annotation", 1, submitted + 5, start - submitted - 1),
                complete("cudaLaunchKernel", "cuda_runtime", 1, submitted + 10, 2, correlation=launch),
                complete("cudaLaunchKernel", "cuda_runtime", 1, submitted + 20, 2, correlation=launch + 1),
                complete("cudaEventSynchronize", "cuda_runtime", 1, submitted + 60, start - submitted - 58,
                         correlation=launch + 2),
                complete("gemm", "kernel", 7, start, local[r], correlation=launch, device=0, stream=7),
                complete("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "kernel", 20, start + local[r],
                         end - start - local[r], correlation=launch + 1, device=0, stream=20, **collective),
            ]
        ends.append(end)
    for r in range(ranks):
        trace = {
            "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
            "distributedInfo": {"backend": "nccl", "rank": r, "world_size": ranks}, "traceEvents": events[r],
        }
        pathlib.Path(folder, f"rank_{r}.json").write_text(json.dumps(trace))


def named(hta, ranks, steps, effect, kind, sigma, seed):
    """The sets of ranks that are named as stragglers; a finding of all ranks names none."""
    with tempfile.TemporaryDirectory() as folder:
        write_job(folder, ranks, steps, effect, kind, sigma, random.Random(seed))
        run = subprocess.run([hta, "diagnosis", folder, "--table", "findings", "--format", "csv"],
                             capture_output=True, text=True, check=True)
        rows = [r for r in csv.DictReader(io.StringIO(run.stdout)) if r["kind"] in ("straggler", "imbalance")]
        sets = [r["ranks"].split(",") for r in rows]
        return [of for of in sets if len(of) < ranks]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hta")
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    print(f"{args.ranks} ranks, {args.steps} steps, {args.jobs} jobs")
    for kind, sigma in BALANCED:
        hits = sum(bool(named(args.hta, args.ranks, args.steps, 0, kind, sigma, i)) for i in range(args.jobs))
        print(f"balanced, {kind} {sigma:.0%}: some rank named in {100 * hits / args.jobs:.1f} %", flush=True)
    for effect in EFFECTS:
        of = [named(args.hta, args.ranks, args.steps, effect, "log-normal", 0.05, 10_000 + i) for i in range(args.jobs)]
        hits = sum(any("0" in ranks for ranks in sets) for sets in of)
        print(f"rank 0 longer by {effect:.0%}, log-normal 5%: named in {100 * hits / args.jobs:.0f} %", flush=True)


if __name__ == "__main__":
    main()
