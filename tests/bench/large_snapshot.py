"""Writes a large memory snapshot: the entries of a real one, again and again, with new addresses and times.

    python tests/bench/large_snapshot.py SNAPSHOT OUT MEGABYTES

Frames are shared between the copies and lists of frames are not, as in a real file. Reading the result is compared with Python's own
reader by `python -c 'import pickle, sys; pickle.load(open(sys.argv[1], "rb"))' OUT`.
"""

import os
import pickle
import sys


def main(source, out, megabytes):
    with open(source, "rb") as file:
        snapshot = pickle.load(file)
    size = os.path.getsize(source)
    copies = max(1, megabytes * 1_000_000 // size)
    traces = []
    for trace in snapshot["device_traces"]:
        times = [e["time_us"] for e in trace if "time_us" in e]
        span = max(times) - min(times) + 1 if times else 0
        copied = []
        for copy in range(copies):
            back = copies - 1 - copy
            lists = {}
            for entry in trace:
                entry = dict(entry)
                if "frames" in entry:
                    # Lists of frames that entries share, such as an alloc and its free, are shared in the copy, too.
                    entry["frames"] = lists.setdefault(id(entry["frames"]), list(entry["frames"]))
                if back and "addr" in entry:
                    # Earlier work, at addresses that the state at the end does not have.
                    entry["addr"] += back << 45
                if "time_us" in entry:
                    entry["time_us"] -= back * span
                copied.append(entry)
        traces.append(copied)
    snapshot["device_traces"] = traces
    with open(out, "wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    print(f"{copies} copies, {os.path.getsize(out):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
