//! Where an allocation was made: the site, autograd node and phase that a stack of frames names.
//!
//! The site is the innermost line of the user's code. A stack without Python frames, as of the thread that
//! runs backward, is named by its autograd node or operator.

use hta_facts::lines::UserCode;
use hta_trace::snapshot::{Frame, Snapshot, StackId};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Site of an allocation whose stack was not recorded.
pub(crate) const NO_FRAMES: &str = "[no frames]";
const NO_PYTHON: &str = "[no python]";
/// Node of an allocation outside of backward.
const NO_NODE: &str = "[no node]";

static NODE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"([0-9A-Za-z_]+Backward[0-9]*|AccumulateGrad)::").ok());
static OPERATOR: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"at::_ops::([0-9A-Za-z_]+)::").ok());

/// What a stack says about the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StackPhase {
    Optimizer,
    Backward,
    Forward,
    /// No frames.
    Unknown,
    Other,
}

/// What a stack says. Names are places in [`Sites::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackFacts {
    pub(crate) site: u32,
    pub(crate) node: u32,
    pub(crate) phase: StackPhase,
    /// Whether a function of that name freed the cache.
    pub(crate) is_empty_cache: bool,
}

/// What a frame says.
#[derive(Debug, Clone, Copy, Default)]
struct FrameFacts {
    is_python: bool,
    is_user: bool,
    is_optimizer: bool,
    is_backward: bool,
    is_forward: bool,
    is_empty_cache: bool,
    /// Names of the node and the operator in a C++ frame.
    node: Option<u32>,
    operator: Option<u32>,
}

/// The facts of all stacks of a snapshot.
pub struct Sites {
    names: Vec<String>,
    by_name: BTreeMap<String, u32>,
    facts: Vec<StackFacts>,
    none: StackFacts,
}

impl Sites {
    pub fn new(snapshot: &Snapshot) -> Self {
        let none = StackFacts { site: 0, node: 0, phase: StackPhase::Unknown, is_empty_cache: false };
        let mut me = Self { names: Vec::new(), by_name: BTreeMap::new(), facts: Vec::new(), none };
        me.none = StackFacts { site: me.add(NO_FRAMES), node: me.add(NO_NODE), ..none };
        let frames = snapshot.stacks.distinct_frames();
        let known: Vec<FrameFacts> = frames.iter().map(|f| me.frame(f, snapshot)).collect();
        let alike = alike_files(frames, &known, snapshot);
        for stack in 0..snapshot.stacks.len() as u32 {
            let places = snapshot.stacks.places(StackId(stack));
            let facts = me.stack(places, frames, &known, &alike, snapshot);
            me.facts.push(facts);
        }
        me
    }

    pub fn of(&self, stack: StackId) -> StackFacts {
        self.facts.get(stack.0 as usize).copied().unwrap_or(self.none)
    }

    pub(crate) fn name(&self, name: u32) -> &str {
        self.names.get(name as usize).map_or("", String::as_str)
    }

    pub fn site(&self, stack: StackId) -> &str {
        self.name(self.of(stack).site)
    }

    fn add(&mut self, name: &str) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.names.len() as u32;
        self.names.push(name.to_string());
        self.by_name.insert(name.to_string(), id);
        id
    }

    fn frame(&mut self, frame: &Frame, snapshot: &Snapshot) -> FrameFacts {
        let (file, function) = (snapshot.texts.get(frame.file), snapshot.texts.get(frame.function));
        let is_python = file.ends_with(".py") || file.starts_with('<');
        let captured = |re: &LazyLock<Option<Regex>>| -> Option<String> {
            let found = re.as_ref()?.captures(function)?;
            found.get(1).map(|m| m.as_str().to_string())
        };
        let (node, operator) = if is_python { (None, None) } else { (captured(&NODE), captured(&OPERATOR)) };
        FrameFacts {
            is_python,
            is_user: is_python && UserCode::default().holds(file),
            is_optimizer: file.contains("torch/optim/") || file.contains("torch\\optim\\"),
            is_backward: function.contains("autograd::Engine::")
                || function.contains("autograd::Node::")
                || function.contains("_engine_run_backward"),
            is_forward: is_python && matches!(function, "forward" | "_call_impl" | "_wrapped_call_impl"),
            is_empty_cache: function == "empty_cache",
            node: node.map(|n| self.add(&n)),
            operator: operator.map(|o| self.add(&format!("at::{o}"))),
        }
    }

    fn stack(
        &mut self,
        places: &[u32],
        frames: &[Frame],
        known: &[FrameFacts],
        alike: &BTreeSet<String>,
        snapshot: &Snapshot,
    ) -> StackFacts {
        let of = |place: &u32| known.get(*place as usize).copied().unwrap_or_default();
        let any = |test: fn(&FrameFacts) -> bool| places.iter().any(|p| test(&of(p)));
        let first = |test: fn(&FrameFacts) -> bool| places.iter().find(|p| test(&of(p)));
        let line = |place: &u32| -> String {
            let Some(frame) = frames.get(*place as usize) else { return NO_PYTHON.to_string() };
            let is_user = known.get(*place as usize).is_some_and(|f| f.is_user);
            let file = shown_file(snapshot.texts.get(frame.file), !is_user, alike);
            match frame.line {
                Some(line) => format!("{file}:{line}"),
                None => file,
            }
        };
        let node = places.iter().find_map(|p| of(p).node);
        let site = match (first(|f| f.is_user), first(|f| f.is_python)) {
            (Some(user), _) => self.add(&line(user)),
            (None, Some(library)) => self.add(&format!("{} [library]", line(library))),
            (None, None) => match node.or_else(|| places.iter().find_map(|p| of(p).operator)) {
                Some(name) => name,
                None => self.add(NO_PYTHON),
            },
        };
        let phase = match () {
            () if any(|f| f.is_optimizer) => StackPhase::Optimizer,
            () if any(|f| f.is_backward) => StackPhase::Backward,
            () if any(|f| f.is_forward) => StackPhase::Forward,
            () => StackPhase::Other,
        };
        StackFacts {
            site,
            node: node.unwrap_or(self.none.node),
            phase,
            is_empty_cache: any(|f| f.is_empty_cache),
        }
    }
}

/// The last part of a path, split at slashes of both kinds.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Names of the user's files that several folders have.
fn alike_files(frames: &[Frame], known: &[FrameFacts], snapshot: &Snapshot) -> BTreeSet<String> {
    let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let of_user = frames.iter().zip(known).filter(|(_, facts)| facts.is_user);
    for path in of_user.map(|(f, _)| snapshot.texts.get(f.file)) {
        folders.entry(file_name(path)).or_default().insert(path);
    }
    folders.into_iter().filter(|(_, paths)| paths.len() > 1).map(|(name, _)| name.to_string()).collect()
}

/// The name of a file; with its folder if it is of a library, or if another file has the same name.
fn shown_file(path: &str, is_library: bool, alike: &BTreeSet<String>) -> String {
    let name = file_name(path);
    if !is_library && !alike.contains(name) {
        return name.to_string();
    }
    let folder =
        path.strip_suffix(name).map(|p| file_name(p.trim_end_matches(['/', '\\']))).unwrap_or_default();
    if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") }
}
