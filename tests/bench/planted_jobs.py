"""Measures how often the diagnosis names the planted cause of a simulated job first, and how often it errs.

    python3 tests/bench/planted_jobs.py target/release/hta [--jobs 20] [--seed 1000] [--kinds stage,fsdp_nic]
        [--lines FILE] [--keep FOLDER]

A job is a product of tensor, context, pipeline, data and expert parallelism, with whole or sharded parameters (FSDP),
or a tensor parallel server that decodes: see `scoreboard/programs.py`. One thing is planted: a slow rank, a slow stage,
a TP group, a NIC (all transfers with one rank), a link (messages between two ranks), an expert with more tokens, a rank
that is slow in some steps, a pause of one host that comes on another rank in each step, a longer gap before each
iteration of a server, or nothing. It is drawn so large that it costs 3, 8, 20 or 40 % of a step, which is known by
simulating the same chances without it; what cannot cost a quarter of that is dropped. Prints how often the first cause
is the planted one, and what is told of the others. Causes that the layout alone has are passed over: transfers that no
compute hides, and the bubble of a schedule. Needs nothing but Python.
"""

import argparse
import pathlib
import random
import re
import statistics
import tempfile

from scoreboard import lines, simulated
from scoreboard.simulate import Job, calibrated

SIZES = [3, 8, 20, 40]
# World, TP, PP, EP and CP of jobs by what is planted; the first is the most frequent.
LAYOUTS = {
    "rank": [(16, 1, 4), (16, 2, 2), (8, 1, 4), (32, 2, 4), (16, 4, 1), (8, 1, 1), (8, 2, 1), (8, 2, 2)],
    "steps": [(16, 2, 2), (8, 1, 1), (8, 2, 1), (16, 1, 4), (16, 4, 1)],
    "pauses": [(8, 1, 1), (8, 2, 1), (16, 1, 4), (16, 2, 2)],
    "stage": [(16, 1, 4), (16, 2, 2), (8, 1, 4), (32, 2, 4)],
    "tpgroup": [(16, 4, 1), (16, 2, 2), (32, 8, 1), (32, 4, 2)],
    "nic": [(16, 4, 1), (16, 2, 2), (32, 4, 2), (32, 4, 1)],
    "link": [(16, 1, 4), (16, 2, 4), (32, 2, 4), (8, 1, 2)],
    "expert": [(8, 1, 1, 8), (16, 1, 1, 16), (32, 1, 1, 32)],
    "none": [(16, 2, 2), (16, 4, 1), (16, 1, 4), (32, 2, 4), (8, 1, 1)],
    "moe": [(16, 2, 2, 4), (16, 1, 2, 4), (16, 2, 1, 4), (32, 2, 2, 4), (32, 2, 2, 8), (16, 1, 1, 8), (16, 1, 4, 4)],
    "fsdp": [(8, 1, 1), (16, 1, 1), (16, 2, 1), (16, 4, 1), (16, 2, 2), (16, 1, 2)],
    "cp": [(8, 1, 1, 1, 4), (16, 2, 1, 1, 4), (16, 2, 2, 1, 2), (8, 1, 1, 1, 2), (16, 1, 2, 1, 4), (16, 1, 4, 1, 2)],
    "serve": [(8, 8), (4, 4), (2, 2)],
}
LAYOUTS["lasting"] = LAYOUTS["none"]
PLANTS = {
    "moe": ["expert", "rank", "stage", "nic", "none"], "fsdp": ["rank", "steps", "pauses", "nic", "none"],
    "cp": ["rank", "stage", "link", "nic", "none"], "serve": ["rank", "steps", "pauses", "gap", "none"],
}  # fmt: skip
KINDS = ["rank", "steps", "pauses", "stage", "tpgroup", "nic", "link", "expert", "none", "lasting"]
KINDS += [f"{family}_{plant}" for family, plants in PLANTS.items() for plant in plants]
# The most that can be planted, as `Job.amount`: a link is 41 times as slow, a host pauses for the compute of 3 steps, a
# device is 5 times as slow.
MOST = {"nic": 40.0, "link": 40.0, "pauses": 3.0, "gap": 3.0}


def layout(kind, family, is_usual, chance):
    """A job without a plant. Half of them have the layout and the noise of the recorded cases."""
    of = LAYOUTS[family or kind]
    if kind == "stage":
        of = [one for one in of if one[2] > 1]
    if kind == "nic":
        # It is known by groups without it.
        of = [one for one in of if one[1] * one[2] > 1]
    world, tp, pp, ep, cp = (*(of[0] if is_usual else chance.choice(of)), 1, 1, 1)[:5]
    job = Job(chance.randrange(1 << 30), world, tp, pp, ep, cp, family == "fsdp", family == "serve")
    job.layers = 6 if ep > 1 else 4
    job.microbatches = 1 if pp == 1 else chance.choice([8] if is_usual else [4, 8] if family else [4, 8, 12, 16])
    if not is_usual:
        job.steps = chance.choice([6, 8] if kind == "pauses" else [6, 8, 10, 12])
        job.sigma, job.sig_step = chance.uniform(0.01, 0.05), chance.uniform(0.005, 0.02)
        job.names, job.whole_pp = chance.choice(list(simulated.DESCRIPTIONS)), chance.random() < 0.5
        job.schedule = chance.choice(["gpipe", "1f1b"])
    job.autograd = job.schedule == "1f1b" or bool(family)
    if family == "serve":
        job.steps, job.layers, job.us = chance.choice([16, 24]), 16, chance.uniform(3_000, 8_000)
        job.names, job.graph = "nameless", kind != "pauses" and chance.random() < 0.5
    return job


def draw(name, seed):
    """A job of a kind with its plant but not yet how much of it, and what that may cost, percent; 0 of a control."""
    chance = random.Random(f"{name} {seed}")
    family, _, kind = name.rpartition("_")
    job = layout(kind, family, chance.random() < 0.5, chance)
    if kind == "lasting":
        job.rho, job.sig_step = 0.7, chance.uniform(0.02, 0.05)
    if kind in ("none", "lasting"):
        return job, 0
    job.kind, rank = kind, chance.randrange(job.world)
    place, sizes = job.place(rank), job.sizes()
    job.ranks = (rank,)
    if kind == "steps":
        job.slow_steps = set(chance.sample(range(job.steps), chance.randrange(1, job.steps // 2)))
        job.slow_steps = tuple(sorted(job.slow_steps | ({0} if chance.random() < 0.5 else set())))
    elif kind == "pauses":
        many = -(-job.steps // job.world)
        job.ranks = tuple(of for _ in range(many) for of in chance.sample(range(job.world), job.world))[: job.steps]
    elif kind == "stage":
        job.ranks = tuple(of for of in range(job.world) if job.place(of)["pp"] == place["pp"])
    elif kind == "tpgroup":
        job.ranks = job.group("tp", rank)
    elif kind == "gap":
        job.ranks = tuple(range(job.world))
    elif kind == "expert":
        places = {of: (job.place(of)["pp"], job.place(of)["dp"] % job.ep) for of in range(job.world)}
        job.ranks = tuple(of for of in places if places[of] == places[rank])
    elif kind == "link" and job.cp > 1:
        job.ranks = (rank, job.rank(place | {"cp": (place["cp"] + 1) % job.cp}))
    elif kind == "link":
        stage = min(place["pp"], sizes["pp"] - 2)
        job.ranks = tuple(job.rank(place | {"pp": at}) for at in (stage, stage + 1))
        job.pp_us = 60
    return job, chance.choice(SIZES)


def most(job):
    return job.ep - 1.01 if job.kind == "expert" else MOST.get(job.kind, 4.0)


# Kinds of causes that the layout alone has; the others blame somebody or something.
OF_LAYOUT = {"transfer_bare", "not_explained"}
OF_LAYOUT_SERVING = OF_LAYOUT | {"iteration_gap", "kernel_attention"}
# What a bubble says beside its schedule, of a stage or of a rank of it.
STAGE = re.compile(
    r"\bstages? (\d[\d, -]*) (?:of every replica too heavy|too heavy|slow on rank (\d+)|takes? )"
    r"|a message between ranks (\d+), (\d+) takes"
)
SLOW = {"link_slow", "transfer_bandwidth"}
LATE = {"straggler", "imbalance"}
EXPECTED = {
    "rank": LATE | {"pipeline_bubble"}, "steps": LATE | {"step_outlier"}, "tpgroup": LATE,
    "pauses": {"host_pause", "straggler"}, "stage": LATE | {"pipeline_bubble"}, "nic": SLOW, "link": SLOW,
    "expert": {"expert_imbalance"} | LATE, "gap": {"iteration_gap"},
}  # fmt: skip


def blames(job, cause):
    """Whether a cause is more than what the layout alone has."""
    text = cause["sentence"] + cause["detail"]
    if cause["kind"] == "pipeline_bubble":
        return bool(STAGE.search(text))
    return cause["kind"] not in (OF_LAYOUT_SERVING if job.serving and job.kind != "gap" else OF_LAYOUT)


def judge(job, verdict):
    """The outcome, and the cause it is judged by."""
    causes = [cause for cause in verdict["causes"] if blames(job, cause)]
    first = causes[0] if causes else None
    wrong = "sure" if first and first["certainty"] == "sure" else "wrong"
    if job.kind == "none":
        return ("right" if not first else wrong), first
    if not first:
        return ("cannot_tell" if lines.is_unknown(verdict) else "missed"), None
    own, ranks, text = set(job.ranks), set(first["ranks"]), first["sentence"] + " " + first["detail"]
    if first["kind"] not in EXPECTED[job.kind]:
        return wrong, first
    if job.kind == "gap":
        return "right", first
    if job.kind == "pauses":
        of_pauses = [cause for cause in causes if cause["kind"] in EXPECTED["pauses"]]
        is_all = len(of_pauses) == 1 and own <= ranks
        return ("right" if is_all else "set") if "another rank" in text else wrong, first
    if job.kind == "expert" and len(own) == 1 and first["kind"] == "expert_imbalance":
        is_right = re.search(rf"\brank {job.ranks[0]}(?: \([^)]*\))? gets\b", text)
        return ("right" if is_right else wrong), first
    if first["kind"] == "pipeline_bubble":
        stage, rank, *link = STAGE.search(text).groups()
        if not stage:
            return "right" if {int(of) for of in link} == own else "wrong", first
        is_right = int(rank) in own if rank else stage == str(job.place(job.ranks[0])["pp"])
        return ("right" if is_right and bool(rank) == (len(own) == 1) else "set" if is_right else wrong), first
    if ranks == own:
        return "right", first
    return ("set" if own < ranks and len(ranks) < job.world else wrong), first


def measure(hta, name, seed, keep):
    job, pct = draw(name, seed)
    cost, of_cause = 0.0, {}
    if pct:
        job, cost, length = calibrated(job, pct, most(job))
    line = {
        "script": "planted_jobs", "set": job.setting(), "format": "simulated", "layout": job.layout(), "kind": name,
        "size_pct": round(100 * cost / length, 1) if pct else None, "drawn_pct": pct or None,
        "on": "all" if job.kind == "gap" else "none" if not pct else "one" if len(job.ranks) == 1 else "some",
        "in_steps": "some" if job.slow_steps else "all" if pct else "none", "seed": seed,
        "ranks": list(job.ranks), "effect_ns": round(1000 * cost), "outcome": "dropped", "gain_ns": 0, "certainty": "",
        "told": "", "why": "", "is_control": not pct,
        "command": f"python3 tests/bench/planted_jobs.py target/release/hta --kinds {name} --seed {seed} --jobs 1",
    }  # fmt: skip
    if pct and line["size_pct"] < pct / 4:
        return line | {"why": f"costs {line['size_pct']} % at most, and {pct} % was drawn"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(keep, f"{name}_{seed}") if keep else pathlib.Path(temporary, "job")
        folder.mkdir(parents=True, exist_ok=True)
        simulated.write(job, folder)
        verdict, findings, _ = lines.answer(hta, folder, pathlib.Path(temporary, "out"), "--only", "diagnosis")
    line["outcome"], of_cause = judge(job, verdict)
    if of_cause:
        found = next(of for of in findings if of["finding_id"] == of_cause["finding_id"])
        line |= {"gain_ns": int(found["recoverable_ns"]), "certainty": of_cause["certainty"]}
        line["told"] = f"{of_cause['kind']}: {of_cause['sentence']} ({of_cause['saved']}). {of_cause['detail']}"
    elif line["outcome"] != "right":
        line["told"] = " ".join(verdict["lines"])
    if line["outcome"] not in ("right", "dropped"):
        others = [f"{c['sentence']} {c['saved_pct']:.1f} %" for c in verdict["causes"]]
        slow = f", in steps {list(job.slow_steps)}" if job.slow_steps else ""
        line["why"] = f"[planted x {1 + job.amount:.2f}{slow}, {job.steps} steps; causes: {'; '.join(others)}]"
    return line


def show_gains(of):
    """How much of the true gain is told where the cause is right, and where it is sure of too much."""
    of = [line for line in of if line["outcome"] == "right" and line["effect_ns"]]
    for kind in sorted({line["kind"] for line in of}):
        parts = sorted(line["gain_ns"] / line["effect_ns"] for line in of if line["kind"] == kind)
        sure = [line for line in of if line["kind"] == kind and line["certainty"] == "sure"]
        excess = [line["seed"] for line in sure if line["gain_ns"] > 1.1 * line["effect_ns"]]
        told = f"{parts[0]:.2f} to {parts[-1]:.2f}, median {statistics.median(parts):.2f} of the true gain"
        print(f"  {kind}: {len(parts)} jobs, told {told}; sure of too much: {excess or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hta")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--keep", help="a folder to leave the jobs in")
    lines.add_options(parser, seed=1000)
    args = parser.parse_args()
    todo = []
    for kind in args.kinds.split(","):
        for seed in range(args.seed, args.seed + (args.jobs or 20)):
            key = ("planted_jobs", draw(kind, seed)[0].setting(), kind, seed)
            todo.append((key, (args.hta, kind, seed, args.keep)))
    of = lines.run_all(todo, measure, args.lines, args.jobs_in_parallel)
    lines.show(of)
    show_gains(of)
    lines.failures(of)


if __name__ == "__main__":
    main()
