//! The calls of collectives of one rank.

use crate::collective::group::LocalGroup;
use crate::collective::kind::CollectiveKind;
use hashbrown::HashSet;
use hta_base::units::{Ns, Span};
use std::sync::Arc;

/// One rank's part in one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveCall {
    /// Row of the kernel, or of the range on the host.
    pub event: u32,
    /// Start of the launch call or of the `c10d::*` operator, ns; the start of the range if neither is
    /// recorded.
    pub submit: Ns,
    /// Span of the kernel, or of the range on the host.
    pub span: Span,
    /// When work that waits for it continues, ns: the end of a kernel; on the host, the first recorded
    /// activity of the submitting thread after both the range and the operator have ended.
    pub released: Ns,
    /// Sequence number within the group.
    pub seq: Option<u64>,
    pub step: Option<u32>,
    pub shape: Arc<CallShape>,
}

/// What a call is. Most calls of a rank differ only in time, and those of all ranks are in memory together,
/// so that calls share it ([`CallShapes`]).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallShape {
    pub kind: CollectiveKind,
    /// Index into [`RankCalls::groups`].
    pub group: u32,
    /// Lane of the submitting thread, if recorded.
    pub thread: Option<u32>,
    /// Size in bytes, as defined for its kind (all-gather: the whole output; reduce-scatter: the whole
    /// input).
    pub bytes: Option<i64>,
    /// Index into [`RankCalls::dtypes`]; 0 is unknown.
    pub dtype: u16,
    /// Rank of the root of a broadcast, scatter, reduce or gather, if recorded.
    pub root: Option<u32>,
    /// The argument `Rank`: in recent traces the root's position in the group, in others the recording rank.
    pub rank_arg: Option<u32>,
    /// Of a message of a CPU back end: the position of the other rank in a group that is not recorded.
    pub peer: Option<u32>,
    pub device: Option<i64>,
    pub stream: Option<i64>,
    /// Index into [`RankCalls::titles`]; 0 is none.
    pub title: u32,
    /// Whether it is a range on the host, which arrives when it is submitted; a kernel arrives when it
    /// starts.
    pub on_host: bool,
}

impl CollectiveCall {
    /// When the rank arrived, ns.
    pub fn arrival(&self) -> Ns {
        if self.shape.on_host { self.submit } else { self.span.start }
    }
}

/// The shapes of a rank's calls, each once.
#[derive(Default)]
pub struct CallShapes {
    known: HashSet<Arc<CallShape>>,
}

impl CallShapes {
    pub fn shared(&mut self, shape: CallShape) -> Arc<CallShape> {
        Arc::clone(self.known.get_or_insert_with(&shape, |shape| Arc::new(shape.clone())))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Index into [`RankCalls::calls`].
    pub call: u32,
    pub src: u32,
    pub dst: u32,
    pub bytes: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankCalls {
    pub calls: Vec<CollectiveCall>,
    /// The groups of the calls, then those that the file's header lists besides.
    pub groups: Vec<LocalGroup>,
    /// Sorted by call.
    pub edges: Vec<Message>,
    /// Element types; the first is the empty text.
    pub dtypes: Vec<String>,
    /// Titles that `dist.record_comm` gave the calls; the first is the empty text.
    pub titles: Vec<String>,
    /// Indices of the calls, in order of their events.
    by_event: Box<[u32]>,
}

impl RankCalls {
    /// `calls` must be in order of submission.
    pub fn from_lists(
        calls: Vec<CollectiveCall>,
        groups: Vec<LocalGroup>,
        edges: Vec<Message>,
        dtypes: Vec<String>,
        titles: Vec<String>,
    ) -> Self {
        let mut by_event: Vec<u32> = (0..calls.len() as u32).collect();
        by_event.sort_by_key(|i| calls[*i as usize].event);
        let by_event = by_event.into_boxed_slice();
        Self { calls, groups, edges, dtypes, titles, by_event }
    }

    /// The messages from one rank to another that are no part of a collective, with their calls, in order of
    /// the calls.
    pub fn messages(&self) -> impl Iterator<Item = (&Message, &CollectiveCall)> {
        let with_call = self.edges.iter().filter_map(|m| Some((m, self.calls.get(m.call as usize)?)));
        with_call.filter(|(_, call)| call.shape.kind.is_point_to_point())
    }

    /// The call that belongs to an event.
    pub fn of_event(&self, row: u32) -> Option<&CollectiveCall> {
        self.index_of(row).and_then(|i| self.calls.get(i as usize))
    }

    /// Index of the call that belongs to an event.
    pub fn index_of(&self, row: u32) -> Option<u32> {
        let event = |i: &u32| self.calls.get(*i as usize).map(|c| c.event);
        // If one event is several calls, the last.
        let behind = self.by_event.partition_point(|i| event(i) <= Some(row));
        self.by_event.get(behind.checked_sub(1)?).copied().filter(|i| event(i) == Some(row))
    }

    /// The kind of collective of an event; unknown if it is none.
    pub fn kind_of(&self, row: u32) -> CollectiveKind {
        self.of_event(row).map_or(CollectiveKind::Unknown, |c| c.shape.kind)
    }

    /// The title of a call, if it has one.
    pub fn title(&self, call: &CollectiveCall) -> Option<&str> {
        self.titles.get(call.shape.title as usize).map(String::as_str).filter(|t| !t.is_empty())
    }

    /// The element type of a call, if known.
    pub fn dtype(&self, call: &CollectiveCall) -> Option<&str> {
        self.dtypes.get(usize::from(call.shape.dtype)).map(String::as_str).filter(|d| !d.is_empty())
    }
}
