"""Simulated jobs as PyTorch's profiler would write them: one Chrome JSON a rank."""

import json
import pathlib
import random

from .simulate import simulate

BASE_NS = 1_775_078_550_000_000_000
ELEMENTS = {"tp": 2_097_152, "dp": 13_107_200, "pp": 4_194_304, "ep": 4_194_304, "cp": 8_388_608, "fsdp": 13_107_200}
DESCRIPTIONS = {
    "short": {d: d for d in ELEMENTS},
    "megatron": {
        "tp": "TENSOR_MODEL_PARALLEL_GROUP", "pp": "PIPELINE_MODEL_PARALLEL_GROUP", "dp": "DATA_PARALLEL_GROUP",
        "ep": "EXPERT_MODEL_PARALLEL_GROUP", "cp": "CONTEXT_PARALLEL_GROUP", "fsdp": "DATA_PARALLEL_GROUP",
    },
    "nameless": {d: "undefined" for d in ELEMENTS},
}  # fmt: skip
ASIDE = ["aten::view", "aten::t", "aten::as_strided", "aten::empty"]
# Without it, forward and backward of a last stage in 1F1B cannot be told apart.
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
NCCL = "ncclDevKernel_{}(ncclDevKernelArgsStorage<4096ul>)"
KERNELS = {
    "allreduce": NCCL.format("AllReduce_Sum_bf16_RING_LL"), "_allgather_base": NCCL.format("AllGather_RING_LL"),
    "_reduce_scatter_base": NCCL.format("ReduceScatter_Sum_bf16_RING_LL"), "": NCCL.format("SendRecv"),
}  # fmt: skip


def event(category, name, pid, thread, start, length, args=None):
    of = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": thread, "ts": round(start, 3)}
    return {**of, "dur": round(length, 3), **({"args": args} if args else {})}


def described(job, rank, op, groups):
    """What torch records of a transfer; groups are numbered as the ranks, in order, first use them."""
    members = op.members
    if op.sent and (job.whole_pp or op.dimension == "cp"):
        members = job.group(op.dimension, op.members[0])
    sent = received = ELEMENTS[op.dimension]
    if op.dimension == "ep":
        sent = received = int(sent * job.load(rank))
    if op.name == "_allgather_base":
        sent //= len(members)
    if op.name == "_reduce_scatter_base":
        received //= len(members)
    description = DESCRIPTIONS[job.names][op.dimension]
    if op.dimension == "dp" and job.cp > 1 and job.names != "nameless":
        description += "_WITH_CP" if job.names == "megatron" else "_cp"
    of = {
        "Collective name": op.name, "In msg nelems": sent, "Out msg nelems": received, "Group size": len(members),
        "dtype": "BFloat16", "Process Group Name": groups.setdefault((op.dimension, members), str(len(groups) + 1)),
        "Process Group Description": description, "Process Group Ranks": str(list(members)),
    }  # fmt: skip
    return {**of, **({"Src Rank": op.sent[0], "Dst Rank": op.sent[1]} if op.sent else {}), "Seq": op.seq}


def steps_of(job, host, steps):
    """The marks of the steps and what the host does around its launches."""
    for i, (at, last, end) in enumerate(steps):
        sync = {"correlation": 1_000_001 + job.steps + 2 * i, "cbid": 131}
        if job.serving:
            start, mark = at + job.gap() - 20, "execute_context_0(0)_generation_32(32)"
            yield event("user_annotation", mark, host, host, start, last + 110 - start)
            last += 120
        else:
            yield event("user_annotation", f"ProfilerStep#{i + 2}", host, host, at, end - at - 0.5)
            yield event("user_annotation", LOADER, host, host, at, job.gap())
        yield event("cuda_runtime", "cudaStreamSynchronize", host, host, last, max(end - last, 1), sync)


def host_events(job, host, op, launch, pause, correlation, shown, chance):
    """The operator and the call that launch a kernel, and the pause before them."""
    if pause:
        yield event("cpu_op", chance.choice(ASIDE), host, host, launch - pause - 0.5, pause - 0.5)
    if op.dimension:
        yield event("cpu_op", "record_param_comms", host, host, launch - 0.5, 5.5, shown)
    else:
        if job.autograd and op.name.endswith("_b"):
            yield event("cpu_op", BACKWARD, host, host, launch - 0.55, 5.6)
        yield event("cpu_op", "aten::mm", host, host, launch - 0.5, 5.5)
        yield event("cpu_op", chance.choice(ASIDE), host, host, launch - 0.4, 0.3)
    call = {"correlation": correlation, "cbid": 211}
    yield event("cuda_runtime", "cudaLaunchKernel", host, host, launch, 4.0, call)


def rank_events(job, rank, rows, steps, groups, chance):
    device, host = rank % 8, 4000 + rank
    events, in_step = list(steps_of(job, host, steps)), len(rows) // job.steps
    for number, (op, launch, start, end) in enumerate(rows):
        step, in_this = divmod(number, in_step)
        correlation, shown = number + 1, {}
        if job.graph:
            # A replay has one call, and its transfers tell nothing of themselves.
            correlation = step * in_step + 1
            if in_this == 0:
                call = {"correlation": correlation, "cbid": 311}
                events.append(event("cuda_runtime", "cudaGraphLaunch", host, host, launch, 100.0, call))
        else:
            shown = described(job, rank, op, groups) if op.dimension else {}
            pause = job.pause(rank, step, in_this)
            events += host_events(job, host, op, launch, pause, correlation, shown, chance)
        name, grid = f"void {op.name}_kernel<128>(Params)", [64, 256]
        if op.dimension:
            name, grid = KERNELS.get(op.name, KERNELS[""]), [24, 512]
        args = {"device": device, "context": 1, "stream": op.stream, "correlation": correlation}
        args |= {"grid": [grid[0], 1, 1], "block": [grid[1], 1, 1], **shown}
        events.append(event("kernel", name, device, op.stream, start, end - start, args))
    return events


def document(job, rank, events, devices=None):
    return {
        "schemaVersion": 1,
        "deviceProperties": devices or [{"id": i, "name": "NVIDIA H100", "numSms": 132} for i in range(8)],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": job.world},
        "host_name": f"node-{rank // 8}", "baseTimeNanoseconds": BASE_NS, "traceEvents": events,
    }  # fmt: skip


def write(job, folder):
    rows, steps = simulate(job)
    groups, chance = {}, random.Random(job.seed)
    for rank in range(job.world):
        events = rank_events(job, rank, rows[rank], steps[rank], groups, chance)
        pathlib.Path(folder, f"rank_{rank}.json").write_text(json.dumps(document(job, rank, events)))
