//! What the events around a call say about it: named arguments of the kernel or of `record_param_comms`, or
//! the eight positional inputs that older versions of torch recorded instead.

use crate::collectives::shapes::elements;
use hta_trace::args::Arg;
use hta_trace::collective::CollectiveKind;
use hta_trace::collective::dtype::{dtype_name, element_bytes};
use hta_trace::collective::group::{LocalGroup, Members, parse_ranks, possible_size};
use hta_trace::rank_trace::RankTrace;
use hta_trace::rules::collective_kind;
use serde_json::Value;

/// Facts about a call, each from the strongest source that has it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallEvidence {
    pub(crate) kind: Option<CollectiveKind>,
    pub(crate) group: LocalGroup,
    pub(crate) seq: Option<u64>,
    pub(crate) in_elements: Option<i64>,
    pub(crate) out_elements: Option<i64>,
    /// Number of elements of the input tensors, from their shapes.
    pub(crate) shape_elements: Option<i64>,
    pub(crate) dtype: Option<String>,
    pub(crate) src: Option<u32>,
    pub(crate) dst: Option<u32>,
    pub(crate) rank_arg: Option<u32>,
}

impl CallEvidence {
    /// Adds the facts of one event that are not known yet.
    pub(crate) fn add(&mut self, trace: &RankTrace, row: u32) {
        let args = &trace.columns.args;
        let text = |arg| args.text(arg, row).map(|t| trace.text(t)).filter(|t| !t.is_empty());
        let rank = |arg| args.int(arg, row).and_then(|v| u32::try_from(v).ok());
        let positional = positional(trace, row);
        if self.kind.is_none() {
            self.kind = text(Arg::CollectiveName).and_then(kind_in);
        }
        self.seq = self.seq.or(args.uint(Arg::Seq, row)).or(positional.as_ref().and_then(|p| p.seq));
        self.in_elements = self.in_elements.or(args.int(Arg::InNelems, row));
        self.out_elements = self.out_elements.or(args.int(Arg::OutNelems, row));
        let in_job = |rank| trace.meta.in_job(rank);
        self.src = self.src.or(rank(Arg::SrcRank).and_then(in_job));
        self.dst = self.dst.or(rank(Arg::DstRank).and_then(in_job));
        self.rank_arg = self.rank_arg.or(rank(Arg::RankArg));
        if self.dtype.is_none() {
            self.dtype = text(Arg::Dtype).map(|d| dtype_name(d).to_string());
        }
        let g = &mut self.group;
        if g.name.is_none() {
            g.name = text(Arg::GroupName).map(str::to_string);
            g.desc = text(Arg::GroupDesc).map(str::to_string);
        }
        g.size = g
            .size
            .or(rank(Arg::GroupSize).and_then(possible_size))
            .or(positional.as_ref().and_then(|p| p.size));
        if g.pointer.is_none() && g.name.is_none() {
            g.pointer = args.uint(Arg::CommsId, row).or(positional.as_ref().and_then(|p| p.pointer));
        }
        if g.members.is_none()
            && let Some((ranks, is_cut)) = text(Arg::GroupRanks).and_then(parse_ranks)
            && let Some(ranks) = ranks.into_iter().map(in_job).collect()
        {
            g.list(ranks, is_cut);
        }
        if g.members.is_none()
            && let (Some(start), Some(stride), Some(size)) =
                (rank(Arg::GlobalRankStart).and_then(in_job), rank(Arg::GlobalRankStride), g.size)
            && let Some(members) = Members::regular(start, stride, size)
            && g.head.iter().enumerate().all(|(i, r)| members.get(i) == Some(*r))
        {
            g.members = Some(members);
        }
        self.shapes(trace, row, positional.is_some());
    }

    /// Adds elements and type from the recorded inputs of an operator or annotation.
    fn shapes(&mut self, trace: &RankTrace, row: u32, first_only: bool) {
        let args = &trace.columns.args;
        let json = |arg| args.text(arg, row).and_then(|t| serde_json::from_str::<Value>(trace.text(t)).ok());
        let first_only = first_only || trace.name(row).starts_with("c10d::");
        if self.shape_elements.is_none()
            && let Some(Value::Array(inputs)) = json(Arg::InputDims)
        {
            let taken = if first_only { 1 } else { inputs.len() };
            // The output of an all-to-all stands before its input, and may have another size.
            let before = usize::from(first_only && trace.name(row).starts_with("c10d::alltoall"));
            let sum: Option<i64> = inputs.iter().skip(before).take(taken).map(elements).sum();
            self.shape_elements = sum.filter(|n| *n > 0);
        }
        if self.dtype.is_none()
            && let Some(Value::Array(types)) = json(Arg::InputType)
        {
            let known = |t: &&str| element_bytes(t).is_some();
            self.dtype =
                types.first().and_then(Value::as_str).filter(known).map(|t| dtype_name(t).to_string());
        }
    }

    /// The root's rank, if it is recorded as sender or receiver.
    pub(crate) fn root(&self, kind: CollectiveKind) -> Option<u32> {
        match (kind.is_from_root(), kind.is_to_root()) {
            (true, _) => self.src,
            (_, true) => self.dst,
            _ => None,
        }
    }

    /// Size in bytes, as defined for the kind of collective.
    pub fn bytes(&self, kind: CollectiveKind) -> Option<i64> {
        if kind == CollectiveKind::Barrier {
            return None;
        }
        let width = element_bytes(self.dtype.as_deref()?)?;
        let named = match kind {
            CollectiveKind::AllToAll | CollectiveKind::Send => self.in_elements.or(self.out_elements),
            CollectiveKind::Recv => self.out_elements.or(self.in_elements),
            _ => self.in_elements.max(self.out_elements),
        };
        let members = i64::from(self.group.size.unwrap_or(1));
        let from_shapes = || {
            let n = self.shape_elements?;
            // The recorded input of an all-gather is one member's share of the whole output.
            if kind == CollectiveKind::AllGather { n.checked_mul(members) } else { Some(n) }
        };
        named.filter(|n| *n > 0).or_else(from_shapes)?.checked_mul(width)
    }
}

/// The kind of collective that a text names.
pub(crate) fn kind_in(text: &str) -> Option<CollectiveKind> {
    collective_kind(text).and_then(CollectiveKind::named)
}

struct Positional {
    seq: Option<u64>,
    pointer: Option<u64>,
    size: Option<u32>,
}

/// Reads the eight `Concrete Inputs`: tensors, sequence number, group pointer, rank, -, in split, out split,
/// group size. The form with seven inputs belongs to a wait and does not describe a message.
fn positional(trace: &RankTrace, row: u32) -> Option<Positional> {
    if trace.name(row) != "record_param_comms" {
        return None;
    }
    let text = trace.text(trace.columns.args.text(Arg::ConcreteInputs, row)?);
    let Ok(Value::Array(inputs)) = serde_json::from_str::<Value>(text) else { return None };
    let number = |i: usize| inputs.get(i).and_then(Value::as_str).and_then(|t| t.parse::<u64>().ok());
    (inputs.len() == 8).then(|| Positional {
        seq: number(1),
        pointer: number(2),
        size: number(7).and_then(|n| u32::try_from(n).ok()).and_then(possible_size),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_gather_is_the_whole_output() {
        let mut e =
            CallEvidence { shape_elements: Some(10), dtype: Some("Half".into()), ..CallEvidence::default() };
        e.group.size = Some(4);
        assert_eq!(e.bytes(CollectiveKind::AllGather), Some(80));
        assert_eq!(e.bytes(CollectiveKind::AllReduce), Some(20));
        assert_eq!(e.bytes(CollectiveKind::Barrier), None);
        (e.in_elements, e.out_elements) = (Some(3), Some(12));
        assert_eq!(
            (e.bytes(CollectiveKind::AllGather), e.bytes(CollectiveKind::AllToAll)),
            (Some(24), Some(6))
        );
    }
}
