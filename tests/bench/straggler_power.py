"""Measures how often a rank is named as a straggler: in balanced jobs, and in jobs with one rank that is longer.

    python3 tests/bench/straggler_power.py target/release/hta [--jobs 100] [--ranks 8] [--steps 3] [--lines FILE]

Every job has one all-reduce a step, 20 % of the step; the host submits a step ahead and then waits for the device. In
balanced jobs the local times differ by chance: log-normal (sigma 2, 5, 10 %), pauses (5 % of the times are 30 %
longer), which may be told with their ranks and steps, or jitter that lasts for several steps (autoregressive, 0.7,
5 %). Then rank 0 is longer by 10 or 30 % of the step. A finding of all ranks names none of them. Prints in how many
jobs rank 0, another rank or none is named. Needs nothing but Python.
"""

import argparse
import json
import math
import pathlib
import random
import re
import statistics
import tempfile

from scoreboard import lines

TRANSFER_US = 2_000
LOCAL_US = 8_000
STEP_US = LOCAL_US + TRANSFER_US
BASE_US = 1_750_000_000_000_000
BY_CHANCE = 0.01
# The noise and the share of the step by which rank 0 is longer.
KINDS = {
    "balanced_2": ("log-normal", 0.02, 0), "balanced_5": ("log-normal", 0.05, 0), "balanced_10": ("log-normal", 0.1, 0),
    "balanced_pauses": ("pauses", 0.01, 0), "balanced_lasting": ("autoregressive", 0.05, 0),
    "longer_10": ("log-normal", 0.05, 0.1), "longer_30": ("log-normal", 0.05, 0.3),
}  # fmt: skip


def factors(kind, sigma, chance, ranks, steps):
    """The local time of each rank in each step, as a multiple of the usual one, and who pauses."""
    lasting = [chance.gauss(0, 1) for _ in range(ranks)]
    for _ in range(steps):
        of_step, paused = [], set()
        for r in range(ranks):
            lasting[r] = 0.7 * lasting[r] + math.sqrt(1 - 0.49) * chance.gauss(0, 1)
            noise = lasting[r] if kind == "autoregressive" else chance.gauss(0, 1)
            if kind == "pauses" and chance.random() < 0.05:
                paused.add(r)
            of_step.append(math.exp(sigma * noise) * (1.3 if r in paused else 1.0))
        yield of_step, paused


def complete(name, category, thread, start, length, **args):
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": length}
    return {**event, "args": args} if args else event


def write_job(folder, ranks, steps, effect, kind, sigma, chance):
    """What the effect costs and how long the job takes, us; the pauses as (rank, step), and the mean of each rank."""
    cost, length, pauses, means = 0, 0, set(), [0.0] * ranks
    events = [[] for _ in range(ranks)]
    members = "[" + ", ".join(str(r) for r in range(ranks)) + "]"
    collective = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": members, "Group size": ranks,
        "In msg nelems": 1_000_000, "Out msg nelems": 1_000_000, "dtype": "Float",
    }
    ends = [BASE_US - STEP_US, BASE_US]
    for step, (of_step, paused) in enumerate(factors(kind, sigma, chance, ranks, steps)):
        local = [int(LOCAL_US * f + (effect * STEP_US if r == 0 else 0)) for r, f in enumerate(of_step)]
        start, submitted = ends[-1], ends[-2]
        end = start + max(local) + TRANSFER_US
        cost += max(local) - int(LOCAL_US * max(of_step))
        length += end - start
        pauses |= {(r, step + 1) for r in paused}
        means = [mean + us / steps for mean, us in zip(means, local)]
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
    return cost, length, pauses, means


def is_by_chance(of_ranks):
    """Whether the first rank could work so much longer than the others by chance: who knows which rank was changed
    compares its mean with those of the others, by Student's t at 1 %. Steps do not count as repetitions, because a
    recording of a few does not show how long jitter lasts."""
    first, others = of_ranks[0], of_ranks[1:]
    t = (first - statistics.mean(others)) / (statistics.stdev(others) * math.sqrt(1 + 1 / len(others)))
    free = len(others) - 1
    constant = math.exp(math.lgamma((free + 1) / 2) - math.lgamma(free / 2)) / math.sqrt(free * math.pi)
    density = [(1 + (t * (i + 0.5) / 1000) ** 2 / free) ** (-(free + 1) / 2) for i in range(1000)]
    return 0.5 - constant * t / 1000 * sum(density) > BY_CHANCE


def setting(ranks, steps, kind, sigma):
    return f"DP{ranks} {steps} steps {kind} {100 * sigma:g} %"


def is_pause(finding, pauses):
    """Whether a finding tells pauses that are there, of their ranks in their steps."""
    steps = {int(step) for step in re.findall(r"\d+", finding["step_labels"])}
    return bool(steps) and all((r, step) in pauses for r in lines.ranks_of(finding) for step in steps)


def measure(hta, ranks, steps, name, seed):
    kind, sigma, effect = KINDS[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary, "job")
        folder.mkdir()
        cost, length, pauses, means = write_job(folder, ranks, steps, effect, kind, sigma, random.Random(seed))
        verdict, findings, _ = lines.answer(hta, folder, pathlib.Path(temporary, "out"), "--only", "diagnosis")
    told = [f for f in findings if f["kind"] in ("straggler", "imbalance") and len(lines.ranks_of(f)) < ranks]
    if not effect:
        told = [f for f in told if not is_pause(f, pauses)]
    first = told[0] if told else {"ranks": "", "recoverable_ns": 0, "certainty": "", "sentence": "", "detail": ""}
    outcome = "sure" if first["certainty"] == "sure" else "wrong"
    if not told:
        outcome = "right" if not effect else "cannot_tell" if lines.is_unknown(verdict) else "missed"
    elif effect and 0 in lines.ranks_of(first):
        outcome = "right" if first["ranks"] == "0" else "set"
    why = ""
    if cost < effect * length / 4:
        outcome, why = "dropped", "another rank is late by chance"
    elif effect and is_by_chance(means):
        outcome, why = "dropped", "below what chance does"
    options = f"--kinds {name} --seed {seed} --jobs 1 --ranks {ranks} --steps {steps}"
    return {
        "script": "straggler_power", "set": setting(ranks, steps, kind, sigma), "format": "simulated",
        "layout": f"DP{ranks}", "kind": name, "size_pct": round(100 * cost / length, 1) if effect else None,
        "on": "one" if effect else "none", "in_steps": "all" if effect else "none", "seed": seed,
        "ranks": [0] if effect else [], "effect_ns": 1000 * cost, "outcome": outcome,
        "gain_ns": int(first["recoverable_ns"]), "certainty": first["certainty"],
        "told": f"{first['sentence']}. {first['detail']}" if told else " ".join(verdict["lines"]), "why": why,
        "is_control": not effect,
        "command": f"python3 tests/bench/straggler_power.py target/release/hta {options}",
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hta")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    lines.add_options(parser, seed=0)
    args = parser.parse_args()
    todo = []
    for name in args.kinds.split(","):
        for seed in range(args.seed, args.seed + (args.jobs or 100)):
            key = ("straggler_power", setting(args.ranks, args.steps, *KINDS[name][:2]), name, seed)
            todo.append((key, (args.hta, args.ranks, args.steps, name, seed)))
    of = lines.run_all(todo, measure, args.lines, args.jobs_in_parallel)
    lines.show(of)
    lines.failures([line for line in of if line["is_control"] or line["outcome"] in ("wrong", "sure")])


if __name__ == "__main__":
    main()
