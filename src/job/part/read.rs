//! Reads a part from its tables. Any tables give either a part or a flaw; indices are checked, so that reducing may
//! rely on them.

use crate::job::local::{Entry, Local, Origin, Use};
use crate::job::part::tables::*;
use crate::job::part::{Lane, Part, PartStep, PartWindow, Readiness, orders};
use crate::table::checked::{Cells, Flaw};
use crate::table::schema::{Batch, TableSpec};
use crate::trace::collective::{Call, Edge, Kind, LocalGroup, Members as LocalMembers, RankCalls};
use crate::trace::step::StepRule;
use crate::trace::strings::{Interner, StrId};
use crate::trace::window::Scope;
use crate::units::{Ns, Span};
use std::collections::BTreeMap;

const RULES: [StepRule; 4] = [StepRule::ProfilerStep, StepRule::Pattern, StepRule::Annotation, StepRule::Capture];
const SCOPES: [Scope; 4] = [Scope::Span, Scope::Capture, Scope::Step, Scope::Outside];

impl Part {
    /// The inverse of [`Part::tables`].
    ///
    /// # Errors
    /// The first invalid cell.
    pub fn from_tables(tables: &[Batch]) -> Result<Self, Flaw> {
        let names = interner(Cells(find(tables, Names::SPEC)?).texts("name")?, find(tables, Names::SPEC)?)?;
        let (calls, readiness) = calls(tables)?;
        let lanes = lanes(tables, names.len())?;
        let head = Cells(find(tables, Heads::SPEC)?);
        let ranks = head.u32s("rank")?;
        let [rank] = ranks[..] else {
            return Err(head.flaw(0, "rank", "one row", format!("{} rows", ranks.len())));
        };
        let capture = spans(head, "capture_start_ns", "capture_end_ns")?;
        let rule = head.named("step_rule", |t| RULES.into_iter().find(|r| r.name() == t))?;
        Ok(Self {
            rank,
            host: head.opt_texts("host")?.into_iter().next().flatten().map(str::to_string),
            world: head.opt_u32s("world_size")?.into_iter().next().flatten(),
            has_origin: head.flags("has_origin")?.first() == Some(&true),
            capture: capture.first().copied().unwrap_or(Span::new(0, 0)),
            step_rule: rule.first().copied().unwrap_or(StepRule::Capture),
            steps: steps(find(tables, Steps::SPEC)?)?,
            readiness,
            order: orders(&calls, &lanes),
            calls,
            lanes,
            origins: origins(find(tables, Origins::SPEC)?, names.len())?,
            names,
        })
    }
}

fn find<'a>(tables: &'a [Batch], spec: &'static TableSpec) -> Result<&'a Batch, Flaw> {
    tables.iter().find(|b| b.spec.name == spec.name).ok_or_else(|| Flaw {
        table: spec.name,
        row: 0,
        column: spec.columns.first().map_or("", |c| c.name),
        expected: "the table".to_string(),
        found: "none".to_string(),
    })
}

/// An interner that contains exactly these texts, in this order.
fn interner(texts: Vec<&str>, batch: &Batch) -> Result<Interner, Flaw> {
    let mut names = Interner::default();
    for (row, text) in texts.into_iter().enumerate() {
        if names.intern(text).0 as usize != row + 1 {
            return Err(Cells(batch).flaw(row, "name", "a name that did not come before", format!("`{text}`")));
        }
    }
    Ok(names)
}

fn spans(cells: Cells, start: &'static str, end: &'static str) -> Result<Vec<Span>, Flaw> {
    Ok(cells.i64s(start)?.into_iter().zip(cells.i64s(end)?).map(|(s, e)| Span::new(s, e)).collect())
}

fn steps(batch: &Batch) -> Result<Vec<PartStep>, Flaw> {
    let cells = Cells(batch);
    let (index, label, is_partial) = (cells.u32s("step")?, cells.opt_i64s("step_label")?, cells.flags("is_partial")?);
    let windows = spans(cells, "start_ns", "end_ns")?;
    let step = |(i, window)| PartStep { index: index[i], label: label[i], window, is_partial: is_partial[i] };
    Ok(windows.into_iter().enumerate().map(step).collect())
}

fn calls(tables: &[Batch]) -> Result<(RankCalls, Vec<Readiness>), Flaw> {
    let groups = groups(tables)?;
    let dtypes = Cells(find(tables, Dtypes::SPEC)?).texts("dtype")?;
    let cells = Cells(find(tables, Calls::SPEC)?);
    let (event, submit, thread) = (cells.u32s("event_id")?, cells.i64s("submit_ns")?, cells.opt_u32s("thread")?);
    let (span, released) = (spans(cells, "start_ns", "end_ns")?, cells.i64s("released_ns")?);
    let (kind, group) = (cells.named("kind", Kind::named)?, cells.indices("process_group", groups.len())?);
    let (seq, bytes) = (cells.opt_u64s("seq")?, cells.opt_i64s("size_bytes")?);
    let dtype = cells.indices("dtype", dtypes.len().min(1 << 16))?;
    let (root, rank_arg, step) = (cells.opt_u32s("root")?, cells.opt_u32s("rank_arg")?, cells.opt_u32s("step")?);
    let (device, stream) = (cells.opt_i64s("device")?, cells.opt_i64s("stream")?);
    let (on_host, ready) = (cells.flags("on_host")?, cells.i64s("ready_ns")?);
    let (runs_on, is_awaited) = (cells.flags("runs_on")?, cells.flags("is_awaited")?);
    let idle_since = cells.i64s("idle_since_ns")?;
    let call = |i: usize| Call {
        event: event[i],
        submit: submit[i],
        thread: thread[i],
        span: span[i],
        released: released[i],
        kind: kind[i],
        group: group[i],
        seq: seq[i],
        bytes: bytes[i],
        dtype: dtype[i] as u16,
        root: root[i],
        rank_arg: rank_arg[i],
        step: step[i],
        device: device[i],
        stream: stream[i],
        on_host: on_host[i],
    };
    let all: Vec<Call> = (0..event.len()).map(call).collect();
    let state = |i: usize| Readiness {
        ready: ready[i],
        runs_on: runs_on[i],
        is_awaited: is_awaited[i],
        idle_since: idle_since[i],
    };
    let readiness = (0..event.len()).map(state).collect();
    let cells = Cells(find(tables, Edges::SPEC)?);
    let (call, bytes) = (cells.indices("call", all.len())?, cells.opt_i64s("size_bytes")?);
    let (src, dst) = (cells.u32s("src")?, cells.u32s("dst")?);
    let edge = |i: usize| Edge { call: call[i], src: src[i], dst: dst[i], bytes: bytes[i] };
    let edges = (0..call.len()).map(edge).collect();
    Ok((RankCalls::from_lists(all, groups, edges, dtypes.into_iter().map(str::to_string).collect()), readiness))
}

fn groups(tables: &[Batch]) -> Result<Vec<LocalGroup>, Flaw> {
    let cells = Cells(find(tables, Groups::SPEC)?);
    let (name, desc) = (cells.opt_texts("name")?, cells.opt_texts("description")?);
    let (size, pointer) = (cells.opt_u32s("size")?, cells.opt_u64s("pointer")?);
    let has_members = cells.flags("has_members")?;
    let group = |i: usize| LocalGroup {
        name: name[i].map(str::to_string),
        desc: desc[i].map(str::to_string),
        size: size[i],
        members: None,
        head: Vec::new(),
        pointer: pointer[i],
    };
    let mut groups: Vec<LocalGroup> = (0..name.len()).map(group).collect();
    let cells = Cells(find(tables, Members::SPEC)?);
    let (of, is_head, member) =
        (cells.indices("process_group", groups.len())?, cells.flags("is_head")?, cells.u32s("member")?);
    let (stride, count) = (cells.u32s("stride")?, cells.u32s("count")?);
    let mut listed: Vec<Option<Vec<u32>>> = has_members.iter().map(|has| has.then(Vec::new)).collect();
    for i in 0..of.len() {
        let at = of[i] as usize;
        if is_head[i] {
            groups[at].head.push(member[i]);
            continue;
        }
        let known = || cells.flaw(i, "process_group", "a group whose members are known", of[i]);
        let list = listed[at].as_mut().ok_or_else(known)?;
        if count[i] == 1 {
            list.push(member[i]);
        } else {
            let regular =
                LocalMembers::regular(member[i], stride[i], count[i]).filter(|_| groups[at].members.is_none());
            groups[at].members =
                Some(regular.ok_or_else(|| cells.flaw(i, "count", "ranks at equal distances", count[i]))?);
        }
    }
    for (group, list) in groups.iter_mut().zip(listed) {
        if group.members.is_none() {
            group.members = list.map(LocalMembers::listed);
        }
    }
    Ok(groups)
}

fn lanes(tables: &[Batch], names: usize) -> Result<Vec<Lane>, Flaw> {
    let cells = Cells(find(tables, Lanes::SPEC)?);
    let lane = |(device, is_gpu)| Lane { device, is_gpu, ..Lane::default() };
    let mut lanes: Vec<Lane> = cells.opt_i64s("device")?.into_iter().zip(cells.flags("is_gpu")?).map(lane).collect();
    let cells = Cells(find(tables, Exposed::SPEC)?);
    let of = cells.indices("lane", lanes.len())?;
    for (lane, span) in of.into_iter().zip(spans(cells, "start_ns", "end_ns")?) {
        lanes[lane as usize].exposed.push(span);
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

fn windows(tables: &[Batch], lanes: usize) -> Result<Vec<(u32, PartWindow)>, Flaw> {
    let cells = Cells(find(tables, Windows::SPEC)?);
    let lane = cells.indices("lane", lanes)?;
    let scope = cells.named("scope", |t| SCOPES.into_iter().find(|s| s.name() == t))?;
    let (step, label) = (cells.opt_u32s("step")?, cells.opt_i64s("step_label")?);
    let is_partial = cells.opt_flags("is_partial")?;
    let (compute_only, overlapped) = (cells.i64s("compute_only_ns")?, cells.i64s("overlapped_ns")?);
    let exposed = cells.i64s("exposed_ns")?;
    let window = |i: usize| PartWindow {
        scope: scope[i],
        step: step[i],
        label: label[i],
        is_partial: is_partial[i],
        spans: Vec::new(),
        compute_only: compute_only[i],
        overlapped: overlapped[i],
        exposed: exposed[i],
    };
    let mut out: Vec<(u32, PartWindow)> = (0..lane.len()).map(|i| (lane[i], window(i))).collect();
    let cells = Cells(find(tables, WindowSpans::SPEC)?);
    let of = cells.indices("window", out.len())?;
    for (window, span) in of.into_iter().zip(spans(cells, "start_ns", "end_ns")?) {
        out[window as usize].1.spans.push(span);
    }
    out.iter_mut().for_each(|(_, w)| w.spans.shrink_to_fit());
    Ok(out)
}

fn local(tables: &[Batch], lanes: usize, names: usize) -> Result<Vec<Local>, Flaw> {
    let mut lists: Vec<(Vec<Ns>, Vec<Vec<Entry>>)> = vec![Default::default(); lanes];
    let cells = Cells(find(tables, Cuts::SPEC)?);
    for (lane, ts) in cells.indices("lane", lanes)?.into_iter().zip(cells.i64s("ts_ns")?) {
        lists[lane as usize].0.push(ts);
    }
    for (cuts, pieces) in &mut lists {
        cuts.shrink_to_fit();
        pieces.resize_with(cuts.len().saturating_sub(1), Vec::new);
    }
    let cells = Cells(find(tables, Entries::SPEC)?);
    let (lane, piece) = (cells.indices("lane", lanes)?, cells.u32s("piece")?);
    let what = cells.named("what", Use::named)?;
    let (name, detail) = (cells.indices("name", names)?, cells.indices("detail", names)?);
    let (count, time) = (cells.u32s("count")?, cells.i64s("time_ns")?);
    for i in 0..lane.len() {
        let (name, detail) = (StrId(name[i]), StrId(detail[i]));
        let entry = Entry { what: what[i], name, detail, count: count[i], time: time[i] };
        match lists[lane[i] as usize].1.get_mut(piece[i] as usize) {
            Some(of_piece) => of_piece.push(entry),
            None => return Err(cells.flaw(i, "piece", "a piece between two cuts", piece[i])),
        }
    }
    Ok(lists.into_iter().map(|(cuts, pieces)| Local::from_pieces(cuts, pieces)).collect())
}

fn origins(batch: &Batch, names: usize) -> Result<BTreeMap<StrId, Origin>, Flaw> {
    let cells = Cells(batch);
    let (kernel, op) = (cells.indices("kernel", names)?, cells.indices("op", names)?);
    let frame = cells.indices("frame", names)?;
    let origin = |i: usize| (StrId(kernel[i]), Origin { op: StrId(op[i]), frame: StrId(frame[i]) });
    Ok((0..kernel.len()).map(origin).collect())
}
