"""Perfetto protobuf, as torch.profiler and converters of its Chrome JSON write it.

torch writes groups of begins and then their ends in the same order; converters write begins and ends of each track in
order of time, nested. Packets stay where they are in files of torch; those of converters are sorted anew.
"""

import collections
import gzip
import heapq
import json
import re
import struct

from .kineto import KINDS, call_of
from .recording import Event, Recording

# Fields of packets, named as in Perfetto's definitions.
TIMESTAMP, SEQUENCE, SLICE, INTERNED, COUNTERS, STAGE, TRACK = 8, 10, 11, 12, 52, 53, 60
BEGIN, END = 1, 2
# Of a slice.
CATEGORY_IDS, ANNOTATION, TYPE, NAME_ID, UUID, CATEGORY, NAME = 3, 4, 9, 10, 11, 22, 23
# Of a device row.
DURATION, EXTRA, DEVICE, SPECIFICATION, KERNEL, STAGE_NAME = 2, 6, 11, 14, 19, 20
STAGES = {"Kernel": "kernel", "Memcpy": "copy", "Memset": "set", "Annotation": "device_range"}
# Names of interned texts, by their field; the text of a kernel is its field 3.
TEXTS = {1: 2, 2: 2, 24: 2, 1000: 3}
# Packets that a converter adds.
ADDED_SEQUENCE, ADDED_ROW = 2001, "transformer_nuggets"


def reads(path):
    return bool(re.search(r"\.(pftrace|perfetto-trace)(\.gz)?$", path.name))


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def number(value):
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes(data) + bytes([value])


def fields(data):
    """(field, wire type, value) of a message; the value of a wire type other than 0 is bytes."""
    found, at = [], 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            if kind == 2:
                length, at = varint(data, at)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
            else:
                raise ValueError(f"wire type {kind}")
            value, at = data[at : at + length], at + length
            if len(value) < length:
                raise ValueError("a message is cut")
        found.append((key >> 3, kind, value))
    return found


def message(found):
    """The bytes of what `fields` returns."""
    parts = []
    for field, kind, value in found:
        parts.append(number(field << 3 | kind))
        if kind == 0:
            parts.append(number(value))
        else:
            parts += [number(len(value)), value] if kind == 2 else [value]
    return b"".join(parts)


def of(found, field, default=None):
    return next((value for known, _, value in found if known == field), default)


def replaced(found, field, kind, value):
    """The fields with another value of one, added if it is not there."""
    new = [(f, kind, value) if f == field else (f, k, v) for f, k, v in found]
    return new if any(f == field for f, _, _ in found) else [*found, (field, kind, value)]


def text(value):
    return value.decode("utf-8", "replace")


def whole(value):
    """A number that was written as text."""
    return int(value) if re.fullmatch(r"-?\d+", value) else value


def value_of(annotation):
    """Name and value of an annotation."""
    name, value = "", None
    for field, _, found in annotation:
        if field == 10:
            name = text(found)
        elif field == 5:
            value = struct.unpack("<d", found)[0]
        elif field == 4:
            value = found - (1 << 64) if found >> 63 else found
        elif field in (2, 3, 7):
            value = found
        elif field in (6, 9):
            value = text(found)
            if field == 9:
                try:
                    value = json.loads(value)
                except ValueError:
                    pass
        elif field == 12:
            value = [*(value or []), value_of(fields(found))[1]]
        elif field == 11:
            value = {**(value or {}), **dict([value_of(fields(found))])}
    return name, value


class Packet:
    """A packet, and the texts that its numbers stand for."""

    __slots__ = ("fields", "names", "sequence", "time", "slice", "stage", "track")

    def __init__(self, data, names):
        self.fields = fields(data)
        self.sequence = of(self.fields, SEQUENCE, 0)
        self.time = of(self.fields, TIMESTAMP, 0)
        self.slice, self.stage, self.track = (of(self.fields, f) for f in (SLICE, STAGE, TRACK))
        self.slice, self.stage, self.track = (v and fields(v) for v in (self.slice, self.stage, self.track))
        if of(self.fields, 13, 0) & 1:
            names.pop(self.sequence, None)
        self.names = names.setdefault(self.sequence, {})
        for field, _, entry in fields(of(self.fields, INTERNED, b"")):
            if field in TEXTS:
                entry = fields(entry)
                self.names[field, of(entry, 1, 0)] = text(of(entry, TEXTS[field], b""))

    def type(self):
        return of(self.slice, TYPE) if self.slice else None


def packets_of(data):
    names, found = {}, []
    for field, _, value in fields(data):
        if field != 1:
            raise ValueError("this is no trace of packets")
        found.append(Packet(value, names))
    return found


def pairs_by_position(packets):
    """(begin, end) by their places in the file, where the ends of a group are in the order of its begins."""
    begins, ends = [], []
    for at, packet in [*enumerate(packets), (None, None)]:
        kind = packet.type() if packet else BEGIN
        if kind == BEGIN and ends:
            track = lambda place: of(packets[place].slice, UUID)
            if [track(b) for b in begins] != [track(e) for e in ends]:
                raise ValueError("begins and ends are not in groups, as torch writes them")
            yield from zip(begins, ends)
            begins, ends = [], []
        if kind == BEGIN and packet:
            begins.append(at)
        elif kind == END:
            ends.append(at)
    yield from ((begin, None) for begin in begins)


def pairs_by_stack(packets):
    """(begin, end) by their places in the file, where the slices of a track are nested."""
    stacks = collections.defaultdict(list)
    for at, packet in enumerate(packets):
        track = packet.slice and (packet.sequence, of(packet.slice, UUID))
        if packet.type() == BEGIN:
            stacks[track].append(at)
        elif packet.type() == END and stacks[track]:
            yield stacks[track].pop(), at
    yield from ((at, None) for stack in stacks.values() for at in stack)


class Tracks:
    """What the tracks stand for: the process and the thread or stream of each, as texts."""

    def __init__(self, packets):
        self.lanes, self.parents = {}, {}
        for packet in packets:
            if packet.track:
                self.describe(packet.track)

    def describe(self, track):
        uuid, parent = of(track, 1, 0), of(track, 5)
        process, thread = of(track, 3), of(track, 4)
        pid = self.lanes.get(parent, ("",))[0]
        if process is not None:
            process = fields(process)
            self.lanes[uuid] = (of(process, 1, 0), text(of(process, 6, b"")))
        elif thread is not None:
            self.lanes[uuid] = (of(fields(thread), 1, 0), of(fields(thread), 2, 0))
        else:
            name = text(of(track, 2, b""))
            numbered = re.match(r"(?:thread|track|stream) (-?\d+)", name)
            self.lanes[uuid] = (pid, int(numbered[1]) if numbered else name)
        self.parents[uuid] = parent

    def runs(self, work):
        """The processes of tracks with work of a device."""
        return {self.parents.get(uuid) for uuid in work}


class Pftrace(Recording):
    format = "pftrace"

    def __init__(self, name, packets):
        self.packets = packets
        self.tracks = Tracks(packets)
        # torch names what it writes by number.
        self.is_native = any(p.stage or (p.slice and of(p.slice, CATEGORY_IDS) is not None) for p in packets)
        pairs = list((pairs_by_position if self.is_native else pairs_by_stack)(packets))
        last = max((p.time for p in packets), default=0)
        events = [self.slice(begin, end, last) for begin, end in pairs]
        paired = {place for pair in pairs for place in pair}
        for at, packet in enumerate(packets):
            if packet.stage:
                events.append(self.stage(at))
            elif at not in paired and (packet.slice or of(packet.fields, COUNTERS)):
                events.append(self.event(at, None, packet.time, packet.time, "other", "", (), {}))
        self.check_runs(events)
        number_of = re.search(r"rank[_-]?(\d+)", name)
        super().__init__(name, events, int(number_of[1]) if number_of else None)

    def check_runs(self, events):
        work = {of(self.packets[e.of[0]].slice, UUID) for e in events if e.kind == "kernel" and not self.is_native}
        # The rows of one run are below its process, and those of several devices below one each.
        runs = self.tracks.runs(work)
        names = {str(self.tracks.lanes.get(run, ("", ""))[1]) for run in runs}
        if len(runs) > 1 and len(names) == len(runs) and not any(name.startswith("GPU ") for name in names):
            raise ValueError(f"several recordings in one file: {', '.join(sorted(names))}")

    def event(self, begin, end, start, stop, kind, name, lane, args):
        # A correlation of 0 links nothing.
        link = args.get("correlation") or None
        call = call_of(args) if kind == "kernel" else None
        stop = max(start, stop)
        return Event(start, stop, kind, name, lane, link, call, (begin, end, start, stop, name, link))

    def slice(self, begin, end, last):
        packet = self.packets[begin]
        found, names = packet.slice, packet.names
        args = dict(value_of(fields(v)) for f, _, v in found if f == ANNOTATION)
        name, category = of(found, NAME), of(found, CATEGORY)
        name = text(name) if name is not None else names.get((2, of(found, NAME_ID)), "")
        category = text(category) if category is not None else names.get((1, of(found, CATEGORY_IDS)), "")
        kind = KINDS.get(category, "other")
        if packet.sequence == ADDED_SEQUENCE or any(key.startswith(ADDED_ROW) for key in args):
            kind = "other"
        lane = ("host", *self.tracks.lanes.get(of(found, UUID, 0), ("", "")))
        if kind in ("kernel", "copy", "set", "device_range"):
            lane = ("device", args.get("device", 0), args.get("stream", lane[2]))
        stop = last if end is None else self.packets[end].time
        return self.event(begin, end, packet.time, stop, kind, name, lane, args)

    def stage(self, at):
        packet = self.packets[at]
        found, names = packet.stage, packet.names
        extras = [fields(v) for f, _, v in found if f == EXTRA]
        # What the program annotates comes behind the row's own, and may have the same names.
        args = {text(of(e, 1, b"")): whole(text(of(e, 2, b""))) for e in reversed(extras)}
        stage = names.get((24, of(found, SPECIFICATION, 0)), "")
        name = names.get((2, of(found, STAGE_NAME))) or names.get((1000, of(found, KERNEL))) or stage
        lane = ("device", of(found, DEVICE, 0), args.get("stream id"))
        stop = packet.time + of(found, DURATION, 0)
        return self.event(at, None, packet.time, stop, STAGES.get(stage, "other"), name, lane, args)

    def begin(self, event, track=None):
        """The fields of the first packet of an event, as it is written now."""
        recorded = (event.template or event).of
        packet = self.packets[recorded[0]]
        found = replaced(packet.fields, TIMESTAMP, 0, event.start)
        inner, field = (packet.stage, STAGE) if packet.stage else (packet.slice, SLICE)
        if inner is None:
            return found
        if packet.stage:
            inner = replaced(inner, DURATION, 0, event.end - event.start)
        if track is not None:
            inner = replaced(inner, UUID, 0, track)
        if event.link != recorded[5] and event.link is not None:
            inner = linked(inner, event.link)
        if event.name != recorded[4]:
            if of(inner, NAME) is not None and packet.slice:
                inner = replaced(inner, NAME, 2, event.name.encode())
            else:
                inner = replaced(inner, STAGE_NAME if packet.stage else NAME_ID, 0, self.name_id(event.name))
                new = message([(1, 0, self.name_id(event.name)), (2, 2, event.name.encode())])
                found = [*found, (INTERNED, 2, message([(2, 2, new)]))]
        return replaced(found, field, 2, message(inner))

    def name_id(self, name):
        """A number that the file does not use for another text."""
        return self.new_names.setdefault(name, (1 << 40) + len(self.new_names))

    def end(self, event, track=None):
        """The fields of the end of a slice; none if it has no end."""
        place = (event.template or event).of[1]
        if place is None:
            return None
        packet = self.packets[place]
        found = replaced(packet.fields, TIMESTAMP, 0, event.end)
        if track is None:
            return found
        return replaced(found, SLICE, 2, message(replaced(packet.slice, UUID, 0, track)))

    def write(self, path, cut=None):
        """`cut`: the share of the file after which it ends."""
        self.new_names = {}
        found = self.in_place() if self.is_native else self.sorted()
        data = message([(1, 2, message(packet)) for packet in found if packet])
        data = data if cut is None else data[: int(len(data) * cut)]
        path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)

    def in_place(self):
        """The packets in their order; new ones follow at the end, each a group of its own."""
        places = {}
        for e in self.events:
            if e.of:
                places[e.of[0]] = self.begin(e) if (e.start, e.end, e.name, e.link) != e.of[2:] else None
                if e.of[1] is not None:
                    places[e.of[1]] = self.end(e)
        is_event = lambda p: p.slice or p.stage or of(p.fields, COUNTERS)
        for at, packet in enumerate(self.packets):
            if at in places or not is_event(packet):
                yield places.get(at) or packet.fields
        for e in self.events:
            if not e.of:
                yield from (self.begin(e), self.end(e))

    def sorted(self):
        """Descriptors, and then begins and ends in order of time."""
        yield from (p.fields for p in self.packets if not p.slice)
        of_tracks = collections.defaultdict(list)
        for e in self.events:
            packet = self.packets[(e.template or e).of[0]]
            of_tracks[packet.sequence, of(packet.slice, UUID, 0)].append(e)
        rows = []
        for (_, track), events in of_tracks.items():
            for i, row in enumerate(nested_rows(events)):
                yield from self.copy_of(track, i)
                rows.append(list(self.marks(row, track + i)))
        yield from (found for _, found in heapq.merge(*rows, key=lambda mark: mark[0]))

    def copy_of(self, track, i):
        """Describes a further track beside one, for slices that are not nested in its own."""
        if i:
            if track + i in self.tracks.lanes:
                raise ValueError("no free number for a track")
            found = next((p for p in self.packets if p.track and of(p.track, 1) == track), None)
            if found:
                yield replaced(found.fields, TRACK, 2, message(replaced(found.track, 1, 0, track + i)))

    def marks(self, events, track):
        """(time, packet) of begins and ends of nested events of a track."""
        is_slice = lambda e: self.packets[(e.template or e).of[0]].type() == BEGIN
        stack = []
        for e in events:
            while stack and stack[-1].end <= e.start:
                yield stack[-1].end, self.end(stack.pop(), track)
            yield e.start, self.begin(e, track)
            if is_slice(e):
                stack.append(e)
        while stack:
            yield stack[-1].end, self.end(stack.pop(), track)


def linked(inner, link):
    """A slice or a device row with another correlation."""
    new = []
    for field, kind, value in inner:
        if field in (ANNOTATION, EXTRA) and kind == 2:
            entry = fields(value)
            if field == ANNOTATION and of(entry, 10) == b"correlation":
                value = message([(f, k, v) for f, k, v in entry if f == 10] + [(4, 0, link)])
            elif field == EXTRA and of(entry, 1) == b"correlation":
                value = message(replaced(entry, 2, 2, str(link).encode()))
        new.append((field, kind, value))
    return new


def nested_rows(events):
    """Lists of events, in each of which events are nested or apart."""
    rows = []
    for e in sorted(events, key=lambda e: (e.start, -e.end)):
        for row, stack in rows:
            while stack and stack[-1] <= e.start:
                stack.pop()
            if not stack or e.end <= stack[-1]:
                break
        else:
            row, stack = [], []
            rows.append((row, stack))
        row.append(e)
        stack.append(e.end)
    return [row for row, _ in rows]


def read(path):
    opened = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opened(path, "rb") as file:
        return Pftrace(path.name.removesuffix(".gz"), packets_of(file.read()))
