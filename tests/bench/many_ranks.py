"""Makes a large set of ranks for measuring the analyses across ranks.

    python3 tests/bench/many_ranks.py FOLDER [--ranks 1024] [--collectives 5000] [--steps 10]
    python3 tests/bench/many_ranks.py FOLDER --stages 8 [--micro-batches 16] [--ranks 1024] [--steps 10]

Every rank is in a tensor-parallel group of 8 and in a data-parallel group of ranks/8; collectives alternate between
the two. Rank 3 is 20 us late into every collective. With --stages the data-parallel groups hold the ranks of a stage,
and a step is a pipeline (1F1B): a forward is a kernel and an all-reduce of the tensor-parallel group, a backward
twice as long, and messages join the stages. Plain JSON, one file a rank, numbers (`Seq`) recorded, member lists cut
after 30 as torch does. Needs nothing but Python. Then:

    /usr/bin/time -v target/release/hta stragglers --rank-dir FOLDER --threads 2
"""

import argparse
import multiprocessing
import pathlib
import random

BASE = 1_775_000_000_000_000_000
TRANSFER_US = 150
PERIOD_US = 1000
FORWARD_US = 200
REDUCE_US = 30
MESSAGE_US = 20


def shown(ranks):
    text = [str(r) for r in ranks[:30]] + (["..."] if len(ranks) > 30 else [])
    return "[" + ", ".join(text) + "]"


def launch(at, correlation):
    return (
        f'{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernelExC","pid":1,"tid":1,"ts":{at:.3f},'
        f'"dur":5,"args":{{"correlation":{correlation}}}}}'
    )


def compute(rank, name, start, end, correlation):
    return (
        f'{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{start:.3f},'
        f'"dur":{end - start:.3f},"args":{{"device":{rank % 8},"stream":7,"correlation":{correlation}}}}}'
    )


def call(rank, kind, group, start, end, correlation, number, more=""):
    description, name, members = group
    kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if kind == "allreduce" else "ncclDevKernel_SendRecv"
    return (
        f'{{"ph":"X","cat":"kernel","name":"{kernel}","pid":0,"tid":20,'
        f'"ts":{start:.3f},"dur":{end - start:.3f},"args":{{"device":{rank % 8},"stream":20,'
        f'"correlation":{correlation},"Collective name":"{kind}","In msg nelems":1048576,'
        f'"Out msg nelems":1048576,"Group size":{len(members)},"dtype":"Float",'
        f'"Process Group Name":"{name}","Process Group Description":"{description}",'
        f'"Process Group Ranks":"{shown(members)}",{more}"Seq":{number}}}}}'
    )


def step_span(number, start, length):
    return (
        f'{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{number}","pid":1,"tid":1,'
        f'"ts":{start:.3f},"dur":{length:.3f}}}'
    )


def write_rank(folder, rank, world, events):
    head = (
        f'{{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{world}}},'
        f'"host_name":"node-{rank // 8}","baseTimeNanoseconds":{BASE},"traceEvents":['
    )
    path = pathlib.Path(folder) / f"rank_{rank}.json"
    path.write_text(head + ",\n".join(events) + "]}\n")


def collectives_of_rank(job):
    folder, rank, world, count, steps = job
    tensor = [rank - rank % 8 + i for i in range(8)]
    data = list(range(rank % 8, world, 8))
    groups = [("tp", "1", tensor), ("dp", "2", data)]
    events = []
    per_step = max(1, count // steps)
    chance = random.Random(rank)
    for step in range(steps):
        events.append(step_span(step + 10, 1000 + step * per_step * PERIOD_US - 5, per_step * PERIOD_US - 10))
    for i in range(count):
        origin = 1000 + i * PERIOD_US
        own = chance.randrange(0, 5000) / 1000 + (20 if rank == 3 else 0)
        arrival = origin + 300 + own
        end = origin + 330 + TRANSFER_US
        events.append(launch(origin + 20, 2 * i + 1))
        events.append(compute(rank, f"gemm_{i % 7}", origin + 40, arrival - 5, 2 * i + 1))
        events.append(launch(origin + 30, 2 * i + 2))
        events.append(call(rank, "allreduce", groups[i % 2], arrival, end, 2 * i + 2, i // 2 + 1))
    write_rank(folder, rank, world, events)


def schedule(stage, stages, micro_batches):
    """The chunks of a stage in the order of 1F1B."""
    warm_up = min(stages - stage - 1, micro_batches)
    order = [("F", b) for b in range(warm_up)]
    for b in range(micro_batches - warm_up):
        order += [("F", warm_up + b), ("B", b)]
    return order + [("B", b) for b in range(micro_batches - warm_up, micro_batches)]


def pipeline_times(stages, micro_batches):
    """When each chunk starts and ends, us after the start of the step."""
    orders = [schedule(s, stages, micro_batches) for s in range(stages)]
    ends, free, left = {}, [0.0] * stages, [list(o) for o in orders]
    spans = [[] for _ in range(stages)]
    while any(left):
        for s in range(stages):
            while left[s]:
                kind, b = left[s][0]
                before = ("F", s - 1, b) if kind == "F" else ("B", s + 1, b) if s + 1 < stages else ("F", s, b)
                if kind == "F" and s == 0:
                    ready = 0.0
                elif before in ends:
                    ready = ends[before] + (MESSAGE_US if before[1] != s else 0)
                else:
                    break
                start = max(free[s], ready)
                free[s] = start + (1 if kind == "F" else 2) * FORWARD_US
                ends[(kind, s, b)] = free[s]
                spans[s].append((kind, b, start, free[s]))
                left[s].pop(0)
    return spans, ends, max(free)


def pipeline_of_rank(job):
    folder, rank, world, stages, micro_batches, steps = job
    of_stage = world // stages
    stage = rank // of_stage
    tensor = ("TENSOR_MODEL_PARALLEL_GROUP", "1", [rank - rank % 8 + i for i in range(8)])
    first = stage * of_stage + rank % 8
    data = ("DATA_PARALLEL_GROUP", "2", list(range(first, (stage + 1) * of_stage, 8)))
    pipeline = ("PIPELINE_MODEL_PARALLEL_GROUP", "3", list(range(rank % of_stage, world, of_stage)))
    spans, ends, length = pipeline_times(stages, micro_batches)
    chance = random.Random(rank)
    events, numbers = [], {"1": 0, "2": 0, "3": 0}
    correlation = 0

    def add(event, at, *args, **more):
        nonlocal correlation
        correlation += 1
        events.append(launch(at, correlation))
        events.append(event(rank, *args, correlation, **more))

    def joined(kind, group, start, end, at, peers=None):
        numbers[group[1]] += 1
        more = f'"Src Rank":{peers[0]},"Dst Rank":{peers[1]},' if peers else ""
        add(lambda r, c: call(r, kind, group, start, end, c, numbers[group[1]], more), at)

    for step in range(steps):
        origin = 1000 + step * (length + TRANSFER_US + 100)
        events.append(step_span(step + 10, origin - 5, length + TRANSFER_US + 90))
        at = before = origin
        for kind, b, start, end in spans[stage]:
            at += 20
            source = stage - 1 if kind == "F" else stage + 1
            if 0 <= source < stages:
                sent = origin + ends[(kind, source, b)]
                peers = (rank + (source - stage) * of_stage, rank)
                joined("recv", pipeline, min(before, sent), sent + MESSAGE_US, at, peers)
            middle = origin + end - REDUCE_US - chance.randrange(0, 3000) / 1000
            operator = "aten::mm" if kind == "F" else "autograd::engine::evaluate_function: MmBackward0"
            events.append(
                f'{{"ph":"X","cat":"cpu_op","name":"{operator}","pid":1,"tid":1,"ts":{at + 4:.3f},"dur":12}}'
            )
            add(lambda r, c: compute(r, f"gemm_{kind}", origin + start, middle, c), at + 5)
            joined("allreduce", tensor, middle, origin + end, at + 10)
            target = stage + 1 if kind == "F" else stage - 1
            if 0 <= target < stages:
                peers = (rank, rank + (target - stage) * of_stage)
                joined("send", pipeline, origin + end, origin + end + MESSAGE_US, at + 15, peers)
            before = origin + end
        joined("allreduce", data, origin + spans[stage][-1][3], origin + length + TRANSFER_US, at + 20)
    write_rank(folder, rank, world, events)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--collectives", type=int, default=5000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--stages", type=int, help="make a pipeline of so many stages")
    parser.add_argument("--micro-batches", type=int, default=16)
    args = parser.parse_args()
    pathlib.Path(args.folder).mkdir(parents=True, exist_ok=True)
    of_rank, sizes = collectives_of_rank, (args.collectives, args.steps)
    if args.stages:
        of_rank, sizes = pipeline_of_rank, (args.stages, args.micro_batches, args.steps)
    jobs = [(args.folder, r, args.ranks, *sizes) for r in range(args.ranks)]
    with multiprocessing.Pool() as pool:
        pool.map(of_rank, jobs, chunksize=8)


if __name__ == "__main__":
    main()
