"""What a recording of one rank holds, whatever the format of its file.

A format is a module with `read(path) -> Recording`. Its recordings have a `write(path)` that writes the events as they
are now: times and names may have changed, events may be missing, and new ones may be there, made by `Event.like`.
"""

import dataclasses
import re

# What runs on a device; `device_range` is a range of the host that is drawn on the device.
DEVICE = {"kernel", "copy", "set"}
# On the host: an operator, a range that somebody marked, a function of Python, a call of CUDA or HIP.
HOST = {"operator", "range", "python", "runtime"}
STEP = re.compile(r"^(?:ProfilerStep#|step[ _#]?)(\d+)$")
COLLECTIVE = re.compile(r"nccl|rccl", re.IGNORECASE)
# Calls that return when the device is done.
WAITS = re.compile(r"(Synchronize|Memcpy|WaitEvent)", re.IGNORECASE)


@dataclasses.dataclass(slots=True)
class Call:
    """What is recorded of a collective or a message beside its kernel; empty where nothing is."""

    group: str = ""
    members: str = ""
    kind: str = ""
    source: int | None = None
    target: int | None = None
    seq: int | None = None


@dataclasses.dataclass(slots=True)
class Event:
    """A stretch of time, or (`end` equals `start`) a moment; ns."""

    start: int
    end: int
    # One of DEVICE, HOST, `device_range`, or `other`: times of the host that mean nothing to the scoreboard.
    kind: str
    name: str
    # A thread of the host, or (device, stream).
    lane: tuple
    # What a call of the host and the activity that it launched have in common.
    link: int | None = None
    call: Call | None = None
    # What the format keeps: its row, packet or document.
    of: object = None
    # By how much more bytes a copy moves than is recorded of it.
    scale: float = 1.0
    # The event that this one was made from; a new event has no `of` of its own.
    template: "Event | None" = None

    def like(self, **changed):
        """A new event of the same format with other times, name or link."""
        return dataclasses.replace(self, template=self.template or self, of=None, **changed)

    def is_collective(self):
        return self.kind == "kernel" and (self.call is not None or bool(COLLECTIVE.search(self.name)))

    def copy(self):
        return dataclasses.replace(self)


class Recording:
    """A rank's events, in the order of their start. A subclass is a format."""

    format = ""

    def __init__(self, name, events, rank=None):
        self.name, self.events, self.rank = name, list(events), rank
        self.sort()

    def copy(self):
        """The same with events that may be changed."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.events = [e.copy() for e in self.events]
        return new

    def sort(self):
        """Brings the events back into their order, after times have changed or events have come."""
        self.events.sort(key=lambda e: (e.start, -e.end))

    def write(self, path):
        raise NotImplementedError

    def of_kind(self, *kinds):
        return [e for e in self.events if e.kind in kinds]

    def launches(self):
        """Calls of the host by what they have in common with the activity that they launched."""
        return {e.link: e for e in self.of_kind("runtime") if e.link is not None}

    def free_link(self):
        """A link that nothing has; those above it are free, too."""
        return max((e.link for e in self.events if isinstance(e.link, int)), default=0) + 1

    def steps(self):
        """Marked steps of the thread that has most of them."""
        of_lane = {}
        for e in self.events:
            if e.kind == "range" and STEP.match(e.name):
                of_lane.setdefault(e.lane, []).append(e)
        return max(of_lane.values(), key=len, default=[])

    def main_thread(self):
        """The thread of the steps, else the one that has most events of the host."""
        steps = self.steps()
        if steps:
            return steps[0].lane
        counts = {}
        for e in self.events:
            if e.kind in HOST:
                counts[e.lane] = counts.get(e.lane, 0) + 1
        return max(counts, key=lambda lane: (counts[lane], str(lane)), default=None)
