#!/usr/bin/env python3
"""Makes the page of how often answers are right, its figure and the README's line from the lines of the scoreboard.

    python3 tests/bench/accuracy.py LINES... [--bounds right=95,sure=0.2,silent=99]
                                    [--write docs/accuracy.md --date 2026-01-31 --commit 0123456789]

The lines are those of injected.py, planted_jobs.py, planted_clocks.py and straggler_power.py (scoreboard/lines.py has
their form); a line that stands in several files counts once. The same lines give the same bytes. Prints a table of
outcomes by kind and the rates that bounds may be set for, percent:

    right           right answers, of changes that can be told: at least
    right_or_set    the same, and sets that contain the changed ranks: at least
    by_cause        the same of right answers that are causes, not only the account of time: at least
    added           right answers of kinds that a review added, of those that can be told: at least
    right_of_all    right answers, of all changes: at least
    cannot_tell     changes of which `hta` says that it cannot tell, of all changes: at most
    sure            wrong and sure answers, of all runs: at most
    silent          controls that change nothing: at least

Exits with 1 where a bound is not held. Needs nothing but Python.
"""

import argparse
import json
import os
import pathlib
import sys

from scoreboard import figure, lines, rates, report

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What a line has that lacks it.
MISSING = {
    "format": "not known", "layout": "", "size_pct": None, "on": "", "in_steps": "", "ranks": [], "effect_ns": 0,
    "gain_ns": 0, "certainty": "", "told": "", "why": "", "place": 0,
}  # fmt: skip


def bounds(text):
    found = {name: float(bound) for name, bound in (part.split("=") for part in text.split(","))}
    if unknown := found.keys() - rates.measures([]).keys():
        raise argparse.ArgumentTypeError(f"no such rate: {', '.join(sorted(unknown))}")
    return found


def read(paths):
    """The lines of all files, once each, in an order of their own. Dropped ones may lack what their kind tells."""
    found = {json.dumps(line, sort_keys=True): line for path in paths for line in lines.read(path)}
    found = [line for _, line in sorted(found.items(), key=lambda row: (*map(str, lines.key(row[1])), row[0]))]
    controls = {(line["script"], line["kind"]) for line in found if line.get("is_control")}
    return [MISSING | {"is_control": (line["script"], line["kind"]) in controls} | line for line in found]


def renew(readme, sentence):
    """Writes the sentence between the marks, indented as they are."""
    text = readme.read_text(encoding="utf-8")
    if report.BEGIN not in text or report.END not in text:
        sys.exit(f"{readme} has no line `{report.BEGIN}` with `{report.END}` below it")
    head, rest = text.split(report.BEGIN, 1)
    indent = " " * (len(head) - head.rfind("\n") - 1)
    inside = f"{report.BEGIN}\n{report.filled(sentence, 118, indent)}\n{indent}{report.END}"
    readme.write_text(head + inside + rest.split(report.END, 1)[1], encoding="utf-8")


def write(args, found):
    renew(args.readme, report.sentence(found))
    args.figure.write_text(figure.draw(report.figure_groups(found)), encoding="utf-8")
    link = os.path.relpath(args.figure, args.write.parent)
    args.write.write_text(report.page(found, args.date, args.commit, link), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="+", type=pathlib.Path)
    parser.add_argument("--bounds", type=bounds, default={})
    parser.add_argument("--write", type=pathlib.Path, help="the page")
    parser.add_argument("--figure", type=pathlib.Path, default=ROOT / "data/images/accuracy.svg")
    parser.add_argument("--readme", type=pathlib.Path, default=ROOT / "README.md")
    parser.add_argument("--date", help="of the runs")
    parser.add_argument("--commit", help="of the program")
    args = parser.parse_args()
    if args.write and not (args.date and args.commit):
        parser.error("--write needs --date and --commit")
    if missing := [str(path) for path in args.lines if not path.exists()]:
        parser.error(f"no such file: {', '.join(missing)}")
    found = read(args.lines)
    if not found:
        sys.exit("no lines")
    lines.show(found)
    measured = rates.measures(found)
    for name, (part, whole) in measured.items():
        print(f"{name:20}{rates.percent(part, whole):>12}{part:12} of {whole}")
    if args.write:
        write(args, found)
    missed = list(rates.held(measured, args.bounds))
    print("\n".join(missed), file=sys.stderr, end="\n" * bool(missed))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
