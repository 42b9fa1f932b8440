#!/usr/bin/env python3
"""Writes `loop/`, a job of two roles on one host, and `loop.truth.json` with what is known of it.

    engine 0    [generate ]                                  [sync]|   loop 0, 1, 2
    engine 1    [generate ..........tail]                    [sync]|
    actors                               [score][update    ] [sync]|

Four actors (ranks 0-3 of 4) train, two engines (ranks 0, 1 of 2, which share no collective) generate. Both number
their ranks from 0. Engine 1 takes longer in each loop. Times are microseconds here, nanoseconds in the truth.
"""

import gzip
import json
import os

BASE_NS = 1_790_000_000_000_000_000
GENERATE = 6_000
TAIL = [5_000, 6_500, 8_000]
SCORE, UPDATE, SYNC, PAUSE = 2_000, 4_000, 1_500, 100
KERNEL, SPACE, BEFORE = 190, 10, 15
ACTORS, ENGINES = 4, 2


class Rank:
    """The events of one process."""

    def __init__(self, role, rank, world, device):
        self.role, self.rank, self.world, self.device = role, rank, world, device
        self.pid, self.events, self.last, self.seq = 100 + 100 * (role == "rollout") + rank, [], 0, 0
        self.phases = []

    def event(self, cat, name, ts, dur, pid=None, tid=1, **args):
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": self.pid if pid is None else pid, "tid": tid,
             "ts": ts, "dur": dur, "args": args})

    def kernel(self, name, start, end, **args):
        self.last += 1
        both = {"correlation": self.last, "External id": self.last}
        self.event("cpu_op", "aten::mm" if not args else "c10d::allreduce_", start - BEFORE - 2, 8,
                   **{"External id": self.last})
        self.event("cuda_runtime", "cudaLaunchKernel", start - BEFORE, 4, **both)
        self.event("kernel", name, start, end - start, pid=self.device, tid=7, device=self.device, context=1,
                   stream=7, grid=[132, 1, 1], block=[256, 1, 1], **both, **args)

    def phase(self, kind, name, start, end, collective=False):
        """Kernels from `start` to `end` with spaces between them; the last may be a collective."""
        self.event("user_annotation", name, start - BEFORE - 5, end - start + BEFORE + 5)
        at, busy = start, 0
        until = end - (KERNEL + SPACE if collective else 0)
        while at < until:
            stop = until if at + KERNEL + SPACE >= until else at + KERNEL
            self.kernel("sm90_gemm_bf16", at, stop)
            busy += stop - at
            at = stop + SPACE
        if collective:
            members = list(range(self.world))
            self.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                        end - KERNEL, end,
                        **{"Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
                           "dtype": "BFloat16", "Group size": self.world, "Process Group Name": "0",
                           "Process Group Description": "default_pg", "Process Group Ranks": str(members),
                           "Seq": self.seq})
            self.seq += 1
            busy += KERNEL
        self.phases.append({"phase": kind, "start": start, "time": end - start, "busy": busy})

    def write(self, folder):
        groups = [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": self.world,
                   "ranks": list(range(self.world))}]
        document = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": i, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0,
                                  "numSms": 132, "warpSize": 32, "totalGlobalMem": 85017493504} for i in range(8)],
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world,
                                "pg_count": 1, "pg_config": groups},
            "host_name": "node0", "displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS,
            "traceName": f"rank_{self.rank}.json", "traceEvents": self.events}
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"rank_{self.rank}.json.gz"), "wb") as raw:
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as out:
                out.write(json.dumps(document, separators=(",", ":")).encode())


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    actors = [Rank("actor", r, ACTORS, r) for r in range(ACTORS)]
    engines = [Rank("rollout", r, ENGINES, ACTORS + r) for r in range(ENGINES)]
    start, loops = 1_000, []
    for number, tail in enumerate(TAIL):
        generated = start + GENERATE + tail
        for engine in engines:
            end = generated if engine.rank == 1 else start + GENERATE
            engine.phase("rollout", "generate_sequences", start, end)
        score = generated + PAUSE
        update = score + SCORE + PAUSE
        sync = update + UPDATE + PAUSE
        end = sync + SYNC
        for actor in actors:
            actor.phase("scoring", "compute_log_prob", score, score + SCORE)
            actor.phase("train", "update_actor", update, update + UPDATE, collective=True)
        for process in actors + engines:
            process.phase("weight_sync", "update_weights", sync, end)
        following = end + PAUSE
        # A loop lasts until the next begins, the last one until its last phase ends.
        period = (following if number + 1 < len(TAIL) else end) - start
        worked = SCORE + UPDATE + SYNC
        loops.append({
            "loop": number, "period_ns": period * 1000,
            "idle_ns": {"actor": (period - worked) * ACTORS * 1000,
                        "rollout": (2 * period - 2 * SYNC - 2 * GENERATE - tail) * 1000},
            "actor_idle_pct": round(100 * (period - worked) / period, 1),
            "tail_ns": tail * 1000, "tail_pct": round(100 * tail / period, 1),
            "actor_waits_for_rollout_ns": (GENERATE + tail) * ACTORS * 1000, "sync_ns": SYNC * 1000})
        start = following
    for process in actors + engines:
        process.write(os.path.join(here, "loop", process.role))
    truth = {"loops": loops, "processes": [
        {"role": p.role, "role_rank": p.rank,
         "phases": [{"phase": f["phase"], "start_ns": BASE_NS + f["start"] * 1000, "time_ns": f["time"] * 1000,
                     "busy_ns": f["busy"] * 1000} for f in p.phases]} for p in actors + engines]}
    with open(os.path.join(here, "loop.truth.json"), "w", encoding="utf-8") as out:
        json.dump(truth, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
