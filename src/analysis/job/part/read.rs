//! Reads a [`RankSummary`] from its tables. Indices are checked, so invalid tables give an error here, and
//! reducing can rely on valid indices.

use crate::facts::direction::Direction;
use crate::facts::experts::kernel_ranks::KernelRanks;
use crate::facts::experts::{ExpertLayer, LayerTokens};
use crate::facts::host_activity::{ActivitySums, HostActivity};
use crate::facts::role_phases::RolePhase;
use crate::facts::token_exchange::TokenExchange;
use crate::job::end_together::{PartRuns, runs_of};
use crate::job::kernel_origin::KernelOrigin;
use crate::job::local::{Local, LocalEntry, TimeUse};
use crate::job::part::by_start::orders;
use crate::job::part::chunks::{PartChunks, chunks_of};
use crate::job::part::tables::*;
use crate::job::part::{PartLane, PartStep, PartWindow, RankSummary, Readiness};
use crate::job::ready::HostWait;
use hta_base::table::checked::{InvalidCell, below};
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, Span};
use hta_trace::collective::{
    CallShape, CallShapes, CollectiveCall, CollectiveKind, LocalGroup, Members as LocalMembers, Message,
    RankCalls,
};
use hta_trace::meta::ProcessRole;
use hta_trace::role_phase::LoopPhase;
use hta_trace::step::StepRule;
use hta_trace::strings::{Interner, StrId};
use hta_trace::window::Scope;
use std::collections::BTreeMap;

const SCOPES: [Scope; 5] = [Scope::Span, Scope::Capture, Scope::Step, Scope::DeviceStep, Scope::Outside];

impl RankSummary {
    /// The inverse of [`RankSummary::tables`].
    ///
    /// # Errors
    /// The first invalid cell.
    pub fn from_tables(tables: &[Batch]) -> Result<Self, InvalidCell> {
        let names = interner::<PartNames>(rows::<PartNames>(tables)?.map(|(_, r)| r.name))?;
        let (calls, readiness) = calls(tables)?;
        let lanes = lanes(tables, names.len())?;
        let heads: Vec<HeadRow> = rows::<Heads>(tables)?.map(|(_, r)| r).collect();
        let [head] = heads[..] else {
            return Err(InvalidCell::new::<Heads>(0, "rank", "one row", format!("{} rows", heads.len())));
        };
        let rule = StepRule::ALL.into_iter().find(|r| r.name() == head.step_rule);
        Ok(Self {
            rank: head.rank,
            host: head.host.map(str::to_string),
            world: head.world_size,
            role: role(head),
            has_origin: head.has_origin,
            is_left_out: false,
            capture: Span::new(head.capture_start_ns, head.capture_end_ns),
            lists_groups: head.lists_groups,
            device_count: head.device_count,
            is_vllm: head.is_vllm,
            kernel_ranks: head
                .expert_hosts
                .zip(head.expert_ranks)
                .map(|(hosts, per_host)| KernelRanks { hosts, per_host }),
            backward_lanes: rows::<BackwardLanes>(tables)?.map(|(_, r)| r.thread).collect(),
            step_rule: rule.ok_or_else(|| InvalidCell::unknown::<Heads>(0, "step_rule", head.step_rule))?,
            steps: steps(tables)?,
            phases: rows::<PartPhaseTable>(tables)?.map(phase).collect::<Result<_, _>>()?,
            readiness,
            layers: expert_layers(tables, calls.calls.len())?.into(),
            order: orders(&calls, &lanes),
            calls,
            lanes,
            origins: origins(tables, names.len())?,
            chunks: chunks_of(rows::<PartChunks>(tables)?)?,
            tokens: tokens(tables, head, names.len())?,
            runs: runs_of(rows::<PartRuns>(tables)?, names.len())?,
            names,
        })
    }
}

/// The place of a rank in a job of several programs.
fn role(head: HeadRow) -> Option<ProcessRole> {
    Some(ProcessRole {
        name: head.role?.to_string(),
        replica: head.replica,
        rank: head.role_rank?,
        first: head.role_first?,
        size: head.role_size?,
    })
}

fn phase((row, r): (usize, PartPhaseRow)) -> Result<RolePhase, InvalidCell> {
    let phase = LoopPhase::named(r.phase);
    Ok(RolePhase {
        phase: phase.ok_or_else(|| InvalidCell::unknown::<PartPhaseTable>(row, "phase", r.phase))?,
        span: Span::new(r.start_ns, r.end_ns),
        busy: r.busy_ns,
    })
}

/// The rows of a table, with their indices.
fn rows<T: Table>(tables: &[Batch]) -> Result<impl Iterator<Item = (usize, T::Row<'_>)>, InvalidCell> {
    let batch = tables.iter().find(|b| b.spec.name == T::SPEC.name);
    let column = T::SPEC.columns.first().map_or("", |c| c.name);
    Ok(T::rows(batch.ok_or_else(|| InvalidCell::new::<T>(0, column, "the table", "none"))?).enumerate())
}

/// An interner that contains exactly these texts, in this order.
fn interner<'a, T: Table>(texts: impl Iterator<Item = &'a str>) -> Result<Interner, InvalidCell> {
    let mut names = Interner::default();
    for (row, text) in texts.enumerate() {
        if names.intern(text).0 as usize != row + 1 {
            return Err(InvalidCell::new::<T>(
                row,
                "name",
                "a name that did not come before",
                format!("`{text}`"),
            ));
        }
    }
    Ok(names)
}

fn steps(tables: &[Batch]) -> Result<Vec<PartStep>, InvalidCell> {
    let step = |r: PartStepRow| PartStep {
        index: r.step,
        label: r.step_label,
        window: Span::new(r.start_ns, r.end_ns),
        is_partial: r.is_partial,
        host_start: r.host_start_ns,
        host: ActivitySums::default(),
    };
    let mut steps: Vec<PartStep> = rows::<PartSteps>(tables)?.map(|(_, r)| step(r)).collect();
    for (row, r) in rows::<PartHosts>(tables)? {
        let of_step = steps.iter_mut().find(|s| s.index == r.step);
        let place = HostActivity::ALL.into_iter().position(|a| a.name() == r.activity);
        match of_step.zip(place) {
            Some((step, place)) => step.host[place] = r.time_ns,
            None => return Err(InvalidCell::unknown::<PartHosts>(row, "activity", r.activity)),
        }
    }
    Ok(steps)
}

fn calls(tables: &[Batch]) -> Result<(RankCalls, Vec<Readiness>), InvalidCell> {
    let groups = groups(tables)?;
    let dtypes: Vec<String> = rows::<Dtypes>(tables)?.map(|(_, r)| r.dtype.to_string()).collect();
    let titles: Vec<String> = rows::<PartTitles>(tables)?.map(|(_, r)| r.title.to_string()).collect();
    let (mut all, mut readiness) = (Vec::new(), Vec::new());
    let mut shapes = CallShapes::default();
    for (i, r) in rows::<PartCallTable>(tables)? {
        let shape = CallShape {
            kind: CollectiveKind::named(r.kind)
                .ok_or_else(|| InvalidCell::unknown::<PartCallTable>(i, "kind", r.kind))?,
            group: below::<PartCallTable>(i, "process_group", r.process_group, groups.len())?,
            thread: r.thread,
            bytes: r.size_bytes,
            dtype: below::<PartCallTable>(i, "dtype", r.dtype, dtypes.len().min(1 << 16))? as u16,
            root: r.root,
            rank_arg: r.rank_arg,
            title: below::<PartCallTable>(i, "title", r.title, titles.len())?,
            peer: r.peer,
            device: r.device,
            stream: r.stream,
            on_host: r.on_host,
        };
        all.push(CollectiveCall {
            event: r.event_id,
            submit: r.submit_ns,
            span: Span::new(r.start_ns, r.end_ns),
            released: r.released_ns,
            seq: r.seq,
            step: r.step,
            shape: shapes.shared(shape),
        });
        let (ready, idle_since) = (r.ready_ns, r.idle_since_ns);
        let host_wait = r.host_from_ns.zip(r.host_after).map(|(returned, call)| HostWait { returned, call });
        readiness.push(Readiness {
            ready,
            runs_on: r.runs_on,
            is_awaited: r.is_awaited,
            idle_since,
            host_wait,
        });
    }
    let mut edges = Vec::new();
    for (i, r) in rows::<Edges>(tables)? {
        let call = below::<Edges>(i, "call", r.call, all.len())?;
        edges.push(Message { call, src: r.src, dst: r.dst, bytes: r.size_bytes });
    }
    all.shrink_to_fit();
    readiness.shrink_to_fit();
    edges.shrink_to_fit();
    Ok((RankCalls::from_lists(all, groups, edges, dtypes, titles), readiness))
}

fn groups(tables: &[Batch]) -> Result<Vec<LocalGroup>, InvalidCell> {
    let (mut groups, mut listed): (Vec<LocalGroup>, Vec<Option<Vec<u32>>>) = (Vec::new(), Vec::new());
    for (_, r) in rows::<PartGroups>(tables)? {
        groups.push(LocalGroup {
            name: r.name.map(str::to_string),
            desc: r.description.map(str::to_string),
            size: r.size,
            members: None,
            head: Vec::new(),
            pointer: r.pointer,
        });
        listed.push(r.has_members.then(Vec::new));
    }
    for (i, r) in rows::<PartMembers>(tables)? {
        let at = below::<PartMembers>(i, "process_group", r.process_group, groups.len())? as usize;
        if r.is_head {
            groups[at].head.push(r.member);
            continue;
        }
        let list = listed[at].as_mut().ok_or_else(|| {
            InvalidCell::new::<PartMembers>(
                i,
                "process_group",
                "a group whose members are known",
                r.process_group,
            )
        })?;
        if r.count == 1 {
            list.push(r.member);
        } else {
            let regular =
                LocalMembers::regular(r.member, r.stride, r.count).filter(|_| groups[at].members.is_none());
            let irregular =
                || InvalidCell::new::<PartMembers>(i, "count", "ranks at equal distances", r.count);
            groups[at].members = Some(regular.ok_or_else(irregular)?);
        }
    }
    for (group, list) in groups.iter_mut().zip(listed) {
        if group.members.is_none() {
            group.members = list.map(LocalMembers::listed);
        }
    }
    Ok(groups)
}

fn expert_layers(tables: &[Batch], calls: usize) -> Result<Vec<ExpertLayer>, InvalidCell> {
    let mut out: Vec<ExpertLayer> = Vec::new();
    for (i, r) in rows::<PartLayers>(tables)? {
        let direction = Direction::ALL.into_iter().find(|d| d.name() == r.direction);
        let barrier = |column: &'static str, call: Option<u32>| {
            call.map(|call| below::<PartLayers>(i, column, call, calls)).transpose()
        };
        out.push(ExpertLayer {
            dispatch: below::<PartLayers>(i, "dispatch", r.dispatch, calls)?,
            combine: below::<PartLayers>(i, "combine", r.combine, calls)?,
            barriers: [
                [
                    barrier("before_dispatch", r.before_dispatch)?,
                    barrier("behind_dispatch", r.behind_dispatch)?,
                ],
                [barrier("before_combine", r.before_combine)?, barrier("behind_combine", r.behind_combine)?],
            ],
            direction: direction
                .ok_or_else(|| InvalidCell::unknown::<PartLayers>(i, "direction", r.direction))?,
            ordinal: r.ordinal,
            name: r.name.into(),
            expert: r.expert_ns,
            tokens: LayerTokens {
                received: r.received_bytes,
                sent: r.sent_bytes,
                own: r.own_bytes,
                of_token: r.token_bytes,
                ..LayerTokens::default()
            },
        });
    }
    for (i, r) in rows::<PartTokens>(tables)? {
        let layer = below::<PartTokens>(i, "layer", r.layer, out.len())?;
        let tokens = &mut out[layer as usize].tokens;
        let parts = if r.is_received { &mut tokens.received_parts } else { &mut tokens.sent_parts };
        parts.push(r.size_bytes);
    }
    Ok(out)
}

fn lanes(tables: &[Batch], names: usize) -> Result<Vec<PartLane>, InvalidCell> {
    let lane = |r: LaneRow| PartLane { device: r.device, is_gpu: r.is_gpu, ..PartLane::default() };
    let mut lanes: Vec<PartLane> = rows::<PartLanes>(tables)?.map(|(_, r)| lane(r)).collect();
    for (i, r) in rows::<Exposed>(tables)? {
        let lane = below::<Exposed>(i, "lane", r.lane, lanes.len())?;
        lanes[lane as usize].exposed.push(Span::new(r.start_ns, r.end_ns));
    }
    for (lane, window) in windows(tables, lanes.len())? {
        lanes[lane as usize].windows.push(window);
    }
    for lane in &mut lanes {
        lane.exposed.shrink_to_fit();
        lane.windows.shrink_to_fit();
    }
    let of_lanes = local(tables, lanes.len(), names)?;
    for (lane, local) in lanes.iter_mut().zip(of_lanes) {
        lane.local = local;
    }
    Ok(lanes)
}

fn windows(tables: &[Batch], lanes: usize) -> Result<Vec<(u32, PartWindow)>, InvalidCell> {
    let mut out = Vec::new();
    for (i, r) in rows::<PartWindows>(tables)? {
        let scope = SCOPES.into_iter().find(|s| s.name() == r.scope);
        let window = PartWindow {
            scope: scope.ok_or_else(|| InvalidCell::unknown::<PartWindows>(i, "scope", r.scope))?,
            step: r.step,
            label: r.step_label,
            is_partial: r.is_partial,
            spans: Vec::new(),
            compute_only: r.compute_only_ns,
            overlapped: r.overlapped_ns,
            exposed: r.exposed_ns,
            fused: r.fused_ns,
            copies: r.copies_ns,
        };
        out.push((below::<PartWindows>(i, "lane", r.lane, lanes)?, window));
    }
    for (i, r) in rows::<WindowSpans>(tables)? {
        let window = below::<WindowSpans>(i, "window", r.window, out.len())?;
        out[window as usize].1.spans.push(Span::new(r.start_ns, r.end_ns));
    }
    out.iter_mut().for_each(|(_, w)| w.spans.shrink_to_fit());
    Ok(out)
}

fn local(tables: &[Batch], lanes: usize, names: usize) -> Result<Vec<Local>, InvalidCell> {
    let mut lists: Vec<(Vec<Ns>, Vec<Vec<LocalEntry>>)> = vec![Default::default(); lanes];
    for (i, r) in rows::<Cuts>(tables)? {
        lists[below::<Cuts>(i, "lane", r.lane, lanes)? as usize].0.push(r.ts_ns);
    }
    for (cuts, pieces) in &mut lists {
        cuts.shrink_to_fit();
        pieces.resize_with(cuts.len().saturating_sub(1), Vec::new);
    }
    for (i, r) in rows::<Entries>(tables)? {
        let entry = LocalEntry {
            what: TimeUse::named(r.what).ok_or_else(|| InvalidCell::unknown::<Entries>(i, "what", r.what))?,
            name: StrId(below::<Entries>(i, "name", r.name, names)?),
            detail: StrId(below::<Entries>(i, "detail", r.detail, names)?),
            count: r.count,
            time: r.time_ns,
        };
        let lane = below::<Entries>(i, "lane", r.lane, lanes)?;
        match lists[lane as usize].1.get_mut(r.piece as usize) {
            Some(of_piece) => of_piece.push(entry),
            None => return Err(InvalidCell::new::<Entries>(i, "piece", "a piece between two cuts", r.piece)),
        }
    }
    Ok(lists.into_iter().map(|(cuts, pieces)| Local::from_pieces(cuts, pieces)).collect())
}

fn origins(tables: &[Batch], names: usize) -> Result<BTreeMap<StrId, KernelOrigin>, InvalidCell> {
    let origin = |(i, r): (usize, OriginRow)| {
        let name = |column, id| below::<Origins>(i, column, id, names).map(StrId);
        Ok((
            name("kernel", r.kernel)?,
            KernelOrigin {
                op: name("op", r.op)?,
                frame: name("frame", r.frame)?,
                place: name("place", r.place)?,
            },
        ))
    };
    rows::<Origins>(tables)?.map(origin).collect()
}

fn tokens(tables: &[Batch], head: HeadRow, names: usize) -> Result<TokenExchange, InvalidCell> {
    let unknown = rows::<PartUnknownKernels>(tables)?
        .map(|(row, r)| Ok((StrId(below::<PartUnknownKernels>(row, "kernel", r.kernel, names)?), r.time_ns)));
    Ok(TokenExchange {
        gpu: head.gpu_ns,
        moe: head.moe_ns,
        is_known: head.exchanges_tokens,
        peer_copies: head.peer_copies_ns,
        has_symmetric_memory: head.has_symmetric_memory,
        runs: head.moe_run_count,
        summed: head.moe_summed_count,
        unknown: unknown.collect::<Result<_, _>>()?,
    })
}
