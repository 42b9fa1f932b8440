#!/usr/bin/env python3
"""Whole processes side by side: `gzip -dc`, loading, `hta analyze`, and other tools; against the limits.

    cargo build --release --bin hta --example load
    python3 tests/bench/end_to_end.py TRACE.json.gz... [--peers VENV] [--ranks FOLDER] [--markdown FILE]

Each round runs every process once, one after the other, so that what else the machine does falls on all alike; the
smallest CPU times of the rounds are compared (for two threads and for other tools: elapsed times). Per trace:

    gzip            gzip -dc, the measure of all ratios
    load            target/release/examples/load: unpack, scan, columns; no linking, no analysis
    analyze         hta analyze --no-events: every analysis and every table but events
    events          hta analyze: the same, and every event as Parquet
    ... two         the same on two threads, of the unpacked file (gzip is unpacked by one thread, whatever reads it)
    ... apart       twice that, by two processes of one thread at the same time: what the cores of this machine can do at
                    once where they share nothing but its memory, which bounds what two threads can

With --peers, of a Python environment that holds them (python3 -m venv VENV && VENV/bin/pip install
HolisticTraceAnalysis==0.5.0 pandas==2.2.3 orjson), per trace:

    hta-python      HTA: loading, temporal breakdown, idle time, communication overlap, kernel breakdown, memory
                    bandwidth, queue length, launch statistics; set against loading and the analyses that answer the
                    same (`both`: --only), and against `analyze` as it is (`all`: every analysis and report.html)
    sequences       the same and its frequent kernel sequences; set against `both` and `patterns`
    orjson          orjson.loads of the unpacked text, and nothing with it

With --ranks, of a folder of at least 8 ranks (tests/bench/replicate.py makes one): two threads against one. A trace
twice as long is made of each trace (tests/bench/replicate.py times) to see whether time is linear; --no-doubling
leaves that out. Exits 1 when a limit is not met. Needs Python and gzip.
"""

import argparse
import concurrent.futures
import gzip
import itertools
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SAMPLE = os.path.join(ROOT, "data", "samples", "gloo_ddp4", "rank_0.pt.trace.json.gz")
REPLICATE = os.path.join(ROOT, "tests", "bench", "replicate.py")

# at most
LOAD, ANALYZE, EVENTS = 1.0, 1.5, 2.5
# anonymous memory as a multiple of the JSON: of files from the first size, and from the second
MEMORY, MEMORY_LARGE = (30e6, 0.6), (200e6, 0.35)
PARQUET = 1.0
DOUBLED = 2.1
# at least
HTA_ONE, HTA_TWO, HTA_SEQUENCES = 25, 40, 150
TWO_THREADS = 1.85
# what answers what HTA's calls answer
BOTH = "breakdown,idle,overlap,kernels,copies,counters,queue,launches"
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


def least(runs, what="cpu"):
    return min(getattr(r, what) for r in runs)


def most(runs, what="peak"):
    return max(getattr(r, what) for r in runs)


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


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
        head = "| " + " | ".join(self.columns) + " |"
        rule = "|---|" + "---:|" * (len(self.columns) - 1)
        return "\n".join([f"{self.title}:", "", head, rule, *("| " + " | ".join(r) + " |" for r in self.rows), ""])


def write_markdown(path, tables):
    """Writes the tables to the file; in a file that has the two lines, between them."""
    text = "\n".join(t.markdown() for t in tables)
    page = open(path).read() if os.path.exists(path) else ""
    if BEGIN in page and END in page:
        head, rest = page.split(BEGIN, 1)
        text = f"{head}{BEGIN}\n\n{text}\n{END}{rest.split(END, 1)[1]}"
    with open(path, "w") as f:
        f.write(text)


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
        names = ["trace", "JSON MB", "gzip s", "load", "analyze", "events", "2 threads", "2 apart", "anon/JSON", "Parquet/gz", "doubled"]
        own = Table("CPU as a multiple of `gzip -dc`; two threads against one, elapsed", names)
        names = ["trace", "both s", "hta-python s", "times", "on two", "all s", "times", "on two", "peak MB", "its peak MB"]
        names += ["sequences s", "its s", "times", "orjson s"]
        peers = Table("Against other tools, elapsed", names)
        sums = {k: [] for k in ("load", "analyze", "events", "one", "two", "all", "all two", "sequences")}
        for trace in self.args.trace:
            name = os.path.basename(trace)
            plain, size = self.unpacked(trace)
            commands = {
                "gzip": ["gzip", "-dc", trace],
                "load": [self.args.load, trace],
                "analyze": [*self.analyze(1, "--no-events"), trace],
                "events": [*self.analyze(1), trace],
                "plain one": [*self.analyze(1, "--no-events"), plain],
                "plain two": [*self.analyze(2, "--no-events"), plain],
            }
            runs = rounds(commands, self.args.rounds)
            written = runs["events"][-1].argv
            events = os.path.join(written[written.index("-o") + 1], "events")
            parquet = sum(os.path.getsize(os.path.join(events, f)) for f in os.listdir(events)) / os.path.getsize(trace)
            base = least(runs["gzip"])
            ratio = {k: least(runs[k]) / base for k in ("load", "analyze", "events")}
            one = least(runs["plain one"], "elapsed")
            two = one / least(runs["plain two"], "elapsed")
            two_apart = apart(commands["plain one"], one, self.args.rounds)
            memory = max(anonymous(commands["analyze"]) for _ in range(self.args.rounds)) / size
            doubled = self.doubled(trace) if self.args.doubling else None
            own.add(name[:44], size / 1e6, base, *ratio.values(), two, two_apart, memory, parquet, doubled)
            if size >= RATIOS_FROM:
                for (k, value), limit in zip(ratio.items(), (LOAD, ANALYZE, EVENTS)):
                    self.limits.at_most(f"{name}: {k} against gzip", value, limit)
                    sums[k].append(value)
                self.limits.at_least(f"{name}: two threads on the plain file", two, TWO_THREADS)
                self.limits.at_most(f"{name}: doubled", doubled, DOUBLED)
            if size >= MEMORY[0]:
                limit = MEMORY_LARGE[1] if size >= MEMORY_LARGE[0] else MEMORY[1]
                self.limits.at_most(f"{name}: anonymous memory against its JSON", memory, limit)
            self.limits.at_most(f"{name}: events as Parquet against the .json.gz", parquet, PARQUET)
            if self.python:
                self.peer(name, trace, plain, commands, runs, peers, sums)
        own.add("geometric mean", None, None, *(mean(sums[k]) for k in ("load", "analyze", "events")), *[None] * 5)
        print(own.text(), flush=True)
        if not self.python:
            return [own]
        one, two, every, every_two, sequences = (mean(sums[k]) for k in ("one", "two", "all", "all two", "sequences"))
        peers.add("geometric mean", None, None, one, two, None, every, every_two, *[None] * 4, sequences, None)
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
            "all two": of(2),
            "sequences": of(1, "--no-html", "--only", BOTH + ",patterns"),
        }
        ours = {k: least(r, "elapsed") for k, r in rounds(own, self.args.rounds).items()}
        ours["all"] = least(runs["analyze"], "elapsed")
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
        sequences = least(peer["sequences"], "elapsed")
        if is_read:
            for k, value in times.items():
                sums[k].append(value)
        if has_sequences:
            sums["sequences"].append(sequences / ours["sequences"])
        memory = most(runs["analyze"]) / 1e6, most(peer["hta-python"]) / 1e6
        orjson = least(peer["orjson"], "elapsed")
        if is_read:
            theirs = [common, times["one"], times["two"], ours["all"], times["all"], times["all two"], *memory]
        else:
            theirs = ["fails", None, None, ours["all"], None, None, memory[0], None]
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
        tables = bench.traces()
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
