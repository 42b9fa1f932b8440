"""Simulated jobs: the kernels, transfers and steps of all ranks, with one thing planted and what it costs.

Programs run on simulated streams: a collective starts when its last member arrives, a message when both ends do, and
the host is far ahead. The kernels, the steps and the transfers vary by chance; the same seed gives the same chances
with and without what is planted.
"""

import collections
import dataclasses
import functools
import math
import random

from .programs import program

START_US = 1_005_000.0
LOADER_US, LAUNCH_US = 300.0, 6.0
TP_US = 30.0


@dataclasses.dataclass
class Job:
    seed: int
    world: int = 16
    tp: int = 1
    pp: int = 1
    ep: int = 1
    cp: int = 1
    # The parameters are sharded over the data parallel ranks.
    fsdp: bool = False
    # Decode iterations of a server instead of steps of training; `graph`: replays of a graph.
    serving: bool = False
    graph: bool = False
    microbatches: int = 1
    layers: int = 4
    steps: int = 8
    us: float = 20_000
    pp_us: float = 40
    sigma: float = 0.02
    sig_step: float = 0.01
    rho: float = 0.0
    schedule: str = "gpipe"
    names: str = "short"
    whole_pp: bool = False
    # Whether operators show where the backward passes run.
    autograd: bool = False
    # What is planted, and how much of it: kernels are longer, transfers slower, or tokens more by this multiple;
    # pauses and gaps last for this share of `us`.
    kind: str = "none"
    ranks: tuple = ()
    amount: float = 0.0
    slow_steps: tuple = ()

    def sizes(self):
        """Ranks along each dimension, the one of neighbours first."""
        return {"tp": self.tp, "cp": self.cp, "pp": self.pp, "dp": self.world // (self.tp * self.cp * self.pp)}

    def layout(self):
        sizes = self.sizes()
        named = {"TP": self.tp, "CP": self.cp, "PP": self.pp, "FSDP" if self.fsdp else "DP": sizes["dp"], "EP": self.ep}
        return " ".join(f"{name}{n}" for name, n in named.items() if n > 1)

    def setting(self):
        """The layout and what else hta may find easy or hard."""
        words = [self.layout(), f"{self.schedule} m{self.microbatches}" if self.pp > 1 else "", self.names]
        words.append(("graph" if self.graph else "eager") + " decode" if self.serving else "")
        return " ".join(filter(None, words))

    def place(self, rank):
        of = {}
        for dimension, n in self.sizes().items():
            rank, of[dimension] = divmod(rank, n)
        return of

    def rank(self, place):
        rank = 0
        for dimension, n in reversed(self.sizes().items()):
            rank = rank * n + place[dimension]
        return rank

    def group(self, dimension, rank):
        """The ranks that exchange along a dimension. Gradients are those of all parts of a context, too."""
        place, sizes = self.place(rank), self.sizes()
        first = place["dp"] // self.ep * self.ep
        if dimension == "ep":
            places = [{"dp": first + i} for i in range(self.ep)]
        elif dimension == "dp":
            places = [{"dp": i, "cp": part} for i in range(sizes["dp"]) for part in range(self.cp)]
        else:
            places = [{dimension: i} for i in range(sizes[dimension])]
        return tuple(self.rank(place | of) for of in places)

    def slower(self, rank, step):
        is_here = self.kind in ("rank", "steps", "stage", "tpgroup") and rank in self.ranks
        return self.amount if is_here and (not self.slow_steps or step in self.slow_steps) else 0.0

    def pause(self, rank, step, number):
        """How long the host stands still before it launches a kernel: in each step on another rank."""
        if self.kind != "pauses" or self.ranks[step] != rank:
            return 0.0
        return self.amount * self.us if number == 1 + (self.seed + step) % 3 else 0.0

    def gap(self):
        """How long the host of each rank is busy before it launches the first kernel of a step."""
        return self.amount * self.us if self.kind == "gap" else LOADER_US

    def load(self, rank):
        """Tokens of a rank as a multiple of the mean; what one rank of a group has more, the others have less."""
        if self.kind != "expert" or self.place(rank)["pp"] != self.place(self.ranks[0])["pp"]:
            return 1.0
        return 1 + self.amount if rank in self.ranks else 1 - self.amount / (self.ep - 1)

    def transfer(self, op):
        layer = self.us / 3 / self.layers
        us = {
            "tp": 12.0 if self.serving else TP_US, "ep": 0.135 * layer / self.microbatches, "pp": self.pp_us,
            "dp": 0.6 * layer, "fsdp": 0.4 * layer, "cp": 0.25 * layer / self.cp / self.microbatches,
        }[op.dimension]  # fmt: skip
        nic = self.kind == "nic" and set(self.ranks) & set(op.members)
        link = self.kind == "link" and op.sent and set(self.ranks) == set(op.members)
        return us * (1 + self.amount if nic or link else 1.0)


def steps_noise(job, chance):
    """Factors of (rank, step), lasting over steps by rho."""
    of = {}
    for rank in range(job.world):
        last = chance.gauss(0, 1)
        for step in range(job.steps):
            of[rank, step] = math.exp(job.sig_step * last)
            last = job.rho * last + math.sqrt(1 - job.rho**2) * chance.gauss(0, 1)
    return of


def numbered(ops, counts):
    """The same kernels, the transfers with their number among those of the same members."""
    for op in ops:
        if op.dimension:
            key = (op.sent or op.members, op.dimension)
            counts[key] += 1
            op = dataclasses.replace(op, seq=counts[key])
        yield op


@functools.lru_cache(maxsize=200_000)
def of_transfer(seed, key, members):
    """By how much a transfer is longer than usual, and when each member sees its end, us."""
    chance = random.Random(f"{seed} {key}")
    return math.exp(0.05 * chance.gauss(0, 1)), [chance.expovariate(1 / 2.7) for _ in range(members)]


def drawn(job):
    """The chances of a job, which what is planted does not change: factors of steps, the kernels of each rank and step,
    and their factors."""
    chance = random.Random(job.seed)
    noise = steps_noise(job, chance)
    programs = [program(job, rank) for rank in range(job.world)]
    counts = [collections.Counter() for _ in range(job.world)]
    ops = [[list(numbered(programs[r], counts[r])) for _ in range(job.steps)] for r in range(job.world)]
    return noise, ops, [[[math.exp(job.sigma * chance.gauss(0, 1)) for _ in of] for of in rank] for rank in ops]


def simulate(job, chances=None):
    """Runs all ranks: (op, launched, start, end) of each kernel, and (start, last launch, end) of each step, in us."""
    noise, ops, factors = chances or drawn(job)
    met, met_ends, rows, steps = {}, {}, [[] for _ in range(job.world)], [[] for _ in range(job.world)]

    def run(rank):
        at, load = START_US, job.load(rank)
        for step in range(job.steps):
            launch, ready, ends, marked = at + job.gap(), 0.0, {}, {}
            own = noise[rank, step] * (1 + job.slower(rank, step))
            for number, (op, factor) in enumerate(zip(ops[rank][step], factors[rank][step])):
                launch += job.pause(rank, step, number)
                for key in ends.values() if op.name == "adam" else marked.get(op.after, []):
                    while (rank, key) not in met_ends:
                        yield
                    ready = max(ready, met_ends[rank, key] + 2)
                if not op.dimension:
                    start = max(ready, launch + 4)
                    ready = start + op.us * own * factor * (load if op.name.startswith("expert") else 1)
                    rows[rank].append((op, launched(launch, at), start, ready))
                else:
                    key = (op.sent or op.members, op.dimension, op.seq)
                    before = ends.get(op.stream)
                    while before and (rank, before) not in met_ends:
                        yield
                    start = max(ready + 1 if ready else 0, launch + 4, met_ends[rank, before] + 1 if before else 0)
                    arrived = met.setdefault(key, {})
                    arrived[rank] = start
                    ends[op.stream] = key
                    if op.mark:
                        marked[op.mark] = [key]
                    rows[rank].append((op, launched(launch, at), start, None, key))
                    if len(arrived) == len(op.members):
                        last = max(arrived.values())
                        usual, (factor, later) = job.transfer(op), of_transfer(job.seed, key, len(op.members))
                        for r, jitter in zip(op.members, later):
                            met_ends[r, key] = last + usual * factor + jitter
                    if op.blocks:
                        while (rank, key) not in met_ends:
                            yield
                        ready = met_ends[rank, key] + 2
                launch += 0 if job.graph else LAUNCH_US
            steps[rank].append((at, launch, ready + 8))
            at = ready + 8

    def launched(launch, at):
        return at + job.gap() if job.graph else launch

    waiting = [run(r) for r in range(job.world)]
    while waiting:
        waiting = [of for of in waiting if next(of, waiting) is not waiting]
    rows = [[(row[0], row[1], row[2], row[3] or met_ends[r, row[4]]) for row in of] for r, of in enumerate(rows)]
    return rows, steps


def length_us(job, chances):
    """From the first start to the last end of any rank."""
    _, steps = simulate(job, chances)
    return max(of[-1][2] for of in steps) - START_US


def repaired(job):
    """The job without what is planted. Nobody can take the work of a heavy stage away, but the stages can share it."""
    if job.kind != "stage":
        return dataclasses.replace(job, amount=0.0)
    return dataclasses.replace(job, ranks=tuple(range(job.world)), amount=job.amount / job.sizes()["pp"])


def calibrated(job, pct, most):
    """The job with so much planted, at most `most`, that it costs about `pct` percent of the job; what it costs by the
    same chances when it is repaired, and how long the job takes."""
    chances = drawn(job)
    wanted, tried, amount = pct / (100 - pct), [(0.0, 0.0)], min(most, pct / 50)
    without, base = None, 0.0
    for _ in range(8):
        planted = dataclasses.replace(job, amount=amount)
        if without != repaired(planted):
            without = repaired(planted)
            base = length_us(without, chances)
        length = length_us(planted, chances)
        part = (length - base) / base
        if abs(part - wanted) < 0.1 * wanted or (amount == most and part < wanted):
            break
        tried.append((part, amount))
        low = max((of for of in tried if of[0] < wanted), key=lambda of: of[1])
        high = min((of for of in tried if of[0] >= wanted), default=None)
        if high:
            share = (wanted - low[0]) / (high[0] - low[0])
            amount = low[1] + min(0.9, max(0.1, share)) * (high[1] - low[1])
        else:
            amount = min(most, 2.5 * amount)
    return planted, length - base, length
