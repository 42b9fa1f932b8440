"""The kinds of change: each takes recordings apart, changes one thing and says what that is."""

import bisect
import collections
import dataclasses
import functools

from .meetings import Meetings, Unknown, need
from .recording import DEVICE, STEP
from .replay import Replay

SIZES = [3, 8, 20, 40]
# Without marked steps a recording is taken as so many pieces.
PIECES = 8
# A rank whose device idles by less than this share of its pauses for longer need not be named, nor one whose longer work
# alone costs the job less than this share of it, because another rank was later before.
LEAST_SHARE = 0.05
# Most ranks for which that is replayed.
REPLAYED = 8
# Places of a pause are stretches of the host of this length and more, ns.
LEAST_PLACE = 1_000


@dataclasses.dataclass
class Change:
    """What was changed. `words`: one of them stands in what is told; `expect`: what has to be told, see `judge`."""

    kind: str
    expect: str
    ranks: list
    words: list = dataclasses.field(default_factory=list)
    steps: list = dataclasses.field(default_factory=list)
    size_pct: int | None = None
    on: str = ""
    in_steps: str = ""
    effect: int = 0
    # Ranks whose pauses are hidden while their devices work or wait, and whose longer work is hidden behind a rank that was
    # later before: they cost nothing, and need not be named.
    hidden: list = dataclasses.field(default_factory=list)
    # What was added to each changed rank.
    added: int = 0
    # Rank index: the share of its file after which it ends.
    cut: dict = dataclasses.field(default_factory=dict)
    # New number of each old rank.
    renumbered: dict = dataclasses.field(default_factory=dict)


class Set:
    """The recordings of a job, and what is drawn for a change."""

    def __init__(self, recordings, rng):
        self.recordings, self.rng = [r.copy() for r in recordings], rng
        # Exports of Nsight Systems name no rank: they are numbered in their order.
        is_named = all(r.rank is not None and r.format != "nsys" for r in recordings)
        self.numbers = [r.rank if is_named else i for i, r in enumerate(recordings)]
        self.count = len(recordings)

    def windows(self, i):
        """(start, end, label) of the steps of a rank, or pieces of its time on the device."""
        steps = self.recordings[i].steps()
        if len(steps) > 2:
            return [(e.start, e.end, STEP.match(e.name)[1]) for e in steps]
        device = self.recordings[i].of_kind(*DEVICE)
        need(device, "nothing runs on a device")
        start, end = device[0].start, max(e.end for e in device)
        edges = [start + (end - start) * k // PIECES for k in range(PIECES + 1)]
        return [(a, b, "") for a, b in zip(edges, edges[1:])]

    def draw(self, change, everywhere=False):
        """Draws size, ranks and steps; returns the indices of ranks, of steps, and the size, ns."""
        rng = self.rng
        change.size_pct = rng.choice(SIZES)
        ways = ["one"] if self.count == 1 else ["one", "one", "some", "all"] if self.count > 3 else ["one", "one", "all"]
        change.on = "all" if everywhere else rng.choice(ways)
        n = {"one": 1, "all": self.count}.get(change.on) or rng.randint(2, self.count // 2)
        chosen = sorted(rng.sample(range(self.count), n))
        if self.count == 1:
            change.on = "one"
        change.ranks = [self.numbers[i] for i in chosen]
        windows = self.windows(chosen[0])
        change.in_steps = rng.choice(["all", "all", "some", "one"])
        steps = list(range(len(windows)))
        if change.in_steps == "one":
            # The first step is often another one than the others.
            steps = [rng.choice(steps[1:] or steps)]
        elif change.in_steps == "some":
            every = rng.choice([2, 3])
            steps = steps[rng.randrange(every) :: every]
        change.steps = [windows[k][2] for k in steps if windows[k][2]]
        return chosen, steps, size_ns(change, windows)

    @functools.cached_property
    def meetings(self):
        """Where the ranks meet; raises `Unknown` if that is not understood."""
        return Meetings(self.recordings)

    def replay(self, change, wanted, **what):
        made = Replay(self.recordings, self.meetings, **what)
        change.effect, change.added = made.effect(wanted), wanted
        if list(what) == ["pauses"] and change.on in ("some", "all"):
            idle = {i: made.idle_growth(i) for i in what["pauses"]}
            paused = {i: sum(ns for _, ns in of) for i, of in what["pauses"].items()}
            change.hidden = [self.numbers[i] for i in idle if idle[i] < LEAST_SHARE * paused[i]]
        if "longer" in what and 1 < len(what["longer"]) <= REPLAYED:
            alone = {i: Replay(self.recordings, self.meetings, longer={i: of}) for i, of in what["longer"].items()}
            least = {i: LEAST_SHARE * sum(of.values()) for i, of in what["longer"].items()}
            change.hidden = [self.numbers[i] for i in alone if alone[i].effects[0] < least[i]]
        made.apply()
        return made


def size_ns(change, windows):
    """The size of a change in a step of the middle length, ns."""
    lengths = sorted(end - start for start, end, _ in windows)
    return change.size_pct * lengths[len(lengths) // 2] // 100


def segments(recording, lane):
    """(start, end, open events) of a thread, cut at the starts and ends of its events; the innermost is the last."""
    events = [e for e in recording.events if e.lane == lane and e.kind in ("operator", "range", "python", "runtime")]
    open_now, at = [], None
    for e in events:
        while open_now and open_now[-1].end <= e.start:
            last = open_now[-1]
            if last.end > at:
                yield at, last.end, tuple(open_now)
            at = max(at, last.end)
            open_now.pop()
        if at is not None and e.start > at:
            yield at, e.start, tuple(open_now)
        at = e.start if at is None else max(at, e.start)
        open_now.append(e)
    while open_now:
        if open_now[-1].end > at:
            yield at, open_now[-1].end, tuple(open_now)
        at = max(at, open_now[-1].end)
        open_now.pop()


def places(recording, windows, where):
    """By name and window: moments at which a pause can be put, with the names that own them."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    starts = [w[0] for w in windows]
    for a, b, stack in segments(recording, recording.main_thread()):
        if b - a < LEAST_PLACE:
            continue
        t = (a + b) // 2
        k = bisect.bisect_right(starts, t) - 1
        if k < 0 or t >= windows[k][1]:
            continue
        inner = [e for e in stack if not STEP.match(e.name)]
        owner = inner[-1] if inner else None
        if where == "operator" and owner is not None and owner.kind in ("operator", "python"):
            parents = [e.name for e in reversed(inner) if e.kind == "operator"][:1]
            functions = [e.name for e in reversed(inner) if e.kind == "python"][:1]
            found[owner.name][k].append((t, [owner.name, *parents, *functions]))
        elif where == "between" and owner is not None and owner.kind == "range":
            found[owner.name][k].append((t, [owner.name]))
        elif where == "nowhere" and owner is None:
            found[""][k].append((t, []))
    return found


def pause(job, change, where):
    change.expect = "host"
    chosen, steps, size = job.draw(change)
    name, pauses = None, {}
    for i in chosen:
        found = places(job.recordings[i], job.windows(i), where)
        if name is None:
            common = sorted(n for n, of in found.items() if all(of.get(k) for k in steps))
            need(common, "no place for a pause in all these steps")
            name = job.rng.choice(common)
        here = [(k, job.rng.choice(found[name][k])) for k in steps if found[name].get(k)]
        need(here, "no place for a pause in these steps")
        change.words = here[0][1][1] + (["data loader"] if "dataloader" in str(here[0][1][1]).lower() else [])
        pauses[i] = [(t, size) for _, (t, _) in here]
    job.replay(change, size * len(steps), pauses=pauses)


def pause_operator(job, change):
    pause(job, change, "operator")


def pause_between(job, change):
    pause(job, change, "between")


def pause_nowhere(job, change):
    pause(job, change, "nowhere")


LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def gap(job, change):
    """All ranks, or one, stand still between two steps; what they do there is recorded, or not."""
    change.expect = "gap"
    chosen, steps, size = job.draw(change, everywhere=job.rng.random() < 0.5)
    need(len(job.recordings[chosen[0]].steps()) > 2, "no marked steps")
    name = job.rng.choice([LOADER, "save_checkpoint", "evaluate", ""])
    pauses, made = {}, []
    for i in chosen:
        windows = job.windows(i)
        for k in steps:
            if k + 1 < len(windows):
                pauses.setdefault(i, []).append(((windows[k][1] + windows[k + 1][0] + 1) // 2, size))
    need(pauses, "no gap after these steps")
    change.words = [name, "data loader"] if name == LOADER else [name] if name else []
    replay = job.replay(change, size * len(pauses[chosen[0]]), pauses=pauses)
    for i in chosen if name else []:
        recording = job.recordings[i]
        template = recording.steps()[0]
        for t, d in pauses[i]:
            end = replay.made[0][i].host.start(t)
            made.append((recording, template.like(start=end - d + 1_000, end=end - 1_000, name=name)))
    add(made)


def add(made):
    for recording, event in made:
        recording.events.append(event)
    for recording in {id(r): r for r, _ in made}.values():
        recording.sort()


def late(job, change):
    """The host stands still before it calls the first collective of a step."""
    change.expect = "late"
    need(job.count > 1, "one rank")
    chosen, steps, size = job.draw(change)
    meetings, pauses = job.meetings, {}
    for i in chosen:
        recording = job.recordings[i]
        launches = recording.launches()
        windows = job.windows(i)
        met = [launches.get(e.link) for e in recording.events if id(e) in meetings.of]
        for k in steps:
            inside = [e.start for e in met if e and windows[k][0] < e.start < windows[k][1]]
            if inside:
                pauses.setdefault(i, []).append((min(inside) - 1, size))
    need(pauses, "no collectives in these steps")
    job.replay(change, size * len(steps), pauses=pauses)


def before_call(job, i, window):
    """A moment before a call in the first half of those of a step."""
    start, end, _ = window
    calls = [e.start for e in job.recordings[i].of_kind("runtime") if start < e.start < end]
    need(calls, "no calls in a step")
    return job.rng.choice(calls[: len(calls) // 2 + 1]) - 1


def rotate(job, change):
    """In each step another rank stands still, before it launches a kernel."""
    change.expect = "rotating"
    need(job.count > 3, "too few ranks")
    change.size_pct = job.rng.choice(SIZES)
    windows = [job.windows(i) for i in range(job.count)]
    need(len({len(w) for w in windows}) == 1 and len(windows[0]) > 3, "ranks have other steps")
    order = job.rng.sample(range(job.count), job.count)
    pauses, size = {}, change.size_pct * (windows[0][1][1] - windows[0][1][0]) // 100
    for k in range(len(windows[0])):
        i = order[k % job.count]
        pauses.setdefault(i, []).append((before_call(job, i, windows[i][k]), size))
    change.ranks, change.on, change.in_steps = [job.numbers[i] for i in sorted(pauses)], "rotating", "all"
    job.replay(change, size * len(windows[0]), pauses=pauses)


def in_turn(job, change):
    """Two ranks stand still in turn, before they launch a kernel; where there are such, two that meet in a small group."""
    change.expect, change.on, change.in_steps = "host", "some", "all"
    need(job.count > 3, "too few ranks")
    groups = {tuple(sorted(i for i, _ in meeting)) for meeting in job.meetings.all}
    small = sorted(g for g in groups if 1 < len(g) < job.count)
    chosen = sorted(job.rng.sample(job.rng.choice(small) if small else range(job.count), 2))
    windows = {i: job.windows(i) for i in chosen}
    need(len({len(w) for w in windows.values()}) == 1 and len(windows[chosen[0]]) > 3, "ranks have other steps")
    change.size_pct, change.ranks = job.rng.choice(SIZES), [job.numbers[i] for i in chosen]
    pauses, size = {}, size_ns(change, windows[chosen[0]])
    for k in range(len(windows[chosen[0]])):
        i = chosen[k % 2]
        pauses.setdefault(i, []).append((before_call(job, i, windows[i][k]), size))
    job.replay(change, size * len(windows[chosen[0]]), pauses=pauses)


def launch_calls(job, change):
    """Each call of the host that launches something takes longer, by the same time."""
    change.expect, change.words = "host", ["launch", "Launch"]
    chosen, steps, size = job.draw(change)
    pauses = {}
    for i in chosen:
        windows = job.windows(i)
        calls = [e.end for e in job.recordings[i].launches().values() if e.end - e.start > 1]
        for k in steps:
            inside = [t for t in calls if windows[k][0] < t < windows[k][1]]
            need(len(inside) > 9, "few launches in a step")
            pauses.setdefault(i, []).extend((t - 1, size // len(inside)) for t in inside)
    job.replay(change, size * len(steps), pauses=pauses)


def allocation(job, change):
    """A call of `cudaMalloc` before a launch, in each of the steps."""
    change.expect, change.words = "host", ["cudaMalloc", "allocation call"]
    chosen, steps, size = job.draw(change)
    pauses, before = {}, {}
    for i in chosen:
        windows = job.windows(i)
        calls = [e for e in job.recordings[i].launches().values() if e.kind == "runtime"]
        for k in steps:
            inside = [e for e in calls if windows[k][0] < e.start < windows[k][1]]
            need(inside, "no calls in a step")
            before[i, k] = job.rng.choice(inside)
            pauses.setdefault(i, []).append((before[i, k].start - 1, size))
    job.replay(change, size * len(steps), pauses=pauses)
    add([(job.recordings[i], e.like(start=e.start - size + 1, end=e.start - 1, name="cudaMalloc",
                                    link=job.recordings[i].free_link() + k)) for (i, k), e in before.items()])  # fmt: skip


def compute_in(job, i, steps):
    """Kernels of a rank in these steps that are no collectives."""
    windows = job.windows(i)
    found = [[] for _ in windows]
    starts = [w[0] for w in windows]
    for e in job.recordings[i].of_kind("kernel"):
        k = bisect.bisect_right(starts, e.start) - 1
        if k >= 0 and not e.is_collective() and (e.start < windows[k][1] or k + 1 == len(windows)):
            found[k].append(e)
    return {k: found[k] for k in steps}


def slower_kernels(job, change, of_name):
    change.expect = "work"
    chosen, steps, size = job.draw(change)
    name, longer = None, {}
    for i in chosen:
        found = compute_in(job, i, steps)
        if of_name and name is None:
            times = collections.Counter()
            for e in (e for of in found.values() for e in of):
                times[e.name] += e.end - e.start
            common = set.intersection(*({e.name for e in of} for of in found.values()))
            need(common, "no kernel runs in all these steps")
            # A kernel that takes ten times as long as before is another kernel.
            names = [n for n in sorted(common) if times[n] * 4 >= size * len(steps)] or [times.most_common(1)[0][0]]
            name = job.rng.choice(names)
            change.words = [name]
        for of in found.values():
            mine = [e for e in of if not of_name or e.name == name]
            each = sum(e.end - e.start for e in mine)
            for e in mine:
                longer.setdefault(i, {})[id(e)] = size * (e.end - e.start) // max(each, 1)
    need(longer, "no kernels in these steps")
    job.replay(change, size * len(steps), longer=longer)


def kernel(job, change):
    slower_kernels(job, change, True)


def device(job, change):
    slower_kernels(job, change, False)


def launched(job, i, chosen, length, kind="kernel"):
    """New activities behind others: `chosen` are (event, template, how many, length of each). Returns what the replay
    needs and a function that adds the events after it."""
    recording = job.recordings[i]
    launches = recording.launches()
    link = recording.free_link()
    pauses, longer, plan = [], {}, []
    for event, template, n in chosen:
        launch, made_by = launches.get(event.link), launches.get(template.link)
        need(launch and made_by, "a launch is not recorded")
        longer[id(event)] = longer.get(id(event), 0) + n * (length(template) + 1_000)
        pauses.append((launch.end, n * 3_000))
        plan.append((event, template, n, launch, made_by))

    def finish(host):
        nonlocal link
        made = []
        for event, template, n, launch, made_by in plan:
            end, called = event.end, launch.end
            event.end = end - n * (length(template) + 1_000)
            for k in range(n):
                start = event.end + k * (length(template) + 1_000) + 1_000
                scale = length(template) / max(1, template.end - template.start) if kind == "copy" else 1.0
                made.append((recording, template.like(
                    start=start, end=start + length(template), link=link, lane=event.lane, scale=scale,
                )))  # fmt: skip
                at = called + 500 + k * 3_000
                made.append((recording, made_by.like(start=at, end=at + 2_000, link=link, lane=launch.lane)))
                link += 1
        add(made)

    return pauses, longer, finish


def more_launches(job, change):
    """A kernel is launched several times where it was launched once."""
    change.expect = "work"
    chosen, steps, size = job.draw(change)
    pauses, longer, finish, name = {}, {}, [], None
    for i in chosen:
        found = compute_in(job, i, steps)
        if name is None:
            common = set.intersection(*({e.name for e in of} for of in found.values()))
            times = collections.Counter()
            for e in (e for of in found.values() for e in of if e.name in common):
                times[e.name] += e.end - e.start
            names = [n for n in sorted(times) if size * len(steps) / 8 <= times[n] <= 1.5 * size * len(steps)]
            need(names, "no kernel of that length")
            name = job.rng.choice(names)
            n = max(1, round(size * len(steps) / times[name]))
            change.words = [name]
        again = [(e, e, n) for of in found.values() for e in of if e.name == name]
        lengths = {id(e): e.end - e.start for e, _, _ in again}
        need(again, "the kernel does not run on this rank")
        pauses[i], longer[i], done = launched(job, i, again, lambda e, lengths=lengths: lengths[id(e)])
        finish.append((i, done))
    replay = job.replay(change, size * len(steps), pauses=pauses, longer=longer)
    for i, done in finish:
        done(replay.made[0][i].host)


def copy_exposed(job, change):
    """A copy runs before a kernel that waits for it."""
    change.expect = "copy"
    chosen, steps, size = job.draw(change)
    pauses, longer, finish, name = {}, {}, [], None
    for i in chosen:
        copies = [e for e in job.recordings[i].of_kind("copy") if e.link is not None and name in (None, e.name)]
        need(copies, "no copy to repeat")
        template = job.rng.choice(copies)
        name = template.name
        found = compute_in(job, i, steps)
        after = [(job.rng.choice(of), template, 1) for of in found.values() if of]
        need(after, "no kernels in these steps")
        pauses[i], longer[i], done = launched(job, i, after, lambda _: size, "copy")
        finish.append((i, done))
    replay = job.replay(change, size * len(steps), pauses=pauses, longer=longer)
    for i, done in finish:
        done(replay.made[0][i].host)


def copy_hidden(job, change):
    """A copy runs on a stream of its own beside kernels, and nothing waits for it."""
    change.expect = "same"
    chosen, steps, size = job.draw(change)
    made = []
    for i in chosen:
        recording = job.recordings[i]
        copies = [e for e in recording.of_kind("copy") if e.link is not None]
        launches = recording.launches()
        need(copies, "no copy to repeat")
        template = job.rng.choice(copies)
        need(template.link in launches, "a launch is not recorded")
        link = recording.free_link()
        for of in compute_in(job, i, steps).values():
            longest = max(of, key=lambda e: e.end - e.start, default=None)
            need(longest and launches.get(longest.link), "no kernels in these steps")
            length = min(size, (longest.end - longest.start) * 9 // 10)
            need(length > 2_000, "no kernel is long enough")
            lane = (*longest.lane[:2], 9_001)
            scale = length / max(1, template.end - template.start)
            start = longest.start + (longest.end - longest.start - length) // 2
            made.append((recording, template.like(start=start, end=start + length, link=link, lane=lane, scale=scale)))
            launch = launches[longest.link]
            at = launch.start + (launch.end - launch.start) // 2
            made.append((recording, launches[template.link].like(start=at, end=at, link=link, lane=launch.lane)))
            link += 1
    add(made)


def link(job, change):
    """The transfers of one group take longer."""
    change.expect = "link"
    need(job.count > 1, "one rank")
    meetings = job.meetings
    groups = collections.defaultdict(list)
    for meeting in meetings.all:
        groups[tuple(sorted(i for i, _ in meeting))].append(meeting)
    # Of a group one member may lack in some meetings.
    for few in sorted(groups, key=len):
        whole = next((g for g in sorted(groups) if len(g) == len(few) + 1 > 4 and set(few) < set(g)), None)
        if whole:
            groups[whole] += groups.pop(few)
    members = job.rng.choice(sorted(groups))
    change.size_pct = job.rng.choice(SIZES)
    change.ranks, change.on = [job.numbers[i] for i in members], "all" if len(members) == job.count else "some"
    windows = job.windows(members[0])
    total, met = size_ns(change, windows) * len(windows), groups[members]
    change.in_steps = "all"

    def transfer(meeting):
        last = max(e.start - meetings.offsets[i] for i, e in meeting)
        return max(1, min(e.end - meetings.offsets[i] for i, e in meeting) - last)

    whole = sum(transfer(m) for m in met)
    change.words = ["transfer", "link", "bandwidth"]
    slower = {id(m): total * transfer(m) // whole for m in met}
    job.replay(change, total, slower=slower)


def moved(job, change, of):
    """Moves the times of one rank: `of(event)` gives the function of a time."""
    i = job.rng.randrange(job.count)
    change.ranks, change.on = [job.numbers[i]], "one"
    for e in job.recordings[i].events:
        to = of(e)
        e.start, e.end = to(e.start), to(e.end)
    job.recordings[i].sort()


def clock_host(job, change):
    change.expect = "weaker"
    need(job.count > 1, "one rank")
    by = job.rng.choice([-1, 1]) * int(10 ** job.rng.uniform(4, 9))
    moved(job, change, lambda _: lambda t: t + by)


def is_on_device(e):
    return e.kind in DEVICE or e.kind == "device_range"


def clock_device(job, change):
    change.expect = "weaker"
    by = job.rng.choice([-1, 1]) * int(10 ** job.rng.uniform(4, 6.5))
    moved(job, change, lambda e: (lambda t: t + by) if is_on_device(e) else (lambda t: t))


def drift(job, change):
    change.expect = "weaker"
    first = min(e.start for r in job.recordings for e in r.events)
    ppm = job.rng.choice([-1, 1]) * job.rng.randint(20, 300)
    only = job.rng.random() < 0.5
    moved(job, change, lambda e: (lambda t: t + (t - first) * ppm // 10**6)
          if is_on_device(e) or not only else (lambda t: t))  # fmt: skip


def jitter(job, change):
    """The clock of a rank goes ahead and back by up to 50 us, from step to step."""
    change.expect = "weaker"
    need(job.count > 1, "one rank")
    i = job.rng.randrange(job.count)
    edges = [w[0] for w in job.windows(i)] + [job.windows(i)[-1][1]]
    at = [job.rng.randint(-50_000, 50_000) for _ in edges]

    def to(t):
        k = min(max(bisect.bisect_right(edges, t), 1), len(edges) - 1)
        a, b = edges[k - 1], edges[k]
        return t + at[k - 1] + (at[k] - at[k - 1]) * min(max(t - a, 0), b - a) // max(1, b - a)

    change.ranks, change.on = [job.numbers[i]], "one"
    for e in job.recordings[i].events:
        e.start, e.end = to(e.start), to(e.end)


def lose(job, change, is_lost):
    i = job.rng.randrange(job.count)
    change.ranks, change.on, change.expect = [job.numbers[i]], "one", "weaker"
    recording = job.recordings[i]
    lost = is_lost(recording)
    recording.events = [e for e in recording.events if not lost(e)]


def lose_stream(job, change):
    def of(recording):
        lanes = sorted({e.lane for e in recording.of_kind("kernel")}, key=str)
        need(len(lanes) > 1, "one stream")
        lane = job.rng.choice(lanes)
        return lambda e: e.kind in DEVICE and e.lane == lane

    lose(job, change, of)


def lose_share(job, change, kind, name, shares):
    def of(recording):
        need(recording.of_kind(kind), f"no {name}")
        share = job.rng.choice(shares)
        return lambda e: e.kind == kind and job.rng.random() < share

    lose(job, change, of)


def lose_launches(job, change):
    lose_share(job, change, "runtime", "launches", [0.1, 0.5, 1.0])


def lose_kernels(job, change):
    lose_share(job, change, "kernel", "kernels", [0.02, 0.1, 0.3])


def lose_rank(job, change):
    change.expect = "weaker"
    need(job.count > 2, "too few ranks")
    i = job.rng.randrange(job.count)
    change.ranks, change.on = [job.numbers[i]], "one"
    if job.recordings[i].format == "nsys":
        # What is numbered by its place moves up.
        change.renumbered = {k: k - 1 if k > i else -1 if k == i else k for k in range(job.count)}
    del job.recordings[i]


def cut(job, change):
    change.expect = "weaker"
    need(all(r.format == "kineto" for r in job.recordings), "a database does not end in its middle")
    i = job.rng.randrange(job.count)
    change.ranks, change.on, change.cut = [job.numbers[i]], "one", {i: job.rng.uniform(0.3, 0.95)}


def double(job, change):
    change.expect = "weaker"
    i = job.rng.randrange(job.count)
    need(job.recordings[i].format == "kineto", "rows of a database have numbers")
    change.ranks, change.on = [job.numbers[i]], "one"
    job.recordings[i].order = [e for e in job.recordings[i].events for _ in range(2)]


def rename(job, change):
    """Functions of the user get other names, and calls and activities other numbers, the same on all ranks."""
    change.expect = "same"
    for r in job.recordings:
        for e in r.events:
            if e.kind == "python" and "torch" not in e.name:
                e.name = e.name.replace("train", "learn").replace("model", "net")
            if isinstance(e.link, int) and e.link > 0:
                e.link += 1_000_000


def shift(job, change):
    change.expect = "same"
    by = job.rng.randrange(1, 10**9)
    for r in job.recordings:
        for e in r.events:
            e.start, e.end = e.start + by, e.end + by


def shuffle(job, change):
    change.expect = "same"
    need(all(r.format == "kineto" for r in job.recordings), "rows of a database have no order")
    for r in job.recordings:
        r.order = job.rng.sample(r.events, len(r.events))


def permute(job, change):
    """The ranks change their numbers."""
    change.expect = "same"
    need(job.count > 1 and all(r.format == "kineto" and r.rank is not None for r in job.recordings), "no numbers")
    # Arguments of operators name ranks, too.
    need(not any("gloo:" in e.name for r in job.recordings for e in r.events), "collectives run on the host")
    order = job.numbers[:]
    job.rng.shuffle(order)
    need(order != job.numbers, "one order only")
    change.renumbered = dict(zip(job.numbers, order))
    for r in job.recordings:
        r.renumber(change.renumbered)


def blind(job, change):
    """The kernels of collectives have a name that says nothing, and nothing is recorded of their calls."""
    change.expect = "blind"
    change.words, change.on = ["tile_scheduler_7"], "all"
    found = [e for r in job.recordings for e in r.events if e.is_collective()]
    need(len(found) > 2, "no collectives on the device")
    for e in found:
        e.name, e.call = "void tile_scheduler_7<128>(Params)", None


KINDS = {f.__name__: f for f in [
    pause_operator, pause_between, pause_nowhere, gap, late, rotate, in_turn, launch_calls, allocation, kernel, device,
    more_launches, copy_exposed, link,
    copy_hidden, clock_host, clock_device, drift, jitter, lose_stream, lose_launches, lose_kernels, lose_rank, cut,
    double, rename, shift, shuffle, permute, blind,
]}  # fmt: skip
__all__ = ["KINDS", "Change", "Set", "Unknown"]
