"""What each rank of a simulated job runs in a step, in the order of its launches."""

import dataclasses

ADAM_SHARE = 0.03
STREAMS = {
    "dp": 20, "tp": 21, "ep": 22, "gather": 24, "scatter": 25, "send_F": 30, "recv_F": 31, "send_B": 32, "recv_B": 33,
    "send_cp": 40, "recv_cp": 41,
}  # fmt: skip


@dataclasses.dataclass
class Op:
    """A kernel: compute of a length, or a transfer of a dimension that meets others of the same key."""

    name: str
    us: float = 0.0
    dimension: str = ""
    members: tuple = ()
    stream: int = 7
    # Whether compute waits for the transfer at once. Else kernels whose `after` is its `mark` do, and the optimizer.
    blocks: bool = True
    sent: tuple = ()
    mark: str = ""
    after: str = ""
    seq: int = 0


def chunks(job, stage):
    """Forward and backward passes of a stage, in their order."""
    m = job.microbatches
    if job.schedule == "gpipe":
        return [("F", b) for b in range(m)] + [("B", b) for b in range(m)]
    ahead = min(job.pp - 1 - stage, m)
    order = [("F", b) for b in range(ahead)]
    for b in range(m):
        order += ([("F", b + ahead)] if b + ahead < m else []) + [("B", b)]
    return order


def message(rank, peer, name, dimension, stream, **how):
    sent = (rank, peer) if name == "send" else (peer, rank)
    return Op(name, 0, dimension, (min(sent), max(sent)), STREAMS[stream], sent=sent, **how)


def ring(job, rank, name, us, mark):
    """Attention over the parts of a context: each part is sent on while the one before is computed."""
    place, n = job.place(rank), job.cp
    to, source = (job.rank(place | {"cp": (place["cp"] + by) % n}) for by in (1, -1))
    for part in range(n):
        here = f"{mark} {part}"
        if part < n - 1:
            yield message(rank, to, "send", "cp", "send_cp", blocks=False)
            yield message(rank, source, "recv", "cp", "recv_cp", blocks=False, mark=here)
        yield Op(name, us / n, after=f"{mark} {part - 1}")


def layer(job, rank, kind, us, mark):
    """The compute of a layer with what it exchanges on the way; backward takes twice as long as forward."""
    exchange = Op("all_to_allv", 0, "ep", job.group("ep", rank), STREAMS["ep"])
    suffix = "a" if kind == "F" else "b"
    if job.ep > 1:
        yield from [Op(f"gemm_{suffix}", us / 2, after=mark), exchange]
        yield from [Op(f"expert_gemm_{suffix}", us / 2), exchange]
    elif job.cp > 1:
        yield Op(f"gemm_{suffix}", us / 2, after=mark)
        yield from ring(job, rank, f"flash_fwd_{suffix}", us / 2, f"ring {mark}")
    else:
        yield Op(f"gemm_{suffix}", us, after=mark)
    if job.tp > 1:
        yield Op("allreduce", 0, "tp", job.group("tp", rank), STREAMS["tp"])


def gathers(job, rank, kind, number):
    """FSDP: the parameters of the next layer are gathered while this one computes."""
    wanted = [number] if number == 0 else []
    wanted += [number + 1] if number + 1 < job.layers else []
    for at in wanted:
        group = job.group("dp", rank)
        yield Op("_allgather_base", 0, "fsdp", group, STREAMS["gather"], False, mark=f"{kind} {at}")


def training(job, rank):
    stage, forward = job.place(rank)["pp"], job.us / 3 / job.layers / job.microbatches
    ahead = job.tp * job.cp
    for kind, b in chunks(job, stage):
        before, after = (-1, 1) if kind == "F" else (1, -1)
        if 0 <= stage + before < job.pp:
            yield message(rank, rank + ahead * before, "recv", "pp", f"recv_{kind}")
        for number in range(job.layers):
            # What a forward has gathered is kept for the backward where there are several micro-batches.
            if job.fsdp and b == 0 and (kind == "F" or job.microbatches == 1):
                yield from gathers(job, rank, kind, number)
            yield from layer(job, rank, kind, forward * (1 if kind == "F" else 2), f"{kind} {number}")
            if kind == "B" and b == job.microbatches - 1:
                how = ("_reduce_scatter_base", "fsdp", "scatter") if job.fsdp else ("allreduce", "dp", "dp")
                yield Op(how[0], 0, how[1], job.group("dp", rank), STREAMS[how[2]], False)
        if 0 <= stage + after < job.pp:
            yield message(rank, rank + ahead * after, "send", "pp", f"send_{kind}", blocks=False)
    yield Op("adam", ADAM_SHARE * job.us)


# Kernels of a layer of a decoder with their share of its time; transfers lie behind the third and the last.
DECODER = [("rms_norm", 0.04), ("gemm_qkv", 0.2), ("paged_attention", 0.16), ("gemm_o", 0.1), ("rms_norm", 0.04)]
DECODER += [("gemm_up", 0.28), ("silu_and_mul", 0.04), ("gemm_down", 0.14)]


def decoding(job, rank):
    sums = Op("allreduce", 0, "tp", job.group("tp", rank), STREAMS["tp"] if not job.graph else 7)
    for _ in range(job.layers):
        for name, share in DECODER:
            yield Op(name, 0.95 * job.us * share / job.layers)
            if name in ("gemm_o", "gemm_down"):
                yield sums
    yield from [Op("gemm_lm_head", 0.04 * job.us), Op("argmax_sampling", 0.01 * job.us)]


def program(job, rank):
    return list(decoding(job, rank) if job.serving else training(job, rank))
