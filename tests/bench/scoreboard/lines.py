"""One line of JSON a run, in the same form from all scripts, and what they share: resuming, and the table.

    script      the script that made the line
    set         the recording that was changed, or the layout of a simulated job
    format      kineto, nsys, pftrace or simulated
    layout      single, DP, TP, PP, EP, ... and their products: what is known of it
    kind        what was changed
    size_pct    what it costs of a step, percent; none for kinds without a size
    drawn_pct   the same as it was drawn, where what it really costs may differ
    on          one, some or all ranks
    in_steps    one, some (every k-th) or all steps
    seed        the seed of the run
    ranks       the changed ranks
    effect_ns   what it costs of the job, by the simulation
    outcome     one of OUTCOMES
    gain_ns     what `hta` says that its removal gains
    certainty   sure, likely, at most or withheld: of the finding that was judged; empty if none was
    told        the sentence that was judged
    place       where it stands among all that is told of the recording, from 1; only of changes in recordings
    why         why a run was dropped, or is wrong
    is_control  whether nothing may be told
    command     what repeats the run
"""

import collections
import concurrent.futures
import csv
import io
import json
import os
import pathlib
import subprocess

# right        the place and the ranks of what was changed come first; of a control: nothing else is told
# set          a set of ranks that contains them, or the place without its ranks
# cannot_tell  it is said that there is time without a known cause, or that the recording cannot tell
# missed       nothing is said of it
# wrong        something else comes first, but not as sure
# sure         something else comes first, and is called sure
# dropped      the change has no effect in this set that can be known; not counted
OUTCOMES = ["right", "set", "cannot_tell", "missed", "wrong", "sure", "dropped"]


def key(line):
    return line["script"], line["set"], line["kind"], line["seed"]


def read(path):
    if not path or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def run_all(todo, measure, path, jobs):
    """The lines of all runs: those of the file, and of each of `todo` (key, arguments) that is not in it, measured in
    `jobs` processes and added to the file as they come."""
    lines = read(path)
    known = {key(line) for line in lines}
    todo = [arguments for of, arguments in todo if of not in known]
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        for made in concurrent.futures.as_completed([pool.submit(measure, *arguments) for arguments in todo]):
            # A measurement gives a line or several.
            new = made.result()
            new = new if isinstance(new, list) else [new]
            lines += new
            if path:
                with open(path, "a", encoding="utf-8") as file:
                    file.writelines(json.dumps(line) + "\n" for line in new)
    return lines


def counted(lines, by="kind"):
    table = collections.defaultdict(collections.Counter)
    for line in sorted(lines, key=lambda of: str(of[by])):
        table[str(line[by])][line["outcome"]] += 1
    return table


def show(lines, by="kind"):
    print(f"{by:20}" + "".join(f"{c:>12}" for c in OUTCOMES))
    for of, counts in counted(lines, by).items():
        print(f"{of:20}" + "".join(f"{counts[c]:12}" for c in OUTCOMES))


def failures(lines, shows_all=False):
    """What is not right, or all, with what was told and what repeats it."""
    shown = [line for line in lines if shows_all or line["outcome"] not in ("right", "dropped")]
    for line in sorted(shown, key=lambda of: (of["kind"], of["seed"])):
        size = "" if line["size_pct"] is None else f", {line['size_pct']} %"
        print(f"  {line['outcome']} {line['kind']} {line['seed']}: {line['set']}, ranks {line['ranks']}{size}")
        print(f"      {line['certainty']}: {line['told']} {line['why']}\n      {line['command']}")


def add_options(parser, seed):
    parser.add_argument("--jobs", type=int, help="of each kind")
    parser.add_argument("--seed", type=int, default=seed, help="of the first job of each kind")
    parser.add_argument("--lines", type=pathlib.Path, help="a file for a line of each job; its jobs are not repeated")
    parser.add_argument("--jobs-in-parallel", type=int, default=min(2, os.cpu_count() or 1))


def answer(hta, folder, out, *options):
    """What is told of a folder of recordings: the verdict, all findings, and the standard output."""
    run = [hta, "analyze", folder, "-o", out, "--force", "--no-events", *options]
    done = subprocess.run(run, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{folder}: {done.stderr}")
    verdict = json.loads((out / "summary.json").read_text())["verdict"]
    return verdict, table(hta, out, "findings"), done.stdout


def table(hta, out, name):
    """The rows of a table of a run; none if it has no such table."""
    run = [hta, "query", f"SELECT * FROM {name}", out, "--format", "csv"]
    done = subprocess.run(run, capture_output=True, text=True)
    return list(csv.DictReader(io.StringIO(done.stdout))) if done.returncode == 0 else []


def ranks_of(finding):
    return {int(rank) for rank in finding["ranks"].split(",") if rank}


UNKNOWN = ["cannot tell", "no rule knows", "a rule knows", "none is surely late", "may be late by chance"]


def is_unknown(verdict):
    """Whether it is said that time has no known cause, or that the recording cannot tell."""
    said = " ".join([*verdict["lines"], *verdict["notes"]]).lower()
    return any(words in said for words in UNKNOWN)
