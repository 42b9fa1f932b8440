"""Counts, rates and their intervals, as the page, its figure and the bounds use them.

A run counts unless it was dropped. A change *can be told* in a run that counts and of which `hta` does not say that it
cannot tell. All rates are pairs (part, whole).
"""

import collections
import math
import statistics

from .kinds import ADDED

# What a bound may be set for. Rates of these are at most their bound, all others at least.
AT_MOST = {"sure", "cannot_tell"}


class Tally:
    def __init__(self, lines):
        self.lines = lines
        self.counts = collections.Counter(line["outcome"] for line in lines)
        self.runs = len(lines) - self.counts["dropped"]
        self.told = self.runs - self.counts["cannot_tell"]

    def right(self):
        return self.counts["right"], self.told

    def silent(self):
        """Of controls; who says that the recording cannot tell blames nothing."""
        return self.counts["right"] + self.counts["cannot_tell"], self.runs

    def gains(self):
        """The told gain as a multiple of the true one, where the answer is right and sure."""
        known = [line for line in self.lines if line["outcome"] == "right" and line["certainty"] == "sure"]
        return sorted(line["gain_ns"] / line["effect_ns"] for line in known if line["effect_ns"] and line["gain_ns"])


def parted(lines):
    """The lines of changes, and those of controls."""
    return [line for line in lines if not line["is_control"]], [line for line in lines if line["is_control"]]


def measures(lines):
    """The rates that bounds are set for, by name."""
    all_changes, controls = parted(lines)
    changes = Tally([line for line in all_changes if line["kind"] not in ADDED])
    added = Tally([line for line in all_changes if line["kind"] in ADDED])
    controls, of = Tally(controls), changes.counts
    by_cause = sum(line["outcome"] == "right" and line["certainty"] != "account" for line in changes.lines)
    return {
        "right": changes.right(),
        "by_cause": (by_cause, changes.told),
        "added": added.right(),
        "right_or_set": (of["right"] + of["set"], changes.told),
        "right_of_all": (of["right"], changes.runs),
        "cannot_tell": (of["cannot_tell"], changes.runs),
        "sure": (
            of["sure"] + added.counts["sure"] + controls.counts["sure"], changes.runs + added.runs + controls.runs,
        ),
        "silent": controls.silent(),
    }


def held(rates, bounds):
    """A sentence for each bound that does not hold; a rate of no runs holds none."""
    for name, bound in bounds.items():
        part, whole = rates[name]
        value = 100 * part / whole if whole else math.nan
        if not (value <= bound if name in AT_MOST else value >= bound):
            side = "at most" if name in AT_MOST else "at least"
            yield f"{name}: {percent(part, whole)}, {side} {bound:g} % is asked for ({part} of {whole} runs)"


def percent(part, whole):
    return f"{number(100 * part / whole)} %" if whole else "no runs"


def number(value):
    """One decimal; two near 0 and 100, so that few exceptions are not rounded away."""
    if round(value, 6) in (0, 100):
        return f"{value:.0f}"
    return f"{value:.{1 if 1 <= value < 99.95 else 2}f}"


def wilson(part, whole):
    """The 95 % interval of a rate by Wilson, percent."""
    z = 1.959964
    share, square = part / whole, z * z / whole
    middle = share + square / 2
    half = z * math.sqrt(share * (1 - share) / whole + square / whole / 4)
    return tuple(100 * min(1, max(0, (middle + way * half) / (1 + square))) for way in (-1, 1))


def with_interval(part, whole):
    if whole == 0:
        return ""
    low, high = wilson(part, whole)
    return f"{percent(part, whole)} ({number(low)} to {number(high)})"


def spread(values):
    """The median and the 10th and 90th percentile."""
    if not values:
        return ""
    if len(values) < 3:
        return ", ".join(f"{v:.2f}" for v in values)
    tenths = statistics.quantiles(values, n=10, method="inclusive")
    return f"{statistics.median(values):.2f} ({tenths[0]:.2f} to {tenths[-1]:.2f})"
