#!/usr/bin/env python3
"""How the cost of `hta analyze` grows with the size of unusual traces.

    cargo build --release --bin hta
    python3 tests/bench/growth.py [--hta PATH] [--scale F] [--limit EXPONENT] [SHAPE...]

Real traces have a few dozen threads, devices and process groups, and every launch has a correlation id of its own.
Nothing in the format bounds these numbers, so a damaged or unusual file may have as many of them as it has events.
Each shape below has one such number that grows with the file. The trace is written at a quarter of its size and at
its full size, `hta analyze` runs on both (all analyses, the tables, the page, the text), and the CPU times are compared:

    exponent = log(CPU at full size / CPU at a quarter) / log(4)        1: linear, 2: quadratic

CPU times include the start of the process, which is the same for both. A run that takes less than 0.3 s of CPU at full
size says nothing about growth, and is not judged. Exits 1 if a shape has a larger exponent than the limit (1.35).
--scale changes all sizes. Needs Python and a built `hta`, nothing else.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 1.35
JUDGED_FROM = 0.3


def kernel(ts, dur, correlation=None, device=0, stream=7, name="gemm", **more):
    args = {"device": device, "stream": stream, **more}
    if correlation is not None:
        args["correlation"] = correlation
    return {"ph": "X", "cat": "kernel", "name": name, "pid": device, "tid": stream, "ts": ts, "dur": dur, "args": args}


def launch(ts, dur, correlation, tid=100):
    args = {"correlation": correlation}
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def host(ts, dur, name="aten::mm", tid=100, cat="cpu_op", **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def one_correlation(n):
    """Launches and kernels that all carry one correlation id."""
    for i in range(n // 2):
        yield launch(10 * i, 3, 5)
        yield kernel(10 * i + 4, 3, 5)


def one_launch(n):
    """One launch that all kernels belong to."""
    yield launch(0, 3, 5)
    for i in range(n):
        yield kernel(10 * i + 4, 3, 5)


def threads(n):
    """As many threads as operators; each also launches a kernel."""
    for i in range(n):
        yield host(10 * i, 8, tid=1000 + i)
        yield launch(10 * i + 2, 3, i + 1, tid=1000 + i)
        yield kernel(10 * i + 6, 3, i + 1)


def silent_threads(n):
    """As many threads as operators, and one thread that launches after long silences."""
    for i in range(n):
        yield host(1000 * i, 8, tid=1000 + i)
        if i % 4 == 0:
            yield launch(1000 * i + 500, 3, i + 1)
            yield kernel(1000 * i + 506, 3, i + 1)


def devices(n):
    """As many devices as kernels."""
    for i in range(n):
        yield launch(10 * i + 2, 3, i + 1)
        yield kernel(10 * i + 6, 3, i + 1, device=i)


def streams(n):
    """As many streams as kernels."""
    for i in range(n):
        yield launch(10 * i + 2, 3, i + 1)
        yield kernel(10 * i + 6, 3, i + 1, stream=i)


def staircase(n):
    """Operators of one thread that start and end one after the other, each overlapping all others."""
    for i in range(n):
        yield host(2 * i, 2 * n)


def staircase_launches(n):
    """The same with a launch and a kernel in each."""
    for i in range(n // 3):
        yield host(20 * i, 20 * n)
        yield launch(20 * i + 2, 3, i + 1)
        yield kernel(20 * i + 8, 3, i + 1)


def kernel_staircase(n):
    """Kernels of one stream that overlap each other."""
    for i in range(n):
        yield launch(20 * i + 2, 3, i + 1)
        yield kernel(20 * i + 8, 20 * n, i + 1)


def annotation_staircase(n):
    """Annotations of one thread that overlap each other."""
    for i in range(n):
        yield host(2 * i, 2 * n, name=f"range {i % 7}", cat="user_annotation")


def flow_ends(n):
    """Flows that all start and end where many operators start, each with its own id and half of them with one id."""
    for i in range(n // 4):
        yield host(0, 2 * n - i)
        for phase in "sf":
            flow = {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": i % max(1, n // 8), "pid": 1, "tid": 100, "ts": 0}
            yield {**flow, "bp": "e"} if phase == "f" else flow
        yield {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 9, "pid": 1, "tid": 100, "ts": 10 * i, "bp": "e"}


def flow_ends_one_start(n):
    """One start of a flow with many ends."""
    yield host(0, 8)
    yield {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 7, "pid": 1, "tid": 100, "ts": 0}
    for i in range(n):
        yield {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 7, "pid": 1, "tid": 100, "ts": 10 * i + 20, "bp": "e"}
    yield host(10, 20 * n, tid=101)


def groups(n):
    """As many process groups as collectives, listed in the header too."""
    for i in range(n):
        yield launch(10 * i + 2, 3, i + 1)
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        more = {
            "Collective name": "allreduce",
            "In msg nelems": 1024,
            "Out msg nelems": 1024,
            "Group size": 2,
            "dtype": "Float",
            "Process Group Name": f"group {i}",
            "Process Group Description": "default_pg",
            "Process Group Ranks": f"[0, {i + 1}]",
        }
        yield kernel(10 * i + 6, 3, i + 1, name=name, **more)


def groups_header(n):
    names = [{"pg_name": f"group {i}", "pg_desc": "", "pg_size": 2, "ranks": [0, i + 1]} for i in range(n)]
    return {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": names}}


def devices_header(n):
    properties = [{"id": i, "name": "NVIDIA H100", "totalGlobalMem": 1, "numSms": 132} for i in range(n)]
    return {"deviceProperties": properties}


HEADERS = {"groups": groups_header, "devices": devices_header}

SHAPES = {
    "one_correlation": (one_correlation, 100_000),
    "one_launch": (one_launch, 100_000),
    "threads": (threads, 50_000),
    "silent_threads": (silent_threads, 50_000),
    "devices": (devices, 50_000),
    "streams": (streams, 50_000),
    "staircase": (staircase, 400_000),
    "staircase_launches": (staircase_launches, 200_000),
    "kernel_staircase": (kernel_staircase, 50_000),
    "annotation_staircase": (annotation_staircase, 100_000),
    "flow_ends": (flow_ends, 400_000),
    "flow_ends_one_start": (flow_ends_one_start, 400_000),
    "groups": (groups, 50_000),
}


def write(shape, n, path):
    make, _ = SHAPES[shape]
    header = {"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, **HEADERS.get(shape, lambda _: {})(n)}
    with open(path, "w") as out:
        out.write(json.dumps(header)[:-1] + ', "traceEvents": [\n')
        for i, event in enumerate(make(n)):
            out.write((",\n" if i else "") + json.dumps(event))
        out.write("\n]}\n")


def cpu(hta, path, folder):
    """CPU seconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([hta, "analyze", path, "-o", folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode not in (0, 1):
        sys.exit(f"hta analyze of {path} ended with {run.returncode}:\n{run.stderr.decode(errors='replace')}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of {', '.join(SHAPES)}; all when none is named")
    parser.add_argument("--hta", default=os.path.join(ROOT, "target", "release", "hta"))
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--limit", type=float, default=LIMIT, help="largest exponent that passes")
    args = parser.parse_args()
    unknown = [s for s in args.shapes if s not in SHAPES]
    if unknown:
        parser.error(f"unknown shapes: {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    failed = []
    print(f"{'shape':22}{'size':>9}{'quarter':>10}{'full':>10}{'ratio':>8}{'exponent':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for shape in args.shapes or SHAPES:
            size = max(4, int(SHAPES[shape][1] * args.scale))
            times = []
            for part, n in enumerate((size // 4, size)):
                path = os.path.join(folder, "trace.json")
                write(shape, n, path)
                times.append(cpu(args.hta, path, os.path.join(folder, f"{shape}-{part}")))
            exponent = math.log(times[1] / times[0]) / math.log(4)
            is_judged = times[1] >= JUDGED_FROM
            verdict = "" if not is_judged or exponent <= args.limit else "  above the limit"
            print(
                f"{shape:22}{size:>9}{times[0]:>8.2f} s{times[1]:>8.2f} s{times[1] / times[0]:>8.1f}{exponent:>10.2f}{verdict}",
                flush=True,
            )
            if verdict:
                failed.append(shape)
    if failed:
        sys.exit(f"not near linear: {', '.join(failed)}")


if __name__ == "__main__":
    main()
