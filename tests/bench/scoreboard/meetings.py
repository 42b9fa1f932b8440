"""Where ranks meet: which kernels of several ranks are the same collective or message, and how far clocks are apart."""

import collections

# Ends of one collective agree so well, ns, in this share of them; else the ranks are not understood.
ENDS_APART, ENDS_AGREE = 200_000, 0.9
# Share of the kernels of collectives that have a partner.
MATCHED = 0.98


class Unknown(Exception):
    """The set cannot carry the change; says why."""


def need(condition, why):
    if not condition:
        raise Unknown(why)


def key_of(event, counts, rank):
    """What the members of a meeting have in common; `counts` are of the rank."""
    call = event.call
    if call and call.kind in ("send", "recv"):
        # Each side names the other.
        source, target = (rank, call.target) if call.kind == "send" else (call.source, rank)
        if source is None or target is None or source == target:
            return None
        key = ("message", source, target)
    elif call:
        key = ("group", call.members or call.group, call.kind)
    else:
        key = ("name", event.name.split("(")[0])
    counts[key] += 1
    return (*key, counts[key])


class Meetings:
    """`of[id(event)]`: the meeting of a kernel; a meeting is a list of (rank index, event)."""

    def __init__(self, recordings):
        self.offsets = [0] * len(recordings)
        self.all = []
        if len(recordings) == 1:
            self.of = {}
            return
        by_key, total = collections.defaultdict(list), 0
        for i, recording in enumerate(recordings):
            counts = collections.Counter()
            for e in (e for e in recording.events if e.is_collective()):
                total += 1
                key = key_of(e, counts, recording.rank)
                if key:
                    by_key[key].append((i, e))
        self.all = [m for m in by_key.values() if len({i for i, _ in m}) == len(m) > 1]
        need(len(self.all) > 1, "ranks do not meet in collectives on the device")
        need(sum(map(len, self.all)) >= MATCHED * total, "some collectives have no partner")
        self.align(len(recordings))
        self.of = {id(e): meeting for meeting in self.all for _, e in meeting}

    def align(self, count):
        """Offsets of clocks from the ends of collectives, from rank to rank."""
        apart = collections.defaultdict(list)
        for meeting in self.all:
            for i, a in meeting:
                for j, b in meeting:
                    if i != j:
                        apart[i, j].append(b.end - a.end)
        known, queue = {0: 0}, [0]
        while queue:
            i = queue.pop()
            for j in range(count):
                if j not in known and (i, j) in apart:
                    between = sorted(apart[i, j])
                    known[j] = known[i] + between[len(between) // 2]
                    queue.append(j)
        need(len(known) == count, "some ranks meet no other")
        self.offsets = [known[i] for i in range(count)]
        agree = [abs((e.end - known[i]) - (m[0][1].end - known[m[0][0]])) <= ENDS_APART for m in self.all for i, e in m]
        need(sum(agree) >= ENDS_AGREE * len(agree), "ends of collectives do not agree")
