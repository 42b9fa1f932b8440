//! The sections of the page in their order: what the reader is told of them, what makes them, and their
//! grids.
//!
//! A section is one entry here. Its grids that show a table as it is need nothing else; the script shows
//! every grid that it has no chart for as a table. A section with charts has a function in `script/sections`,
//! too.

use crate::output::html::entries::{SectionEntry, made, sentences, table};
use crate::output::html::names::MOST_NAMES;
use crate::output::html::{
    across, breakdown, causes, experts, flame, idle, iterations, lines, memory, modules, names, overview,
    pipelines, time, timeline,
};
use hta_analysis::collectives::tables::{CollectiveSummaries, ProcessGroups};
use hta_analysis::counters::recorded::HardwareByRank;
use hta_analysis::experts::tables::{ExpertLayers, ExpertRanks};
use hta_analysis::fabric::tables::FabricPlaces;
use hta_analysis::kernels::{CategoriesOverRanks, KernelsOverRanks};
use hta_analysis::mesh::tables::{MeshDimensions, RankPlaces};
use hta_analysis::ops::anomalies::AnomaliesOverRanks;
use hta_analysis::ops::mfu::MfuByDevice;
use hta_analysis::ops::over_ranks::OperatorsOverRanks;
use hta_analysis::pipeline::tables::{PipelineChunks, PipelineRanks, PipelineTable, PipelineWhatIf};
use hta_analysis::stragglers::tables::{StragglerCauses, StragglerTable};
use hta_analysis::what_if::WhatIfs;
use hta_base::table::view::{Keep, ViewSpec};
use hta_diagnosis::role_tables::{RoleLoops, RolePhaseTable};
use hta_diagnosis::{FindingEvidence, Findings, VerdictTable};
use hta_job::recording::capability::Capability;

pub(crate) const SECTIONS: &[SectionEntry] = &[
    SectionEntry {
        id: "compare",
        name: "Comparison",
        heading: "Before and after",
        about: "The baseline is before, this run is after. A difference is told from noise where both \
            have three steps or more.",
        topics: &["diff"],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "timeline",
        name: "Timeline",
        heading: "A step on the time axis",
        about: "What every device did at each moment of a step. Arrows lead from a rank that came late \
            to those that waited for it; numbers are the causes below.",
        topics: &["diagnosis"],
        note: "Drag to move, Ctrl and wheel or pinch to zoom, double click to fill. A rank with ▸ unfolds to \
            its streams and threads. Keys: arrows choose, + and - zoom, 0 whole step, Enter unfolds. Time \
            from the start of the step, clocks aligned.",
        make: Some(|of, texts| timeline::section(of.results, of.ranks, of.account(), of.room, texts)),
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "findings",
        name: "Causes",
        heading: "Causes, by what fixing each saves",
        about: "Each lost nanosecond belongs to one cause. What a cause saves is what fixing it alone \
            would give: savings of several causes do not add up.",
        topics: &["diagnosis"],
        make: Some(|of, texts| causes::section(of.results, of.ranks, &of.trust, texts)),
        grids: &[
            sentences(
                "findings",
                "causes",
                ViewSpec {
                    columns: &[
                        "sentence",
                        "action?",
                        "detail?",
                        "place?",
                        "recoverable_ns",
                        "recoverable_pct",
                        "owned_ns",
                        "share_pct",
                        "rank_label?",
                        "step_labels?",
                        "certainty",
                        "reason",
                        "ranks?",
                        "kind",
                        "finding_id",
                    ],
                    keep: &[Keep::IsNot("kind", &["not_explained"])],
                    most: 200,
                    ..ViewSpec::of(Findings::SPEC)
                },
            ),
            sentences(
                "evidence",
                "",
                ViewSpec {
                    columns: &["finding_id", "evidence_table", "words", "filter"],
                    ..ViewSpec::of(FindingEvidence::SPEC)
                },
            ),
            sentences("verdict", "", ViewSpec { columns: &["text"], ..ViewSpec::of(VerdictTable::SPEC) }),
            made("places", "cost of ranks by host", &[]),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "health",
        name: "Input",
        heading: "Problems of the input",
        about: "What was lost, corrected, or odd in the trace files, and files that were refused.",
        topics: &["health"],
        make: Some(|of, texts| overview::health(of.results, texts)),
        grids: &[
            made("problems", "problems by kind", &["counter", "severity"]),
            made("refused", "files that were not analysed", &[]),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "iterations",
        name: "Iterations",
        heading: "Iterations over time",
        about: "Each iteration of the inference engine by its phase: when it began on the device, and how \
            long it took.",
        topics: &["iterations"],
        make: Some(|of, texts| iterations::section(of.results, of.ranks, texts)),
        grids: &[made("iterations", "iterations", &[])],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "breakdown",
        name: "Breakdown",
        heading: "Where the time went",
        about: "Each moment of a step is one of these: compute runs; only communication runs, which \
            waits for another rank or transfers; only copies or sets run (copies); nothing runs (idle). They \
            sum to the step.",
        topics: &["breakdown"],
        make: Some(|of, texts| of.in_lanes(breakdown::section, texts)),
        grids: &[
            made("account", "", &["rank", "device"]),
            made("lanes", "", &["rank", "device"]),
            made("steps", "", &["step"]),
            made("cells", "", &["rank", "device", "step"]),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "stragglers",
        name: "Stragglers",
        heading: "Who makes the others wait",
        about: "How late each rank came to its collectives, by step: what repairing that rank alone would \
            give.",
        topics: &["stragglers"],
        make: Some(|of, texts| across::stragglers(of.results, of.ranks.set.ranks, texts)),
        grids: &[
            table(
                "verdicts",
                "ranks that make the others wait",
                ViewSpec {
                    columns: &[
                        "pattern",
                        "ranks",
                        "gain_per_step_ns",
                        "gain_pct",
                        "steps",
                        "late_step_count",
                        "behind_ranks",
                        "cause",
                        "cause_name",
                        "cause_ns",
                    ],
                    most: 100,
                    ..ViewSpec::of(StragglerTable::SPEC)
                },
            ),
            table(
                "causes",
                "why they are late",
                ViewSpec {
                    columns: &["delta_ns", "rank", "step", "cause", "name", "op", "frame"],
                    by: "delta_ns",
                    sums: &["delta_ns"],
                    most: 100,
                    ..ViewSpec::of(StragglerCauses::SPEC)
                },
            ),
            made("delays", "delay by rank and step", &["ranks", "steps"]),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "mesh",
        name: "Mesh",
        heading: "What the job is",
        about: "Dimensions along which the process groups cut the ranks, and where each rank is: hosts down, \
            ranks of a host across.",
        topics: &["mesh"],
        grids: &[
            table(
                "dimensions",
                "dimensions",
                ViewSpec {
                    columns: &[
                        "role",
                        "replica",
                        "dimension",
                        "description",
                        "size",
                        "stride",
                        "atoms",
                        "used_as",
                        "confidence",
                        "source",
                        "group_count",
                        "call_count",
                        "largest_bytes",
                    ],
                    none: "No process groups of several ranks are recorded.",
                    most: 100,
                    ..ViewSpec::of(MeshDimensions::SPEC)
                },
            ),
            table(
                "places",
                "places of ranks",
                ViewSpec {
                    columns: &[
                        "rank",
                        "role",
                        "replica",
                        "role_rank",
                        "place",
                        "host",
                        "host_source",
                        "local_rank",
                        "device",
                    ],
                    most: 4_096,
                    ..ViewSpec::of(RankPlaces::SPEC)
                },
            ),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "pipeline",
        name: "Pipeline",
        heading: "Bubble of the pipelines",
        about: "Stages of a pipeline wait for each other: for the order of their chunks (schedule), for \
            longer stages (imbalance), for single chunks (jitter), for messages (transfer), and for the rest \
            (lag). The reasons sum to the bubble.",
        topics: &["pipeline"],
        grids: &[
            table(
                "pipelines",
                "bubble by pipeline and step",
                ViewSpec {
                    columns: &[
                        "pipeline",
                        "step",
                        "ranks",
                        "schedule_name",
                        "micro_batches",
                        "t_ns",
                        "bubble_pct",
                        "bubble_ns",
                        "schedule_ns",
                        "imbalance_ns",
                        "jitter_ns",
                        "transfer_ns",
                        "lag_ns",
                        "ideal_pct",
                        "note",
                    ],
                    by: "bubble_ns",
                    none: "No ranks hand on results to each other as stages of a pipeline.",
                    most: 100,
                    ..ViewSpec::of(PipelineTable::SPEC)
                },
            ),
            table(
                "ranks",
                "bubble by rank: before the first backward chunk, after the last forward chunk, between",
                ViewSpec {
                    columns: &[
                        "pipeline",
                        "step",
                        "position",
                        "rank",
                        "busy_ns",
                        "fill_ns",
                        "steady_ns",
                        "drain_ns",
                        "bubble_pct",
                    ],
                    keep: &[Keep::Made(pipelines::KEY, pipelines::drawn)],
                    most: 1_000,
                    ..ViewSpec::of(PipelineRanks::SPEC)
                },
            ),
            table(
                "changes",
                "what a change would give",
                ViewSpec {
                    columns: &[
                        "pipeline",
                        "change",
                        "value",
                        "gain_ns",
                        "step_ns",
                        "per_micro_batch_ns",
                        "needs",
                        "replay_error_pct",
                    ],
                    by: "gain_ns",
                    most: 100,
                    ..ViewSpec::of(PipelineWhatIf::SPEC)
                },
            ),
            table(
                "chunks",
                "chunks of the pipelines that are drawn",
                ViewSpec {
                    columns: &[
                        "pipeline",
                        "step",
                        "rank",
                        "stage",
                        "kind",
                        "micro_batch",
                        "with_stage",
                        "with_micro_batch",
                        "start_ns",
                        "end_ns",
                        "busy_ns",
                        "inner_wait_ns",
                        "inner_idle_ns",
                        "wait_input_ns",
                        "transfer_ns",
                        "lag_ns",
                        "ideal_start_ns",
                        "ideal_end_ns",
                    ],
                    keep: &[Keep::Made(pipelines::KEY, pipelines::drawn)],
                    most: 16_000,
                    ..ViewSpec::of(PipelineChunks::SPEC)
                },
            ),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "experts",
        name: "Experts",
        heading: "Layers of experts",
        about: "Expert time of the ranks between the two exchanges of a layer, and the tokens that they get: \
            more tokens at an equal time per token are an imbalance, more time at equal tokens a slow rank.",
        topics: &["experts"],
        make: Some(|of, texts| experts::section(of.results, texts)),
        grids: &[
            made("loads", "", &[]),
            table(
                "layers",
                "layers by step",
                ViewSpec {
                    columns: &[
                        "layer",
                        "position",
                        "direction",
                        "step",
                        "process_group",
                        "max_ns",
                        "mean_ns",
                        "excess_ns",
                        "hot_rank",
                        "max_over_mean",
                        "per_token_over_mean",
                        "token_share_pct",
                    ],
                    by: "excess_ns",
                    sums: &["excess_ns"],
                    most: 500,
                    ..ViewSpec::of(ExpertLayers::SPEC)
                },
            ),
            table(
                "ranks",
                "passes of ranks",
                ViewSpec {
                    columns: &[
                        "rank",
                        "layer",
                        "position",
                        "direction",
                        "step",
                        "tokens_in",
                        "received_bytes",
                        "expert_ns",
                        "per_token_ns",
                        "dispatch_wait_ns",
                        "combine_wait_ns",
                        "transfer_ns",
                    ],
                    by: "expert_ns",
                    sums: &["expert_ns"],
                    none: "No layers of experts: no exchange of tokens (all_to_all, DeepEP) is recorded.",
                    most: 3_000,
                    ..ViewSpec::of(ExpertRanks::SPEC)
                },
            ),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "fabric",
        name: "Network",
        heading: "Places of the network",
        about: "Hosts, rails, network cards (NICs) and switches that make the transfers of their groups \
            slower than those of groups like them. Grey: the groups of the job cannot tell it, or not alone.",
        topics: &["fabric"],
        grids: &[table(
            "places",
            "places that groups can show",
            ViewSpec {
                columns: &[
                    "kind", "host", "rail", "rank", "to_host", "to_rail", "to_rank", "visible", "set_id",
                    "set_size", "groups", "factor", "p_value", "verdict",
                ],
                keep: &[Keep::Positive("set_size")],
                by: "groups",
                none: "No place of the network can be told: it takes three groups that do the same, over \
                       different places.",
                most: 4_000,
                ..ViewSpec::of(FabricPlaces::SPEC)
            },
        )],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "roles",
        name: "Roles",
        heading: "Roles of the loop",
        about: "What the processes of a loop of several roles do in each of its periods: their phases, and \
            idle time while others generate or train.",
        topics: &["ranks"],
        grids: &[
            table(
                "loops",
                "periods by role",
                ViewSpec {
                    columns: &[
                        "period",
                        "role",
                        "period_ns",
                        "rank_count",
                        "phase_ns",
                        "idle_ns",
                        "idle_pct",
                        "waits_rollout_ns",
                        "waits_train_ns",
                        "tail_ns",
                        "tail_pct",
                        "engine_count",
                    ],
                    none: "No phases of several roles (rollout, training) are recorded on one clock.",
                    most: 500,
                    ..ViewSpec::of(RoleLoops::SPEC)
                },
            ),
            table(
                "phases",
                "phases of ranks",
                ViewSpec {
                    columns: &[
                        "rank",
                        "role",
                        "replica",
                        "role_rank",
                        "period",
                        "start_ns",
                        "phase",
                        "waits_for",
                        "time_ns",
                        "busy_ns",
                        "period_ns",
                    ],
                    sums: &["time_ns", "busy_ns"],
                    most: 6_000,
                    ..ViewSpec::of(RolePhaseTable::SPEC)
                },
            ),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "collectives",
        name: "Collectives",
        heading: "Bandwidth of collectives",
        about: "Bus bandwidth (nccl-tests) of the transfer alone, without the waiting, against the size; the \
            larger the mark, the more time.",
        topics: &["collectives"],
        make: Some(|of, _| across::collectives(of.results, of.ranks.set.ranks)),
        grids: &[
            table(
                "sizes",
                "collectives by kind and size",
                ViewSpec {
                    columns: &[
                        "kind",
                        "dtype",
                        "process_group",
                        "size_bytes",
                        "count",
                        "timed_count",
                        "dur_sum_ns",
                        "wait_sum_ns",
                        "transfer_p50_ns",
                        "start_skew_p50_ns",
                        "alg_bw_gb_per_s",
                        "bus_bw_gb_per_s",
                    ],
                    by: "dur_sum_ns",
                    sums: &["count", "timed_count", "dur_sum_ns", "wait_sum_ns"],
                    most: 1_500,
                    ..ViewSpec::of(CollectiveSummaries::SPEC)
                },
            ),
            table(
                "groups",
                "how calls were matched",
                ViewSpec {
                    columns: &[
                        "process_group",
                        "present_count",
                        "member_count",
                        "matched_by",
                        "call_count",
                        "matched_count",
                        "complete_count",
                        "collective_count",
                    ],
                    sums: &["call_count", "matched_count", "collective_count", "complete_count"],
                    most: 100,
                    ..ViewSpec::of(ProcessGroups::SPEC)
                },
            ),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "idle",
        name: "Idle",
        heading: "Why devices idle",
        about: "Idle time by what was waited for: the host had not submitted yet (and what it did \
            meanwhile), the launch, or something that held the work back.",
        topics: &["idle"],
        make: Some(|of, texts| of.in_lanes(idle::section, texts)),
        grids: &[made("lanes", "", &["rank", "device"]), made("host", "", &["activity", "name"])],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "kernels",
        name: "Kernels",
        heading: "Kernels with most time",
        about: "Summed durations of kernels, copies and sets over all ranks: what they do, which operator \
            launches them with which shapes, and how far they are from what the device can do.",
        topics: &["kernels"],
        grids: &[
            table(
                "kernels",
                "",
                ViewSpec {
                    columns: &[
                        "category",
                        "class",
                        "short_name",
                        "name",
                        "sum_ns",
                        "count",
                        "main_op",
                        "main_op_ns",
                        "main_input_dims",
                        "flops_per_byte",
                        "tflops_per_s",
                        "tb_per_s",
                        "roofline_pct",
                        "bound",
                        "rank_count",
                        "max_rank_ns",
                        "max_rank",
                        "min_ns",
                        "max_ns",
                        "work_ns",
                        "bytes",
                    ],
                    keep: &[Keep::Is("scope", &["span"])],
                    sums: &["sum_ns", "count"],
                    none: "No kernels were recorded: a CPU-only job, or a capture without device activity.",
                    most: MOST_NAMES,
                    ..ViewSpec::of(KernelsOverRanks::SPEC)
                },
            ),
            table(
                "categories",
                "",
                ViewSpec {
                    columns: &["category", "sum_ns", "count", "rank_count"],
                    keep: &[Keep::Is("scope", &["span"])],
                    ..ViewSpec::of(CategoriesOverRanks::SPEC)
                },
            ),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "patterns",
        name: "Patterns",
        heading: "Sequences that repeat",
        about: "Runs of kernels that a stream repeats, with the gaps inside them: what to fuse, or to \
            capture as a CUDA graph.",
        topics: &["patterns"],
        make: Some(|of, texts| names::patterns(of.results, texts)),
        grids: &[made("sequences", "", &["names", "length"])],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "utilization",
        name: "Utilization",
        heading: "GPU utilization over time",
        about: "Share of the time in which some kernel runs; it does not say how full the device is.",
        topics: &["counters"],
        needs: &[Capability::DeviceTime],
        make: Some(|of, texts| time::utilization(of.results, of.ranks, texts)),
        grids: &[
            made("stretches", "utilization over time", &[]),
            made("map", "utilization by rank", &[]),
            table(
                "recorded",
                "recorded hardware counters by rank",
                ViewSpec {
                    columns: &[
                        "rank",
                        "device",
                        "sampled_every_ns",
                        "sm_active_pct",
                        "sm_efficiency_pct",
                        "sm_active_busy_pct",
                        "hbm_busy_pct",
                        "sm_clock_mhz",
                        "power_w",
                        "temperature_max_c",
                        "step_count",
                        "step_energy_j",
                        "token_energy_j",
                    ],
                    most: 200,
                    ..ViewSpec::of(HardwareByRank::SPEC)
                },
            ),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "critical-path",
        name: "Critical path",
        heading: "The critical path",
        about: "The chain of work and waiting that a step's length is made of, by class: only what is on it \
            can make the step shorter.",
        topics: &["critical-path"],
        make: Some(|of, texts| time::critical_path(of.results, of.lanes.as_ref(), texts)),
        grids: &[
            made("classes", "the path by class", &["class", "window"]),
            made("names", "names with most of the path", &["class", "window", "name"]),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "memory",
        name: "Memory",
        heading: "Memory over time",
        about: "How much is allocated, what holds it at the peak, and whether it grows from step to step.",
        topics: &["memory"],
        make: Some(|of, texts| memory::section(of.results, of.ranks, texts)),
        grids: &[
            made("peaks", "", &["rank", "device"]),
            made("content", "", &["kind", "holder"]),
            made("steps", "", &["step"]),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "ops",
        name: "Operators",
        heading: "Operators, Python",
        about: "Own and total time on the host and of the GPU work launched; how fast the work ran against \
            what the device can do; calls that make host and GPU wait; file and line where stacks were \
            recorded.",
        topics: &["ops"],
        make: Some(|of, texts| names::operators(of.results, texts)),
        grids: &[
            table(
                "operators",
                "",
                ViewSpec {
                    columns: &[
                        "name",
                        "gpu_self_ns",
                        "host_self_ns",
                        "gpu_ns",
                        "host_ns",
                        "count",
                        "rank_count",
                    ],
                    keep: &[Keep::Is("scope", &["capture"])],
                    sums: &["gpu_self_ns", "host_self_ns", "gpu_ns", "host_ns", "count"],
                    none: "No operators were recorded.",
                    most: MOST_NAMES,
                    ..ViewSpec::of(OperatorsOverRanks::SPEC)
                },
            ),
            table(
                "waits",
                "",
                ViewSpec {
                    columns: &[
                        "kind",
                        "name",
                        "first_stack",
                        "host_ns",
                        "gpu_ns",
                        "count",
                        "rank_count",
                        "max_rank_ns",
                        "max_rank",
                    ],
                    sums: &["host_ns", "gpu_ns", "count"],
                    most: 80,
                    ..ViewSpec::of(AnomaliesOverRanks::SPEC)
                },
            ),
            table(
                "roofline",
                "",
                ViewSpec {
                    columns: &[
                        "name",
                        "work_busy_ns",
                        "work_count",
                        "flops_per_byte",
                        "tflops_per_s",
                        "tb_per_s",
                        "roofline_pct",
                        "bound",
                    ],
                    keep: &[
                        Keep::Is("scope", &["capture"]),
                        Keep::Positive("work_busy_ns"),
                        Keep::Known("flops_per_byte"),
                    ],
                    by: "work_busy_ns",
                    most: MOST_NAMES,
                    ..ViewSpec::of(OperatorsOverRanks::SPEC)
                },
            ),
            table(
                "mfu",
                "",
                ViewSpec {
                    columns: &[
                        "rank",
                        "device",
                        "device_name",
                        "number",
                        "peak_tflops_per_s",
                        "peak_tb_per_s",
                        "tflops_per_s",
                        "mfu_pct",
                        "hfu_pct",
                        "coverage_pct",
                    ],
                    keep: &[Keep::Positive("matrix_flops")],
                    ..ViewSpec::of(MfuByDevice::SPEC)
                },
            ),
            made("python", "", &["name", "thread"]),
        ],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "modules",
        name: "Modules",
        heading: "Modules of the model",
        about: "The time of each module, forward and backward, on the GPU and on the host, of all ranks or \
            of one.",
        topics: &["ops"],
        note: "Keys: up and down, right unfolds, left folds. A module stands with the time of all its calls; \
            that of its backward pass is where autograd joins it (with sequence numbers or flows).",
        make: Some(|of, texts| modules::section(of.results, of.ranks, texts)),
        grids: &[made("tree", "", &["rank", "path"])],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "flame",
        name: "Flame graph",
        heading: "Flame graph",
        about: "Calls on the host with the GPU work launched in them: the wider, the more time. Python, \
            operators, API calls and kernels; choose the host's time, or that of the GPU forward and \
            backward.",
        topics: &["ops"],
        note: "A click fills the width and shows all levels below; a click on the same bar, or on the line \
            above it, leads out. Keys: arrows, Enter fills, Escape shows all. GPU work of the backward pass \
            stands below the forward operator that it belongs to.",
        make: Some(|of, texts| flame::section(of.results, of.ranks, texts)),
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "lines",
        name: "Source lines",
        heading: "Source lines",
        about: "Time of the host by line of user code, and the GPU work that it launched.",
        topics: &["lines"],
        make: Some(|of, texts| lines::section(of.results, texts)),
        grids: &[made("lines", "", &["name", "thread"])],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "what-if",
        name: "What if",
        heading: "What fixes would save",
        about: "The step replayed with one rank, step or cause at its usual time.",
        topics: &["what-if"],
        grids: &[table(
            "repairs",
            "repairs",
            ViewSpec {
                columns: &["scope", "what", "step_ns", "gain_ns", "gain_pct"],
                keep: &[Keep::Positive("gain_ns")],
                none: "Fixing no rank, step or cause would make the step shorter. With one rank, or \
                       without matched collectives, there is nothing to replay.",
                most: 100,
                ..ViewSpec::of(WhatIfs::SPEC)
            },
        )],
        ..SectionEntry::NONE
    },
    SectionEntry {
        id: "ranks",
        name: "Ranks",
        heading: "Ranks",
        about: "What was read, rank by rank.",
        topics: &["ranks", "clocks"],
        grids: &[made("ranks", "ranks", &["rank"])],
        ..SectionEntry::NONE
    },
];

/// The grids that stand beside those of another run: section, grid and the columns of the key.
pub(crate) fn compared() -> impl Iterator<Item = (&'static str, &'static str, Vec<&'static str>)> {
    let grids = SECTIONS.iter().flat_map(|section| section.grids.iter().map(|entry| (section.id, entry)));
    grids.map(|(section, entry)| (section, entry.grid, entry.key())).filter(|(.., key)| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_show_columns_that_their_tables_have() {
        for entry in SECTIONS.iter().flat_map(|section| section.grids) {
            let Some(of) = entry.view() else { continue };
            let grid = entry.grid;
            let shown: Vec<&str> = of.columns.iter().map(|name| name.trim_end_matches('?')).collect();
            for name in shown.iter().chain(of.sums) {
                assert!(of.of.column_spec(name).is_some() && shown.contains(name), "{grid}: {name}");
            }
            assert!(
                of.by.is_empty() || of.columns.contains(&of.by),
                "{grid} is sorted by what it does not show"
            );
        }
    }

    #[test]
    fn sections_and_grids_stand_once() {
        let grids = SECTIONS.iter().flat_map(|of| of.grids.iter().map(|entry| (of.id, entry.grid)));
        let mut names: Vec<_> = SECTIONS.iter().map(|of| (of.id, "")).chain(grids).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
