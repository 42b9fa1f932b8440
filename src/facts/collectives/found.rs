//! Collects the calls of a rank.

use hashbrown::{HashMap, HashSet};
use hta_trace::collective::group::HeaderGroups;
use hta_trace::collective::{CallShapes, CollectiveCall, LocalGroup, Message, RankCalls};
use hta_trace::meta::Meta;

#[derive(Default)]
pub(super) struct CallCollector {
    pub(crate) calls: Vec<(CollectiveCall, Vec<Message>)>,
    groups: Vec<LocalGroup>,
    group_ids: HashMap<LocalGroup, u32>,
    dtypes: Vec<String>,
    dtype_ids: HashMap<String, u16>,
    titles: Vec<String>,
    title_ids: HashMap<String, u32>,
    pub(crate) shapes: CallShapes,
}

impl CallCollector {
    pub(crate) fn group(&mut self, group: LocalGroup) -> u32 {
        if let Some(i) = self.group_ids.get(&group) {
            return *i;
        }
        let i = self.groups.len() as u32;
        self.groups.push(group.clone());
        self.group_ids.insert(group, i);
        i
    }

    /// Index of an element type; adds it if it is new. Types beyond the range of `u16` become the unknown
    /// type.
    pub(crate) fn dtype(&mut self, name: &str) -> u16 {
        if let Some(i) = self.dtype_ids.get(name) {
            return *i;
        }
        let Ok(i) = u16::try_from(self.dtypes.len()) else { return 0 };
        self.dtypes.push(name.to_string());
        self.dtype_ids.insert(name.to_string(), i);
        i
    }

    /// Index of a title; adds it if it is new.
    pub(crate) fn title(&mut self, text: &str) -> u32 {
        if let Some(i) = self.title_ids.get(text) {
            return *i;
        }
        let i = self.titles.len() as u32;
        self.titles.push(text.to_string());
        self.title_ids.insert(text.to_string(), i);
        i
    }

    /// Adds the groups of the file's header that no call names.
    pub(super) fn list(&mut self, meta: &Meta) {
        let known = |g: &LocalGroup| (g.name.clone(), g.members.clone());
        let mut all: HashSet<_> = self.groups.iter().map(known).collect();
        for group in HeaderGroups::new(meta).all() {
            if all.insert(known(&group)) {
                self.group(group);
            }
        }
    }

    pub(crate) fn finish(mut self) -> RankCalls {
        self.calls.sort_by_key(|(c, _)| (c.submit, c.span.start, c.event));
        let (mut calls, mut edges) = (Vec::with_capacity(self.calls.len()), Vec::new());
        for (i, (call, of_call)) in self.calls.into_iter().enumerate() {
            edges.extend(of_call.into_iter().map(|e| Message { call: i as u32, ..e }));
            calls.push(call);
        }
        RankCalls::from_lists(calls, self.groups, edges, self.dtypes, self.titles)
    }
}
