"""Chrome JSON, as PyTorch's profiler writes it."""

import decimal
import gzip
import json
import re

from .recording import Call, Event, Recording

KINDS = {
    "kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set", "gpu_user_annotation": "device_range",
    "cpu_op": "operator", "operator": "operator", "user_annotation": "range", "python_function": "python",
    "cuda_runtime": "runtime", "cuda_driver": "runtime", "hip_runtime": "runtime", "runtime": "runtime",
    "memcpy": "copy", "memset": "set",
}  # fmt: skip
# What a kernel carries of its collective.
CALL_ARGUMENTS = re.compile(r"^(Collective name|Process Group|Group size|In msg|Out msg|dtype|In split|Out split|Seq|S?rc|Dst)")
TRUTH = re.compile(r"truth|KNOWN_ANSWERS", re.IGNORECASE)


def ns(us):
    """Integer ns of a time in us, which may be text; a float of many days is not exact, but its digits are."""
    return round(decimal.Decimal(str(us)) * 1000)


def reads(path):
    return bool(re.search(r"\.json(\.gz)?$", path.name)) and not TRUTH.search(path.name)


def call_of(args):
    if "Collective name" not in args and "Process Group Name" not in args:
        return None
    return Call(
        str(args.get("Process Group Name", "")), str(args.get("Process Group Ranks", "")),
        str(args.get("Collective name", "")), args.get("Src Rank"), args.get("Dst Rank"), args.get("Seq"),
    )  # fmt: skip


def event_of(row):
    start = ns(row["ts"])
    kind = KINDS.get(str(row.get("cat", "")).lower(), "other") if row.get("ph") == "X" else "other"
    args = row.get("args") or {}
    if kind in ("kernel", "copy", "set", "device_range"):
        lane = ("device", args.get("device", row.get("pid")), args.get("stream", row.get("tid")))
    else:
        lane = ("host", row.get("pid"), row.get("tid"))
    link = args.get("correlation")
    call = call_of(args) if kind == "kernel" else None
    end = start + max(0, ns(row.get("dur", 0)))
    return Event(start, end, kind, str(row.get("name", "")), lane, link, call, row)


class Kineto(Recording):
    format = "kineto"

    def __init__(self, name, document, rows):
        self.document = document
        timed = [row for row in rows if isinstance(row, dict) and "ts" in row]
        self.rest = [row for row in rows if not (isinstance(row, dict) and "ts" in row)]
        rank = document.get("distributedInfo", {}).get("rank")
        super().__init__(name, [event_of(row) for row in timed], rank)
        self.order = None

    def row(self, event):
        """The event as it is written now."""
        row = dict(event.of if event.of is not None else event.template.of)
        row["ts"], row["name"] = event.start / 1000, event.name
        if event.of is None or "dur" in row:
            row["dur"] = (event.end - event.start) / 1000
        if event.link is not None:
            row["args"] = {**row["args"], "correlation": event.link}
        if event.of is None and event.lane[0] == "device":
            row["tid"], row["args"] = event.lane[2], {**row["args"], "stream": event.lane[2]}
        if event.scale != 1 and "bytes" in row["args"]:
            row["args"] = {**row["args"], "bytes": int(row["args"]["bytes"] * event.scale)}
        if event.kind == "kernel" and event.call is None and event.of is not None and call_of(row.get("args") or {}):
            row["args"] = {k: v for k, v in row["args"].items() if not CALL_ARGUMENTS.search(k)}
        return row

    def renumber(self, new):
        """Gives ranks other numbers, also where groups and messages name them."""
        info = dict(self.document["distributedInfo"])
        # The document is that of the set before, too.
        self.document = {**self.document, "distributedInfo": info}
        self.rank = info["rank"] = new[self.rank]
        groups = [dict(group) for group in info.get("pg_config", []) if isinstance(group, dict)]
        for group in groups:
            if isinstance(group.get("ranks"), list):
                group["ranks"] = sorted(new.get(r, r) for r in group["ranks"])
        if groups:
            info["pg_config"] = groups
        for e in self.events:
            args = e.of.get("args") if e.of else None
            if args and ("Process Group Ranks" in args or "Src Rank" in args):
                args = dict(args)
                for key in ("Src Rank", "Dst Rank"):
                    if key in args:
                        args[key] = new.get(args[key], args[key])
                members = args.get("Process Group Ranks")
                numbers = [int(n) for n in re.findall(r"\d+", str(members))]
                if members and "..." not in str(members):
                    renamed = sorted(new.get(n, n) for n in numbers)
                    args["Process Group Ranks"] = renamed if isinstance(members, list) else str(renamed)
                e.of = {**e.of, "args": args}

    def text(self):
        rows = self.rest + [self.row(e) for e in (self.order or self.events)]
        head = json.dumps(self.document)[:-1] + (", " if self.document else "")
        return f'{head}"traceEvents": {json.dumps(rows)}}}'

    def write(self, path, cut=None):
        """`cut`: the share of the file after which it ends."""
        text = self.text()
        path.write_text(text if cut is None else text[: int(len(text) * cut)], encoding="utf-8")


def read(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        document = json.load(file)
    if isinstance(document, list):
        document = {"traceEvents": document}
    if not isinstance(document.get("traceEvents"), list):
        raise ValueError(f"{path.name}: no list of events")
    return Kineto(path.name.removesuffix(".gz"), document, document.pop("traceEvents"))
