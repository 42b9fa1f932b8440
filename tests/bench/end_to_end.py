#!/usr/bin/env python3
"""Whole processes side by side: `gzip -dc`, the stages of `hta`, and other tools; against the limits.

    cargo build --release --bin hta --example load
    python3 tests/bench/end_to_end.py TRACE.json.gz... [--peers VENV] [--ranks FOLDER] [--markdown FILE]

Each round runs every process once, one after the other, so that what else the machine does falls on all alike; the
medians of their CPU times are compared (for two threads and for other tools: the smallest elapsed times). Per trace:

    gzip            gzip -dc, the measure of all ratios
    load            target/release/examples/load: unpack, scan, columns; no linking, no analysis
    breakdown       hta breakdown: one analysis, and its answer on the terminal
    everything      hta analyze --no-events --no-html: every analysis and every table but events
    page            what report.html adds to it, as a multiple of load
    full            hta analyze: everything, report.html, and every event as Parquet
    ... two         the same on two threads, of the unpacked file (gzip is unpacked by one thread, whatever reads it)
    ... apart       twice that, by two processes of one thread at the same time: what the cores of this machine can do at
                    once where they share nothing but its memory, which bounds what two threads can

With --peers, of a Python environment that holds them (python3 -m venv VENV && VENV/bin/pip install
HolisticTraceAnalysis==0.5.0 pandas==2.2.3 orjson), per trace:

    hta-python      HTA: loading, temporal breakdown, idle time, communication overlap, kernel breakdown, memory
                    bandwidth, queue length, launch statistics; set against loading and the analyses that answer the
                    same (`both`: --only), and against `everything` (`all`); elapsed, and for `both` CPU too
    sequences       the same and its frequent kernel sequences; set against `both` and `patterns`
    orjson          orjson.loads of the unpacked text, and nothing with it

The start is that of `hta --version`, and of all of `hta analyze` for a trace of a few kB.

With --ranks, of a folder of at least 8 ranks (tests/bench/replicate.py makes one): two threads against one. A trace
twice as long is made of each trace (tests/bench/replicate.py times) to see whether time is linear; --no-doubling
leaves that out. Exits 1 when a limit is not met. Needs Python and gzip.
"""

import argparse
import concurrent.futures
import gzip
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAMPLE = os.path.join(ROOT, "data", "samples", "gloo_ddp4", "rank_0.pt.trace.json.gz")
REPLICATE = os.path.join(ROOT, "tests", "bench", "replicate.py")

# at most, as multiples of gzip; of the page, of load
LIMITS = {"load": 1.0, "breakdown": 1.0, "everything": 1.8, "page": 0.3, "full": 2.5}
# anonymous memory as a multiple of the JSON: of files from the first size, and from the second
MEMORY, MEMORY_LARGE = (30e6, 0.5), (200e6, 0.35)
# CPU of a start, ms
VERSION_MS, SMALL_MS = 3, 20
PARQUET = 1.0
DOUBLED = 2.1
# at least
HTA_ONE, HTA_TWO, HTA_SEQUENCES = 25, 40, 150
TWO_THREADS, TWO_ON_ONE_FILE = 1.85, 1.7
# what answers what HTA's calls answer
BOTH = "breakdown,idle,overlap,kernels,copies,counters,queue,launches"
# two threads are judged from this size on
TWO_FROM = 60e6
# ratios of small files are all start-up
RATIOS_FROM = 15e6

PEER = r"""
import contextlib, io, logging, sys, tempfile
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
path, rank, sequences = sys.argv[1], 0, sys.argv[2] == "sequences"
failed = []
def step(name, call):
    try:
        call()
    except Exception as e:
        failed.append(f"{name}: {type(e).__name__}")
with contextlib.redirect_stdout(io.StringIO()):
    t = TraceAnalysis(trace_files={0: path}, trace_dir="")
    step("temporal breakdown", lambda: t.get_temporal_breakdown(visualize=False))
    step("idle time", lambda: t.get_idle_time_breakdown(ranks=[0], visualize=False))
    step("overlap", lambda: t.get_comm_comp_overlap(visualize=False))
    step("kernel breakdown", lambda: t.get_gpu_kernel_breakdown(visualize=False))
    step("memory bandwidth", lambda: (t.get_memory_bw_time_series(ranks=[0]), t.get_memory_bw_summary(ranks=[0])))
    step("queue length", lambda: (t.get_queue_length_time_series(ranks=[0]), t.get_queue_length_summary(ranks=[0])))
    step("launch statistics", lambda: t.get_cuda_kernel_launch_stats(ranks=[0], visualize=False))
    if sequences:
        with tempfile.TemporaryDirectory() as out:
            step("sequences", lambda: t.get_frequent_cuda_kernel_sequences(operator_name="aten::", output_dir=out))
print("; ".join(failed), file=sys.stderr)
"""

ORJSON = """
import orjson, sys
with open(sys.argv[1], "rb") as f:
    orjson.loads(f.read())
"""


OUT = "{out}"
NEW = iter(())

# Between these lines a page keeps the tables (docs/benchmarks.md).
BEGIN = "<!-- figures: begin, written by tests/bench/end_to_end.py --markdown -->"
END = "<!-- figures: end -->"


# Starts a process and prints what it took. The system counts, as memory of a process, what stood there before it: that of
# whoever started it, so this one holds as little as Python can.
LAUNCHER = r"""
import os, sys, time
null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
clock = time.monotonic()
process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[null])
_, status, used = os.wait4(process, 0)
elapsed = time.monotonic() - clock
print(os.waitstatus_to_exitcode(status), elapsed, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def fresh(argv):
    """The command with a folder of its own for its result: what replacing an earlier one costs is another question."""
    return [next(NEW) if a == OUT else a for a in argv]


class Usage:
    """Seconds of CPU, elapsed seconds, peak resident bytes and standard error of one process."""

    def __init__(self, argv):
        self.argv = argv = fresh(argv)
        launched = subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, *argv], capture_output=True)
        self.said = launched.stderr.decode("utf-8", "replace").strip()
        if launched.returncode != 0:
            sys.exit(f"cannot start {' '.join(argv)[:200]}: {self.said[-500:]}")
        code, self.elapsed, self.cpu, peak = (float(word) for word in launched.stdout.split())
        # hta exits with 1 where an event could not be used
        if code not in (0, 1):
            sys.exit(f"cannot run {' '.join(argv)[:200]}: {self.said[-500:]}")
        self.peak = peak * 1024


def anonymous(argv):
    """Peak anonymous memory (RssAnon) of a process, bytes. Pages of the program and of files are not counted, because
    the system can take them back. Linux tells only the present value, so it is read about every 200 us."""
    process = subprocess.Popen(fresh(argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as status:
                kib = [int(line.split()[1]) for line in status if line.startswith("RssAnon:")]
        except OSError:
            break
        peak = max([peak, *kib])
        time.sleep(0.0002)
    process.wait()
    return 1024 * peak


def rounds(commands, times):
    """Runs all commands in turn, so many times; the runs of each."""
    runs = {name: [] for name in commands}
    for _ in range(times):
        for name, argv in commands.items():
            runs[name].append(Usage(argv))
    return runs


def apart(argv, alone, times):
    """Two such processes started together, so many times: how much more is done at once than by one in `alone` seconds."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [max(u.elapsed for u in pool.map(Usage, [fresh(argv), fresh(argv)])) for _ in range(times)]
    return 2 * alone / min(both)


def middle(runs, what="cpu"):
    return statistics.median(getattr(r, what) for r in runs)


def least(runs, what="cpu"):
    return min(getattr(r, what) for r in runs)


def most(runs, what="peak"):
    return max(getattr(r, what) for r in runs)


def mean(values):
    """The geometric mean; none where noise is larger than what was measured."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values and min(values) > 0 else None


class Limits:
    """Collects what does not meet its limit."""

    def __init__(self):
        self.missed = []

    def at_most(self, what, value, limit):
        if value is not None and value > limit:
            self.missed.append(f"{what}: {value:.2f}, limit at most {limit}")

    def at_least(self, what, value, limit):
        if value is not None and value < limit:
            self.missed.append(f"{what}: {value:.2f}, limit at least {limit}")


class Table:
    """Columns for the terminal, and the same as Markdown."""

    def __init__(self, title, columns):
        self.title, self.columns, self.rows = title, columns, []

    def add(self, *cells):
        self.rows.append([c if isinstance(c, str) else "" if c is None else f"{c:.2f}" for c in cells])

    def text(self):
        widths = [max(len(r[i]) for r in [self.columns, *self.rows]) for i in range(len(self.columns))]

        def line(row):
            return "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))

        return "\n".join(["", self.title, line(self.columns), *map(line, self.rows)])

    def markdown(self):
        """Columns that were not measured are left out."""
        used = [i for i in range(len(self.columns)) if i == 0 or any(r[i] for r in self.rows)]
        head, *rows = ("| " + " | ".join(r[i] for i in used) + " |" for r in [self.columns, *self.rows])
        rule = "|---|" + "---:|" * (len(used) - 1)
        return "\n".join([f"{self.title}:", "", head, rule, *rows, ""])


def write_markdown(path, tables):
    """Writes the tables to the file; in a file that has the two lines, between them."""
    text = "\n".join(t.markdown() for t in tables)
    page = open(path).read() if os.path.exists(path) else ""
    if BEGIN in page and END in page:
        head, rest = page.split(BEGIN, 1)
        text = f"{head}{BEGIN}\n\n{text}\n{END}{rest.split(END, 1)[1]}"
    with open(path, "w") as f:
        f.write(text)


def launched(i):
    """An operator, its launch call and its kernel, as torch records them."""
    ts, tracks = 100 * i, {"pid": 1, "tid": 1}
    yield {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": ts, "dur": 40, **tracks, "args": {"External id": i}}
    args = {"correlation": i, "External id": i}
    yield {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts + 10, "dur": 5, **tracks, "args": args}
    kernel = {**args, "stream": 7, "device": 0}
    yield {"ph": "X", "cat": "kernel", "name": "sgemm", "ts": ts + 20, "dur": 60, "pid": 0, "tid": 7, "args": kernel}


class Bench:
    def __init__(self, args, work):
        self.args, self.work = args, work
        global NEW
        NEW = (os.path.join(work, f"out{i}") for i in itertools.count())
        self.limits = Limits()
        self.python = args.peers and os.path.join(args.peers, "bin", "python")

    def analyze(self, threads, *options):
        return [self.args.hta, "analyze", "--threads", str(threads), "-o", OUT, *options]

    def unpacked(self, trace):
        path = os.path.join(self.work, "plain.json")
        with gzip.open(trace) as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        return path, os.path.getsize(path)

    def traces(self):
        names = ["trace", "JSON MB", "gzip s", *LIMITS, "2 threads", "2 apart", "anon/JSON", "Parquet/gz", "doubled"]
        own = Table("CPU as a multiple of `gzip -dc`; two threads against one, elapsed", names)
        names = ["trace", "both s", "hta-python s", "times", "CPU times", "on two", "all s", "times", "on two", "peak MB", "its peak MB"]
        names += ["sequences s", "its s", "times", "orjson s"]
        peers = Table("Against other tools, elapsed", names)
        sums = {k: [] for k in (*LIMITS, "one", "cpu", "two", "all", "all two", "sequences")}
        for trace in self.args.trace:
            name = os.path.basename(trace)
            plain, size = self.unpacked(trace)
            commands = {
                "gzip": ["gzip", "-dc", trace],
                "load": [self.args.load, trace],
                "breakdown": [self.args.hta, "breakdown", "--threads", "1", trace],
                "everything": [*self.analyze(1, "--no-events", "--no-html"), trace],
                "page": [*self.analyze(1, "--no-events"), trace],
                "full": [*self.analyze(1), trace],
                "plain one": [*self.analyze(1, "--no-events"), plain],
                "plain two": [*self.analyze(2, "--no-events"), plain],
            }
            runs = rounds(commands, self.args.rounds)
            written = runs["full"][-1].argv
            events = os.path.join(written[written.index("-o") + 1], "events")
            parquet = sum(os.path.getsize(os.path.join(events, f)) for f in os.listdir(events)) / os.path.getsize(trace)
            base = middle(runs["gzip"])
            ratio = {k: middle(runs[k]) / base for k in LIMITS}
            pages = [page.cpu - without.cpu for page, without in zip(runs["page"], runs["everything"])]
            ratio["page"] = max(statistics.median(pages), 0) / middle(runs["load"])
            one = least(runs["plain one"], "elapsed")
            two = one / least(runs["plain two"], "elapsed")
            two_apart = apart(commands["plain one"], one, self.args.rounds)
            memory = max(anonymous(commands["everything"]) for _ in range(self.args.rounds)) / size
            doubled = self.doubled(trace) if self.args.doubling else None
            own.add(name[:44], size / 1e6, base, *ratio.values(), two, two_apart, memory, parquet, doubled)
            if size >= RATIOS_FROM:
                for k, value in ratio.items():
                    self.limits.at_most(f"{name}: {k}", value, LIMITS[k])
                    sums[k].append(value)
                    spread = [r.cpu / base for r in runs[k]]
                    if k != "page":
                        print(f"{name}: {k} {min(spread):.2f} to {max(spread):.2f}", flush=True)
                if size >= TWO_FROM:
                    self.limits.at_least(f"{name}: two threads on the plain file", two, TWO_ON_ONE_FILE)
                self.limits.at_most(f"{name}: doubled", doubled, DOUBLED)
            if size >= MEMORY[0]:
                limit = MEMORY_LARGE[1] if size >= MEMORY_LARGE[0] else MEMORY[1]
                self.limits.at_most(f"{name}: anonymous memory against its JSON", memory, limit)
            self.limits.at_most(f"{name}: events as Parquet against the .json.gz", parquet, PARQUET)
            if self.python:
                self.peer(name, trace, plain, commands, runs, peers, sums)
        own.add("geometric mean", None, None, *(mean(sums[k]) for k in LIMITS), *[None] * 5)
        print(own.text(), flush=True)
        if not self.python:
            return [own]
        one, cpu, two, every, every_two, sequences = (
            mean(sums[k]) for k in ("one", "cpu", "two", "all", "all two", "sequences"))
        peers.add("geometric mean", None, None, one, cpu, two, None, every, every_two, *[None] * 4, sequences, None)
        self.limits.at_least("HTA, one thread (geometric mean)", one, HTA_ONE)
        self.limits.at_least("HTA, two threads (geometric mean)", two, HTA_TWO)
        self.limits.at_least("HTA with sequences (geometric mean)", sequences, HTA_SEQUENCES)
        print(peers.text(), flush=True)
        return [own, peers]

    def peer(self, name, trace, plain, commands, runs, table, sums):
        def of(threads, *options):
            return [*self.analyze(threads, "--no-events", *options), trace]

        both = ["--no-html", "--only", BOTH]
        own = {
            "both": of(1, *both),
            "both two": of(2, *both),
            "all": of(1, "--no-html"),
            "all two": of(2, "--no-html"),
            "sequences": of(1, "--no-html", "--only", BOTH + ",patterns"),
        }
        own = rounds(own, self.args.rounds)
        ours = {k: least(r, "elapsed") for k, r in own.items()}
        hta_python = [self.python, "-W", "ignore", "-c", PEER, trace]
        program = {"hta-python": [*hta_python, "common"], "sequences": [*hta_python, "sequences"]}
        program["orjson"] = [self.python, "-c", ORJSON, plain]
        peer = rounds(program, self.args.peer_rounds)
        # what it could not answer stands in the last line
        said = (peer["sequences"][0].said.splitlines() or [""])[-1]
        is_read = "Traceback" not in peer["hta-python"][0].said
        has_sequences = is_read and "sequences:" not in said
        if said:
            print(f"{name}: hta-python could not answer: {said[:200]}", file=sys.stderr)
        common = least(peer["hta-python"], "elapsed")
        times = {k: common / ours[o] for k, o in (("one", "both"), ("two", "both two"), ("all", "all"), ("all two", "all two"))}
        times["cpu"] = least(peer["hta-python"]) / least(own["both"])
        sequences = least(peer["sequences"], "elapsed")
        if is_read:
            for k, value in times.items():
                sums[k].append(value)
        if has_sequences:
            sums["sequences"].append(sequences / ours["sequences"])
        memory = most(runs["everything"]) / 1e6, most(peer["hta-python"]) / 1e6
        orjson = least(peer["orjson"], "elapsed")
        if is_read:
            theirs = [common, times["one"], times["cpu"], times["two"], ours["all"], times["all"], times["all two"], *memory]
        else:
            theirs = ["fails", None, None, None, ours["all"], None, None, memory[0], None]
        of_sequences = [sequences, sequences / ours["sequences"]] if has_sequences else ["fails", None]
        table.add(name[:44], ours["both"], *theirs, ours["sequences"], *of_sequences, orjson)

    def doubled(self, trace):
        """Time of the trace twice over, as a multiple of once. Both are made, so that their text is alike."""
        paths = []
        for times in (1, 2):
            paths.append(os.path.join(self.work, f"times{times}.json.gz"))
            subprocess.run([sys.executable, REPLICATE, "times", paths[-1], trace, "--times", str(times)], check=True)
        command = {p: [*self.analyze(1, "--no-events"), p] for p in paths}
        once, twice = rounds(command, self.args.rounds).values()
        return least(twice) / least(once)

    def start(self):
        small = os.path.join(self.work, "small.json")
        with open(small, "w") as f:
            json.dump({"traceEvents": [event for i in range(8) for event in launched(i)]}, f)
        name = f"hta analyze, {os.path.getsize(small) / 1e3:.1f} kB"
        commands = {"hta --version": [self.args.hta, "--version"], name: [*self.analyze(1), small]}
        table = Table("Starts", ["command", "CPU, ms"])
        runs = rounds(commands, 3 * self.args.rounds)
        for (name, of), limit in zip(runs.items(), (VERSION_MS, SMALL_MS)):
            table.add(name, 1e3 * middle(of))
            self.limits.at_most(f"{name}, ms of CPU", 1e3 * middle(of), limit)
        print(table.text(), flush=True)
        return [table]

    def ranks(self):
        folder = self.args.ranks
        files = sorted(os.path.join(folder, f) for f in os.listdir(folder) if ".json" in f)
        names = ["ranks", "one s", "two s", "times", "2 apart", "peak MB on one"]
        table = Table("Two threads against one on many ranks, elapsed", names)
        some = files[:8]
        argv = {t: [*self.analyze(t, "--no-events"), *some] for t in (1, 2)}
        runs = rounds(argv, self.args.rounds)
        one, two = (least(runs[t], "elapsed") for t in (1, 2))
        table.add(str(len(some)), one, two, one / two, apart(argv[1], one, self.args.rounds), most(runs[1]) / 1e6)
        self.limits.at_least("two threads on 8 ranks", one / two, TWO_THREADS)
        print(table.text(), flush=True)
        return [table]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="*", help="gzipped traces of 15 to 90 MB unpacked; else the largest sample")
    parser.add_argument("--hta", default=os.path.join(ROOT, "target", "release", "hta"))
    parser.add_argument("--load", default=os.path.join(ROOT, "target", "release", "examples", "load"))
    parser.add_argument("--peers", metavar="VENV", help="Python environment with HTA and orjson")
    parser.add_argument("--ranks", metavar="FOLDER", help="folder with the ranks of one job")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer-rounds", type=int, default=2)
    parser.add_argument("--no-doubling", dest="doubling", action="store_false")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables there too, between its markers if it has them")
    args = parser.parse_args()
    for built in (args.hta, args.load):
        if not os.path.exists(built):
            sys.exit(f"cannot find {built}: run `cargo build --release --bin hta --example load` first")
    work = tempfile.mkdtemp(prefix="hta-bench-")
    try:
        bench = Bench(args, work)
        if not args.trace:
            made = os.path.join(work, "repeated.json.gz")
            subprocess.run([sys.executable, REPLICATE, "times", made, SAMPLE, "--times", "8"], check=True)
            args.trace = [made]
        tables = bench.traces() + bench.start()
        if args.ranks:
            tables += bench.ranks()
    finally:
        shutil.rmtree(work)
    if args.markdown:
        write_markdown(args.markdown, tables)
    if bench.limits.missed:
        sys.exit("limits that are not met:\n" + "\n".join(f"  {m}" for m in bench.limits.missed))
    print("\nall limits are met")


if __name__ == "__main__":
    main()
