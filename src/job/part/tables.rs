//! The tables that store a [`RankSummary`](crate::part::RankSummary). Positions (of groups, calls,
//! lanes, windows, names) count from 0 within the rank.

use crate::end_together::PartRuns;
use crate::kernel_origin::KernelOrigin;
use crate::local::LocalEntry;
use crate::part::chunks::PartChunks;
use crate::part::{PartLane, PartStep, PartWindow, RankSummary, Readiness};
use crate::ready::HostWait;
use hta_base::table::schema::{Batch, TableSpec, Text};
use hta_base::units::{Ns, Span};
use hta_base::{stored, table};
use hta_facts::experts::kernel_ranks::KernelRanks;
use hta_facts::experts::{ExpertLayer, LayerTokens};
use hta_facts::host_activity::{ActivitySums, HostActivity};
use hta_facts::role_phases::RolePhase;
use hta_facts::token_exchange::TokenExchange;
use hta_trace::collective::{CallShape, LocalGroup, Message};
use hta_trace::meta::ProcessRole;
use hta_trace::strings::StrId;

stored! {
    /// What a part says of its rank: one row.
    pub(crate) struct Heads, HeadRow = "part" by "rank" {
        rank;
        host: Option<Text>, "", "host";
        world_size: Option<u32>, "ranks", "world size";
        role: Option<Text>, "", "role of its program, in a job of several";
        replica: Option<u32>, "", "which of several programs of this role";
        role_rank: Option<u32>, "", "rank inside its program";
        role_first: Option<u32>, "", "number in the job of the program's rank 0";
        role_size: Option<u32>, "ranks", "ranks of the program";
        has_origin: bool, "", "times are on the Unix axis";
        capture_start_ns: i64, "ns", "start of the capture";
        capture_end_ns: i64, "ns", "end of the capture";
        lists_groups: bool, "", "the file lists the groups of its rank";
        device_count: Option<u32>, "", "devices that its host can see";
        is_vllm: bool, "", "names of vLLM occur in it";
        expert_hosts: Option<u32>, "", "hosts that its kernels for experts are made for";
        expert_ranks: Option<u32>, "ranks", "ranks of each of these hosts";
        step_rule: Text, "", "how steps were found";
        gpu_ns: i64, "ns", "summed duration of its activities";
        moe_ns: i64, "ns", "part of it in kernels of experts";
        exchanges_tokens: bool, "", "a kernel or a collective is known to exchange tokens of experts";
        peer_copies_ns: i64, "ns", "copies between devices that count as memory";
        has_symmetric_memory: bool, "", "barriers of symmetric memory are recorded";
        moe_run_count: u32, "", "runs of kernels of experts";
        moe_summed_count: u32, "", "of those, runs that a collective follows which joins parts of a tensor";
    } of RankSummary = (RankSummary {
        rank, host, world: world_size, role: program, has_origin, is_left_out,
        capture: Span { start: capture_start_ns, end: capture_end_ns },
        lists_groups, device_count, is_vllm, kernel_ranks, step_rule,
        tokens: TokenExchange {
            gpu: gpu_ns, moe: moe_ns, is_known: exchanges_tokens, runs: moe_run_count,
            summed: moe_summed_count, peer_copies: peer_copies_ns, has_symmetric_memory, unknown,
        },
        backward_lanes, steps, phases, calls, readiness, lanes, layers, order, origins, chunks, runs, names,
    });
    write {
        let role = &program.as_ref().map(|p| p.name.clone());
        let replica = &program.as_ref().and_then(|p| p.replica);
        let role_rank = &program.as_ref().map(|p| p.rank);
        let role_first = &program.as_ref().map(|p| p.first);
        let role_size = &program.as_ref().map(|p| p.size);
        let expert_hosts = &kernel_ranks.map(|k| k.hosts);
        let expert_ranks = &kernel_ranks.map(|k| k.per_host);
    }
    read {
        let place = Option::zip(role_rank, Option::zip(role_first, role_size));
        let program = Option::zip(role, place);
        let program =
            program.map(|(name, (rank, (first, size)))| ProcessRole { name, replica, rank, first, size });
        let experts = Option::zip(expert_hosts, expert_ranks);
        let kernel_ranks = experts.map(|(hosts, per_host)| KernelRanks { hosts, per_host });
        let is_left_out = false;
        let (backward_lanes, steps, phases, calls, readiness, lanes) = Default::default();
        let (layers, order, origins, chunks, runs, unknown, names) = Default::default();
    }
}

stored! {
    /// One row per step.
    pub(crate) struct PartSteps, PartStepRow = "part_steps" by "step" {
        step: u32, "", "step";
        step_label;
        start_ns: i64, "ns", "start of its window";
        end_ns: i64, "ns", "end of its window";
        host_start_ns: i64, "ns", "when the host had ended the step before";
        is_partial: bool, "", "cut by the capture";
    } of PartStep = (PartStep {
        index: step, label: step_label, window: Span { start: start_ns, end: end_ns }, is_partial,
        host_start: host_start_ns, host,
    });
    read { let host = ActivitySums::default(); }
}

stored! {
    /// One row per step and activity of the threads that launch the work of devices.
    pub(crate) struct PartHosts, PartHostRow = "part_hosts" by "step, activity" {
        step: u32, "", "step";
        activity: Text, "", "what the threads do";
        time_ns: i64, "ns", "their time";
    } of u32 = (step), HostActivity = (activity), Ns = (time_ns);
}

stored! {
    /// One row per thread that submits collectives in the backward pass.
    pub(crate) struct BackwardLanes, BackwardLaneRow = "part_backward" by "thread" {
        thread: u32, "", "lane of the thread";
    } of u32 = (thread);
}

stored! {
    /// One row per phase in a loop of several roles.
    pub(crate) struct PartPhaseTable, PartPhaseRow = "part_phases" by "start_ns" {
        phase: Text, "", "kind";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
        busy_ns: i64, "ns", "part of it in which a device worked";
    } of RolePhase = (RolePhase {
        phase, span: Span { start: start_ns, end: end_ns }, busy: busy_ns,
    });
}

stored! {
    /// One row per process group as the rank names it.
    pub(crate) struct PartGroups, GroupRow = "part_groups" by "position" {
        name: Option<Text>, "", "name";
        description: Option<Text>, "", "description";
        size: Option<u32>, "ranks", "members";
        has_members: bool, "", "all members are known";
        pointer: Option<u64>, "", "what tells groups without a name apart";
    } of LocalGroup = (LocalGroup { name, desc: description, size, members, head, pointer }),
        bool = (has_members);
    read { let (members, head) = (None, Vec::new()); }
}

table! {
    /// One row per member of a process group, or one for all where they are at equal distances.
    pub struct PartMembers, MemberRow = "part_members" by "position" {
        process_group: u32, "", "position of the group";
        is_head: bool, "", "of a list that is cut";
        member: u32, "", "rank; the first of several";
        stride: u32, "", "distance between ranks";
        count: u32, "ranks", "how many ranks the row stands for";
    }
}

stored! {
    /// One row per element type.
    pub(crate) struct Dtypes, DtypeRow = "part_dtypes" by "position" {
        dtype: Text, "", "element type; the first is unknown";
    } of String = (dtype);
}

stored! {
    /// One row per title of a collective.
    pub(crate) struct PartTitles, PartTitleRow = "part_titles" by "position" {
        title: Text, "", "title, as recorded; the first is none";
    } of String = (title);
}

/// Of a call: event, submission, span, when whoever waits for it goes on, number within the group, step.
type CallTimes = (u32, Ns, Span, Ns, Option<u64>, Option<u32>);

stored! {
    /// One row per call of a collective.
    pub(crate) struct PartCallTable, PartCallRow = "part_calls" by "submission" {
        event_id: u32, "", "the kernel, or the range on the host";
        submit_ns: i64, "ns", "when it was submitted";
        thread: Option<u32>, "", "lane of the submitting thread";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
        released_ns: i64, "ns", "when whoever waits for it goes on";
        kind: Text, "", "kind";
        process_group: u32, "", "position of the group";
        seq: Option<u64>, "", "number within the group";
        size_bytes: Option<i64>, "bytes", "size";
        dtype: u32, "", "position of the element type";
        root: Option<u32>, "", "rank of the root";
        rank_arg: Option<u32>, "", "what stands as `Rank`";
        title: u32, "", "position of the title";
        peer: Option<u32>, "", "position of the other rank of a message in a group that is not recorded";
        step: Option<u32>, "", "step";
        device; stream;
        on_host: bool, "", "a range on the host";
        ready_ns: i64, "ns", "when the rank was ready for it";
        runs_on: bool, "", "the rank computes across its end, or submits the next one before it";
        is_awaited: bool, "", "the rank waited for its end";
        idle_since_ns: i64, "ns", "since when nothing was computed at its end";
        host_from_ns: Option<i64>, "ns",
            "when the submitting thread last returned from waiting for the end of a collective";
        host_after: Option<u32>, "", "position of that collective's call";
    } of CallTimes = ((event_id, submit_ns, Span { start: start_ns, end: end_ns }, released_ns, seq, step)),
        CallShape = (CallShape {
            kind, group: process_group, thread, bytes: size_bytes, dtype, root, rank_arg, peer, device,
            stream, title, on_host,
        }),
        Readiness = (Readiness {
            ready: ready_ns, runs_on, is_awaited, idle_since: idle_since_ns, host_wait,
        });
    write {
        let (host_from_ns, host_after) = (&host_wait.map(|w| w.returned), &host_wait.map(|w| w.call));
    }
    read {
        let waited = Option::zip(host_from_ns, host_after);
        let host_wait = waited.map(|(returned, call)| HostWait { returned, call });
    }
}

stored! {
    /// One row per message between two ranks inside a call.
    pub(crate) struct Edges, EdgeRow = "part_edges" by "call" {
        call: u32, "", "position of the call";
        src: u32, "", "sender";
        dst: u32, "", "receiver";
        size_bytes: Option<i64>, "bytes", "size";
    } of Message = (Message { call, src, dst, bytes: size_bytes });
}

stored! {
    /// One row per pass through an expert layer.
    pub(crate) struct PartLayers, PartLayerRow = "part_layers" by "dispatch" {
        dispatch: u32, "", "position of the call that sends tokens to their experts";
        combine: u32, "", "position of the call that brings results back";
        before_dispatch: Option<u32>, "", "position of the barrier of the library before the dispatch";
        behind_dispatch: Option<u32>, "", "position of that behind it";
        before_combine: Option<u32>, "", "position of that before the combine";
        behind_combine: Option<u32>, "", "position of that behind it";
        direction: Text, "", "part of the step";
        ordinal: u32, "", "position among the layers of its step and direction";
        name: Text, "", "name of its module or annotation; empty where none is recorded";
        expert_ns: Option<i64>, "ns", "time of the experts; null: inside fused kernels";
        received_bytes: Option<i64>, "bytes", "received in the dispatch";
        sent_bytes: Option<i64>, "bytes", "sent in the dispatch";
        own_bytes: Option<i64>, "bytes", "part of both that stays on the rank";
        token_bytes: Option<i64>, "bytes", "size of a token";
    } of ExpertLayer = (ExpertLayer {
        dispatch, combine, barriers: [[before_dispatch, behind_dispatch], [before_combine, behind_combine]],
        direction, ordinal, name, expert: expert_ns,
        tokens: LayerTokens {
            received: received_bytes, sent: sent_bytes, own: own_bytes, of_token: token_bytes, sent_parts,
            received_parts,
        },
    });
    read { let (sent_parts, received_parts) = (Vec::new(), Vec::new()); }
}

stored! {
    /// One row per expert layer and member of its group.
    pub(crate) struct PartTokens, PartTokenRow = "part_tokens" by "layer" {
        layer: u32, "", "position of the layer";
        is_received: bool, "", "received from the member; else sent to it";
        size_bytes: i64, "bytes", "size";
    } of u32 = (layer), bool = (is_received), i64 = (size_bytes);
}

stored! {
    /// One row per device, or host where collectives run there.
    pub(crate) struct PartLanes, LaneRow = "part_lanes" by "position" {
        device;
        is_gpu: bool, "", "a device";
    } of PartLane = (PartLane { device, is_gpu, exposed, windows, local });
    read { let (exposed, windows, local) = Default::default(); }
}

stored! {
    /// One row per stretch of communication without compute.
    pub(crate) struct Exposed, ExposedRow = "part_exposed" by "lane, start_ns" {
        lane: u32, "", "position of the lane";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    } of u32 = (lane), Span = (Span { start: start_ns, end: end_ns });
}

stored! {
    /// One row per window of a lane.
    pub(crate) struct PartWindows, WindowRow = "part_windows" by "lane" {
        lane: u32, "", "position of the lane";
        scope;
        step: Option<u32>, "", "step";
        step_label;
        is_partial: Option<bool>, "", "a step cut by the capture";
        compute_only_ns: i64, "ns", "compute without communication";
        overlapped_ns: i64, "ns", "compute and communication";
        exposed_ns: i64, "ns", "communication without compute and fused kernels";
        fused_ns: i64, "ns", "fused kernels without compute";
        copies_ns: i64, "ns", "copies and sets without the others";
    } of u32 = (lane), PartWindow = (PartWindow {
        scope, step, label: step_label, is_partial, spans, compute_only: compute_only_ns,
        overlapped: overlapped_ns, exposed: exposed_ns, fused: fused_ns, copies: copies_ns,
    });
    read { let spans = Vec::new(); }
}

stored! {
    /// One row per stretch of a window.
    pub(crate) struct WindowSpans, WindowSpanRow = "part_window_spans" by "window, start_ns" {
        window: u32, "", "position of the window, over all lanes";
        start_ns: i64, "ns", "start";
        end_ns: i64, "ns", "end";
    } of u32 = (window), Span = (Span { start: start_ns, end: end_ns });
}

stored! {
    /// One row per cut of a lane's local work.
    pub(crate) struct Cuts, CutRow = "part_cuts" by "lane, ts_ns" {
        lane: u32, "", "position of the lane";
        ts_ns: i64, "ns", "time of the cut";
    } of u32 = (lane), Ns = (ts_ns);
}

stored! {
    /// One row per thing that filled time in a piece.
    pub(crate) struct Entries, EntryRow = "part_entries" by "lane, piece" {
        lane: u32, "", "position of the lane";
        piece: u32, "", "position of the piece in the lane";
        what: Text, "", "what filled the time";
        name: u32, "", "position of its name";
        detail: u32, "", "position of its launch shape or calling frame";
        count: u32, "", "starts";
        time_ns: i64, "ns", "time";
    } of u32 = (lane), u32 = (piece), LocalEntry = (LocalEntry { what, name, detail, count, time: time_ns });
}

stored! {
    /// One row per kernel by name: where it comes from.
    pub(crate) struct Origins, OriginRow = "part_origins" by "kernel" {
        kernel: u32, "", "position of its name";
        op: u32, "", "position of its operator's name";
        frame: u32, "", "position of the Python frame";
        place: u32, "", "position of the place in the user's code";
    } of StrId = (kernel), KernelOrigin = (KernelOrigin { op, frame, place });
}

stored! {
    /// One row per unknown kernel between the products around experts.
    pub(crate) struct PartUnknownKernels, PartUnknownRow = "part_unknown_kernels" by "kernel" {
        kernel: u32, "", "position of its name";
        time_ns: i64, "ns", "time";
    } of (StrId, Ns) = ((kernel, time_ns));
}

table! {
    /// One row per name of the local work; the empty one, which is number 0, is left out.
    pub(crate) struct PartNames, PartNameRow = "part_names" by "position" {
        name: Text, "", "name";
    }
}

/// The names of the tables in code, and their types: builders, in the order in which they are stored.
macro_rules! part_tables {
    ($($name:ident: $table:ident,)+) => {
        #[derive(Default)]
        pub(super) struct PartTables { $(pub(super) $name: $table,)+ }

        impl PartTables {
            pub(super) fn finish(self) -> Vec<Batch> {
                vec![$(self.$name.finish(),)+]
            }
        }

        /// All tables of a summary.
        pub const TABLES: &[&TableSpec] = &[$($table::SPEC,)+];
    };
}

part_tables! {
    head: Heads,
    steps: PartSteps,
    hosts: PartHosts,
    backward_lanes: BackwardLanes,
    phases: PartPhaseTable,
    groups: PartGroups,
    members: PartMembers,
    dtypes: Dtypes,
    titles: PartTitles,
    calls: PartCallTable,
    edges: Edges,
    layers: PartLayers,
    tokens: PartTokens,
    lanes: PartLanes,
    exposed: Exposed,
    windows: PartWindows,
    spans: WindowSpans,
    cuts: Cuts,
    entries: Entries,
    origins: Origins,
    chunks: PartChunks,
    runs: PartRuns,
    unknown: PartUnknownKernels,
    names: PartNames,
}
