"""SQLite exports of Nsight Systems. A process with work on a device is a rank; most exports have one."""

import bisect
import collections
import json
import re
import shutil
import sqlite3
import struct

from .recording import Call, Event, Recording

CUPTI = "CUPTI_ACTIVITY_KIND_"
KERNELS, CALLS, RANGES = CUPTI + "KERNEL", CUPTI + "RUNTIME", "NVTX_EVENTS"
WORK = {KERNELS: "kernel", CUPTI + "GRAPH_TRACE": "kernel", CUPTI + "MEMCPY": "copy", CUPTI + "MEMSET": "set"}
KINDS = {**WORK, CALLS: "runtime", RANGES: "range"}
# Tables without times of events, although a column may have the name of one.
WITHOUT_TIMES = re.compile(r"^(ENUM_|TARGET_INFO_|META_DATA|EXPORT_|ANALYSIS_|sqlite_)")
NAME_COLUMNS = ["demangledName", "mangledName", "shortName", "textId", "nameId"]
COPIES = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
MEMORY = ["Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"]
# Types of NVTX events that are ranges.
RANGE_TYPES = {59, 60, 70, 71}
# A call of the API that surrounds a second row of the same call.
OUTER_CALL = 67
# What PyTorch adds to the name of an operator, and CUDA to that of a call.
TAIL = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = .*|_v\d{4,}$", re.DOTALL)
GROUP, PEER = "NCCL communicator ID", "Peer rank"


def reads(path):
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            return False
    try:
        return "StringIds" in tables(connect(path))
    except sqlite3.DatabaseError:
        return False


def connect(path):
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    db.row_factory = sqlite3.Row
    return db


def tables(db):
    return [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def columns(db, table):
    return [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]


def ranks_of(db):
    """The processes with work on a device."""
    there = [t for t in tables(db) if t in WORK]
    return sorted({row[0] >> 24 for t in there for row in db.execute(f"SELECT DISTINCT globalPid FROM {t}")})


def of_list(names, number):
    return names[number] if number is not None and 0 <= number < len(names) else "Unknown"


def full_name(table, row, texts):
    """The name as it is recorded."""
    if table == CUPTI + "MEMCPY":
        ends = f" ({of_list(MEMORY, row['srcKind'])} -> {of_list(MEMORY, row['dstKind'])})"
        return "Memcpy " + of_list(COPIES, row["copyKind"]) + ends
    if table == CUPTI + "MEMSET":
        return f"Memset ({of_list(MEMORY, row['memKind'])})"
    if table == RANGES and row["text"] is not None:
        return row["text"]
    ids = [row[c] for c in NAME_COLUMNS if c in row.keys()]
    return next((texts[i] for i in ids if i in texts), "CUDA graph" if table in WORK else table)


class Table:
    """A table with the times of events."""

    def __init__(self, db, name):
        self.name, self.columns = name, columns(db, name)
        self.start = next((c for c in ("start", "timestamp") if c in self.columns), None)
        self.end = "end" if "end" in self.columns and self.start == "start" else None
        self.owner = next((c for c in ("globalTid", "globalPid") if c in self.columns), None)

    def events(self, db, texts, process, others):
        # A call that was recorded twice counts once.
        is_twice = "eventClass" in self.columns and self.name == CALLS
        inner = set()
        if is_twice:
            inner.update(
                tuple(r) for r in db.execute(f"SELECT globalTid, correlationId FROM {CALLS} WHERE eventClass <> 67")
            )
        for row in db.execute(f'SELECT rowid AS "#", * FROM "{self.name}"'):
            owner = row[self.owner] if self.owner else None
            of = None if owner is None else owner >> 24
            if of in others or not isinstance(row[self.start], int):
                continue
            kind = KINDS.get(self.name, "other") if of == process else "other"
            if is_twice and row["eventClass"] == OUTER_CALL and (owner, row["correlationId"]) in inner:
                kind = "other"
            yield self.event(row, kind, owner, texts)

    def event(self, row, kind, owner, texts):
        start = row[self.start]
        end = max(start, start if self.end is None or row[self.end] is None else row[self.end])
        recorded = full_name(self.name, row, texts)
        name = TAIL.sub("", recorded) if kind in ("range", "runtime") else recorded
        if kind == "range" and row["eventType"] not in RANGE_TYPES:
            kind = "other"
        elif kind == "range" and (name != recorded or name.startswith("autograd::engine::")):
            kind = "operator"
        if self.name in WORK:
            lane = ("device", row["deviceId"], row["streamId"])
        else:
            lane = ("host", owner and owner >> 24 & 0xFFFFFF, owner and owner & 0xFFFFFF)
        link = row["correlationId"] if self.name in KINDS and "correlationId" in self.columns else None
        of = (self.name, row["#"], start, end, name, link or None, recorded)
        return Event(start, end, kind, name, lane, link or None, None, of)


class Values:
    """What NCCL's ranges hold: their values, by the numbers of their rows."""

    def __init__(self, db, there):
        self.fields = collections.defaultdict(dict)
        if "NVTX_PAYLOAD_SCHEMA_ENTRIES" in there:
            for r in db.execute("SELECT domainId, schemaId, name, offset FROM NVTX_PAYLOAD_SCHEMA_ENTRIES"):
                self.fields[r[0], r[1]].setdefault(r[2], r[3] or 0)
        of_ranges = columns(db, RANGES) if RANGES in there else []
        of_values = [c for c in ("binaryData", "jsonText") if c in of_ranges]
        self.rows = {}
        for column in of_values:
            for row, value in db.execute(f"SELECT rowid, {column} FROM {RANGES} WHERE {column} IS NOT NULL"):
                self.rows.setdefault(row, value)

    def of(self, row):
        """The communicator, as a text of 16 digits, and the peer's position in it."""
        value = self.rows.get(row)
        if isinstance(value, str):
            try:
                value = json.loads(value)
                group, peer = value.get(GROUP), value.get(PEER)
                return hexadecimal(group), peer if peer is None else int(peer)
            except (AttributeError, ValueError):
                return None, None
        if value is None or len(value) < 32:
            return None, None
        domain, schema = struct.unpack_from("<QQ", value)
        fields = self.fields.get((domain, schema), {})
        read = lambda name, form: (
            struct.unpack_from(form, value, 32 + fields[name])[0]
            if name in fields and 32 + fields[name] + struct.calcsize(form) <= len(value) else None
        )  # fmt: skip
        return hexadecimal(read(GROUP, "<Q")), read(PEER, "<i")


def hexadecimal(group):
    return group if group is None else f"{int(group) % 2**64:016x}"


def units(ranges):
    """(start, end, calls) of what one thread handed to NCCL at once: a call, or a group of calls, whose kernels are
    launched when the group ends."""
    depth, calls, made = 0, [], []
    for e in ranges:
        if e.name == "ncclGroupStart":
            depth += 1
            continue
        if e.name == "ncclGroupEnd":
            depth = max(0, depth - 1)
        elif re.match(r"nccl(Comm|Get|Mem|Reg)", e.name):
            continue
        else:
            calls.append(e)
        if depth == 0:
            made.append((e.start, e.end, calls))
            calls = []
    return made


def kind_of(names):
    kinds = {name.removeprefix("nccl").lower() for name in names}
    if kinds == {"send", "recv"}:
        return "all_to_all" if len(names) > 2 else "send_recv"
    return kinds.pop() if len(kinds) == 1 else ""


def call_of(calls, group, values):
    """The call of a kernel of one communicator. Ranks of messages are positions in the communicator."""
    mine = [e.name for e in calls if values.of(e.of[1])[0] == group]
    kind = kind_of(mine)
    peer = values.of(calls[0].of[1])[1]
    ends = (peer if kind == "recv" else None, peer if kind == "send" else None)
    return Call(group or "", "", kind, *ends)


def add_calls(events, values):
    """Gives kernels of NCCL what the ranges say in which they were launched."""
    threads = collections.defaultdict(list)
    for e in events:
        if e.kind == "range" and e.name.startswith("nccl"):
            threads[e.lane].append(e)
    of_threads = {lane: units(sorted(ranges, key=lambda e: e.start)) for lane, ranges in threads.items()}
    launches = {e.link: e for e in events if e.kind == "runtime" and e.link}
    kernels = collections.defaultdict(list)
    for e in events:
        launch = launches.get(e.link) if e.is_collective() else None
        of_thread = of_threads.get(launch.lane, []) if launch else []
        at = bisect.bisect_right(of_thread, launch.start, key=lambda unit: unit[0]) - 1 if of_thread else -1
        if at >= 0 and launch.start <= of_thread[at][1]:
            kernels[launch.lane, at].append((launch.start, e))
    for (lane, at), of_unit in kernels.items():
        calls = of_threads[lane][at][2]
        groups = list(dict.fromkeys(values.of(e.of[1])[0] for e in calls))
        of_unit.sort(key=lambda pair: pair[0])
        if len(groups) == 1 or len(groups) == len(of_unit):
            for i, (_, kernel) in enumerate(of_unit):
                kernel.call = call_of(calls, groups[min(i, len(groups) - 1)], values)


class Nsys(Recording):
    format = "nsys"

    def __init__(self, path, name, process, others):
        self.path, self.others = path, others
        db = connect(path)
        there = tables(db)
        texts = dict(tuple(r) for r in db.execute("SELECT id, value FROM StringIds"))
        timed = [Table(db, name) for name in there if not WITHOUT_TIMES.match(name)]
        self.tables = {t.name: t for t in timed if t.start}
        events = [e for t in self.tables.values() for e in t.events(db, texts, process, others)]
        add_calls(events, Values(db, there))
        number = re.search(r"rank[_-]?(\d+)|[._-](\d+)(?:\.nsys-rep)?\.\w+$", name)
        super().__init__(name, events, int(number[1] or number[2]) if number else None)
        self.recorded = {e.of[:2] for e in self.events}

    def write(self, path, cut=None):
        """`cut`: the share of the file after which it ends."""
        shutil.copyfile(self.path, path)
        db = sqlite3.connect(path, isolation_level=None)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA journal_mode = off")
        db.execute("PRAGMA synchronous = off")
        db.execute("BEGIN")
        self.drop_others(db)
        gone = collections.defaultdict(list)
        for table, row in self.recorded - {e.of[:2] for e in self.events if e.of}:
            gone[table].append((row,))
        for event in [e for e in self.events if not e.of]:
            self.insert(db, event)
        for table, rows in gone.items():
            db.executemany(f'DELETE FROM "{table}" WHERE rowid = ?', rows)
        self.update(db)
        db.execute("COMMIT")
        db.close()
        if cut is not None:
            data = path.read_bytes()
            path.write_bytes(data[: int(len(data) * cut)])

    def drop_others(self, db):
        """Deletes the rows of the other ranks of the file."""
        for table in self.tables.values() if self.others else []:
            if table.owner:
                ids = ", ".join(map(str, self.others))
                db.execute(f'DELETE FROM "{table.name}" WHERE {table.owner} >> 24 IN ({ids})')

    def update(self, db):
        moved = collections.defaultdict(list)
        for e in self.events:
            if e.of and (e.start, e.end) != e.of[2:4]:
                moved[e.of[0]].append((e.start, e.end, e.of[1]))
            if e.of and (e.name, e.link) != e.of[4:6]:
                changed = self.values(db, e, e.of)
                which = ", ".join(f'"{c}" = ?' for c in changed)
                db.execute(f'UPDATE "{e.of[0]}" SET {which} WHERE rowid = ?', (*changed.values(), e.of[1]))
        for name, rows in moved.items():
            table = self.tables[name]
            # An end that is not recorded stays so.
            end = '"end" = CASE WHEN "end" IS NULL THEN NULL ELSE ?2 END, ' if table.end else ""
            db.executemany(f'UPDATE "{name}" SET {end}"{table.start}" = ?1 WHERE rowid = ?3', rows)

    def insert(self, db, event):
        of = event.template.of
        table = self.tables[of[0]]
        row = dict(db.execute(f'SELECT * FROM "{table.name}" WHERE rowid = ?', (of[1],)).fetchone())
        row[table.start] = event.start
        if table.end:
            row[table.end] = event.end
        row.update(self.values(db, event, of))
        keys = {c[1] for c in db.execute(f'PRAGMA table_info("{table.name}")') if c[5]}
        names = [c for c in row if c not in keys]
        into, marks = ", ".join(f'"{c}"' for c in names), ", ".join("?" * len(names))
        db.execute(f'INSERT INTO "{table.name}" ({into}) VALUES ({marks})', [row[c] for c in names])

    def values(self, db, event, of):
        """The columns that hold the name and the link of an event, where they differ from those of a row."""
        made = {}
        table = self.tables[of[0]]
        if event.link != of[5]:
            made["correlationId"] = event.link
        if event.name != of[4]:
            column = "text" if table.name == RANGES else next((c for c in NAME_COLUMNS if c in table.columns), None)
            if column is None:
                raise ValueError(f"{of[4]}: rows of {table.name} have no name of their own in an export of nsys")
            name = event.name + of[6][len(of[4]) :]
            made[column] = name if column == "text" else text_id(db, name)
        return made


def text_id(db, text):
    known = db.execute("SELECT id FROM StringIds WHERE value = ?", (text,)).fetchone()
    if known:
        return known[0]
    new = db.execute("SELECT max(id) + 1 FROM StringIds").fetchone()[0]
    db.execute("INSERT INTO StringIds (id, value) VALUES (?, ?)", (new, text))
    return new


def read_all(path):
    """A recording of each rank of the file, which writes only that rank's rows."""
    ranks = ranks_of(connect(path))
    if len(ranks) < 2:
        return [Nsys(path, path.name, ranks[0] if ranks else None, [])]
    name = lambda i: f"{path.name.removesuffix(path.suffix)}.{i}{path.suffix}"
    return [Nsys(path, name(i), rank, [r for r in ranks if r != rank]) for i, rank in enumerate(ranks)]


def read(path):
    found = read_all(path)
    if len(found) > 1:
        raise ValueError(f"{path.name}: {len(found)} ranks in one file; read_all reads them")
    return found[0]
