#!/usr/bin/env python3
"""Records traces in which the cause of lost time is known, because it was planted, on one NVIDIA GPU.

    python3 tests/data/causes/record.py OUT [CAUSE...]

Writes OUT/<cause>.json.gz for each cause: four steps of a small model, recorded by torch.profiler with shapes. Each
function below plants one cause and says what it is; `healthy` and `healthy_conv` plant none. Needs PyTorch with CUDA.
"""

import gc
import os
import sys
import tempfile
import threading
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

DEV = "cuda"
WAIT, WARMUP, ACTIVE = 1, 3, 4
CAUSES = {}


def cause(function=None, *, stack=False):
    def add(f):
        CAUSES[f.__name__] = (f, stack)
        return f

    return add(function) if function else add


class Block(nn.Module):
    """A transformer block of matrix products and fused attention: little that a repair could gain."""

    def __init__(self, width=2048, heads=16):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, t, c))
        return self.down(self.activate(self.up(x)))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def activate(self, x):
        return torch.relu_(x)


def trainer(make=Block, dtype=torch.bfloat16, layers=4, batch=(8, 1024), width=2048):
    model = nn.Sequential(*[make(width) for _ in range(layers)]).to(DEV, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(*batch, width, device=DEV, dtype=dtype)

    def step(x=x):
        optimizer.zero_grad(set_to_none=True)
        model(x).float().pow(2).mean().backward()
        optimizer.step()

    return step


@cause
def healthy():
    """Nothing: large bf16 matrix products and fused attention keep the GPU busy."""
    return trainer(batch=(16, 2048))


@cause
def healthy_conv():
    """Nothing: bf16 convolutions in channels_last."""
    model = nn.Sequential(*[nn.Conv2d(256, 256, 3, padding=1, bias=False) for _ in range(6)])
    model = model.to(DEV, torch.bfloat16).to(memory_format=torch.channels_last)
    x = torch.randn(64, 256, 56, 56, device=DEV, dtype=torch.bfloat16).to(memory_format=torch.channels_last)

    def step():
        model.zero_grad(set_to_none=True)
        model(x).mean().backward()

    return step


class Slow(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        return torch.randn(1024, 2048, generator=torch.Generator().manual_seed(i)).to(torch.bfloat16)


@cause
def data_loader():
    """The data loader makes each batch on the main thread (num_workers=0), and the GPU waits for it."""
    train, batches = trainer(), iter(DataLoader(Slow(), batch_size=8, num_workers=0))
    return lambda: train(next(batches).to(DEV))


@cause
def data_loader_workers():
    """One worker of the data loader is too slow, and the GPU waits for it."""
    train = trainer()
    batches = iter(DataLoader(Slow(), batch_size=8, num_workers=1, pin_memory=True))
    return lambda: train(next(batches).to(DEV, non_blocking=True))


@cause
def host_sync():
    """`.item()` after every small layer empties the queue, so that the GPU idles while the next is launched."""
    layers = [nn.Linear(1024, 1024).to(DEV) for _ in range(24)]
    x = torch.randn(256, 1024, device=DEV)

    def step():
        y = x
        for layer in layers:
            y = torch.tanh(layer(y))
            for _ in range(4):
                y = y * 1.0001 + 0.0001
            if y.abs().max().item() > 1e6:
                raise RuntimeError("too large")

    return step


@cause
def host_alloc():
    """The caching allocator is emptied in every step, so that each step calls cudaMalloc and cudaFree."""
    train = trainer(batch=(2, 512))

    def step():
        train()
        torch.cuda.empty_cache()

    return step


@cause
def host_pause():
    """The garbage collector stops the launching thread for tens of milliseconds, wherever it is."""
    train = trainer(batch=(2, 512), layers=8)
    junk = [[i, {}] for i in range(1_500_000)]

    def step(junk=junk):
        gc.disable()
        gc.enable()
        gc.set_threshold(300, 2, 1)
        train()
        gc.set_threshold(700, 10, 10)

    return step


@cause
def host_lock():
    """Another Python thread of the process holds the interpreter lock for long."""
    train = trainer(batch=(2, 512), layers=8)
    sys.setswitchinterval(0.02)

    def spin():
        while True:
            sum(range(200_000))

    threading.Thread(target=spin, daemon=True).start()
    return train


def preprocess(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total


@cause(stack=True)
def host_python():
    """Plain Python work (`preprocess`) before the first launch of each step; recorded with stacks."""
    train = trainer(batch=(4, 1024))

    def step():
        preprocess(1_000_000)
        train()

    return step


@cause
def host_dispatch():
    """Thousands of small operators: the host launches more slowly than the GPU works."""
    layers = [nn.Linear(128, 128).to(DEV) for _ in range(60)]
    optimizer = torch.optim.Adam([p for l in layers for p in l.parameters()], foreach=False)
    x = torch.randn(32, 128, device=DEV)

    def step():
        optimizer.zero_grad()
        y = x
        for layer in layers:
            y = F.gelu(layer(y)) + y
        y.mean().backward()
        optimizer.step()

    return step


@cause
def copy_pageable():
    """Each step copies its batch from pageable memory, and the GPU waits."""
    train = trainer()
    batch = torch.randn(8, 1024, 2048).to(torch.bfloat16).repeat(8, 1, 1)
    return lambda: train(batch.to(DEV)[:8])


class Elementwise(Block):
    """Normalization and activation written out in eager operators."""

    def forward(self, x):
        x = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)
        return super().forward(x) + x

    def activate(self, x):
        return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


@cause
def kernel_elementwise():
    """Unfused elementwise kernels take a large part of the GPU's time."""
    return trainer(Elementwise, layers=8, batch=(16, 1024), width=1024)


class Attention(Block):
    """Attention by two batched matrix products and a softmax."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return torch.softmax(scores, -1) @ v


@cause
def kernel_attention():
    """Attention without a fused kernel, over a long sequence."""
    return trainer(Attention, batch=(2, 4096), width=1024)


@cause
def kernel_layout():
    """Convolutions in bf16 on contiguous tensors: cuDNN converts the layout around each."""
    model = nn.Sequential(*[nn.Conv2d(256, 256, 3, padding=1, bias=False) for _ in range(6)]).to(DEV, torch.bfloat16)
    x = torch.randn(64, 256, 56, 56, device=DEV, dtype=torch.bfloat16)

    def step():
        model.zero_grad(set_to_none=True)
        model(x).mean().backward()

    return step


@cause
def kernel_precision():
    """Matrix products in float32 with TF32 switched off."""
    torch.backends.cuda.matmul.allow_tf32 = False
    step = trainer(dtype=torch.float32, layers=2, batch=(4, 1024))
    return step


@cause
def kernel_small():
    """A CUDA graph of kernels of a few microseconds keeps the GPU busy with small work."""
    layers = [nn.Linear(256, 256).to(DEV) for _ in range(40)]
    x = torch.randn(64, 256, device=DEV)

    def forward():
        y = x
        for layer in layers:
            y = torch.relu(layer(y)) + x
        return y

    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                forward()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            forward()

    def step():
        for _ in range(6):
            graph.replay()

    return step


@cause
def step_outlier():
    """One of the four steps writes a checkpoint, synchronously."""
    train, count = trainer(), [0]
    model = nn.Linear(4096, 4096).to(DEV)

    def step():
        train()
        count[0] += 1
        if count[0] == WAIT + WARMUP + 3:
            with tempfile.TemporaryFile() as file:
                torch.save({"model": model.state_dict()}, file)
            time.sleep(0.03)

    return step


def record(name, out):
    make, stack = CAUSES[name]
    step = make()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    plan = schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1)
    path = os.path.join(out, f"{name}.json.gz")
    with profile(
        activities=activities,
        schedule=plan,
        record_shapes=True,
        with_stack=stack,
        on_trace_ready=lambda p: p.export_chrome_trace(path),
    ) as profiler:
        for _ in range(WAIT + WARMUP + ACTIVE):
            step()
            profiler.step()
    torch.cuda.synchronize()
    print(f"{name}: {os.path.getsize(path):,} bytes", flush=True)


def main():
    out, names = sys.argv[1], sys.argv[2:]
    os.makedirs(out, exist_ok=True)
    if len(names) == 1:
        record(names[0], out)
        return
    # A process for each cause, because what one leaves in the process (threads, settings, memory) would disturb the next.
    for name in names or CAUSES:
        code = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, __file__, out, name])
        if code:
            print(f"{name}: failed with {code}", flush=True)


if __name__ == "__main__":
    main()
