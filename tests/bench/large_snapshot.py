"""Writes a large memory snapshot: the entries of a real one, again and again, with new addresses and times.

    python tests/bench/large_snapshot.py SNAPSHOT OUT MEGABYTES [HTA]

Frames are shared between the copies and lists of frames are not, as in a real file. With HTA, a built `hta`, the file is
then read by Python's own unpickler (in C, without garbage collection) and by `hta memory`, each in a process of its own,
and CPU time and largest resident memory are printed.
"""

import os
import pickle
import subprocess
import sys

# Exits without freeing the objects, which is not reading.
PYTHON = "import gc, os, pickle, sys; gc.disable(); s = pickle.load(open(sys.argv[1], 'rb')); os._exit(0)"


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


def measured(command):
    """CPU seconds and largest resident bytes of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{command[0]} failed")
    # Linux counts in KiB, macOS in bytes.
    return used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def compare(out, hta):
    size = os.path.getsize(out)
    python, _ = measured([sys.executable, "-c", PYTHON, out])
    cpu, memory = measured([hta, "memory", out])
    print(f"Python {python:.1f} s of CPU; hta {cpu:.1f} s, {cpu / python:.2f} times as much")
    print(f"hta {memory / 1e6:,.0f} MB resident, {memory / size:.2f} of the file")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    if len(sys.argv) > 4:
        compare(sys.argv[2], sys.argv[4])
