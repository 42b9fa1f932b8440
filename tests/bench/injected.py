"""Measures how often hta finds what was changed in real recordings, and how often it errs.

    python3 tests/bench/injected.py target/release/hta SET [SET ...] [--runs 2] [--seed 1] [--kinds gap,shuffle]
                                    [--lines FILE] [--jobs 2] [--export FOLDER]

A set is a file, or a folder with the files of the ranks of one job: Chrome JSON, exports of Nsight Systems, Perfetto
traces. A folder that holds other sets stands for all of them. One thing of known effect is changed in a set, both are
analysed, and the answers are compared by the tables `findings`, `time_account` and `trust`. Each run is a line of JSON in
`--lines` (its fields: `scoreboard/lines.py`), with the command that repeats it; runs whose lines are there are not
repeated. The kinds are the functions of `scoreboard/changes.py`:

    pause_operator   a host stands still inside an operator or function
    pause_between    the same inside a range only, between operators
    pause_nowhere    the same where no event is open
    gap              ranks stand still between two steps, in an event or without one
    late             a host stands still before the first collective of a step
    rotate, in_turn  in each step another rank stands still, of all or of two
    launch_calls     each call that launches something takes longer
    allocation       a call of cudaMalloc, in each of the steps
    kernel, device   kernels of one name, or all kernels, take longer on some ranks
    more_launches    a kernel is launched more often
    copy_exposed     a kernel waits for a copy
    link             the transfers of one group take longer
    copy_hidden      nothing waits for a copy: nothing may be told
    clock_host, clock_device, drift, jitter      a clock is off: the same answer, or a weaker one
    lose_stream, lose_launches, lose_kernels, lose_rank, cut    something is missing: the same
    double, rename, shift, shuffle, permute      the answer may not change
    blind            the kernels of collectives have names that say nothing: they are not slow kernels

Where a rank takes longer, the others wait for it in the next collective that they have in common, and idle time swallows
what it can: the effect is carried on by `scoreboard/replay.py`. A change whose effect is hidden, or not known, is drawn
again and then dropped and counted; it is never counted as right. How an answer is judged: `scoreboard/judge.py`.

`--export FOLDER` leaves each changed set there, with NAME.truth.json beside it. Needs nothing but Python.
"""

import argparse
import functools
import json
import pathlib
import random
import re
import tempfile

from scoreboard import changes, judge, kineto, lines, nsys, pftrace
from scoreboard.meetings import Unknown

FORMATS = [kineto, nsys, pftrace]
# A change without a known effect is drawn again so many times.
TRIES = 6
CONTROLS = {"same", "weaker", "blind"}
# Files of more bytes are left out: a run would take as long as a hundred others.
LARGEST = 2_000_000


def format_of(path):
    return next((f for f in FORMATS if f.reads(path)), None)


def sets(path):
    """The sets below a path: a file, a folder whose files are ranks of one job, or all that its folders hold."""
    if path.is_file():
        return [path] if format_of(path) else []
    files = [p for p in sorted(path.iterdir()) if p.is_file() and format_of(p)]
    masks = {re.sub(r"\d+", "#", p.name) for p in files}
    if len(files) > 1 and len(masks) == 1:
        return [path]
    below = [s for p in sorted(path.iterdir()) if p.is_dir() for s in sets(p)]
    return files + below


@functools.lru_cache(2)
def recordings(path):
    files = [path] if path.is_file() else [p for p in sorted(path.iterdir()) if format_of(p)]
    read = [format_of(p).read(p) for p in files]
    if not all(r.events for r in read):
        raise ValueError("no events")
    return sorted(read, key=lambda r: (r.rank is None, r.rank, r.name))


@functools.lru_cache(4)
def base_answer(hta, path):
    with tempfile.TemporaryDirectory() as folder:
        for r in recordings(path):
            r.write(pathlib.Path(folder, r.name))
        return judge.Answer.of(hta, folder)


def inject(path, kind, seed):
    """The changed set with what was changed; raises `Unknown` if no try has a known effect."""
    why = None
    for turn in range(TRIES):
        rng = random.Random(f"{path.name} {kind} {seed} {turn}")
        job, change = changes.Set(recordings(path), rng), changes.Change(kind, "", [])
        try:
            changes.KINDS[kind](job, change)
            # What costs less than is told of any cause cannot be told apart.
            step = max(e.end for e in job.recordings[0].events) - job.recordings[0].events[0].start
            if change.expect not in CONTROLS and change.effect < 0.02 * step:
                raise Unknown("less than 2 % of the time")
            return job, change
        except Unknown as found:
            why = found
    raise why


def measure(options, path, kind, seed):
    command = f"python3 tests/bench/injected.py HTA {path} --kinds {kind} --seed {seed} --runs 1"
    line = {"script": "injected.py", "set": shown(path), "kind": kind, "seed": seed, "command": command}
    try:
        read = recordings(path)
        line |= {"format": read[0].format, "layout": layout(path, read)}
        job, change = inject(path, kind, seed)
    except Unknown as why:
        return line | {"outcome": "dropped", "why": str(why)}
    except Exception as why:  # a file that cannot be read is no failure of hta
        return line | {"outcome": "dropped", "why": f"not read: {type(why).__name__}: {why}"[:200]}
    truth = {
        "ranks": change.ranks, "steps": change.steps, "words": change.words, "effect_ns": change.effect,
        "size_pct": change.size_pct, "on": change.on, "in_steps": change.in_steps,
    }  # fmt: skip
    must = change.expect if change.expect in CONTROLS else "tell"
    exported = {"set": line["set"], "kind": kind, "seed": seed} | truth | {"must": must, "renumbered": change.renumbered}
    with tempfile.TemporaryDirectory() as made:
        out = pathlib.Path(options.export or made, re.sub(r"\W+", "_", f"{line['set']}_{kind}_{seed}"))
        out.mkdir(parents=True, exist_ok=True)
        for i, r in enumerate(job.recordings):
            r.write(out / r.name, **({"cut": change.cut[i]} if i in change.cut else {}))
        if options.export:
            out.with_suffix(".truth.json").write_text(json.dumps(exported))
        before = base_answer(options.hta, path)
        if before.code not in (0, 1) or not before.account:
            why = re.sub(r"\S*/(?=[^/\s]+:)", "", " ".join(before.words.split()))
            return line | {"outcome": "dropped", "why": f"not analysed: {why[:150]}"}
        found = judge.judged(before, judge.Answer.of(options.hta, str(out)), change)
    return line | truth | {
        "outcome": found.outcome, "told": found.told[:400], "gain_ns": found.gain, "certainty": found.certainty,
        "why": found.why, "place": found.place, "is_control": change.expect in CONTROLS,
    }  # fmt: skip


def shown(path):
    """The last two parts of a path name a set."""
    return "/".join(path.parts[-2:])


def layout(path, read):
    return "single" if len(read) == 1 else next(
        (of for word, of in [("pp", "PP"), ("tp", "TP"), ("ep", "EP"), ("moe", "EP"), ("mesh", "DP PP"), ("ddp", "DP")]
         if word in path.name), "several ranks")  # fmt: skip


def measure_all(options, path, todo):
    """All runs of a set, so that it is read once."""
    return [measure(options, path, kind, seed) for kind, seed in todo]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hta")
    parser.add_argument("sets", nargs="+", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=2, help="of each kind and set")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(changes.KINDS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lines", type=pathlib.Path)
    parser.add_argument("--export", type=pathlib.Path)
    options = parser.parse_args()
    options.hta = str(pathlib.Path(options.hta).resolve())
    known = {lines.key(line) for line in lines.read(options.lines)}
    todo = []
    for path in (s for of in options.sets for s in sets(of)):
        if max((p.stat().st_size for p in ([path] if path.is_file() else path.iterdir())), default=0) > LARGEST:
            continue
        runs = [(k, s) for s in range(options.seed, options.seed + options.runs) for k in options.kinds.split(",")]
        runs = [r for r in runs if ("injected.py", shown(path), *r) not in known]
        todo += [(None, (options, path, runs[i : i + 40])) for i in range(0, len(runs), 40)]
    lines.show(lines.run_all(todo, measure_all, options.lines, options.jobs))


if __name__ == "__main__":
    main()
