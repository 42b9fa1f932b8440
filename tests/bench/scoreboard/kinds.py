"""What was changed, in words, by script and kind."""

HEADINGS = {
    "injected": "Changes in recordings", "planted_jobs": "Simulated jobs: a cause planted in their programs",
    "planted_clocks": "Simulated jobs: lower clocks", "straggler_power": "Simulated jobs: a rank that is late",
}  # fmt: skip
WORDS = {
    "injected": {
        "pause_operator": "a host stands still inside an operator or a function",
        "pause_between": "a host stands still inside a range, between its operators",
        "pause_nowhere": "a host stands still where no event is open",
        "gap": "ranks stand still between two steps, in a named event or in none",
        "late": "a host stands still before the first collective of a step",
        "rotate": "in each step another rank stands still", "in_turn": "two ranks stand still in turn",
        "launch_calls": "each call that launches something takes longer",
        "allocation": "a call of cudaMalloc before a launch, in each of the steps",
        "kernel": "kernels of one name take longer",
        "device": "all kernels of a rank take longer", "more_launches": "a kernel is launched more often",
        "copy_exposed": "a kernel waits for a copy", "link": "the transfers of one group take longer",
        "copy_hidden": "a copy that nothing waits for", "clock_host": "the clock of a host is off by a constant",
        "clock_device": "the clock of a device is off by a constant", "drift": "a clock drifts",
        "jitter": "a clock is off by up to 50 us, from step to step",
        "lose_stream": "the kernels of one stream are missing", "lose_launches": "some or all launches are missing",
        "lose_kernels": "some kernels are missing", "lose_rank": "a rank is missing",
        "cut": "a file ends in its middle", "double": "each event of a rank is there twice",
        "rename": "functions and correlations have other names and numbers",
        "shift": "all times are later by a constant", "shuffle": "events stand in another order",
        "permute": "the ranks change their numbers",
        "blind": "kernels of collectives have a name that says nothing, and may not be called slow kernels",
    },
    "planted_jobs": {
        "rank": "one rank is slow", "stage": "a stage of the pipeline is slow", "tpgroup": "a TP group is slow",
        "nic": "all transfers with one rank are slow", "link": "the messages between two ranks are slow",
        "expert": "an expert gets more tokens", "steps": "one rank is slow in some steps",
        "pauses": "a pause that comes on another rank in each step", "gap": "a longer gap before each iteration",
        "none": "nothing is planted", "lasting": "nothing is planted, and noise lasts for several steps",
    },
    "planted_clocks": {
        "rank_power": "one rank has lower clocks, at its limit of power",
        "rank_thermal": "one rank has lower clocks, and is hot",
        "all_power": "all ranks have lower clocks, at their limit of power",
        "all_thermal": "all ranks have lower clocks, and are hot", "none": "nothing is planted",
        "equal": "all clocks are equal", "idle": "idle devices lower their clocks",
        "one_sample": "clocks are lower, and one sample was recorded",
        "sampled": "clocks are lower, and other counters were sampled, too",
        "normal_clock": "a rank is slow at a normal clock", "derived": "cycles of kernels are recorded, not clocks",
        "memory_bound": "clocks are lower, and kernels wait for memory", "models": "devices of several models",
    },
    "straggler_power": {
        "longer_10": "one rank works longer by 10 % of a step", "longer_30": "the same by 30 %",
        "balanced_2": "all ranks work as long, with noise of 2 %", "balanced_5": "the same with noise of 5 %",
        "balanced_10": "the same with noise of 10 %", "balanced_pauses": "the same with pauses of 5 % of the times",
        "balanced_lasting": "the same with noise of 5 % that lasts for several steps",
    },
}  # fmt: skip
# Kinds of change that a review added to the list. They are counted apart.
ADDED = {"in_turn", "launch_calls", "allocation"}
# Before `_` in the kinds of simulated jobs.
FAMILIES = {
    "moe": "with experts beside other dimensions", "fsdp": "with sharded parameters",
    "cp": "with context parallel ranks", "serve": "in a tensor parallel server",
}  # fmt: skip


def words_of(script, kind):
    """The words of a kind, or nothing."""
    known = WORDS.get(script, {})
    family, _, plant = kind.partition("_")
    if kind not in known and family in FAMILIES and plant in known:
        return f"{known[plant]}, {FAMILIES[family]}"
    return known.get(kind, "")
