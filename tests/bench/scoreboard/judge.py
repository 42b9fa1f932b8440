"""What `hta` says of a recording, and how right that is for a change of known effect."""

import collections
import dataclasses
import pathlib
import re
import subprocess
import tempfile

from .lines import ranks_of, table

LIMIT_S = 120
# A cause is told if it grew by so much of the effect.
GROWN = 1 / 3
# The account of time has longer work if it has so much of the effect.
ACCOUNTED = 0.7
HOST = {
    "host_sync", "host_python", "host_dispatch", "host_pause", "host_lock", "host_alloc", "host_compile",
    "host_callback", "graph_launch", "graph_preparation", "data_loader", "iteration_gap", "straggler", "imbalance",
    "step_outlier", "set_up", "warm_up", "cold_start", "copy_sync", "pipeline_bubble",
}  # fmt: skip
WORK = {"straggler", "imbalance", "step_outlier", "throttled", "contention", "pipeline_bubble", "cold_start", "warm_up"}
# Of ranks that make others wait.
LATE = {"straggler", "expert_imbalance", "throttled"}
# What is told where something cannot be told.
SAYS_LESS = {"not_explained", "comm_unmatched", "input_incomplete"}
EXPECTED = {
    "host": HOST,
    "gap": HOST | {"input_incomplete"},
    "late": HOST,
    "rotating": HOST,
    "work": WORK,
    "copy": {"copy_exposed", "copy_pageable", "copy_sync", "copy_small"} | WORK,
    "link": {"link_slow", "transfer_bandwidth", "transfer_bare", "transfer_queued", "step_outlier"},
}


@dataclasses.dataclass
class Answer:
    """The tables of a run; `words`: what was printed, or the message of the error."""

    code: int
    findings: list
    account: dict
    trust: list
    words: str

    @classmethod
    def of(cls, hta, folder):
        with tempfile.TemporaryDirectory() as out:
            results = f"{out}/r"
            run = [hta, "analyze", folder, "--no-html", "--no-events", "--threads", "1", "--out", results]
            try:
                done = subprocess.run(run, capture_output=True, text=True, timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                return cls(124, [], {}, [], "it did not end in time")
            if not pathlib.Path(results).is_dir():
                return cls(done.returncode, [], {}, [], done.stderr)
            account = collections.Counter()
            for row in table(hta, results, "time_account"):
                account[int(row["rank"]), row["part"], row["finding_id"] or row["cause"]] += int(row["time_ns"])
            found = table(hta, results, "findings")
            return cls(done.returncode, found, account, table(hta, results, "trust"), done.stdout)

    def gains(self):
        return {f["finding_id"]: gain_of(f) for f in self.findings}

    def owned(self):
        return {f["finding_id"]: int(f["owned_ns"] or 0) for f in self.findings}

    def ranks(self):
        return {rank for rank, _, _ in self.account}

    def part(self, part, ranks=None):
        """Time of a part of all ranks, or of some, ns."""
        return sum(t for (rank, p, _), t in self.account.items() if p == part and (ranks is None or rank in ranks))


@dataclasses.dataclass
class Judgement:
    outcome: str
    told: str = ""
    gain: int = 0
    certainty: str = ""
    why: str = ""
    # Where it stands in what is told, from 1.
    place: int = 0


def gain_of(finding):
    """What it saves; a bound says what it saves at most, which grows with what else there is."""
    return 0 if finding["basis"] == "bound" else int(finding["recoverable_ns"] or 0)


def said(finding):
    return f'{finding["sentence"]}. {finding["detail"]}' if finding["detail"] else finding["sentence"]


def all_of(finding):
    return " ".join(finding[c] for c in ("kind", "key", "sentence", "detail", "place", "action"))


def names(change, finding):
    """Whether the finding names one of the words; names are cut on screens."""
    text = all_of(finding)
    return not change.words or any(short(word) in text for word in change.words)


def short(name):
    """The part of a name that stays when it is cut: without its path, arguments and template."""
    name = name.split("(")[0] if not name.startswith("(") else name
    return name.rsplit("/", 1)[-1].removeprefix("void ").split("<")[0][:24] or name[:24]


def judged(before, after, change):
    if change.expect in ("same", "weaker"):
        return unchanged(before, after, change)
    if change.expect == "blind":
        return not_blamed(after, change)
    if after.code not in (0, 1) or not after.account:
        return Judgement("missed", after.words[:200], why="refused")
    return of_effect(before, after, change)


def of_effect(before, after, change):
    gains, owned, count = before.gains(), before.owned(), max(1, len(after.ranks()))
    need = change.effect * GROWN

    def grown(f):
        gain = gain_of(f) - gains.get(f["finding_id"], 0)
        had = owned.get(f["finding_id"], 0)
        if f["kind"] == "pipeline_bubble":
            # The schedule has a price in proportion to the work: only what is beyond that has grown.
            had = had * sum(after.account.values()) // max(1, sum(before.account.values()))
        time = (int(f["owned_ns"] or 0) - had) // count
        return max(gain, time), gain

    told = [f for f in after.findings if f["kind"] not in SAYS_LESS and f["certainty"] != "withheld"]
    told.sort(key=lambda f: grown(f)[0], reverse=True)
    unknown = [f for f in after.findings if f["kind"] in SAYS_LESS or f["certainty"] == "withheld"]
    is_unknown = any(grown(f)[0] >= need / 2 for f in unknown) or more_doubts(before, after)
    is_unknown = is_unknown or "not enough for a diagnosis" in after.words
    if not told or grown(told[0])[0] < need:
        if count_of_work(before, after, change):
            return Judgement("right", "(in the account of time)", change.effect, "account")
        words = said(told[0]) if told else after.words[:200]
        return Judgement("cannot_tell" if is_unknown else "missed", words)
    # A cause that grew as much and names what was changed is as good as the largest.
    had = set().union(*(stages_of(f["sentence"]) for f in before.findings if f["kind"] == "pipeline_bubble"))
    late = set().union(*(ranks_of(f) for f in before.findings if f["kind"] in LATE and len(ranks_of(f)) < count))
    best = max(told, key=lambda f: (grown(f)[0] >= 0.5 * grown(told[0])[0], fits(change, f, had, late), grown(f)[0]))
    of = Judgement("", said(best), grown(best)[1], best["certainty"], place=int(best["position"]))
    of.outcome = {3: "right", 2: "set", 1: "set"}.get(fits(change, best, had, late))
    is_all = change.on == "all" and max(grown(f)[0] for f in told) < ACCOUNTED * change.effect
    if of.outcome != "right" and (count == 1 or is_all) and count_of_work(before, after, change):
        # No rank has more than another, so no rule can blame one; causes that were there grow with the work.
        return Judgement("right", "(in the account of time)", change.effect, "account")
    if not of.outcome:
        of.outcome = "cannot_tell" if is_unknown else "sure" if best["certainty"] == "sure" else "wrong"
        of.why = f'{best["kind"]} of ranks {best["ranks"]}'
    return of


def fits(change, finding, had=frozenset(), late=frozenset()):
    """3: kind, ranks and name; 2: kind and ranks, or kind, name and more ranks; 1: more ranks; 0: another cause. `had`:
    stages, `late`: ranks that were named without the change, and may be named with it. Ranks whose change is hidden need
    not be named."""
    if finding["kind"] not in EXPECTED[change.expect] and not (change.words and names(change, finding)):
        return 0
    ranks, own = ranks_of(finding), set(change.ranks)
    is_named = names(change, finding)
    if finding["kind"] == "pipeline_bubble" and f"{len(ranks)} stages" in finding["sentence"]:
        # One rank a stage: it names the stages, or the ranks of a link.
        return 3 if own <= stages_of(finding["sentence"]) <= own | had else 1
    more = numbers_in(r"(?:most on|Behind it) ranks?", finding["detail"])
    if own and own in (more, ranks | more):
        # It says of which of its ranks it has more, or who is late behind its own.
        ranks = own
    if ranks and own - set(change.hidden) <= ranks <= own or change.on == "all" and (not ranks or ranks == own):
        return 3 if is_named else 2
    if finding["kind"] in LATE and own and own <= ranks <= own | late:
        return 3 if is_named else 2
    if change.on == "rotating":
        return 3 if "another rank" in all_of(finding) else 1 if ranks & own else 0
    if change.on in ("some", "all") and ranks and ranks < own:
        return 2 if is_named else 1
    return (2 if is_named else 1) if ranks > own else 0


def numbers_in(words, text):
    """The numbers listed behind words, such as 0, 2-4."""
    named = set()
    for numbers in re.findall(rf"\b{words} ((?:\d+(?:-\d+)?(?:, )?)+)", text):
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", numbers):
            named |= set(range(int(first), int(last or first) + 1))
    return named


def stages_of(sentence):
    """The stages, and the ranks of links, that a bubble names."""
    return numbers_in("(?:stages?|between ranks)", sentence)


def count_of_work(before, after, change):
    """Whether the account has the longer work where it is: in compute or copies of the changed ranks. What it costs the
    job is what the rank with most of it has more; in a pipeline the bubble grows in proportion, so that the effect is
    larger than what was added to each rank."""
    part = {"work": "compute", "copy": "copies"}.get(change.expect)
    more = [after.part(part, {rank}) - before.part(part, {rank}) for rank in change.ranks if part]
    return ACCOUNTED * min(change.effect, change.added or change.effect) <= max(more, default=-1)


def more_doubts(before, after):
    def doubts(of):
        return {(t["rank"], t["capability"], t["grade"]) for t in of.trust}

    return bool(doubts(after) - doubts(before))


def unchanged(before, after, change):
    """The answer must be the same, or (`weaker`) say less."""
    if after.code not in (0, 1) or not after.account:
        is_right = change.expect == "weaker" or change.kind == "double"
        return Judgement("right" if is_right else "wrong", after.words[:200], why="refused")
    step = max(1, sum(before.account.values()) // max(1, len(before.ranks())))
    worst = Judgement("right")
    for f in after.findings:
        if f["kind"] in SAYS_LESS or f["certainty"] == "withheld":
            continue
        # A rank that is left out is missing in what is told of the others, too.
        same = [g for g in before.findings if g["kind"] == f["kind"] and may_be(g, f, change)]
        now = int(f["recoverable_ns"] or 0)
        # Of several causes of a kind, that which is most like it.
        was = min((int(g["recoverable_ns"] or 0) for g in same), key=lambda gain: abs(now - gain), default=0)
        if change.expect == "same":
            is_other = abs(now - was) > 0.02 * step
        else:
            is_other = now - was > 0.02 * step + 0.1 * was
        if is_other:
            is_sure = f["certainty"] == "sure" and not (change.expect == "weaker" and more_doubts(before, after))
            # A bound says what is known at most, which is less where something is missing or off.
            is_bound = change.expect == "weaker" and f["certainty"] == "at most"
            outcome = "sure" if is_sure else "cannot_tell" if is_bound else "wrong"
            if outcome == "cannot_tell" and worst.outcome == "wrong":
                continue
            worst = Judgement(outcome, said(f), now - was, f["certainty"], "another answer")
            if is_sure:
                return worst
    if change.expect == "weaker" and worst.outcome == "wrong" and more_doubts(before, after):
        return Judgement("cannot_tell", worst.told, worst.gain, worst.certainty, worst.why)
    return worst


def may_be(before, after, change):
    was = {change.renumbered.get(r, r) for r in ranks_of(before)} - {-1}
    now = ranks_of(after)
    return was == now or change.expect == "weaker" and now and now <= was and was - now <= set(change.ranks)


def not_blamed(after, change):
    """A kernel that may be a wait is no slow kernel."""
    for f in after.findings:
        names_it = change.words[0] in all_of(f)
        if names_it and f["kind"] in ("straggler", "imbalance", "kernel_small", "kernel_attention", "throttled"):
            return Judgement("sure" if f["certainty"] == "sure" else "wrong", said(f), 0, f["certainty"], f["kind"])
    return Judgement("right")
