#!/usr/bin/env python3
"""CPU time and peak memory of `hta analyze --no-events --threads 1` against `gzip -dc` of the same file.

    cargo build --release && python3 tests/bench/end_to_end.py [TRACE.json.gz ...]

Whole processes, run in turn on one machine; the figures are ratios of the smallest CPU times. Without
arguments a trace of about 35 MB is made from a sample (its events repeated, shifted in time). Needs
nothing but Python and gzip.
"""
import gzip
import json
import os
import shutil
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HTA = os.path.join(ROOT, "target", "release", "hta")
SAMPLE = os.path.join(ROOT, "data", "samples", "gloo_ddp4", "rank_0.pt.trace.json.gz")
RUNS = 7
MAX_CPU_RATIO = 4.0
MAX_MEMORY_RATIO = 1.0


def run(argv):
    """CPU seconds and peak resident bytes of one process."""
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.execvp(argv[0], argv)
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"cannot run {' '.join(argv)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def repeated(path, times):
    """A larger trace: a sample's events `times` over, each copy behind the one before."""
    with gzip.open(SAMPLE) as f:
        trace = json.load(f)
    events = trace["traceEvents"]
    stamps = [e["ts"] for e in events if "ts" in e]
    shift = max(stamps) - min(stamps) + 1000.0
    out = []
    for i in range(times):
        for e in events:
            copy = dict(e)
            if "ts" in copy:
                copy["ts"] = round(copy["ts"] + i * shift, 3)
            out.append(copy)
    trace["traceEvents"] = out
    text = json.dumps(trace, indent=1)
    with gzip.open(path, "wt", compresslevel=6) as f:
        f.write(text)


def unpacked_size(path):
    size = 0
    with gzip.open(path) as f:
        while block := f.read(1 << 20):
            size += len(block)
    return size


def main():
    if not os.path.exists(HTA):
        sys.exit("cannot find target/release/hta: run `cargo build --release` first")
    work = tempfile.mkdtemp(prefix="hta-bench-")
    traces = sys.argv[1:]
    if not traces:
        traces = [os.path.join(work, "repeated.json.gz")]
        repeated(traces[0], 8)
    failed = False
    print(f"{'trace':<44} {'JSON MB':>8} {'gzip s':>7} {'hta s':>7} {'ratio':>6} {'peak MB':>8} {'of JSON':>8}")
    for trace in traces:
        size = unpacked_size(trace)
        out = os.path.join(work, "out")
        hta = [HTA, "analyze", "--no-events", "--threads", "1", "--force", "-o", out, trace]
        pairs = [(run(["gzip", "-dc", trace]), run(hta)) for _ in range(RUNS)]
        base = min(g[0] for g, _ in pairs)
        cpu = min(h[0] for _, h in pairs)
        peak = max(h[1] for _, h in pairs)
        print(
            f"{os.path.basename(trace)[:44]:<44} {size / 1e6:8.1f} {base:7.3f} {cpu:7.3f} "
            f"{cpu / base:6.2f} {peak / 1e6:8.1f} {peak / size:8.2f}"
        )
        # small files are all start-up: the limits are meant for traces of 30 MB and more
        if size > 30e6:
            failed |= cpu / base > MAX_CPU_RATIO or peak / size > MAX_MEMORY_RATIO
    shutil.rmtree(work)
    if failed:
        sys.exit(f"above the limits: CPU {MAX_CPU_RATIO} times gzip, memory {MAX_MEMORY_RATIO} times the JSON")


if __name__ == "__main__":
    main()
