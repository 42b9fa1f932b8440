#!/usr/bin/env python3
"""Whether the cost of `hta` grows in proportion to anything of which a trace can have many.

    cargo build --release --bin hta
    python3 tests/bench/growth.py [--hta PATH] [--scale F] [--limit RATIO] [--commands NAME,...|all] [SHAPE...]

Real traces have a few dozen threads, devices and process groups, a launch has a correlation id of its own, and one
form of names marks the steps. Nothing in the format bounds these numbers, so a damaged or unusual file may have as many
of them as it has events. Each shape below has one such number. It is written with N and with 2 N of them, the commands
run on both, and the CPU times are compared:

    ratio = CPU of 2 N / CPU of N        2: linear, 4: quadratic

CPU times include the start of the process, which is the same for both. A run that takes less than 0.3 s of CPU for 2 N
says nothing about growth, and is not judged; one that seems to grow too fast is measured twice more, and the least
times count. `analyze` writes all tables, the page and the text; `--commands all` adds every command that reads a trace.
Exits 1 if a ratio is above the limit (2.4), or a command fails. --scale changes all sizes. Needs Python and a built
`hta`, nothing else.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 2.4
JUDGED_FROM = 0.3
COMMANDS = (
    "analyze diagnosis breakdown mesh steps critical-path what-if stragglers pipeline experts fabric communication kernels "
    "patterns graph-ops idle launches ops lines annotations memory copies iterations inputs diff query overlay pyprof "
    "partial"
).split()
REPORTS = "nvtx_sum nvtx_pushpop_trace nvtx_gpu_proj_sum nvtx_kern_sum cuda_kern_exec_sum gpu_gaps gpu_time_util".split()


def event(cat, name, ts, dur, pid=1, tid=100, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(ts, dur, correlation=None, device=0, stream=7, name="gemm", cat="kernel", **more):
    args = {"device": device, "stream": stream, **more}
    if correlation is not None:
        args["correlation"] = correlation
    return event(cat, name, ts, dur, device, stream, **args)


def launch(ts, dur, correlation, tid=100, name="cudaLaunchKernel", **more):
    return event("cuda_runtime", name, ts, dur, 1, tid, correlation=correlation, **more)


def host(ts, dur, name="aten::mm", tid=100, cat="cpu_op", **args):
    return event(cat, name, ts, dur, 1, tid, **args)


def work(i, ts, tid=100, **more):
    """An operator of 8 us with a launch and its kernel."""
    yield host(ts, 8, tid=tid)
    yield launch(ts + 2, 3, i + 1, tid=tid)
    yield kernel(ts + 6, 3, i + 1, **more)


# Links between events.


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


def backward(n):
    """Operators of two threads, paired by their sequence numbers and by flows."""
    for i in range(n):
        yield host(10 * i, 8, "aten::mul", **{"Sequence number": i, "Fwd thread id": 0, "External id": 2 * i + 1})
        yield {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": i, "pid": 1, "tid": 100, "ts": 10 * i}
        more = {"Sequence number": i, "Fwd thread id": 1, "External id": 2 * i + 2}
        yield host(10 * (2 * n - i), 8, "autograd::engine::evaluate_function: MulBackward0", tid=101, **more)
        yield {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": i, "pid": 1, "tid": 101, "ts": 10 * (2 * n - i), "bp": "e"}


def one_sequence(n):
    """Operators of two threads that all carry one sequence number."""
    for i in range(n):
        yield host(10 * i, 8, "aten::mul", **{"Sequence number": 7, "Fwd thread id": 0})
        more = {"Sequence number": 7, "Fwd thread id": 1}
        yield host(10 * (n + i), 8, "autograd::engine::evaluate_function: MulBackward0", tid=101, **more)


def stream_waits(n):
    """Events that are recorded on one stream and waited for by another."""
    for i in range(n):
        yield from work(3 * i, 20 * i, stream=7 + i % 2)
        yield launch(20 * i + 9, 1, 3 * i + 2, name="cudaEventRecord")
        yield launch(20 * i + 11, 1, 3 * i + 3, name="cudaStreamWaitEvent")
        more = {"wait_on_stream": 7 + i % 2, "wait_on_cuda_event_record_corr_id": 3 * i + 2, "wait_on_cuda_event_id": i}
        yield kernel(20 * i + 11, 1, 3 * i + 3, stream=8 - i % 2, name="Stream Wait Event", cat="cuda_sync", **more)


def syncs(n):
    """A wait of the host for the device after every kernel."""
    for i in range(n):
        yield from work(2 * i, 20 * i)
        yield launch(20 * i + 9, 4, 2 * i + 2, name="cudaStreamSynchronize")
        yield kernel(20 * i + 9, 4, 2 * i + 2, name="Stream Sync", cat="cuda_sync")


# Places: threads, processes, devices, streams.


def threads(n):
    """As many threads as operators; each also launches a kernel."""
    for i in range(n):
        yield from work(i, 10 * i, tid=1000 + i)


def named_threads(n):
    """The same with a name for each, and all of them at work at once."""
    for i in range(n):
        for what, key in (("thread_name", "name"), ("thread_sort_index", "sort_index")):
            yield {"ph": "M", "name": what, "pid": 1, "tid": 1000 + i, "ts": 0, "args": {key: f"worker {i}"}}
        yield host(i, 2 * n, tid=1000 + i)
        yield launch(n + i, 3, i + 1, tid=1000 + i)
        yield kernel(10 * n + 4 * i, 3, i + 1)


def silent_threads(n):
    """As many threads as operators, and one thread that launches after long silences."""
    for i in range(n):
        yield host(1000 * i, 8, tid=1000 + i)
        if i % 4 == 0:
            yield launch(1000 * i + 500, 3, i + 1)
            yield kernel(1000 * i + 506, 3, i + 1)


def processes(n):
    """As many processes as operators, each with a name."""
    for i in range(n):
        yield {"ph": "M", "name": "process_name", "pid": 1000 + i, "tid": 0, "ts": 0, "args": {"name": f"python {i}"}}
        yield {"ph": "M", "name": "process_labels", "pid": 1000 + i, "tid": 0, "ts": 0, "args": {"labels": "CPU"}}
        for e in work(i, 10 * i):
            yield e if e["cat"] == "kernel" else {**e, "pid": 1000 + i}


def devices(n):
    """As many devices as kernels."""
    for i in range(n):
        yield from work(i, 10 * i, device=i)


def busy_devices(n):
    """As many devices as kernels, all of them at work at once in two steps."""
    for step in range(2):
        yield host(10 * n * step, 10 * n - 1, f"ProfilerStep#{step}", cat="user_annotation")
        for i in range(n // 2):
            yield launch(10 * n * step + 4 * i + 2, 1, step * n + i + 1)
            yield kernel(10 * n * step + 4 * i + 6, 5 * n, step * n + i + 1, device=i)


def streams(n):
    """As many streams as kernels."""
    for i in range(n):
        yield from work(i, 10 * i, stream=i)


def busy_streams(n):
    """As many streams as kernels, all of them at work at once."""
    for i in range(n):
        yield launch(4 * i + 2, 1, i + 1)
        yield kernel(4 * i + 6, 5 * n, i + 1, stream=i)


# Ranges that overlap or nest.


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


def nested(n):
    """Operators inside each other, a launch and its kernel in each."""
    for i in range(n):
        yield host(4 * i, 10 * n - 8 * i, f"op {i % 7}")
        yield launch(4 * i + 1, 1, i + 1)
        yield kernel(20 * n + 4 * i, 3, i + 1)


def nested_annotations(n):
    """Annotations inside each other, on the host and on the device."""
    for i in range(n):
        yield host(4 * i, 10 * n - 8 * i, f"range {i}", cat="user_annotation")
        yield kernel(4 * i, 10 * n - 8 * i, name=f"range {i}", cat="gpu_user_annotation")
        yield launch(4 * i + 1, 1, i + 1)
        yield kernel(20 * n + 4 * i, 3, i + 1)


def nested_names(n):
    """Operators of as many names inside each other, whose kernels overlap."""
    for i in range(n):
        yield host(4 * i, 10 * n - 8 * i, f"op {i}")
        yield launch(4 * i + 1, 1, i + 1)
        yield kernel(20 * n + 4 * i, 7, i + 1, stream=7 + i % 2, name="sm80_xmma_gemm_f16f16_f16f32_f32_tn")


def nested_annotations_twice(n):
    """The same annotations inside each other in two steps, with kernels that overlap."""
    for step in range(2):
        at = 40 * n * step
        yield host(at, 40 * n - 1, f"ProfilerStep#{step}", cat="user_annotation")
        for i in range(n // 2):
            yield host(at + 1 + 4 * i, 10 * n - 8 * i, f"range {i}", cat="user_annotation")
            yield launch(at + 2 + 4 * i, 1, step * n + i + 1)
            yield kernel(at + 20 * n + 4 * i, 7, step * n + i + 1, stream=7 + i % 2)


def begins(n):
    """Ranges told by their begin and end, all open at once."""
    for i in range(n):
        yield {"ph": "B", "cat": "cpu_op", "name": f"op {i % 7}", "pid": 1, "tid": 100, "ts": 2 * i, "args": {}}
    for i in range(n):
        yield {"ph": "E", "cat": "cpu_op", "name": f"op {(n - 1 - i) % 7}", "pid": 1, "tid": 100, "ts": 2 * (n + i)}


def async_ranges(n):
    """Asynchronous ranges, all open at once."""
    yield from work(0, 0)
    for phase in "be":
        for i in range(n):
            at = 2 * i + (2 * n if phase == "e" else 0)
            yield {"ph": phase, "cat": "user_annotation", "id": i, "name": "request", "pid": 1, "tid": 100, "ts": at, "args": {}}


# Steps and iterations: one form of a name each.


def counted(form, gap=2):
    def make(n):
        for i in range(n):
            yield host(20 * i, 20 - gap, form % ((i,) * form.count("%d")), cat="user_annotation")
            yield host(20 * i + 1, 6)
            yield launch(20 * i + 2, 2, i + 1)
            yield kernel(20 * i + 8, 9, i + 1)

    return make


def decode(n):
    """Iterations of an inference engine, of many batch sizes."""
    for i, e in enumerate(counted("execute_context_%d(%d)_generation_%d(%d)")(n)):
        yield e


def nested_steps(n):
    """Iterations inside steps, as many of either."""
    for i in range(n):
        yield host(20 * i, 19, f"ProfilerStep#{i}", cat="user_annotation")
        yield host(20 * i + 1, 17, f"execute_context_0(0)_generation_{i % 8}({i % 8})", cat="user_annotation")
        yield from work(i, 20 * i + 2)


def step_staircase(n):
    """Steps of one thread that overlap all others."""
    for i in range(n):
        yield host(20 * i, 20 * n, f"ProfilerStep#{i}", cat="user_annotation")
        yield launch(20 * i + 1, 1, i + 1)
        yield kernel(20 * i + 4, 30, i + 1, stream=7 + i % 3)


def queued_steps(n):
    """Steps that are all launched before the first kernel runs."""
    for i in range(n):
        yield host(4 * i, 4, f"ProfilerStep#{i}", cat="user_annotation")
        yield launch(4 * i, 1, i + 1)
        yield kernel(10 * n + 40 * i, 39, i + 1)


def step_forms(n):
    """Annotations of as many forms as there are of them, each twice."""
    for i in range(n):
        yield host(20 * i, 18, f"{word(i % (n // 2))} {i // (n // 2)}", cat="user_annotation")
        yield from work(i, 20 * i + 2)


def gpu_steps(n):
    """Steps that the device tells too."""
    for i in range(n):
        yield host(20 * i, 18, f"ProfilerStep#{i}", cat="user_annotation")
        yield from work(i, 20 * i + 2)
        yield kernel(20 * i + 8, 9, name=f"ProfilerStep#{i}", cat="gpu_user_annotation")


def unnamed_steps(n):
    """Sequences of kernels that repeat, in one piece."""
    for i in range(n):
        at = 20 * i + 100 * (i // 10)
        yield launch(at + 2, 3, i + 1)
        yield kernel(at + 6, 9, i + 1, name=f"kernel {word(i % 10)}")


def step_threads(n):
    """Steps of many threads."""
    for i in range(n):
        yield host(20 * i, 18, f"train_step {i // 2}", tid=100 + i % (n // 2), cat="user_annotation")
        yield from work(i, 20 * i + 2, tid=100 + i % (n // 2))


# Names.


def word(i):
    """A name without digits."""
    text = ""
    while True:
        text += chr(97 + i % 26)
        i //= 26
        if not i:
            return text


def kernel_names(n):
    for i in range(n):
        yield from work(i, 10 * i, name=f"void kernel_{word(i)}<float, {i}>(float*)")


def operator_names(n):
    """As many names of operators as operators, and input shapes."""
    for i in range(n):
        more = {"Input Dims": [[i, 64], [64, i]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}
        yield host(10 * i, 8, f"aten::{word(i)}", **more)
        yield launch(10 * i + 2, 3, i + 1)
        yield kernel(10 * i + 6, 3, i + 1)


def shapes(n):
    """One operator with as many input shapes."""
    for i in range(n):
        more = {"Input Dims": [[i, 64], [64, i]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""]}
        yield host(10 * i, 8, "aten::mm", **more)
        yield launch(10 * i + 2, 3, i + 1)
        yield kernel(10 * i + 6, 3, i + 1)


def annotation_names(n):
    for i in range(n):
        yield host(20 * i, 18, f"range {word(i)}", cat="user_annotation")
        yield from work(i, 20 * i + 2)
        yield kernel(20 * i + 8, 9, name=f"range {word(i)}", cat="gpu_user_annotation")


def call_names(n):
    for i in range(n):
        yield from work(2 * i, 20 * i)
        yield launch(20 * i + 12, 3, 2 * i + 2, name=f"cuda{word(i).title()}")


def categories(n):
    for i in range(n):
        yield host(20 * i, 8, cat=f"kind {word(i)}")
        yield from work(i, 20 * i + 10)


def arguments(n):
    """As many keys of arguments as events."""
    for i in range(n):
        yield host(10 * i, 8, **{f"key {i}": i})


def graph_names(n):
    """Compiled regions, each of a name."""
    for i in range(n):
        yield host(40 * i, 38, f"Torch-Compiled Region: {i}/{i % 3}", cat="cpu_op")
        yield host(40 * i + 1, 30, f"## Call CompiledFxGraph f{i} ##", cat="user_annotation")
        yield host(40 * i + 2, 20, f"triton_poi_fused_{word(i)}_{i}", **{"kernel_hash": f"c{i}", "kernel_backend": "triton"})
        yield launch(40 * i + 4, 3, i + 1, name="cuLaunchKernel")
        yield kernel(40 * i + 8, 9, i + 1, name=f"triton_poi_fused_{word(i)}_{i}")


# Python frames, modules and source lines.


def frame(i, ts, dur, name, parent=None, cat="python_function", **more):
    return host(ts, dur, name, cat=cat, **{"Python id": i, "Python parent id": parent, **more})


def frames(n):
    """As many functions of Python as frames, side by side."""
    for i in range(n):
        yield frame(i, 20 * i, 18, f"model_{i % 97}.py({i}): forward_{word(i)}")
        yield from work(i, 20 * i + 2)


def deep_frames(n):
    """Frames inside each other."""
    for i in range(n):
        yield frame(i, 4 * i, 10 * n - 8 * i, f"model.py({i % 50}): call_{word(i % 50)}", i - 1 if i else None)
        yield launch(4 * i + 1, 1, i + 1)
        yield kernel(20 * n + 4 * i, 3, i + 1)


def modules(n):
    for i in range(n):
        yield frame(2 * i, 20 * i, 18, f"nn.Module: Linear_{i}", **{"Python module id": i})
        yield frame(2 * i + 1, 20 * i + 1, 16, f"torch/nn/linear.py({i % 300}): forward", 2 * i)
        yield from work(i, 20 * i + 2)


def deep_modules(n):
    for i in range(n):
        yield frame(i, 4 * i, 10 * n - 8 * i, f"nn.Module: Block_{i}", i - 1 if i else None, **{"Python module id": i})
        yield launch(4 * i + 1, 1, i + 1)
        yield kernel(20 * n + 4 * i, 3, i + 1)


# Collectives and their groups.


def collective(i, kind, group, ranks, kernel_name="ncclDevKernel_SendRecv", **more):
    listed = f"[{', '.join(map(str, ranks))}]"
    told = {
        "Collective name": kind,
        "Process Group Name": group,
        "Group size": len(ranks),
        "Process Group Ranks": listed,
        "Seq": i,
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "dtype": "BFloat16",
        **more,
    }
    yield host(20 * i, 10, "record_param_comms", **{key: value for key, value in told.items() if key != "Seq"})
    yield launch(20 * i + 2, 3, i + 1)
    yield kernel(20 * i + 8, 9, i + 1, stream=20, name=kernel_name, **told)


REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def groups(n):
    """As many process groups as collectives, listed in the header too."""
    for i in range(n):
        more = {"Process Group Description": "default_pg"}
        yield from collective(i, "allreduce", f"group {i}", [0, i + 1], REDUCE, **more)


def crossing_groups(n):
    """As many process groups as collectives, of eight ranks each of which is in many of them."""
    for i in range(n):
        ranks = sorted({(i * 7 + j * (1 + i % 5)) % 4096 for j in range(8)})
        yield from collective(i, "allreduce", f"g{i}", ranks, REDUCE, Seq=1)


def unlisted_groups(n):
    """As many process groups whose ranks nothing tells."""
    for i in range(n):
        yield from collective(i, "allreduce", f"g{i}", [0, 1], REDUCE, **{"Process Group Ranks": ""})


def large_groups(n):
    """A group of many ranks, which every collective lists in part as the profiler does."""
    for i in range(n):
        more = {"Group size": n, "Process Group Ranks": "[0, 1, 2, 3, ...]"}
        yield from collective(i, "allreduce", "default_pg", range(4), REDUCE, **more)


def reduces(n):
    """As many sizes of one collective."""
    for i in range(n):
        yield from collective(i, "allreduce", "0", [0, 1], REDUCE, **{"In msg nelems": i, "Out msg nelems": i})


def exchanges(n):
    """Exchanges between two ranks whose splits are not told."""
    for i in range(n):
        yield from collective(i, "all_to_allv", "ep", [0, 1])


def split_exchanges(n):
    """Exchanges between eight ranks with their splits."""
    for i in range(n):
        sizes = [(i * 31 + j * 17) % 97 for j in range(8)]
        more = {"In split size": str(sizes), "Out split size": str(sizes[::-1])}
        yield from collective(i, "all_to_allv", "ep", range(8), **more, **{"In msg nelems": sum(sizes), "Out msg nelems": sum(sizes)})


def bare_exchanges(n):
    """Kernels of exchanges without an operator or a launch."""
    for i in range(n):
        yield from list(collective(i, "all_to_allv", "ep", [0, 1]))[2:]


def expert_layers(n):
    """Pairs of exchanges with the work of experts in between, in steps of sixteen layers."""
    for i in range(n):
        if i % 32 == 0:
            yield host(20 * i, 20 * 32 - 1, f"ProfilerStep#{i // 32}", cat="user_annotation")
        if i % 2 == 0:
            yield launch(20 * i + 3, 2, n + i + 1)
            yield kernel(20 * i + 10, 12, n + i + 1, name="grouped_gemm")
        sizes = [(i // 2 * 31 + j * 17) % 97 + 1 for j in range(8)]
        more = {"In split size": str(sizes), "Out split size": str(sizes), "In msg nelems": sum(sizes), "Out msg nelems": sum(sizes)}
        yield from collective(i, "all_to_allv", "ep", range(8), **more)


def sends(n):
    """Sends to as many ranks, and receives."""
    for i in range(n):
        kind = "send" if i % 2 else "recv"
        more = {"Src Rank" if kind == "recv" else "Dst Rank": i + 1}
        yield from collective(i, kind, "pp", [0, i + 1], **more)


def stage_sends(n):
    """Sends and receives of a stage of a pipeline, in steps of sixteen micro batches."""
    for i in range(n):
        if i % 32 == 0:
            yield host(20 * i, 20 * 32 - 1, f"ProfilerStep#{i // 32}", cat="user_annotation")
        kind = "send" if i % 2 else "recv"
        yield launch(20 * i + 3, 2, n + i + 1)
        yield kernel(20 * i + 10, 6, n + i + 1)
        yield from collective(i, kind, "pp", [0, 1], **{"Src Rank" if kind == "recv" else "Dst Rank": 1})


def unnamed_collectives(n):
    """Kernels of collectives of which only the names are told."""
    for i in range(n):
        yield launch(20 * i + 2, 3, i + 1)
        yield kernel(20 * i + 8, 9, i + 1, stream=20, name=REDUCE)


def coalesced(n):
    """Operators of collectives that share a kernel."""
    for i in range(n):
        told = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": 2, "In msg nelems": 8, "dtype": "Float"}
        yield host(10 * i, 8, "record_param_comms", **told)
    yield launch(10 * n + 2, 3, 1)
    yield kernel(10 * n + 8, 9, 1, stream=20, name=REDUCE)


# Graphs, memory, copies, counters and marks.


def graphs(n):
    """As many graphs as launches of graphs."""
    for i in range(n):
        yield launch(20 * i, 4, i + 1, name="cudaGraphLaunch")
        for node in range(2):
            more = {"graph id": i + 1, "graph node id": 2 * i + node}
            yield kernel(20 * i + 8 + 4 * node, 3, i + 1, name=f"node {node}", **more)


def graph_nodes(n):
    """Two replays of one graph with many nodes."""
    for replay in range(2):
        yield launch(10 * n * replay, 4, replay + 1, name="cudaGraphLaunch")
        for i in range(n // 2):
            at = 10 * n * replay + 8 + 4 * i
            yield kernel(at, 3, replay + 1, name=f"node {word(i)}", **{"graph id": 5, "graph node id": i})


def graph_replays(n):
    """Replays of one graph."""
    for i in range(n):
        yield launch(20 * i, 4, i + 1, name="cudaGraphLaunch")
        for node in range(2):
            yield kernel(20 * i + 8 + 4 * node, 3, i + 1, name=f"node {node}", **{"graph id": 5, "graph node id": node})


def memory(n):
    """Allocations, all of them alive at once, and what frees them."""
    yield from work(0, 0)
    for i in range(2 * n):
        more = {"Addr": 512 * (i % n), "Bytes": 512 if i < n else -512, "Device Id": 0, "Device Type": 1}
        more |= {"Total Allocated": 512 * min(i, 2 * n - i), "Total Reserved": 1024 * n}
        yield {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": 1, "tid": 100, "ts": 10 * i, "args": more}


def memory_steps(n):
    """Allocations in as many steps, each freed in the next one."""
    for i in range(n):
        yield host(20 * i, 18, f"ProfilerStep#{i}", cat="user_annotation")
        yield from work(i, 20 * i + 2)
        for at, sign in ((i, 1), (i - 1, -1)):
            more = {"Addr": 512 * at, "Bytes": sign * 512, "Device Id": 0, "Device Type": 1}
            more |= {"Total Allocated": 512 * (3 + sign), "Total Reserved": 4096}
            yield {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": 1, "tid": 100, "ts": 20 * i + 9, "args": more}


def memory_devices(n):
    """Allocations on as many devices."""
    yield from work(0, 0)
    for i in range(n):
        more = {"Addr": 512 * i, "Bytes": 512, "Device Id": i, "Device Type": 1, "Total Allocated": 512, "Total Reserved": 1024}
        yield {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t", "pid": 1, "tid": 100, "ts": 10 * i, "args": more}


def copies(n):
    """Copies of as many sizes."""
    kinds = ("HtoD (Pageable -> Device)", "DtoH (Device -> Pinned)", "DtoD (Device -> Device)")
    for i in range(n):
        yield launch(20 * i, 4, i + 1, name="cudaMemcpyAsync")
        more = {"bytes": 4 * i + 4, "memory bandwidth (GB/s)": 1.5}
        yield kernel(20 * i + 6, 9, i + 1, name=f"Memcpy {kinds[i % 3]}", cat="gpu_memcpy", **more)


def sets(n):
    for i in range(n):
        yield launch(20 * i, 4, i + 1, name="cudaMemsetAsync")
        yield kernel(20 * i + 6, 9, i + 1, name="Memset (Device)", cat="gpu_memset", **{"bytes": 4 * i + 4})


def counters(n):
    """As many counters as values."""
    for i in range(n):
        yield {"ph": "C", "name": f"counter {i}", "pid": 0, "tid": 0, "ts": 10 * i, "args": {"value": i}}
        yield from work(i, 10 * i)


def counter_series(n):
    """One counter with as many series as values."""
    for i in range(n):
        yield {"ph": "C", "name": "counter", "pid": 0, "tid": 0, "ts": 10 * i, "args": {f"series {i}": i}}
        yield from work(i, 10 * i)


def counter_values(n):
    """The counters of streaming multiprocessors of one device."""
    for i in range(n):
        yield from work(i, 10 * i)
        yield {"ph": "C", "name": "GPU 0 SM Active", "pid": 0, "tid": 0, "ts": 10 * i, "args": {"value": i % 100}}


def counter_devices(n):
    """A counter of each of many devices."""
    for i in range(n):
        yield from work(i, 10 * i)
        yield {"ph": "C", "name": f"GPU {i} Utilization", "pid": i, "tid": 0, "ts": 10 * i, "args": {"GPU Utilization": i % 100}}


def cupti(n):
    """Kernels measured by the profiler's counters."""
    for i in range(n):
        yield from work(i, 20 * i)
        more = {"smsp__inst_executed.sum": i, "sm__cycles_active.avg": 2 * i}
        yield host(20 * i + 1, 8, f"kernel {word(i)}", tid=0, cat="cuda_profiler_range", **more)


def marks(n):
    """Marks of as many names."""
    for i in range(n):
        yield {"ph": "i", "cat": "user_annotation", "name": f"mark {i}", "s": "t", "pid": 1, "tid": 100, "ts": 10 * i, "args": {}}
        yield from work(i, 10 * i)


def iteration_marks(n):
    """The profiler's own marks of the start of an iteration."""
    for i in range(n):
        yield {"ph": "i", "name": f"Iteration Start: PyTorch Profiler {i}", "s": "g", "pid": "Traces", "tid": "t", "ts": 10 * i}
        yield from work(i, 10 * i)


def gaps(n):
    """Pauses of the device, in each of which the host waits for something else."""
    for i in range(n):
        yield from work(i, 1000 * i)
        yield host(1000 * i + 100, 800, f"wait {word(i)}", cat="user_annotation")


def loaders(n):
    """Batches of a data loader."""
    for i in range(n):
        yield host(1000 * i, 500, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", cat="user_annotation")
        yield from work(i, 1000 * i + 510)


def operators(n):
    for i in range(n):
        yield from work(i, 10 * i)


def kernels_only(n):
    for i in range(n):
        yield kernel(10 * i, 8, name=f"kernel {i % 30}")


def groups_header(n):
    names = [{"pg_name": f"group {i}", "pg_desc": "", "pg_size": 2, "ranks": [0, i + 1]} for i in range(n)]
    return {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": names}}


def large_group_header(n):
    names = [{"pg_name": "default_pg", "pg_desc": "", "pg_size": n, "ranks": list(range(n))}]
    return {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": n, "pg_config": names}}


def devices_header(n):
    properties = [{"id": i, "name": "NVIDIA H100", "totalGlobalMem": 1, "numSms": 132} for i in range(n)]
    return {"deviceProperties": properties}


HEADERS = {
    "groups": groups_header,
    "crossing_groups": groups_header,
    "large_groups": large_group_header,
    "devices": devices_header,
    "busy_devices": devices_header,
}

# Forms of the names of steps and iterations.
FORMS = {
    "profiler_steps": "ProfilerStep#%d",
    "train_steps": "train_step %d",
    "numbered_steps": "iteration: %d",
    "epochs": "epoch %d",
    "its": "it_%d",
    "executes": "execute_%d",
    "bare_numbers": "%d",
    "forwards": "forward(%d)",
    "decode_steps": "step[DECODE bs=%d]",
    "atom_steps": "decode[bs=%d/%d tok=%d d=1]",
    "new_steps": "execute_new_%d_cached_%d",
    "layers": "layer %d",
    "micro_batches": "micro_batch %d",
    "two_numbers": "rollout %d of %d",
}

# What each shape has many of, and how many; the second size is twice that.
EVENTS = 20_000
SHAPES = {
    **{name: (counted(form), EVENTS) for name, form in FORMS.items()},
    **{
        make.__name__: (make, EVENTS)
        for make in (
            one_correlation, one_launch, backward, one_sequence, stream_waits, syncs, threads, named_threads, silent_threads,
            processes, devices, busy_devices, streams, busy_streams, kernel_staircase, nested, nested_names,
            nested_annotations, nested_annotations_twice, begins, async_ranges, decode, nested_steps, step_staircase,
            queued_steps, step_forms, gpu_steps, unnamed_steps, step_threads, kernel_names, operator_names,
            shapes, annotation_names, call_names, categories, arguments, graph_names, frames, deep_frames, modules, deep_modules,
            groups, crossing_groups, unlisted_groups, large_groups, reduces, exchanges, split_exchanges, bare_exchanges,
            expert_layers, sends, stage_sends, unnamed_collectives, coalesced, graphs, graph_nodes, graph_replays, memory,
            memory_steps, memory_devices, copies, sets, counters, counter_series, counter_values, counter_devices, cupti, marks,
            iteration_marks, gaps, loaders, operators, kernels_only,
        )
    },
    **{make.__name__: (make, 5 * EVENTS) for make in (staircase, staircase_launches, annotation_staircase, flow_ends, flow_ends_one_start)},
}  # fmt: skip

# Files: how many, and what the file of a rank is called and holds.


def rank_events(rank, world):
    listed = {"Group size": world, "Process Group Ranks": "[0, 1, 2, 3, ...]"}
    for step in range(2):
        yield host(1000 * step, 999, f"ProfilerStep#{step}", cat="user_annotation")
        for e in collective(step, "allreduce", "0", [0, 1], REDUCE, **listed):
            yield {**e, "ts": e["ts"] + 980 * step}
        for e in work(10 + step, 1000 * step + 100 + rank % 7):
            yield e


def pair_events(rank, world):
    pair = [rank - rank % 2, rank - rank % 2 + 1]
    for step in range(2):
        for e in collective(step, "allreduce", f"pair {rank // 2}", pair, REDUCE):
            yield {**e, "ts": e["ts"] + 980 * step}


FILES = {
    "ranks": (lambda rank, n: f"rank_{rank}.json", lambda rank, n: rank_events(rank, n), 250),
    "pair_ranks": (lambda rank, n: f"rank_{rank}.json", lambda rank, n: pair_events(rank, n), 500),
    "roles": (
        lambda rank, n: f"rollout_{rank}_rank0.json",
        lambda rank, n: rank_events(0, 1),
        500,
    ),
    "hosts": (lambda rank, n: f"node{rank}_{rank}.1700000000{rank}.pt.trace.json", lambda rank, n: rank_events(rank, n), 250),
}
SIZES = {**{name: n for name, (_, n) in SHAPES.items()}, **{name: n for name, (_, _, n) in FILES.items()}}


def write_file(path, events, header):
    header = {"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, **header}
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(json.dumps(header)[:-1] + ', "traceEvents": [\n')
        for i, event in enumerate(events):
            out.write((",\n" if i else "") + json.dumps(event))
        out.write("\n]}\n")


def write(shape, n, folder):
    """Writes the traces of a shape with `n` of what it has many of."""
    shutil.rmtree(folder, ignore_errors=True)
    if shape in FILES:
        name_of, events_of, _ = FILES[shape]
        for rank in range(n):
            info = {"rank": 0 if shape == "roles" else rank, "world_size": 1 if shape == "roles" else n, "backend": "nccl"}
            write_file(os.path.join(folder, name_of(rank, n)), events_of(rank, n), {"distributedInfo": info})
        return
    make, _ = SHAPES[shape]
    write_file(os.path.join(folder, "rank_0.json"), make(n), HEADERS.get(shape, lambda _: {})(n))


def arguments_of(command, traces, out):
    """The arguments of a command that reads the traces of a folder; `out` is a folder for its results."""
    return {
        "analyze": ["analyze", traces, "--force", "-o", out],
        "partial": ["analyze", traces, "--force", "--partial", "-o", out],
        "diff": ["diff", traces, traces],
        "query": ["query", "SELECT rank, count(*) FROM steps GROUP BY rank", traces],
        "overlay": ["overlay", traces, "--force", "-o", out + ".json"],
        "pyprof": ["export", "pyprof", traces],
    }.get(command, ["export", "nsys-stats", command, traces] if command in REPORTS else [command, traces])


def cpu(hta, arguments):
    """CPU seconds and exit code of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([hta, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, run


def measure(hta, commands, shape, size, limit, folder):
    """Prints a line for each command, and returns those that grow too fast or fail."""
    folders = [os.path.join(folder, part) for part in ("once", "twice")]
    for n, traces in zip((size, 2 * size), folders):
        write(shape, n, traces)
    failed = []
    for command in commands:
        runs = [arguments_of(command, traces, traces + ".out") for traces in folders]
        least = [float("inf")] * 2
        for attempt in range(3):
            for i, arguments in enumerate(runs):
                seconds, run = cpu(hta, arguments)
                least[i] = min(least[i], seconds)
                if run.returncode not in (0, 1, 2):
                    sys.exit(f"hta {' '.join(arguments)} ended with {run.returncode}:\n{run.stderr.decode(errors='replace')}")
            is_judged = least[1] >= JUDGED_FROM
            verdict = "above the limit" if is_judged and least[1] / least[0] > limit else ""
            if not verdict:
                break
        code = f"exit {run.returncode}" if run.returncode else ""
        ratio = least[1] / least[0]
        print(f"{shape:22}{command:16}{size:>8}{least[0]:>8.2f} s{least[1]:>8.2f} s{ratio:>8.2f}  {verdict}{code}", flush=True)
        if verdict:
            failed.append(f"{command} of {shape}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of {', '.join(SIZES)}; all when none is named")
    parser.add_argument("--hta", default=os.path.join(ROOT, "target", "release", "hta"))
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    parser.add_argument("--limit", type=float, default=LIMIT, help="largest ratio that passes")
    parser.add_argument("--commands", default="analyze", help=f"of {', '.join([*COMMANDS, *REPORTS])}, or all")
    args = parser.parse_args()
    unknown = [s for s in args.shapes if s not in SIZES]
    if unknown:
        parser.error(f"unknown shapes: {', '.join(unknown)}; there are {', '.join(SIZES)}")
    commands = [*COMMANDS, *REPORTS] if args.commands == "all" else args.commands.split(",")
    failed = []
    print(f"{'shape':22}{'command':16}{'N':>8}{'N':>10}{'2 N':>10}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for shape in args.shapes or SIZES:
            failed += measure(args.hta, commands, shape, max(4, int(SIZES[shape] * args.scale)), args.limit, folder)
    if failed:
        sys.exit(f"not near linear: {', '.join(failed)}")


if __name__ == "__main__":
    main()
