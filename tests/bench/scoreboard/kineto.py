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
        return row

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
