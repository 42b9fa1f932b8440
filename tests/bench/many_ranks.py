"""Makes a large set of ranks for measuring the analyses across ranks.

    python3 tests/bench/many_ranks.py FOLDER [--ranks 1024] [--collectives 5000] [--steps 10]

Every rank is in a tensor-parallel group of 8 and in a data-parallel group of ranks/8; collectives alternate between
the two. Rank 3 is 20 us late into every collective. Plain JSON, one file a rank, numbers (`Seq`) recorded, member
lists cut after 30 as torch does. Needs nothing but Python. Then:

    /usr/bin/time -v target/release/hta stragglers --rank-dir FOLDER --threads 2
"""

import argparse
import multiprocessing
import pathlib
import random

BASE = 1_775_000_000_000_000_000
TRANSFER_US = 150
PERIOD_US = 1000


def shown(ranks):
    text = [str(r) for r in ranks[:30]] + (["..."] if len(ranks) > 30 else [])
    return "[" + ", ".join(text) + "]"


def rank_file(job):
    folder, rank, world, count, steps = job
    tensor = [rank - rank % 8 + i for i in range(8)]
    data = list(range(rank % 8, world, 8))
    groups = [("tp", "1", tensor), ("dp", "2", data)]
    events = []
    per_step = max(1, count // steps)
    chance = random.Random(rank)
    for step in range(steps):
        start = 1000 + step * per_step * PERIOD_US - 5
        length = per_step * PERIOD_US - 10
        events.append(
            f'{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step + 10}","pid":1,"tid":1,'
            f'"ts":{start},"dur":{length}}}'
        )
    for i in range(count):
        description, name, members = groups[i % 2]
        origin = 1000 + i * PERIOD_US
        own = chance.randrange(0, 5000) / 1000 + (20 if rank == 3 else 0)
        arrival = origin + 300 + own
        end = origin + 330 + TRANSFER_US
        events.append(
            f'{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernelExC","pid":1,"tid":1,"ts":{origin + 20},'
            f'"dur":5,"args":{{"correlation":{2 * i + 1}}}}}'
        )
        events.append(
            f'{{"ph":"X","cat":"kernel","name":"gemm_{i % 7}","pid":0,"tid":7,"ts":{origin + 40},'
            f'"dur":{arrival - origin - 45:.3f},"args":{{"device":{rank % 8},"stream":7,"correlation":{2 * i + 1}}}}}'
        )
        events.append(
            f'{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernelExC","pid":1,"tid":1,"ts":{origin + 30},'
            f'"dur":5,"args":{{"correlation":{2 * i + 2}}}}}'
        )
        events.append(
            f'{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":0,"tid":20,'
            f'"ts":{arrival:.3f},"dur":{end - arrival:.3f},"args":{{"device":{rank % 8},"stream":20,'
            f'"correlation":{2 * i + 2},"Collective name":"allreduce","In msg nelems":1048576,'
            f'"Out msg nelems":1048576,"Group size":{len(members)},"dtype":"Float",'
            f'"Process Group Name":"{name}","Process Group Description":"{description}",'
            f'"Process Group Ranks":"{shown(members)}","Seq":{i // 2 + 1}}}}}'
        )
    head = (
        f'{{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{world}}},'
        f'"host_name":"node-{rank // 8}","baseTimeNanoseconds":{BASE},"traceEvents":['
    )
    path = pathlib.Path(folder) / f"rank_{rank}.json"
    path.write_text(head + ",\n".join(events) + "]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--collectives", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    pathlib.Path(args.folder).mkdir(parents=True, exist_ok=True)
    jobs = [(args.folder, r, args.ranks, args.collectives, args.steps) for r in range(args.ranks)]
    with multiprocessing.Pool() as pool:
        pool.map(rank_file, jobs, chunksize=8)


if __name__ == "__main__":
    main()
