"""What a change does to everything that comes after it: a replay of recordings with longer kernels and pauses.

A kernel starts when its launch and what ran before it on its device allow it; a wait of the host ends when the device
is done; a collective ends when its last member has come. What happened without a reason that is known here keeps its
distance from what was before it. So time that is put in somewhere is carried on, or is swallowed by waiting and by idle
time, as on a machine.

What a recording does not hold is which kernels of another stream a kernel waited for. The replay is made twice: every
kernel after all that had ended before it began (`is_strict`), and only after those of its own stream and what it
surely waited for. If the two differ, the change has no known effect.
"""

import bisect

from .meetings import need
from .recording import DEVICE, WAITS

# A call that does not say so waits if it lasts so long and ends so soon after an activity, ns.
LONG_CALL, SOON = 20_000, 50_000
# A kernel that starts so soon after another thing has ended waited for it, ns.
AT_ONCE = 5_000
RECORD_END = "Record Window End"


class HostMap:
    """New times of a host: pauses put time in, waits that need less take it out again."""

    def __init__(self):
        self.at, self.after = [], []

    def shift(self, t):
        """By how much later what starts at `t` is."""
        i = bisect.bisect_right(self.at, t)
        return self.after[i - 1] if i else 0

    def put(self, t, shift):
        self.at.append(t)
        self.after.append(shift)

    def start(self, t):
        return t + self.shift(t)

    def end(self, t):
        i = bisect.bisect_left(self.at, t)
        return t + (self.after[i - 1] if i else 0)


class WaitingMap(HostMap):
    """The same where time inside of waits is stretched or compressed, so that nothing is out of order."""

    def __init__(self, host, waits):
        super().__init__()
        self.at, self.after = host.at, host.after
        self.waits = waits
        self.starts = [start for start, *_ in waits]

    def inside(self, t):
        i = bisect.bisect_left(self.starts, t) - 1
        if i >= 0:
            start, end, new_start, new_end = self.waits[i]
            if start < t < end:
                return new_start + (t - start) * (new_end - new_start) // (end - start)
        return None

    def start(self, t):
        inside = self.inside(t)
        return super().start(t) if inside is None else inside

    def end(self, t):
        inside = self.inside(t)
        return super().end(t) if inside is None else inside


class Rank:
    """A rank in the replay."""

    def __init__(self, recording, offset, pauses, longer):
        self.recording, self.offset, self.longer = recording, offset, longer
        self.device = [e for e in recording.events if e.kind in DEVICE]
        launches = recording.launches()
        self.launch = {id(e): launches.get(e.link) for e in self.device}
        delays = sorted(e.start - self.launch[id(e)].start for e in self.device if self.launch[id(e)])
        self.least = max(0, delays[len(delays) // 50]) if delays else 0
        ends = sorted(e.end for e in self.device)
        self.waits = []
        for e in recording.events:
            if e.kind != "runtime" or "StreamWaitEvent" in e.name:
                continue
            i = bisect.bisect_right(ends, e.end + 1_000) - 1
            last = ends[i] if i >= 0 else None
            is_soon = last is not None and e.end - last <= SOON and e.end - e.start >= LONG_CALL
            if last is not None and last > e.start and (WAITS.search(e.name) or is_soon):
                self.waits.append(e)
        # Waits inside of waits are one.
        kept, until = [], None
        for e in self.waits:
            if until is None or e.start >= until:
                kept.append(e)
                until = e.end
        self.waits = kept
        self.pauses = pauses
        self.host, self.new_waits = HostMap(), []
        self.new = {}
        # Newest ends on the device: of all, of each stream, the last that ended with its new end, and the last old end.
        self.front, self.stream, self.ended, self.last_end = None, {}, None, None

    def points(self):
        """(aligned time, order, rank's event) of all that the replay looks at."""
        out = [(t - self.offset, 0, "pause", (t, d)) for t, d in self.pauses]
        for e in self.waits:
            out.append((e.end - self.offset, 2, "wait", e))
        for e in self.device:
            out.append((e.start - self.offset, 3, "start", e))
            out.append((e.end - self.offset, 1 if e.end > e.start else 4, "end", e))
        return out

    def start(self, e, is_strict):
        at = e.start
        launch, limited = self.launch[id(e)], False
        if launch:
            slack = max(0, e.start - launch.start - self.least)
            at = max(at, e.start + self.host.shift(launch.start) - slack)
            limited = slack < AT_ONCE
        before = self.stream.get(e.lane)
        if before:
            # Kernels of a stream may overlap in a recording, by rounding or by programmatic launches.
            at = max(at, before[1] + min(0, e.start - before[0]))
            limited = limited or e.start - before[0] < AT_ONCE
        if self.front is not None and (is_strict or not limited):
            # Only what ended just before it is waited for, unless all is.
            new = self.front if is_strict else self.ended[1]
            at = max(at, new)
        self.new[id(e)] = [at, None]

    def end(self, e, new_end):
        self.new[id(e)][1] = new_end
        self.stream[e.lane] = (e.end, max(new_end, self.stream.get(e.lane, (0, new_end))[1]))
        self.front = new_end if self.front is None else max(self.front, new_end)
        self.ended = (e.end, new_end)
        self.last_end = e.end if self.last_end is None else max(self.last_end, e.end)

    def wait(self, e):
        """The host goes on when the device is done, and not before it has called."""
        called = self.host.shift(e.start) - max(0, e.end - e.start - 2_000)
        done = self.front - self.last_end if self.ended else 0
        shift = max(called, done, 0)
        now = self.host.shift(e.end)
        if shift != now:
            self.new_waits.append((e.start, e.end, self.host.start(e.start), e.end + shift))
            # The end of the call itself is later, too.
            self.host.put(e.end - 1, shift)

    def pause(self, t, d):
        self.host.put(t, self.host.shift(t) + d)


def run(ranks, meetings, slower, is_strict):
    """Replays; `slower`: by id of a meeting, how much longer its transfer takes."""
    points = sorted(((*p[:2], i, *p[2:]) for i, r in enumerate(ranks) for p in r.points()), key=lambda p: p[:3])
    for _, _, i, what, e in points:
        rank = ranks[i]
        if what == "pause":
            rank.pause(*e)
        elif what == "wait":
            rank.wait(e)
        elif what == "start":
            rank.start(e, is_strict)
        else:
            meeting = meetings.of.get(id(e))
            more = rank.longer.get(id(e), 0)
            start = rank.new[id(e)][0]
            if meeting is None:
                rank.end(e, start + (e.end - e.start) + more)
                continue
            # The members that had come before this one ended are those that it waited for.
            end = e.end - meetings.offsets[i]
            came = [(j, m) for j, m in meeting if m.start - meetings.offsets[j] <= end]
            need(all(id(m) in ranks[j].new for j, m in came), "members of a collective end before others begin")
            old = max(m.start - meetings.offsets[j] for j, m in came)
            new = max(ranks[j].new[id(m)][0] - meetings.offsets[j] for j, m in came)
            later = new - old + more + slower.get(id(meeting), 0)
            rank.end(e, max(e.end + later, start + min(1_000, e.end - e.start)))
    return ranks


def idle_between(spans):
    idle, until = 0, None
    for start, end in sorted(spans):
        idle += max(0, start - until) if until is not None else 0
        until = end if until is None else max(until, end)
    return idle


class Replay:
    """The replay of a change. `pauses`: by rank (time, length); `longer`: by rank {id(event): ns}; `slower`: by id of a
    meeting ns; they are times of the recordings as they are now."""

    def __init__(self, recordings, meetings, pauses=None, longer=None, slower=None):
        self.recordings = recordings
        self.made = []
        for is_strict in (True, False):
            ranks = [
                Rank(r, meetings.offsets[i], sorted((pauses or {}).get(i, [])), (longer or {}).get(i, {}))
                for i, r in enumerate(recordings)
            ]
            self.made.append(run(ranks, meetings, slower or {}, is_strict))
        self.effects = [self.effect_of(ranks) for ranks in self.made]

    @staticmethod
    def effect_of(ranks):
        """How much later the last activity of a device ends, of any rank. A host may end much earlier."""
        ends = [(max(new[1] for new in r.new.values()), max(e.end for e in r.device)) for r in ranks if r.device]
        return max((new - old for new, old in ends), default=0)

    def effect(self, wanted):
        """What the change costs of the job, ns; raises if that is not known."""
        strict, loose = self.effects
        need(abs(strict - loose) <= max(0.1 * strict, 20_000), "it is not known which kernels wait for which")
        need(strict >= wanted / 4, "hidden by waiting or by idle time")
        return strict

    def idle_growth(self, i):
        """How much longer the devices of a rank idle between its activities, ns."""
        rank = self.made[0][i]
        return idle_between(rank.new.values()) - idle_between((e.start, e.end) for e in rank.device)

    def apply(self):
        """Moves all events to their new times."""
        for rank in self.made[0]:
            host = WaitingMap(rank.host, rank.new_waits)
            lanes = {}
            for e in rank.device:
                lanes.setdefault(e.lane, []).append((e.start, e.end, *rank.new[id(e)]))
            for e in rank.recording.events:
                if e.kind in DEVICE:
                    e.start, e.end = rank.new[id(e)]
                elif e.kind == "device_range":
                    e.start, e.end = range_on_device(lanes.get(e.lane, []), e)
                elif e.end == e.start:
                    e.start = e.end = host.start(e.start)
                else:
                    new = host.start(e.start)
                    e.start, e.end = new, max(new, host.end(e.end))
            # What runs behind the end of the recording would not be in it.
            last = max((e.end for e in rank.device), default=0)
            for e in rank.recording.events:
                if e.name == RECORD_END:
                    e.start = e.end = max(e.start, last)
            rank.recording.sort()


def range_on_device(lane, e):
    """A range on a device keeps its distance from the activity at its start and at its end."""
    first_at = bisect.bisect_left(lane, e.start, key=lambda a: a[0])
    inside = [a for a in lane[first_at : bisect.bisect_right(lane, e.end, key=lambda a: a[0])] if a[1] <= e.end]
    if not inside:
        return e.start, e.end
    first, last = inside[0], max(inside, key=lambda a: a[1])
    return e.start + first[2] - first[0], e.end + last[3] - last[1]
