"""Recomputes device figures from raw Kineto JSON and holds the tables of hta against them.

    python3 tests/independent/recompute.py [--hta target/release/hta] TRACE_OR_FOLDER...

Nothing of hta is used for the recomputation: the JSON is read by Python's own parser, times are taken from the text of
the numbers, and unions of spans are swept here. Compared are, exactly:

  - busy, idle, compute, communication, memory and their exposed parts of each device over its span (temporal_breakdown)
  - count, sum, shortest and longest by kernel name (kernels_by_name, scope span)
  - launch calls by name, their host time and how many own no activity (launch_stats, scope capture)
  - copies and sets by device: count, known sizes, durations (memory_copies, scope span)
  - activities, those without a launch record, and the capture (ranks)

A file that Python cannot parse, and one of another kind, is left out and named. Exits 1 on any difference. Needs the
standard library only; `zstd` files need the program of that name.
"""

import argparse
import csv
import gzip
import io
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# what the format calls these classes, in lower case
KERNELS = {"kernel", "mtia_ccp_events"}
COPIES = {"gpu_memcpy", "memcpy"}
SETS = {"gpu_memset", "memset"}
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime",
         "privateuse1_runtime", "privateuse1_driver"}
OPERATORS = {"cpu_op", "operator", "hpu_op"}
ANNOTATION_LIKE = re.compile(r"^(ProfilerStep|Optimizer\.|enumerate\(|nccl:|gloo:|mpi:|ucc:|PyTorch Profiler)")

COPY_KERNEL = re.compile(r"^__amd_rocclr_(copy|fill)Buffer|^MEMORY_COPY_", re.I)
COLLECTIVE_NAME = re.compile(
    r"nccl|rccl"
    r"|multimem_\w*(all_reduce|all_gather|reduce_scatter)|(one|two)_shot_all_?reduce|symm_mem|all_to_all_vdev"
    r"|cross_device_reduce|(one|two)ShotAllReduce|lamport\w*all_?reduce|allreduce_fusion|quick_?reduce"
    r"|custom_all_?reduce|msccl"
    r"|dpsk::ep|deep_ep::|(intra|inter)node(_ll)?::(dispatch|combine|notify_dispatch|cached_notify)|pplx"
    r"|moe_?all_?to_?all|nvshmem|oneccl|\bccl(_|::)|ishmem|^hccl|^hcom_", re.I)
COLLECTIVE_OPERATOR = re.compile(r"^record_param_comms$|^symm_mem::", re.I)
OWN_KERNEL = re.compile(r"^(void )?at::native", re.I)

HOUR = 3_600_000_000_000
MOST = 2**63 - 1


class LeftOut(Exception):
    """Why a file is not compared."""


# ---------------------------------------------------------------- reading


def text_of(path: Path) -> str:
    raw = path.read_bytes()
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        raw = subprocess.run(["zstd", "-dc", str(path)], check=True, capture_output=True).stdout
    while raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    return raw.decode("utf-8-sig", errors="replace")


class Number(str):
    """The text of a number with a fraction or an exponent."""


def parsed(path: Path) -> dict:
    try:
        root = json.loads(text_of(path), parse_float=Number, strict=False)
    except (ValueError, OSError, EOFError, subprocess.CalledProcessError) as e:
        raise LeftOut(f"Python cannot parse it: {e}") from e
    if isinstance(root, list):
        root = {"traceEvents": root}
    if not isinstance(root, dict) or not isinstance(root.get("traceEvents"), list):
        raise LeftOut("no traceEvents")
    return root


def fractions(events: list) -> str:
    """How the fractions of times are written: `unpadded` where `.5` means 5 ns."""
    short = lead = trail = seen = 0
    for e in events:
        for key in ("ts", "dur"):
            value = e.get(key)
            if isinstance(value, str) and "." in value:
                digits = value.split(".", 1)[1]
                if not digits.isdigit():
                    continue
                seen += 1
                short += len(digits) < 3
                lead += len(digits) >= 2 and digits[0] == "0"
                trail += len(digits) >= 2 and digits[-1] == "0"
    return "unpadded" if seen >= 200 and short and not lead and trail else "decimal"


def ns(value: object, shape: str) -> int | None:
    """A time in microseconds as nanoseconds, without a float in between."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    if shape == "unpadded" and re.fullmatch(r"-?\d+\.\d+", text):
        whole, digits = text.split(".")
        return int(whole) * 1000 + (-1 if text.startswith("-") else 1) * int(digits)
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return None
    return int((exact * 1000).quantize(Decimal(1), rounding=ROUND_HALF_EVEN)) if exact.is_finite() else None


def whole(value: object) -> int | None:
    """A whole number, however it is written."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value).strip()
    try:
        return int(text, 16) if text.lower().startswith("0x") else int(Decimal(text))
    except (InvalidOperation, ValueError, OverflowError):
        return None


# CUPTI's kinds of memory and of copies, by number.
MEMORY = ["Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"]
DIRECTIONS = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]


def named_as_kineto(name: str, args: dict) -> str:
    """The recorder Cuspy says what is copied or set in arguments, Kineto in the name."""
    def of(kinds: list[str], key: str) -> str:
        kind = args.get(key, "unknown")
        if isinstance(kind, int):
            return kinds[kind] if kind < len(kinds) else str(kind)
        return kind.replace("_", " ").title() if kinds is MEMORY or kind == "unknown" else kind

    if name == "Memcpy" and "copy kind" in args:
        return f"Memcpy {of(DIRECTIONS, 'copy kind')} ({of(MEMORY, 'src kind')} -> {of(MEMORY, 'dst kind')})"
    return f"Memset ({of(MEMORY, 'memory kind')})" if name == "Memset" and "memory kind" in args else name


class Event:
    __slots__ = ("start", "end", "cat", "name", "args", "pid", "tid")

    def __init__(self, start: int, end: int, raw: dict):
        self.start, self.end = start, end
        self.cat = str(raw.get("cat") or "").lower()
        self.name = str(raw.get("name", ""))
        args = raw.get("args")
        self.args = args if isinstance(args, dict) else {}
        self.name = named_as_kineto(self.name, self.args)
        self.pid, self.tid = str(raw.get("pid")), str(raw.get("tid"))


def run_calls(calls: list[Event]) -> list[Event]:
    """Without calls that a stream capture records into a graph instead of running them."""
    lanes: dict[tuple, list[Event]] = defaultdict(list)
    for call in calls:
        lanes[call.pid, call.tid].append(call)
    recorded = set()
    for lane in lanes.values():
        captured_since = None
        for call in sorted(lane, key=lambda c: c.start):
            if "StreamBeginCapture" in call.name and captured_since is None:
                captured_since = call.end
            elif "StreamEndCapture" in call.name:
                captured_since = None
            elif captured_since is not None and call.start >= captured_since:
                recorded.add(id(call))
    return [c for c in calls if id(c) not in recorded]


class Rank:
    """One file: its activities, calls and operators."""

    def __init__(self, path: Path):
        root = parsed(path)
        events = [e for e in root["traceEvents"] if isinstance(e, dict)]
        if any(e.get("ph") in ("B", "E") for e in events) and not any(e.get("ph") == "X" for e in events):
            raise LeftOut("begin and end events")
        if any("hta_overlay" in str(e.get("cat")) for e in events[-5:]):
            raise LeftOut("an overlay")
        shape = fractions(events)
        base = whole(root.get("baseTimeNanoseconds")) or 0
        self.events: list[Event] = []
        for raw in events:
            if raw.get("ph") != "X":
                continue
            start, length = ns(raw.get("ts"), shape), ns(raw.get("dur", 0), shape)
            if start is None:
                continue
            length = max(length or 0, 0)
            if abs(base + start + length) > MOST:
                raise LeftOut("times beyond 64 bits")
            self.events.append(Event(base + start, base + start + length, raw))
        self.base = base
        self.calls = run_calls([e for e in self.events if e.cat in CALLS])
        self.operators = [e for e in self.events if e.cat in OPERATORS and not ANNOTATION_LIKE.match(e.name)]
        self.activities = self.of_devices()
        self.link()

    def of_devices(self) -> list[Event]:
        """Kernels, copies and sets, each once, with possible times."""
        found, seen = [], set()
        for e in self.events:
            if e.cat not in KERNELS | COPIES | SETS:
                continue
            if e.cat == "mtia_ccp_events" and e.name in ("event_wait", "event_record"):
                continue
            if e.start == self.base and e.end == e.start:
                continue
            key = (e.start, e.end, e.name, *(str(e.args.get(k)) for k in
                                             ("correlation", "device", "stream", "graph node id")))
            if key not in seen:
                seen.add(key)
                found.append(e)
        if found:
            starts = sorted(e.start for e in found)
            median = starts[len(starts) // 2]
            found = [e for e in found if e.start >= median - HOUR]
        return found

    def link(self) -> None:
        """Launch call of each activity, and the class of each."""
        by_id: dict[int, list[Event]] = defaultdict(list)
        for call in self.calls:
            correlation = whole(call.args.get("correlation"))
            if correlation is not None:
                by_id[correlation].append(call)
        self.owned: dict[int, int] = defaultdict(int)
        self.launch: dict[int, Event] = {}
        for a in self.activities:
            calls = by_id.get(whole(a.args.get("correlation")), [])
            # of several processes nobody knows whose it is; of one the innermost call
            if calls and len({c.pid for c in calls}) == 1:
                call = max(calls, key=lambda c: c.start)
                self.launch[id(a)] = call
                self.owned[id(call)] += 1
        owners = self.owners()
        self.kind = {id(a): self.classed(a, owners) for a in self.activities}

    def owners(self) -> dict[int, str]:
        """Innermost operator around the start of each launch call, by name."""
        lanes: dict[tuple, list] = defaultdict(list)
        for op in self.operators:
            lanes[op.pid, op.tid].append(op)
        wanted: dict[tuple, dict[int, Event]] = defaultdict(dict)
        for call in self.launch.values():
            wanted[call.pid, call.tid][id(call)] = call
        out = {}
        for lane, calls in wanted.items():
            operators = sorted(lanes.get(lane, []), key=lambda o: (o.start, -o.end))
            open_, at = [], 0
            for call in sorted(calls.values(), key=lambda c: c.start):
                while at < len(operators) and operators[at].start <= call.start:
                    open_.append(operators[at])
                    at += 1
                open_ = [o for o in open_ if o.end > call.start or (o.end == call.start and call.end == call.start)]
                if open_:
                    # the latest start; of equal ones the shorter
                    out[id(call)] = max(open_, key=lambda o: (o.start, -o.end)).name
        return out

    def classed(self, a: Event, owners: dict[int, str]) -> str:
        if a.cat in COPIES | SETS or a.name == "dma_request" or COPY_KERNEL.search(a.name):
            return "memory"
        if "Collective name" in a.args or COLLECTIVE_NAME.search(a.name):
            return "communication"
        call = self.launch.get(id(a))
        owner = owners.get(id(call), "") if call else ""
        if COLLECTIVE_OPERATOR.search(owner) and not OWN_KERNEL.search(a.name):
            return "communication"
        return "compute"

    def device(self, a: Event) -> str:
        number = whole(a.args.get("device", a.args.get("GPU")))
        return "" if number is None else str(number)


# ---------------------------------------------------------------- computing


def union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in sorted(s for s in spans if s[1] > s[0]):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def length(spans: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


def breakdown(rank: Rank) -> dict[str, dict[str, int]]:
    devices: dict[str, dict[str, list]] = defaultdict(lambda: defaultdict(list))
    ends: dict[str, list[int]] = defaultdict(list)
    for a in rank.activities:
        device = rank.device(a)
        devices[device][rank.kind[id(a)]].append((a.start, a.end))
        ends[device] += [a.start, a.end]
    out = {}
    for device, kinds in devices.items():
        c, k, m = kinds["compute"], kinds["communication"], kinds["memory"]
        span = max(ends[device]) - min(ends[device])
        busy, computing, both = length(union(c + k + m)), length(union(c)), length(union(c + k))
        out[device] = {
            "ts_ns": min(ends[device]),
            "dur_ns": span,
            "compute_ns": computing,
            "communication_ns": length(union(k)),
            "memory_ns": length(union(m)),
            "busy_ns": busy,
            "idle_ns": span - busy,
            "exposed_communication_ns": both - computing,
            "copies_ns": busy - both,
        }
    return out


def by_name(rank: Rank) -> dict[tuple, dict[str, int]]:
    lengths: dict[tuple, list[int]] = defaultdict(list)
    for a in rank.activities:
        lengths[rank.device(a), rank.kind[id(a)], a.name].append(a.end - a.start)
    return {k: {"count": len(v), "sum_ns": sum(v), "min_ns": min(v), "max_ns": max(v)} for k, v in lengths.items()}


def launches(rank: Rank) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = defaultdict(lambda: {"launch_count": 0, "launched_no_activity_count": 0, "cpu_sum_ns": 0})
    for call in rank.calls:
        owns = rank.owned.get(id(call), 0) > 0
        if owns or "launch" in call.name.lower():
            row = out[call.name]
            row["launch_count"] += 1
            row["launched_no_activity_count"] += not owns
            row["cpu_sum_ns"] += call.end - call.start
    return out


def copies(rank: Rank) -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = defaultdict(lambda: {"count": 0, "dur_sum_ns": 0, "size_bytes": 0})
    for a in rank.activities:
        if rank.kind[id(a)] == "memory":
            row = out[rank.device(a)]
            row["count"] += 1
            row["dur_sum_ns"] += a.end - a.start
            row["size_bytes"] += size(a, rank.launch.get(id(a)))
    return out


def size(a: Event, call: Event | None) -> int:
    """Bytes of a copy or set: as recorded, else as its call was given it, else by the recorded bandwidth."""
    given = [a.args.get("bytes"), a.args.get("size"), *([call.args.get("size"), call.args.get("bytes")] if call else [])]
    known = next((n for n in map(whole, given) if n is not None and n >= 0), None)
    if known is not None:
        return known
    rate = a.args.get("memory bandwidth (GB/s)")
    return 0 if rate is None else round(float(rate) * (a.end - a.start))


# ---------------------------------------------------------------- comparing


class Results:
    """What hta left of one file."""

    def __init__(self, hta: str, path: Path, folder: Path):
        run = subprocess.run([hta, "analyze", str(path), "-o", str(folder), "--no-html"], capture_output=True, text=True)
        if run.returncode > 1:
            raise LeftOut(f"hta refuses it: {run.stderr.strip().splitlines()[0]}")
        self.hta, self.folder = hta, folder

    def rows(self, statement: str) -> list[dict[str, str]]:
        command = [self.hta, "query", statement, "--results", str(self.folder), "--format", "csv"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return list(csv.DictReader(io.StringIO(text)))


def compare(what: str, own: dict, theirs: dict) -> list[str]:
    """Differences between figures by key, a line each."""
    out = []
    for key in sorted(set(own) | set(theirs), key=str):
        a, b = own.get(key), theirs.get(key)
        if a is None or b is None:
            out.append(f"{what} {key!r}: recomputed {a}, hta {b}")
            continue
        for name in a:
            if a[name] != b.get(name):
                out.append(f"{what} {key!r} {name}: recomputed {a[name]}, hta {b.get(name)}")
    return out


def differences(hta: str, path: Path) -> tuple[list[str], int]:
    rank = Rank(path)
    with tempfile.TemporaryDirectory() as folder:
        results = Results(hta, path, Path(folder) / "out")
        own = breakdown(rank)
        columns = ["ts_ns", "dur_ns", "compute_ns", "communication_ns", "memory_ns", "busy_ns", "idle_ns",
                   "exposed_communication_ns", "copies_ns"]
        number = lambda row, names: {n: int(row[n] or 0) for n in names}
        rows = results.rows(f"SELECT device, {', '.join(columns)} FROM temporal_breakdown "
                            "WHERE scope = 'span' AND basis = 'gpu'")
        found = compare("device", own, {r["device"]: number(r, columns) for r in rows})

        names: dict[tuple, dict[str, int]] = {}
        for r in results.rows("SELECT device, class, name, count, sum_ns, min_ns, max_ns FROM kernels_by_name "
                              "WHERE scope = 'span'"):
            # one name may have a row for each rule and kind
            sums = names.setdefault((r["device"], r["class"], r["name"]),
                                    {"count": 0, "sum_ns": 0, "min_ns": MOST, "max_ns": 0})
            sums["count"] += int(r["count"])
            sums["sum_ns"] += int(r["sum_ns"])
            sums["min_ns"] = min(sums["min_ns"], int(r["min_ns"]))
            sums["max_ns"] = max(sums["max_ns"], int(r["max_ns"]))
        found += compare("kernel", by_name(rank), names)

        columns = ["launch_count", "launched_no_activity_count", "cpu_sum_ns"]
        rows = results.rows(f"SELECT api, {', '.join(columns)} FROM launch_stats WHERE scope = 'capture'")
        found += compare("call", launches(rank), {r["api"]: number(r, columns) for r in rows})

        sums = defaultdict(lambda: {"count": 0, "dur_sum_ns": 0, "size_bytes": 0})
        for r in results.rows("SELECT device, count, dur_sum_ns, size_bytes FROM memory_copies WHERE scope = 'span'"):
            s = sums[r["device"]]
            s["count"] += int(r["count"])
            s["dur_sum_ns"] += int(r["dur_sum_ns"])
            s["size_bytes"] += int(r["size_bytes"] or 0)
        found += compare("copies of device", copies(rank), sums)

        row = results.rows("SELECT activity_count, unlinked_count, gpu_sum_ns FROM ranks")[0]
        own = {"activity_count": len(rank.activities),
               "unlinked_count": len(rank.activities) - len(rank.launch),
               "gpu_sum_ns": sum(a.end - a.start for a in rank.activities)}
        found += compare("file", {"": own}, {"": number(row, list(own))})
    return found, len(rank.activities)


def files_of(paths: list[Path]) -> list[Path]:
    out = []
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        out += [p for p in inside if p.is_file() and re.search(r"\.json(\.gz|\.zst)?$", p.name)]
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, default=[ROOT / "data/samples"], help="[data/samples]")
    parser.add_argument("--hta", default=str(ROOT / "target/release/hta"), help="the program [target/release/hta]")
    parser.add_argument("--most", type=int, default=12, help="differences that are shown of each file [12]")
    parser.add_argument("--max-mb", type=float, default=60, help="larger files are left out [60]")
    args = parser.parse_args()
    compared = different = 0
    for path in files_of(args.traces):
        try:
            if path.stat().st_size > args.max_mb * 1e6:
                raise LeftOut(f"larger than {args.max_mb:g} MB")
            found, activities = differences(args.hta, path)
        except LeftOut as e:
            print(f"left out   {path}: {e}")
            continue
        compared += 1
        different += bool(found)
        print(f"{'DIFFERENT' if found else 'equal'}  {path}: {activities} activities")
        for line in found[: args.most]:
            print(f"    {line}")
        if len(found) > args.most:
            print(f"    and {len(found) - args.most} more")
    print(f"{compared} files compared, {different} with differences")
    return 1 if different or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
