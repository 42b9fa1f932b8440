"""Runs the notebooks and checks what they show.

    python notebooks/run.py [--hta BIN] [--only NAME] [--results FOLDER] [--html DIR] [--samples]

Needs what requirements.txt names. Every notebook runs on its sample, of which fresh results are made: each
promised chart and table must be there and hold something, and numbers are compared with what was planted in
the sample (data/samples/KNOWN_ANSWERS.json). With --samples also on the other samples, with --results on a
folder of your own: no cell may fail there, but charts may say that there is nothing to draw.

The notebooks in the tree are kept without outputs; this is checked too.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
KNOWN = ROOT / "data" / "samples" / "KNOWN_ANSWERS.json"
SAMPLES = ("gpu_ddp8", "gpu_pp4", "gpu_ep4", "gpu_single", "gloo_ddp4", "gpu_counters", "cpu_single")
HOME = {"01_first_look": "gpu_ddp8", "02_who_is_the_straggler": "gpu_ddp8",
        "03_overlap_and_bandwidth": "gpu_ddp8", "04_kernels_and_patterns": "gpu_single",
        "05_what_the_work_was": "gpu_ddp8", "06_memory": "gpu_single", "07_what_the_job_is": "gpu_pp4"}
SECONDS = 300  # a cell that takes longer hangs
FIGURE = "application/vnd.plotly.v1+json"


class Wrong(Exception):
    """A notebook does not show what it should."""


def main() -> int:
    args = arguments()
    if args.hta:
        os.environ["HTA_PROGRAM"] = str(args.hta.resolve())
    # figures as data, which are checked, and for HTML with the script that draws them
    os.environ["PLOTLY_RENDERER"] = "plotly_mimetype+notebook" if args.html else "plotly_mimetype"
    names = [n for n in HOME if args.only in n]
    if not names:
        raise SystemExit(f"run.py: cannot find a notebook `{args.only}`: expected one of {', '.join(HOME)}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hta-notebooks-") as fresh:
        os.environ["HTA_NOTEBOOK_OUT"] = fresh
        for name, sample in work(names, args, Path(fresh)):
            where = Path(sample).name or HOME[name]
            try:
                said = run(name, sample, args)
                print(f"ok      {name:<26} {where:<14} {said}", flush=True)
            except (Wrong, CellExecutionError) as e:
                failed += 1
                print(f"FAILED  {name:<26} {where:<14} {reason(e)}", flush=True)
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the notebooks and check what they show.")
    parser.add_argument("--hta", type=Path, metavar="BIN",
                        help="the program that makes the results (else HTA_PROGRAM, target/release, the one that is installed)")
    parser.add_argument("--only", default="", metavar="NAME", help="only notebooks with this in their name")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="run on results of your own")
    parser.add_argument("--samples", action="store_true", help="run on all samples, not only on each notebook's own")
    parser.add_argument("--html", type=Path, metavar="DIR", help="write the executed notebooks as HTML")
    return parser.parse_args()


def work(names: list[str], args: argparse.Namespace, fresh: Path):
    """Notebooks and what they run on; a path where it is not the notebook's own sample."""
    for name in names:
        if args.results:
            yield name, str(args.results.resolve())
            continue
        yield name, ""
        if args.samples:
            yield from ((name, str(fresh / s)) for s in SAMPLES if s != HOME[name])


def run(name: str, results: str, args: argparse.Namespace) -> str:
    """Runs one notebook; what it has shown."""
    path = HERE / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    stored = [c for c in notebook.cells if c.cell_type == "code" and (c.outputs or c.execution_count)]
    if stored:
        raise Wrong(f"the notebook is stored with outputs, e.g. of cell {stored[0].id}: clear them")
    prepare(results)
    os.environ["HTA_RESULTS"] = results
    question = QUESTIONS[name] if not results else ""
    if question:
        notebook.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({question}))", id="known-answers"))
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", extra_arguments=["--log-level=ERROR"],
                            resources={"metadata": {"path": str(HERE)}})
    client.execute()
    answer = notebook.cells.pop().outputs if question else []
    if args.html:
        write_html(notebook, args.html / f"{name}{'' if not results else '-' + Path(results).name}.html")
    said = promises(notebook, may_be_empty=bool(results))
    if question:
        compare(json.loads("".join(o.text for o in answer if o.output_type == "stream")), EXPECTED[name]())
        said += ", known answers found"
    return said


def prepare(results: str) -> None:
    """Makes the results of a sample that is no notebook's own yet."""
    if results and Path(results).name in SAMPLES and not Path(results).exists():
        sys.path.insert(0, str(HERE))
        from results import make

        make(Path(results).name)


def promises(notebook, may_be_empty: bool) -> str:
    """Each cell must show what its tag promises."""
    seen = {"chart": 0, "table": 0, "rely": 0, "empty": 0}
    for cell in notebook.cells:
        for tag in set(cell.metadata.get("tags", [])) & seen.keys():
            shown = [o.data for o in cell.outputs if "data" in o]
            text = "".join(o.text for o in cell.outputs if o.output_type == "stream")
            empty = any("Nothing to draw" in d.get("text/markdown", "") for d in shown)
            if tag == "chart":
                figures = [d[FIGURE] for d in shown if FIGURE in d]
                there = bool(figures) and all(has_marks(f) for f in figures)
            elif tag == "table":
                there = any("<table" in d.get("text/html", "") for d in shown)
            else:
                there = text.count("holds for") > 0 or (may_be_empty and "nothing to check" in text)
            if not there and not (empty and may_be_empty):
                raise Wrong(f"cell {cell.id} shows no {tag}: {first_line(cell)}")
            seen["empty" if empty else tag] += 1
    empty = f", {seen['empty']} times nothing to draw" if seen["empty"] else ""
    return f"{seen['chart']} charts, {seen['table']} tables, {seen['rely']} lists of what holds{empty}"


def has_marks(figure: dict) -> bool:
    """Some trace of the figure has data."""
    def size(values) -> int:
        # Plotly writes numbers as base64 of an array
        return len(values.get("bdata", "")) if isinstance(values, dict) else len(values)

    fields = ("x", "y", "z", "values")
    return any(size(t[f]) > 0 for t in figure["data"] for f in fields if t.get(f) is not None)


def reason(error: Exception) -> str:
    """One that a person can use: of a failing cell what it raised and where, without its colours."""
    if not isinstance(error, CellExecutionError):
        return str(error)
    traceback = re.sub(r"\x1b\[[0-9;]*m", "", error.traceback)
    lines = [line for line in traceback.splitlines() if re.match(r"-+> ?\d+ ", line)]
    at = f"\n        at {lines[0].strip()}" if lines else ""
    return f"{error.ename}: {error.evalue}{at}"


def first_line(cell) -> str:
    return next((line for line in cell.source.splitlines() if line.strip()), "")


def write_html(notebook, path: Path) -> None:
    try:
        from nbconvert import HTMLExporter
    except ImportError:
        raise SystemExit("run.py: cannot write HTML without nbconvert\nhint: pip install nbconvert") from None

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")


def compare(found: dict, expected: dict) -> None:
    for key, value in expected.items():
        if found.get(key) != value:
            raise Wrong(f"{key}: expected {value}, found {found.get(key)}")


# What is asked of a notebook's own variables after it has run, and what the sample's builder says.

QUESTIONS = {
    "01_first_look": """{
        "parts": breakdown.filter(pl.col("scope") == "step").sort("rank", "step").select(
            "rank", "step_label", "dur_ns", "compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns").rows(),
        "most idle": [int(worst), int(idlest["step_label"])],
        "its loader": host.sort("time_ms", descending=True)["name"][0]}""",
    "02_who_is_the_straggler": """{
        "named": [[v["pattern"], v["ranks"], v["cause_name"]] for v in verdicts.iter_rows(named=True)],
        "gain": [int(g) for g in own_gain.filter(pl.col("rank") == 3).sort("step_label")["gain_ns"]],
        "waits": [list(r) for r in calls.sort("ts_ns", "rank").select("rank", "wait_ns").rows()]}""",
    "03_overlap_and_bandwidth": """{
        "overlap": overlap.filter(pl.col("scope") == "span").sort("rank").select(
            "rank", "communication_ns", "overlap_ns").rows(),
        "transfer": [int(t) for t in collectives.sort("first_ns")["transfer_ns"]]}""",
    "04_kernels_and_patterns": """{
        "activities": int(kernels.height),
        "steps found as a pattern": [int(repeats["length"][0]), int(repeats["count"][0])],
        "loop in a step": [int(repeats["length"][1]), int(repeats["count"][1])]}""",
    "05_what_the_work_was": """{
        "flops": [int(f) for f in whole.sort("rank")["matrix_flops"]]}""",
    "06_memory": """{
        "peak": int(top["peak_bytes"]),
        "held": [list(r) for r in held.select("key", "bytes").rows()],
        "net": [int(n) for n in by_step["net_bytes"]]}""",
    "07_what_the_job_is": """{
        "bubble": [int(told[f"{reason}_ns"][0]) for reason in REASONS],
        "hot": sorted(set(layers["hot_rank"])),
        "excess": [int(e) for e in layers.sort("step_label", "step", "position")["excess_ns"][:3]]}""",
}


def known() -> dict:
    return json.loads(KNOWN.read_text(encoding="utf-8"))


def fact(name: str) -> dict:
    return next(f for f in known()["planted"] if f["fact"] == name)


def first_look() -> dict:
    columns = ("step", "dur_ns", "compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns")
    rows = [[r["rank"], *(s[c] for c in columns)] for r in known()["ranks"] for s in r["steps"]]
    loader = fact("idle")
    return {"parts": rows, "most idle": [loader["slow_rank"], loader["slow_step"]], "its loader": loader["annotation"]}


def straggler() -> dict:
    late, loader = fact("late_rank"), fact("idle")
    waits = [(c["arrival_ns"][r], r, w) for c in known()["collectives"] for r, w in enumerate(c["wait_ns"])]
    return {
        "named": [["persistent", str(late["rank"]), late["kernel"]],
                  ["in_steps", str(loader["slow_rank"]), loader["annotation"]]],
        # by step: what the first collective of a step waits for the late rank
        "gain": late["first_arrival_minus_second_last_ns_by_step"],
        "waits": [[r, w] for _, r, w in sorted(waits)],
    }


def overlap() -> dict:
    spans = [[r["rank"], r["span"]["communication_ns"], r["span"]["overlap_ns"]] for r in known()["ranks"]]
    return {"overlap": spans, "transfer": [c["transfer_ns"] for c in known()["collectives"]]}


def kernels() -> dict:
    # the sample's manifest: 8 steps, of 140 kernels each; 24 rounds of a loop of 3 kernels in each step
    return {"steps found as a pattern": [140, 8], "loop in a step": [3, 192]}


def work_done() -> dict:
    # 8 ranks, 5 steps, 6 layers of [4096, 4096] x [4096, 4096]: forward with bias, gradients of input and weights
    product, bias = 2 * 4096**3, 4096**2
    return {"flops": [5 * 6 * (3 * product + bias)] * 8}


def memory() -> dict:
    # data/make_samples/single.rs: 64 MiB before, 24 cells of 256 KiB in each step, 2 MiB that the first step keeps
    before, cells, state = 64 << 20, 24 * (256 << 10), 2 << 20
    held = [["[before window]", before], ["aten::add", cells], ["aten::mm", state]]
    return {"peak": before + cells + state, "held": held, "net": [state] + 7 * [0]}


def job() -> dict:
    # data/README.md: order, a stage of 1.3 times the length, messages, launches; the tokens of rank 2
    return {"bubble": [9_675_000, 3_825_000, 0, 325_000, 30_000], "hot": [2], "excess": [476_400, 475_200, 474_000]}


EXPECTED = {"01_first_look": first_look, "02_who_is_the_straggler": straggler,
            "03_overlap_and_bandwidth": overlap, "04_kernels_and_patterns": kernels,
            "05_what_the_work_was": work_done, "06_memory": memory, "07_what_the_job_is": job}

if __name__ == "__main__":
    sys.exit(main())
