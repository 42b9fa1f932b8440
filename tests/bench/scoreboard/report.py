"""The page: what was done, the tables of rates, the failures by name. Its words stand in `page.md` beside this file."""

import collections
import pathlib
import re
import string
import textwrap

from . import kinds, rates
from .figure import WORDS
from .lines import OUTCOMES
from .rates import Tally, parted, percent, spread, with_interval

HERE = pathlib.Path(__file__).resolve().parent
BEGIN = "<!-- accuracy: begin, written by tests/bench/accuracy.py -->"
END = "<!-- accuracy: end -->"

SIZES = [(5, "below 5 %"), (14, "5 to 14 %"), (30, "14 to 30 %"), (float("inf"), "30 % and more")]
LAYOUTS = r"single|serving|serve|FSDP|HSDP|DP|TP|PP|EP|CP"
PARTS = ["one", "some", "all", "rotating"]
GOALS = [
    ("right", "right where it can be told", "at least 95 %"),
    ("right_or_set", "right or a set, where it can be told", ""),
    ("by_cause", "right by a cause that is named, where it can be told", ""),
    ("added", "right where it can be told, of three kinds that a review added", ""),
    ("right_of_all", "right, of all changes", ""), ("cannot_tell", "cannot tell, of all changes", ""),
    ("sure", "wrong and sure, of all runs", "at most 0.2 %"), ("silent", "controls that are silent", "at least 99 %"),
]  # fmt: skip
# How many are written out.
SURE, FREQUENT, REASONS = 40, 12, 15


def script(line):
    return line["script"].removesuffix(".py")


def grouped(lines):
    """The kinds of each script, with their lines."""
    known = list(kinds.HEADINGS)
    of = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in lines:
        of[script(line)][line["kind"]].append(line)
    order = sorted(of, key=lambda name: (known.index(name) if name in known else len(known), name))
    return {name: dict(sorted(of[name].items())) for name in order}


def table(head, rows):
    rule = "|---|" + "---:|" * (len(head) - 1)
    rows = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])


def outcomes(head, groups, of_controls=False):
    """Counts and rates by group: names with their lines."""
    first = "silent" if of_controls else "right where it can be told"
    # A control is right or not.
    shown = [o for o in OUTCOMES[1:] if not of_controls or o not in ("set", "missed")]
    columns = [head, "runs", first, *(WORDS[o] for o in shown), *([] if of_controls else ["told gain"])]
    rows = []
    for name, lines in groups:
        tally = Tally(lines)
        rate = tally.silent() if of_controls else tally.right()
        cells = [name, tally.runs, with_interval(*rate), *(tally.counts[o] for o in shown)]
        rows.append(cells if of_controls else [*cells, spread(tally.gains())])
    return table(columns, rows)


def of_kinds(lines, of_controls=False):
    """A table for each script."""
    for name, parts in grouped(lines).items():
        named = [(": ".join(filter(None, [f"`{kind}`", kinds.words_of(name, kind)])), of) for kind, of in parts.items()]
        total = [("all", [line for of in parts.values() for line in of])] if len(named) > 1 else []
        yield f"### {kinds.HEADINGS.get(name, name)}" + (", controls" if of_controls else "")
        yield outcomes("what was changed", named + total, of_controls)


def size(line):
    pct = line["size_pct"]
    return next(name for most, name in SIZES if pct < most) if pct else None


def dimensions(line):
    """`DP`, `TP` ... of a layout, which may be a product."""
    return set(re.findall(LAYOUTS, line["layout"])) or {"not known"}


def by(head, lines, of, order=()):
    """A table by what `of` says of a line: a name, several, or none."""
    groups = collections.defaultdict(list)
    for line in lines:
        found = of(line) or ()
        for name in [found] if isinstance(found, str) else found:
            groups[name].append(line)
    order = list(order)
    names = sorted(groups, key=lambda name: (order.index(name) if name in order else len(order), name))
    return outcomes(head, [(name, groups[name]) for name in names if Tally(groups[name]).runs])


def summary(lines):
    found = rates.measures(lines)
    rows = [(words, with_interval(*found[of]), "{:,} of {:,}".format(*found[of]), goal) for of, words, goal in GOALS]
    return table(["", "rate", "runs", "goal"], [row for row in rows if row[1]])


def filled(text, width, indent=""):
    """Lines that do not part a number from its percent sign."""
    text = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent)
    return lines.replace("\N{NO-BREAK SPACE}", " ")


def sentence(lines):
    """What the README repeats."""
    found = rates.measures(lines)
    changes, controls = map(Tally, parted(lines))
    gains = spread(changes.gains())
    added = f" Of kinds that a review added it is {percent(*found['added'])}." if found["added"][1] else ""
    told = f" Right and sure answers tell {gains} times the true gain (median, 10th and 90th percentile)."
    return (
        f"In {found['right_of_all'][1]:,} runs with a change of known effect the right cause is told, with its ranks, in "
        f"{percent(*found['right'])} where it can be told; in {percent(*found['cannot_tell'])} the answer is that it "
        f"cannot.{added} {controls.runs:,} controls, which must not change the answer, are silent in "
        f"{percent(*found['silent'])}. Wrong and sure are {percent(*found['sure'])} of all ({found['sure'][0]:,} of "
        f"{found['sure'][1]:,})."
        + (told if gains else "")
    )


def formats(lines):
    rows = []
    for name in sorted({line["format"] for line in lines}):
        of = [line for line in lines if line["format"] == name]
        changes, controls = parted(of)
        sets = len({(script(line), line["set"]) for line in of})
        dropped = Tally(of).counts["dropped"]
        rows.append([name, sets, Tally(changes).runs, Tally(controls).runs, dropped])
    total = [sum(row[i] for row in rows) for i in range(1, 5)]
    return table(["format", "sets or layouts", "changes", "controls", "dropped"], [*rows, ["all", *total]])


def dropped(lines):
    reasons = [line["why"].split(":")[0] for line in lines if line["outcome"] == "dropped"]
    of = collections.Counter(re.sub(r"\d[\d.]*", "...", why) or "no reason is given" for why in reasons)
    if not of:
        return "None."
    rows = sorted(of.items(), key=lambda row: (-row[1], row[0]))
    more = sum(count for _, count in rows[REASONS:])
    rows = rows[:REASONS] + ([("other reasons", more)] if more else [])
    return "These runs are in no rate.\n\n" + table(["why", "runs"], rows)


def public(command):
    """The command without the folders of the machine that ran it."""
    command = command.replace(" HTA ", " target/release/hta ")
    command = re.sub(r"(?<!\S)/\S*/shared/", "../shared/", command.replace(f"{HERE.parents[2]}/", ""))
    return re.sub(r"(?<!\S)/\S*/hta\w*(?!\S)", "target/release/hta", command)


def ms(ns):
    return f"{ns / 1e6:.2f} ms"


def in_words(why):
    """What a line says beside what was told, as far as that does not say it."""
    if why == "another answer":
        return "without the change this is not told, or with another gain"
    causes = re.search(r"causes: (.*)\]$", why)
    return f"all causes: {causes[1]}" if causes else "" if re.fullmatch(r"\w+ of ranks [\d,]*", why) else why


def failure(line):
    """What was changed, what was told instead, and the command, as a block of code, in which no sign has a meaning."""
    ranks = sorted(line["ranks"])
    shown = ", ".join(map(str, ranks[:8])) + (" ..." if len(ranks) > 8 else "")
    changed = [f"rank{'s' * (len(ranks) > 1)} {shown}"] if ranks else []
    changed += [f"{ms(line['effect_ns'])} of the job"] if line["effect_ns"] else []
    aside = ", ".join(filter(None, [line["certainty"], ms(line["gain_ns"]) if line["gain_ns"] else ""]))
    told = line["told"] + (f" ({aside})" if aside else "") if line["told"] else "nothing"
    parts = {"changed": ", ".join(changed), "told": told, "aside": in_words(line["why"])}
    of = {"width": 114, "subsequent_indent": " " * 13, "break_long_words": False, "break_on_hyphens": False}
    parts = [
        textwrap.fill(" ".join(words.split()), initial_indent=f"    {name:<9}", **of)
        for name, words in parts.items() if words
    ]  # fmt: skip
    return "\n".join([*parts, f"    repeat   {public(line['command'])}"])


def sure(lines):
    of = [line for line in lines if line["outcome"] == "sure"]
    if not of:
        return "None."
    parts = [f"`{line['kind']}` in {line['set']}, seed {line['seed']}:\n\n{failure(line)}" for line in of[:SURE]]
    return "\n\n".join(parts + ([f"And {len(of) - SURE} more."] if len(of) > SURE else []))


def frequent(lines):
    of = collections.defaultdict(list)
    for line in lines:
        if line["outcome"] in ("wrong", "missed"):
            of[script(line), line["kind"], line["outcome"]].append(line)
    if not of:
        return "None."
    ranked = sorted(of.items(), key=lambda row: (-len(row[1]), row[0]))
    parts = []
    for (name, kind, outcome), found in ranked[:FREQUENT]:
        runs = Tally([line for line in lines if script(line) == name and line["kind"] == kind]).runs
        head = f"`{kind}`, {outcome} in {len(found)} of {runs} runs, as in {found[0]['set']}, seed {found[0]['seed']}:"
        parts.append(f"{head}\n\n{failure(found[0])}")
    more = sum(len(found) for _, found in ranked[FREQUENT:])
    return "\n\n".join(parts + ([f"And {more} runs of {len(ranked) - FREQUENT} rarer kinds."] if more else []))


def figure_groups(lines):
    """The bars of the figure: the changes of each script, then the controls."""
    for of, aside in zip(parted(lines), ("", ", controls")):
        for name, parts in grouped(of).items():
            yield kinds.HEADINGS.get(name, name) + aside, [(kind.replace("_", " "), of) for kind, of in parts.items()]


def page(lines, date, commit, figure):
    changes, controls = parted(lines)
    one = next((line for line in lines if line["outcome"] != "dropped" and script(line) == "injected"), lines[0])
    right = [line for line in changes if line["outcome"] == "right"]
    placed = [line for line in right if line["place"]]
    parts = {
        "changes": f"{Tally(changes).runs:,}", "controls": f"{Tally(controls).runs:,}", "date": date, "commit": commit,
        "begin": BEGIN, "end": END, "sentence": filled(sentence(lines), 118), "summary": summary(lines),
        "figure": figure, "formats": formats(lines), "kinds": "\n\n".join(of_kinds(changes)),
        "sizes": by("size", changes, size, [name for _, name in SIZES]),
        "on": by("ranks", changes, lambda line: line["on"], PARTS),
        "in_steps": by("steps", changes, lambda line: line["in_steps"], PARTS),
        "seeds": by("seed", [line for line in changes if script(line) == "injected"], lambda line: str(line["seed"])),
        "layouts": by("layout", changes, dimensions), "by_format": by("format", changes, lambda line: line["format"]),
        "control_kinds": "\n\n".join(of_kinds(controls, True)), "dropped": dropped(lines), "sure": sure(lines),
        "frequent": frequent(lines), "one": public(one["command"]),
        "first": percent(sum(line["place"] == 1 for line in placed), len(placed)), "tried": f"{len(lines):,}",
        "left_out": percent(Tally(lines).counts["dropped"], len(lines)),
        "account": percent(sum(line["certainty"] == "account" for line in right), len(right)),
    }  # fmt: skip
    return string.Template((HERE / "page.md").read_text(encoding="utf-8")).substitute(parts)
