#!/usr/bin/env python3
"""CPU time of naming the kernels of many replays by one capture.

    graph_capture.py HTA RUN CAPTURE [REPLAYS]

Makes a trace of REPLAYS (50) copies of RUN, one after another, with correlations of their own, and compares

    both    hta graph-ops COPIES --graph-capture CAPTURE
    alone   hta graph-ops COPIES, and hta graph-ops CAPTURE

User and system time, the best of three. `both` should be at most 1.3 times `alone`, and the time for each further
replay should be that of reading it.
"""

import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile

IDS = ("correlation", "External id", "Python id", "Python parent id")


def copies(run, count):
    """The events of a trace, `count` times, each copy after the one before."""
    with (gzip.open if run.endswith(".gz") else open)(run, "rt") as file:
        trace = json.load(file)
    events = trace["traceEvents"]
    timed = [e for e in events if "ts" in e and "dur" in e]
    length = max(e["ts"] + e["dur"] for e in timed) - min(e["ts"] for e in timed) + 1000.0
    out = []
    for k in range(count):
        for event in events:
            if event.get("ph") not in ("X", "M") or (k > 0 and event["ph"] == "M"):
                continue
            event = dict(event)
            if "ts" in event:
                event["ts"] = round(event["ts"] + k * length, 3)
            args = dict(event.get("args", {}))
            for key in IDS:
                if isinstance(args.get(key), int):
                    args[key] += 10_000_000 * k
            event["args"] = args
            out.append(event)
    trace["traceEvents"] = out
    return trace


def cpu(command):
    """Seconds of CPU of a command, the best of three."""
    best = None
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = took if best is None else min(best, took)
    return best


def main():
    hta, run, capture = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 50
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rank_0.json")
        with open(path, "w") as file:
            json.dump(copies(run, count), file)
        both = cpu([hta, "graph-ops", path, "--graph-capture", capture])
        of_run, of_capture = cpu([hta, "graph-ops", path]), cpu([hta, "graph-ops", capture])
    alone = of_run + of_capture
    print(f"{count} replays: both {both:.2f} s, alone {of_run:.2f} + {of_capture:.2f} s: {both / alone:.2f} times")


if __name__ == "__main__":
    main()
