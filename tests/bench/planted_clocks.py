"""Measures whether the diagnosis tells lower clocks of simulated jobs, and says nothing where it must not.

    python3 tests/bench/planted_clocks.py target/release/hta [--seed 1000] [--kinds rank_power,idle] [--lines FILE]
        [--keep FOLDER]

A job trains with 4 to 8 data parallel ranks. Its GEMMs take longer by as much as the clock of their device falls, its
norms are bound by memory and do not, and its gradients are reduced when the last rank has them. Samples of power,
temperature and clocks are recorded beside it at a period, with noise. Planted are 3 to 20 % lower clocks of one rank
from a step on, or of all ranks from a moment on, at a plateau of the power or at a high temperature; 48 jobs, of which
16 have nothing; `--slow-ranks` plants lower clocks of several ranks from the start, also of half of them or of most,
and at several levels. Of 48 controls each has something that looks like lower clocks and is not, or cannot be told.

Right is a cause `throttled` with exactly the planted ranks and the planted reason in its evidence; in controls, and in
jobs without a plant, none. The energy of busy and of idle time must add up to that of the capture, and that of all
activities to that of busy time, to the picojoule. Needs nothing but Python.
"""

import argparse
import collections
import dataclasses
import json
import pathlib
import random
import tempfile

from scoreboard import lines, simulated
from scoreboard.programs import ADAM_SHARE, STREAMS, Op
from scoreboard.simulate import LAUNCH_US, LOADER_US, START_US, Job, steps_noise

PLANTS = {"rank_power": 8, "rank_thermal": 8, "all_power": 8, "all_thermal": 8, "none": 16}
CONTROLS = ["equal", "idle", "one_sample", "sampled", "normal_clock", "derived", "memory_bound", "models"]
KINDS = PLANTS | dict.fromkeys(CONTROLS, 6)
MOST_MHZ, MODELS = 1980, {"NVIDIA H100 80GB HBM3": 1980, "NVIDIA H100 PCIe": 1755}
TDP, HOT = 700.0, 88.0


@dataclasses.dataclass
class Clocks:
    """A job with its clocks."""

    job: Job
    kind: str
    period_us: float
    low: tuple = ()
    from_step: int = 0
    # By how much the clocks of `low` are lower: of all of them, or of each.
    drop: float = 0.0
    drops: tuple = ()
    loader_us: float = LOADER_US
    norm_share: float = 0.2
    slow: tuple = ()
    slower: float = 0.0
    models: tuple = ()
    noise_mhz: float = 6.0
    unit_mhz: int = 15
    # The temperature of a device that is not hot, C, and by how much it varies.
    warm: tuple = (66, 6)
    # Share of the highest power before the clock falls.
    power: tuple = (0.80, 0.93)

    def model(self, rank):
        return self.models[rank] if self.models else next(iter(MODELS))

    def most(self, rank):
        return MODELS[self.model(rank)]

    def lower(self, rank):
        """The clock of a rank of `low`."""
        return self.most(rank) * (1 - (dict(zip(self.low, self.drops)).get(rank, 0) if self.drops else self.drop))


def draw(kind, seed, ranks=None, slow_ranks=()):
    chance = random.Random(f"{kind} {seed}")
    world, steps = chance.choice([4, 6, 8]), chance.randint(10, 16)
    world = ranks or world
    job = Job(chance.randrange(1 << 30), world, layers=chance.choice([3, 4, 6]), steps=steps)
    job.us, job.sigma = chance.uniform(15_000, 30_000), chance.uniform(0.0, 0.03)
    job.sig_step = chance.choice([0.0, 0.003, 0.006])
    of = Clocks(job, kind, chance.choice([500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0]))
    of.norm_share = chance.uniform(0.05, 0.5)
    of.noise_mhz, of.unit_mhz = chance.choice([0, 6, 15]), chance.choice([1, 15])
    of.warm = (chance.randint(45, 72), chance.choice([0, 1, 6]))
    of.power = chance.choice([(0.80, 0.93), (0.6, 0.7), (0.88, 0.99)])
    rank, drop, since = chance.randrange(world), chance.uniform(0.03, 0.2), chance.randint(1, steps // 2)
    if kind.startswith("rank_"):
        of.low, of.drop, of.from_step = (rank,), drop, since
    if kind.startswith("all_") or kind in ("derived", "memory_bound", "sampled", "one_sample"):
        of.low, of.drop, of.from_step = tuple(range(world)), drop, since
    if kind in ("derived", "sampled", "one_sample") and chance.random() < 0.5:
        of.low = (rank,)
    if slow_ranks and kind.startswith("rank_"):
        plant_groups(of, slow_ranks, chance)
    if kind == "memory_bound":
        of.norm_share = 1.0
    if kind == "idle":
        of.loader_us = chance.uniform(0.15, 0.5) * job.us
    if kind == "normal_clock":
        of.slow, of.slower = (rank,), drop
    if kind == "models":
        of.models = tuple(chance.choice([sorted(MODELS), sorted(MODELS, reverse=True)]) * (world // 2))
    return of


def plant_groups(of, sizes, chance):
    """Plants groups of so many ranks, each with a clock of its own, which is lower from the start."""
    ranks = chance.sample(range(of.job.world), sum(sizes))
    # Levels are apart from each other as they are from the highest clock.
    apart = [chance.uniform(0.04, 0.3 / len(sizes)) for _ in sizes]
    levels = [sum(apart[: i + 1]) for i in range(len(sizes))]
    of.low, of.from_step = tuple(ranks), 0
    of.drops = tuple(drop for size, drop in zip(sizes, levels) for _ in range(size))


def program(of, rank):
    job, forward = of.job, of.job.us / 3 / of.job.layers
    ops = []
    for name, us in [("gemm_a", forward)] * job.layers + [("gemm_b", 2 * forward)] * job.layers:
        parts = 4
        for _ in range(parts):
            if of.norm_share < 1:
                ops.append(Op(name, us * (1 - of.norm_share) / parts))
            ops.append(Op("norm", us * of.norm_share / parts))
        if name == "gemm_b":
            ops.append(Op("allreduce", 0, "dp", tuple(range(job.world)), STREAMS["dp"], False))
    return [*ops, Op("adam", ADAM_SHARE * job.us)]


def simulate(of):
    """Kernels and steps as `scoreboard.simulate` has them, and by rank the time from which its clock is low."""
    job, chance = of.job, random.Random(of.job.seed)
    noise = steps_noise(job, chance)
    rows, steps = [[] for _ in range(job.world)], [[] for _ in range(job.world)]
    at, low_from, called = [START_US] * job.world, [float("inf")] * job.world, 0
    for step in range(job.steps):
        ready, launch, waiting, ends = [0.0] * job.world, [], [collections.deque() for _ in range(job.world)], []
        adam = []
        for rank in range(job.world):
            if rank in of.low and step == of.from_step:
                low_from[rank] = at[rank]
            launched = at[rank] + of.loader_us
            for op in program(of, rank):
                is_bound = op.name.startswith("gemm")
                clock = of.lower(rank) if low_from[rank] <= at[rank] else of.most(rank)
                factor = noise[rank, step] * chance.gauss(1, job.sigma) * (1 + of.slower if rank in of.slow else 1)
                start = max(ready[rank], launched + 4)
                if op.dimension:
                    waiting[rank].append((op, launched, start + 1))
                elif op.name == "adam":
                    adam.append((op, launched, op.us * factor))
                else:
                    ready[rank] = start + op.us * factor * (MOST_MHZ / clock if is_bound else 1)
                    rows[rank].append((op, launched, start, ready[rank]))
                    ready[rank] += 1
                launched += LAUNCH_US
            launch.append(launched)
        last = 0.0
        while waiting[0]:
            called += 1
            calls = [of_rank.popleft() for of_rank in waiting]
            starts = [max(start, last + 1) for _, _, start in calls]
            last = max(starts) + 0.2 * job.us / job.layers * chance.gauss(1, 0.02)
            for rank, (op, launched, _) in enumerate(calls):
                rows[rank].append((dataclasses.replace(op, seq=called), launched, starts[rank], last))
        for rank, (op, launched, us) in enumerate(adam):
            start = max(ready[rank], last + 2)
            rows[rank].append((op, launched, start, start + us))
            steps[rank].append((at[rank], launch[rank], start + us + 8))
            at[rank] = start + us + 8
    return rows, steps, low_from


def counters(of, rank, rows, low_from, end, chance):
    """Samples of the counters of a device: (name, time, value)."""
    busy = sorted((start, finish) for _, _, start, finish in rows)
    name = {"derived": "Cycles (Current Kernel)"}.get(of.kind)
    if name:
        return [(name, start, round((finish - start) * of.most(rank))) for start, finish in busy]
    out, at, i = [], START_US + chance.uniform(0, of.period_us), 0
    (warm, varies), hot = of.warm, 0
    is_thermal = of.kind.endswith("thermal")
    while at < end:
        while i < len(busy) and busy[i][1] < at:
            i += 1
        is_busy = i < len(busy) and busy[i][0] <= at
        is_low = low_from[rank] <= at
        clock = (of.lower(rank) if is_low else of.most(rank)) + chance.gauss(0, of.noise_mhz)
        power, temperature = TDP * chance.uniform(*of.power), warm + chance.randint(-varies, 0)
        if is_low and is_thermal:
            hot = min(HOT - warm, hot + 6 * max(1, of.period_us / 1_000))
            temperature, power = warm + hot + chance.choice([-1, 0, 0]), TDP * chance.uniform(0.5, 0.56)
        elif is_low:
            power = TDP + chance.gauss(0, 2)
        if not is_busy:
            power *= 0.5
            if of.kind == "idle":
                clock = chance.choice([345, 1200, 1500])
        out += [("SM Clock (MHz)", at, of.unit_mhz * round(clock / of.unit_mhz)), ("Power (W)", at, round(power, 3))]
        out += [("Temperature (C)", at, round(temperature)), ("Memory Clock (MHz)", at, 2619)]
        if of.kind == "one_sample":
            return out
        at += of.period_us * chance.gauss(1, 0.02)
    if of.kind == "sampled":
        at = START_US
        while at < end:
            out += [("SM Active (%)", at, chance.uniform(60, 90)), ("DRAM BW (%)", at, chance.uniform(10, 60))]
            at += 1_000
    return out


def write(of, folder):
    rows, steps, low_from = simulate(of)
    groups, chance, job = {}, random.Random(of.job.seed + 1), of.job
    for rank in range(job.world):
        device = rank % 8
        samples = counters(of, rank, rows[rank], low_from, steps[rank][-1][2], chance)
        events = simulated.rank_events(job, rank, rows[rank], steps[rank], groups, chance)
        for name, at, value in sorted(samples, key=lambda s: s[1]):
            row = {"ph": "C", "name": name, "pid": f"GPU {device} Counters", "ts": round(at, 3), "args": {"": value}}
            events.append(row)
        devices = [{"id": i, "name": of.model(rank), "numSms": 132, "computeMajor": 9} for i in range(8)]
        document = simulated.document(job, rank, events, devices)
        pathlib.Path(folder, f"rank_{rank}.json").write_text(json.dumps(document))


def cost_us(of):
    """What the lower clocks cost, by the same chances without them, and how long the job takes."""
    length = [max(rank[-1][2] for rank in simulate(one)[1]) - START_US for one in (of, dataclasses.replace(of, low=()))]
    return length[0] - length[1], length[0]


def judge(of, findings, verdict):
    """The outcome, the finding it is judged by, and what it says."""
    told = [f for f in findings if f["kind"] == "throttled"]
    first = told[0] if told else None
    wrong = "sure" if first and first["certainty"] == "sure" else "wrong"
    if of.kind not in PLANTS or of.kind == "none":
        return (wrong if told else "right"), first
    if not told:
        return ("cannot_tell" if lines.is_unknown(verdict) else "missed"), None
    low = set(of.low)
    if len(told) > 1 or not low <= lines.ranks_of(first):
        return wrong, first
    if low != lines.ranks_of(first):
        return "set", first
    said = {"power": "power plateau of" in first["words"], "thermal": "C while the clock falls" in first["words"]}
    return ("right" if said[of.kind.split("_")[1]] and sum(said.values()) == 1 else wrong), first


def energy_is_exact(rows):
    """Whether busy and idle time, and all activities, add up to the picojoule; `None` without any energy."""
    sums, unknown = collections.defaultdict(collections.Counter), set()
    for row in rows:
        if row["pj"]:
            sums[row["rank"], row["device"]][row["scope"]] += int(row["pj"])
        else:
            unknown.add((row["rank"], row["device"], row["scope"]))
    is_exact = []
    for place, of in sums.items():
        known = {scope for scope in of if (*place, scope) not in unknown}
        if {"busy", "idle", "capture"} <= known:
            is_exact.append(of["busy"] + of["idle"] == of["capture"])
        if {"busy", "kernel_name"} <= known:
            is_exact.append(of["kernel_name"] == of["busy"])
    return all(is_exact) if is_exact else None


def setting(of):
    job = of.job
    return f"{job.layout()} {job.steps} steps, samples every {of.period_us / 1000:g} ms"


def measure(hta, kind, seed, keep, ranks, slow_ranks):
    of = draw(kind, seed, ranks, slow_ranks)
    with tempfile.TemporaryDirectory() as temporary:
        folder, out = pathlib.Path(keep or temporary, f"{kind}_{seed}"), pathlib.Path(temporary, "out")
        folder.mkdir(parents=True, exist_ok=True)
        write(of, folder)
        verdict, findings, printed = lines.answer(hta, folder, out)
        words = collections.defaultdict(list)
        for row in lines.table(hta, out, "finding_evidence"):
            words[row["finding_id"]].append(row["words"])
        energy = energy_is_exact(lines.table(hta, out, "energy"))
    for row in findings:
        row["words"] = "; ".join([row["detail"], *words[row["finding_id"]]])
    said = (printed + json.dumps(findings)).lower()
    outcome, found = judge(of, findings, verdict)
    is_planted = kind in PLANTS and kind != "none"
    cost, length = cost_us(of) if is_planted else (0.0, 1.0)
    drops = ", ".join(f"{100 * drop:.1f}" for drop in of.drops or [of.drop])
    options = [f"--kinds {kind} --seed {seed} --jobs 1", f"--ranks {ranks}" if ranks else ""]
    options.append("--slow-ranks " + ",".join(map(str, slow_ranks)) if slow_ranks else "")
    others = ", ".join(f"{row['kind']} [{row['ranks']}]" for row in findings)
    return {
        "script": "planted_clocks", "set": setting(of), "format": "simulated", "layout": of.job.layout(), "kind": kind,
        "size_pct": round(100 * cost / length, 1) if is_planted else None,
        "on": "none" if not is_planted else "all" if len(of.low) == of.job.world else "some" if of.low[1:] else "one",
        "in_steps": "none" if not is_planted else "some" if of.from_step else "all", "seed": seed,
        "ranks": list(of.low), "effect_ns": round(1000 * cost), "outcome": outcome,
        "gain_ns": int(found["recoverable_ns"]) if found else 0, "certainty": found["certainty"] if found else "",
        "told": f"{found['sentence']} [{found['ranks']}]. {found['words']}" if found else " ".join(verdict["lines"]),
        "why": f"[clocks lower by {drops} % since step {of.from_step} of {of.job.steps}; findings: {others}]",
        "is_control": not is_planted, "energy_is_exact": energy,
        "is_fact": "power limit" in said or "thermal limit" in said,
        "command": " ".join(filter(None, ["python3 tests/bench/planted_clocks.py target/release/hta", *options])),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hta")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--keep", help="a folder to leave the jobs in")
    parser.add_argument("--ranks", type=int, help="of each job; else 4, 6 or 8 by chance")
    text = "so many ranks of each kind `rank_...` have a lower clock from the start; `2,2`: in groups of two clocks"
    parser.add_argument("--slow-ranks", type=lambda of: tuple(map(int, of.split(","))), default=(), help=text)
    parser.add_argument("--show", action="store_true", help="print what is told of the right ones, too")
    lines.add_options(parser, seed=1000)
    args = parser.parse_args()
    if sum(args.slow_ranks) > (args.ranks or 4):
        parser.error("more slow ranks than a job may have: see --ranks")
    todo = []
    for kind in args.kinds.split(","):
        for seed in range(args.seed, args.seed + (args.jobs or KINDS[kind])):
            key = ("planted_clocks", setting(draw(kind, seed, args.ranks, args.slow_ranks)), kind, seed)
            todo.append((key, (args.hta, kind, seed, args.keep, args.ranks, args.slow_ranks)))
    of = lines.run_all(todo, measure, args.lines, args.jobs_in_parallel)
    lines.show(of)
    lines.failures(of, args.show)
    exact = collections.Counter(line["energy_is_exact"] for line in of)
    print(f"energy: {exact[True]} exact, {exact[False]} not, {exact[None]} without energy")
    print(f"a limit told as a fact: {sum(line['is_fact'] for line in of)}")


if __name__ == "__main__":
    main()
