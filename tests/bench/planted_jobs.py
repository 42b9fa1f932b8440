"""Measures how often the diagnosis names the planted cause of a simulated training job first, and how often it errs.

    python3 tests/bench/planted_jobs.py target/release/hta [--jobs 20] [--seed 1] [--kinds stage,link] [--keep FOLDER]

A job is tensor, pipeline and data parallel, or expert and data parallel. Its programs run on simulated streams: a
collective starts when its last member arrives, a pipeline message when both ends do, and the host is far ahead. The
kernels, the steps and the transfers vary by chance. One thing is planted: a slow rank of a stage, a slow stage, a
TP group, a NIC (all transfers with one rank), a link (messages between two ranks), an expert with more tokens, a rank
that is slow in some steps, a pause of one host that comes on another rank in each step, or nothing. What it costs is
known by simulating the same chances without it; jobs where it costs less than 10 % are drawn again. Prints for each
kind how often the first cause is the planted one, a set that contains it, another one or none, for each layout the
least and the most of the true gain that is told where it is right, and the first sentence of each job that is not.
Needs nothing but Python.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import random
import subprocess
import tempfile

BASE_NS, START_US = 1_775_078_550_000_000_000, 1_005_000.0
LOADER_US, LAUNCH_US, ADAM_SHARE, TP_US, EP_US = 300.0, 6.0, 0.03, 30.0, 150.0
ELEMENTS = {"tp": 2_097_152, "dp": 13_107_200, "pp": 4_194_304, "ep": 4_194_304}
STREAMS = {"dp": 20, "tp": 21, "ep": 22, "send_F": 30, "recv_F": 31, "send_B": 32, "recv_B": 33}
DESCRIPTIONS = {
    "short": {d: d for d in ELEMENTS},
    "megatron": {
        "tp": "TENSOR_MODEL_PARALLEL_GROUP", "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
        "dp": "DATA_PARALLEL_GROUP", "ep": "EXPERT_MODEL_PARALLEL_GROUP",
    },
    "nameless": {d: "undefined" for d in ELEMENTS},
}
ASIDE = ["aten::view", "aten::t", "aten::as_strided", "aten::empty"]
# Recorded cases do not have it; without it, forward and backward of a last stage in 1F1B cannot be told apart.
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
KERNELS = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
}


@dataclasses.dataclass
class Job:
    seed: int
    world: int = 16
    tp: int = 1
    pp: int = 1
    ep: bool = False
    microbatches: int = 1
    layers: int = 4
    steps: int = 8
    us: float = 20_000
    pp_us: float = 40
    sigma: float = 0.02
    sig_step: float = 0.01
    rho: float = 0.0
    schedule: str = "gpipe"
    names: str = "short"
    whole_pp: bool = False
    kind: str = "none"
    ranks: tuple = ()
    frac: float = 0.0
    net_factor: float = 1.0
    slow_steps: tuple = ()
    pause_us: float = 0.0

    def layout(self):
        named = {"TP": self.tp, "PP": self.pp, "DP": self.world // (self.tp * self.pp)}
        return " ".join(f"{name}{n}" for name, n in named.items() if n > 1)

    def place(self, rank):
        return rank % self.tp, rank // self.tp % self.pp, rank // (self.tp * self.pp)

    def rank(self, tp, pp, dp):
        return tp + self.tp * (pp + self.pp * dp)

    def group(self, dimension, rank):
        tp, pp, dp = self.place(rank)
        if dimension == "tp":
            return tuple(self.rank(i, pp, dp) for i in range(self.tp))
        if dimension == "pp":
            return tuple(self.rank(tp, i, dp) for i in range(self.pp))
        if dimension == "ep":
            return tuple(range(self.world))
        return tuple(self.rank(tp, pp, i) for i in range(self.world // (self.tp * self.pp)))

    def is_slow(self, rank, step):
        is_here = self.kind in ("rank", "steps", "stage", "tpgroup") and rank in self.ranks
        return is_here and (not self.slow_steps or step in self.slow_steps)

    def pause(self, rank, step, number):
        """How long the host stands still before it launches a kernel: in each step on another rank."""
        if self.kind != "pauses" or self.ranks[step] != rank:
            return 0.0
        return self.pause_us if number == 1 + (self.seed + step) % 3 else 0.0

    def load(self, rank):
        """Tokens of a rank as a multiple of the mean; what one rank has more, the others have less."""
        if self.kind != "expert":
            return 1.0
        return 1 + self.frac if rank in self.ranks else 1 - self.frac / (self.world - 1)

    def transfer(self, dimension, members):
        us = {"tp": TP_US, "ep": EP_US, "pp": self.pp_us, "dp": 0.2 * self.us / self.layers}[dimension]
        nic = self.kind == "nic" and set(self.ranks) & set(members)
        link = self.kind == "link" and dimension == "pp" and set(self.ranks) == set(members)
        return us * (self.net_factor if nic or link else 1.0)


@dataclasses.dataclass
class Op:
    """A kernel: compute of a length, or a transfer of a dimension that meets others of the same key."""

    name: str
    us: float = 0.0
    dimension: str = ""
    members: tuple = ()
    stream: int = 7
    blocks: bool = True
    seq: int = 0
    sent: tuple = ()


def chunks(job, stage):
    m = job.microbatches
    if job.schedule == "gpipe":
        return [("F", b) for b in range(m)] + [("B", b) for b in range(m)]
    ahead = min(job.pp - 1 - stage, m)
    order = [("F", b) for b in range(ahead)]
    for b in range(m):
        order += ([("F", b + ahead)] if b + ahead < m else []) + [("B", b)]
    return order


def program(job, rank, counts):
    """The kernels of one step of one rank, in the order of their launches."""
    _, stage, _ = job.place(rank)
    ops = []

    def meet(name, dimension, members, stream, blocks=True, sent=()):
        key = sent or members + (dimension,)
        counts[key] += 1
        ops.append(Op(name, 0, dimension, members, stream, blocks, counts[key], sent))

    def message(name, there, kind):
        peer = rank + job.tp * there
        sent = (rank, peer) if name == "send" else (peer, rank)
        meet(name, "pp", (min(sent), max(sent)), STREAMS[f"{name}_{kind}"], name == "recv", sent)

    def exchange():
        meet("all_to_allv", "ep", job.group("ep", rank), STREAMS["ep"])

    forward = job.us / 3 / job.layers / job.microbatches
    for kind, b in chunks(job, stage):
        before, after = (-1, 1) if kind == "F" else (1, -1)
        if 0 <= stage + before < job.pp:
            message("recv", before, kind)
        for _ in range(job.layers):
            if kind == "F" and job.ep:
                ops.append(Op("gemm_a", forward / 2))
                exchange()
                ops.append(Op("expert_gemm", forward / 2 * job.load(rank)))
                exchange()
            else:
                ops.append(Op("gemm_a", forward) if kind == "F" else Op("gemm_b", 2 * forward))
            if job.tp > 1:
                meet("allreduce", "tp", job.group("tp", rank), STREAMS["tp"])
            if kind == "B" and b == job.microbatches - 1:
                meet("allreduce", "dp", job.group("dp", rank), STREAMS["dp"], blocks=False)
        if 0 <= stage + after < job.pp:
            message("send", after, kind)
    return [*ops, Op("adam", ADAM_SHARE * job.us)]


def steps_noise(job, chance):
    """Factors of (rank, step), lasting over steps by rho."""
    of = {}
    for rank in range(job.world):
        last = chance.gauss(0, 1)
        for step in range(job.steps):
            of[rank, step] = math.exp(job.sig_step * last)
            last = job.rho * last + math.sqrt(1 - job.rho**2) * chance.gauss(0, 1)
    return of


def simulate(job):
    """Runs all ranks: (op, launched, start, end) of each kernel, and (start, last launch, end) of each step, in us."""
    chance = random.Random(job.seed)
    noise = steps_noise(job, chance)
    counts = [collections.Counter() for _ in range(job.world)]
    ops = [[program(job, r, counts[r]) for _ in range(job.steps)] for r in range(job.world)]
    factors = [[[math.exp(job.sigma * chance.gauss(0, 1)) for _ in of] for of in rank] for rank in ops]
    met, met_ends, rows, steps = {}, {}, [[] for _ in range(job.world)], [[] for _ in range(job.world)]

    def run(rank):
        at = START_US
        for step in range(job.steps):
            launch, ready, ends = at + LOADER_US, 0.0, {}
            own = noise[rank, step] * (1 + job.frac if job.is_slow(rank, step) else 1)
            for number, (op, factor) in enumerate(zip(ops[rank][step], factors[rank][step])):
                launch += job.pause(rank, step, number)
                if op.name == "adam":
                    for key in ends.values():
                        while (rank, key) not in met_ends:
                            yield
                        ready = max(ready, met_ends[rank, key] + 2)
                if not op.dimension:
                    start = max(ready, launch + 4)
                    ready = start + op.us * own * factor
                    rows[rank].append((op, launch, start, ready))
                else:
                    key = (op.sent or op.members, op.dimension, op.seq)
                    before = ends.get(op.stream)
                    while before and (rank, before) not in met_ends:
                        yield
                    start = max(ready + 1 if ready else 0, launch + 4, met_ends[rank, before] + 1 if before else 0)
                    arrived = met.setdefault(key, {})
                    arrived[rank] = start
                    ends[op.stream] = key
                    row = [op, launch, start, None, key]
                    rows[rank].append(row)
                    if len(arrived) == len(op.members):
                        last = max(arrived.values())
                        usual = job.transfer(op.dimension, op.members)
                        for r in arrived:
                            met_ends[r, key] = last + usual * of_transfer(key) + jitter(key, r)
                    if op.blocks:
                        while (rank, key) not in met_ends:
                            yield
                        ready = met_ends[rank, key] + 2
                launch += LAUNCH_US
            steps[rank].append((at, launch, ready + 8))
            at = ready + 8

    def of_transfer(key):
        return math.exp(0.05 * random.Random(f"{job.seed} {key}").gauss(0, 1))

    def jitter(key, rank):
        return random.Random(f"{job.seed} {key} {rank}").expovariate(1 / 2.7)

    waiting = [run(r) for r in range(job.world)]
    while waiting:
        waiting = [of for of in waiting if next(of, waiting) is not waiting]
    rows = [[(row[0], row[1], row[2], row[3] or met_ends[r, row[4]]) for row in of] for r, of in enumerate(rows)]
    return rows, steps


def event(category, name, pid, thread, start, length, args=None):
    of = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": thread, "ts": round(start, 3)}
    return {**of, "dur": round(length, 3), **({"args": args} if args else {})}


def described(job, op, groups):
    """What torch records of a transfer; groups are numbered as the ranks, in order, first use them."""
    if op.dimension == "pp" and job.whole_pp:
        members = job.group("pp", op.members[0])
    else:
        members = op.members
    size = ELEMENTS[op.dimension]
    of = {
        "Collective name": op.name, "In msg nelems": size, "Out msg nelems": size, "Group size": len(members),
        "dtype": "BFloat16", "Process Group Name": groups.setdefault((op.dimension, members), str(len(groups) + 1)),
        "Process Group Description": DESCRIPTIONS[job.names][op.dimension],
        "Process Group Ranks": str(list(members)),
    }
    return {**of, **({"Src Rank": op.sent[0], "Dst Rank": op.sent[1]} if op.sent else {}), "Seq": op.seq}


def rank_events(job, rank, rows, steps, groups, chance):
    device, host = rank % 8, 4000 + rank
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = [
        event("user_annotation", f"ProfilerStep#{i + 2}", host, host, at, end - at - 0.5)
        for i, (at, _, end) in enumerate(steps)
    ]
    for i, (at, last, end) in enumerate(steps):
        sync = {"correlation": 1_000_001 + job.steps + 2 * i, "cbid": 131}
        events.append(event("user_annotation", loader, host, host, at, LOADER_US))
        events.append(event("cuda_runtime", "cudaStreamSynchronize", host, host, last, end - last, sync))
    in_step = len(rows) // job.steps
    for number, (op, launch, start, end) in enumerate(rows, 1):
        shown = {}
        pause = job.pause(rank, (number - 1) // in_step, (number - 1) % in_step)
        if pause:
            name = chance.choice(ASIDE)
            events.append(event("cpu_op", name, host, host, launch - pause - 0.5, pause - 0.5))
        if op.dimension:
            shown = described(job, op, groups)
            if op.dimension == "ep":
                shown["In msg nelems"] = shown["Out msg nelems"] = int(ELEMENTS["ep"] * job.load(rank))
            name, grid = KERNELS.get(op.name, KERNELS[""]), [24, 512]
            events.append(event("cpu_op", "record_param_comms", host, host, launch - 0.5, 5.5, shown))
        else:
            name, grid = f"void {op.name}_kernel<128>(Params)", [64, 256]
            if job.schedule == "1f1b" and op.name == "gemm_b":
                events.append(event("cpu_op", BACKWARD, host, host, launch - 0.55, 5.6))
            events.append(event("cpu_op", "aten::mm", host, host, launch - 0.5, 5.5))
            events.append(event("cpu_op", chance.choice(ASIDE), host, host, launch - 0.4, 0.3))
        call = {"correlation": number, "cbid": 211}
        events.append(event("cuda_runtime", "cudaLaunchKernel", host, host, launch, 4.0, call))
        args = {"device": device, "context": 1, "stream": op.stream, "correlation": number}
        args |= {"grid": [grid[0], 1, 1], "block": [grid[1], 1, 1], **shown}
        events.append(event("kernel", name, device, op.stream, start, end - start, args))
    return events


def write(job, folder):
    rows, steps = simulate(job)
    groups, chance = {}, random.Random(job.seed)
    for rank in range(job.world):
        trace = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": i, "name": "NVIDIA H100", "numSms": 132} for i in range(8)],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": job.world},
            "host_name": f"node-{rank // 8}", "baseTimeNanoseconds": BASE_NS,
            "traceEvents": rank_events(job, rank, rows[rank], steps[rank], groups, chance),
        }
        pathlib.Path(folder, f"rank_{rank}.json").write_text(json.dumps(trace))


def step_us(job):
    """The mean step, from the first start to the last end of any rank."""
    _, steps = simulate(job)
    return (max(of[-1][2] for of in steps) - START_US) / job.steps


# World, TP and PP of jobs by what is planted; the first is the most frequent.
LAYOUTS = {
    "rank": [(16, 1, 4), (16, 2, 2), (8, 1, 4), (32, 2, 4), (16, 4, 1), (8, 1, 1), (8, 2, 1), (8, 2, 2)],
    "steps": [(16, 2, 2), (8, 1, 1), (8, 2, 1), (16, 1, 4), (16, 4, 1)],
    "pauses": [(8, 1, 1), (8, 2, 1), (16, 1, 4), (16, 2, 2)],
    "stage": [(16, 1, 4), (16, 2, 2), (8, 1, 4), (32, 2, 4)],
    "tpgroup": [(16, 4, 1), (16, 2, 2), (32, 8, 1), (32, 4, 2)],
    "nic": [(16, 4, 1), (16, 2, 2), (32, 4, 2), (32, 4, 1)],
    "link": [(16, 1, 4), (16, 2, 4), (32, 2, 4), (8, 1, 2)],
    "expert": [(8, 1, 1), (16, 1, 1), (32, 1, 1)],
    "none": [(16, 2, 2), (16, 4, 1), (16, 1, 4), (32, 2, 4), (8, 1, 1)],
}
LAYOUTS["lasting"] = LAYOUTS["none"]


def draw(kind, chance):
    """A job of a kind. Half of them have the layout and the noise of the recorded cases."""
    is_usual = chance.random() < 0.5
    world, tp, pp = LAYOUTS[kind][0] if is_usual else chance.choice(LAYOUTS[kind])
    job = Job(chance.randrange(1 << 30), world, tp, pp, kind == "expert", layers=6 if kind == "expert" else 4)
    job.microbatches = 1 if pp == 1 else chance.choice([8] if is_usual else [4, 8, 12, 16])
    if not is_usual:
        job.steps = chance.choice([6, 8] if kind == "pauses" else [6, 8, 10, 12])
        job.sigma, job.sig_step = chance.uniform(0.01, 0.05), chance.uniform(0.005, 0.02)
        job.names, job.whole_pp = chance.choice(list(DESCRIPTIONS)), chance.random() < 0.5
        job.schedule = chance.choice(["gpipe", "1f1b"])
    if kind == "lasting":
        job.rho, job.sig_step = 0.7, chance.uniform(0.02, 0.05)
    if kind in ("none", "lasting"):
        return job
    job.kind, rank = kind, chance.randrange(world)
    tp_at, stage, dp_at = job.place(rank)
    if kind == "steps":
        count = chance.randrange(1, job.steps // 2)
        job.ranks, job.frac = (rank,), chance.uniform(0.5, 1.5)
        job.slow_steps = tuple(sorted({*chance.sample(range(job.steps), count), 0} if chance.random() < 0.5
                                      else chance.sample(range(job.steps), count)))
        return job
    if kind == "pauses":
        job.ranks, job.pause_us = tuple(chance.sample(range(world), job.steps)), chance.uniform(0.2, 0.7) * job.us
        return job
    if kind == "stage":
        job.ranks = tuple(r for r in range(world) if job.place(r)[1] == stage)
    elif kind == "tpgroup":
        job.ranks = job.group("tp", rank)
    elif kind == "link":
        stage = min(stage, pp - 2)
        job.ranks = (job.rank(tp_at, stage, dp_at), job.rank(tp_at, stage + 1, dp_at))
        job.pp_us = 60
    else:
        job.ranks = (rank,)
    job.frac = chance.uniform(0.7, 1.5) if kind == "expert" else chance.uniform(0.15, 0.5)
    job.net_factor = {"link": chance.uniform(6, 20), "nic": chance.uniform(2.5, 8)}.get(kind, 1.0)
    return job


def planted(kind, seed):
    """A job, its mean step, and what the plant costs of it, percent."""
    chance = random.Random(f"{kind} {seed}")
    while True:
        job = draw(kind, chance)
        step = step_us(job)
        gain = 100 * (1 - step_us(dataclasses.replace(job, kind="none")) / step)
        if job.kind == "none" or gain >= 10:
            return job, step, gain


# Kinds of causes that blame somebody.
SLOW = {"link_slow", "transfer_bandwidth"}
BLAME = SLOW | {"straggler", "imbalance", "expert_imbalance"}
EXPECTED = {
    "rank": {"straggler"}, "steps": {"straggler"}, "pauses": {"host_pause", "straggler"}, "tpgroup": {"straggler"}, "stage": {"straggler", "pipeline_bubble"},
    "nic": SLOW, "link": SLOW, "expert": {"expert_imbalance"},
}


def judge(job, gain, verdict):
    """Right, candidates, missed or wrong; and whether a sure gain exceeds the true one."""
    first = (verdict["causes"] or [{"kind": "", "ranks": [], "sentence": "", "certainty": "", "saved_pct": 0}])[0]
    ranks, text = set(first["ranks"]), first["sentence"]
    blames = first["kind"] in BLAME or "too heavy" in text or "slow stage" in text
    excess = first["certainty"] == "sure" and blames and first["saved_pct"] > gain + max(1.0, 0.1 * gain)
    if job.kind == "none":
        return ("wrong" if blames else "right"), excess
    if first["kind"] not in EXPECTED[job.kind]:
        return ("wrong" if blames else "missed"), excess
    own = set(job.ranks)
    if job.kind == "pauses":
        of_pauses = [c for c in verdict["causes"] if c["kind"] in EXPECTED["pauses"]]
        return ("right" if "another rank" in text and len(of_pauses) == 1 else "wrong"), excess
    if job.kind == "expert":
        who = f"rank {job.ranks[0]} gets"
        return ("right" if who in text else "wrong"), excess
    if job.kind == "stage" and first["kind"] == "pipeline_bubble":
        is_told = f"stage {job.place(job.ranks[0])[1]} " in text
        return ("right" if is_told else "wrong" if blames else "missed"), excess
    if ranks == own:
        return "right", excess
    return ("candidates" if own < ranks and job.kind in ("nic", "link") else "wrong"), excess


def measure(hta, kind, seed, keep):
    job, step, gain = planted(kind, seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(keep, f"{kind}_{seed}") if keep else pathlib.Path(temporary, "job")
        folder.mkdir(parents=True, exist_ok=True)
        write(job, folder)
        out = pathlib.Path(temporary, "out")
        run = [hta, "analyze", folder, "-o", out, "--force", "--no-events", "--only", "diagnosis"]
        subprocess.run(run, capture_output=True, check=True)
        verdict = json.loads((out / "summary.json").read_text())["verdict"]
    return job, gain, verdict, *judge(job, gain, verdict)


def shown(job, gain, verdict):
    layout = f"world {job.world} tp {job.tp} pp {job.pp} m {job.microbatches} {job.schedule} {job.names}"
    planted_at = f"ranks {list(job.ranks)} x {1 + job.frac:.2f} net {job.net_factor:.1f}"
    causes = "; ".join(
        f"{c['kind']} {c['ranks'] if len(c['ranks']) < job.world else ''} {c['saved_pct']:.1f} % {c['certainty']}"
        for c in verdict["causes"][:3]
    )
    return f"{layout}, {planted_at}, true {gain:.1f} %\n      {verdict['lines'][0]}\n      {causes}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hta")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(LAYOUTS))
    parser.add_argument("--keep", help="a folder to leave the jobs in")
    args = parser.parse_args()
    with concurrent.futures.ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for kind in args.kinds.split(","):
            seeds = range(1000 * args.seed, 1000 * args.seed + args.jobs)
            n = len(seeds)
            of = list(pool.map(measure, [args.hta] * n, [kind] * n, seeds, [args.keep] * n))
            counts = collections.Counter(answer for *_, answer, _ in of)
            told = ", ".join(f"{a} {counts[a]}" for a in ("right", "candidates", "missed", "wrong"))
            print(f"{kind}: {told}; sure of too much {sum(excess for *_, excess in of)}", flush=True)
            parts = collections.defaultdict(list)
            for job, g, v, answer, _ in of:
                if answer == "right" and g > 0:
                    parts[job.layout()].append(v["causes"][0]["saved_pct"] / g)
            for layout, all_of in sorted(parts.items()):
                print(f"  {layout}: {len(all_of)} jobs, told {min(all_of):.2f} to {max(all_of):.2f} of the true gain")
            for seed, (job, gain, verdict, answer, excess) in zip(seeds, of):
                if answer != "right" or excess:
                    print(f"  {answer} {seed}: {shown(job, gain, verdict)}", flush=True)


if __name__ == "__main__":
    main()
