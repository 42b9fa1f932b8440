//! The source line or function to which every instant of a Python thread belongs.
//!
//! ```text
//!   train.py(10): train      [..............................)    user code
//!   torch/x.py(5): step          [.............)                 library code, called at train.py:12
//!   <built-in mul>                  [....)
//!   row                      ffffLLLLLLLLLLLLLLffffffffffffff    f: the function train, L: train.py:12
//! ```
//!
//! Let `f` be the innermost open frame of user code. If nothing is open inside `f`, the instant belongs to
//! the function `f` itself. Otherwise `f` waits for a call, and the instant belongs to the line from which it
//! was made. Files that do not record this line (`CallFrom`) have only functions. So the time of all rows of
//! a thread is the time in which any frame is open.
//!
//! Frames are nested as they were open on their thread, not by their recorded parents: a frame keeps the
//! callers that were open when it started.

mod charge;
mod code_place;
mod frame_name;
mod user_code;

pub use charge::{Charge, Charging};
pub use code_place::{CodePlace, CodePlaces};
pub use frame_name::source_place;
pub use user_code::UserCode;

use crate::calls::forest::NOWHERE;
use crate::lines::frame_name::{FrameName, call_place, is_built_in};
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::thread::InnermostTimeline;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row of the table of lines: an index into [`Lines::sites`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub u32);

/// No Python frame is open.
pub const NO_PYTHON: LineId = LineId(0);
/// Frames are open, but none of user code.
pub const NO_USER_CODE: LineId = LineId(1);

/// How exactly a row says where time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineLevel {
    /// A line, from which a call was made.
    Line,
    /// A function, with the line of its definition.
    Function,
    /// Neither.
    None,
}

impl LineLevel {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            LineLevel::Line => "line",
            LineLevel::Function => "function",
            LineLevel::None => "none",
        }
    }
}

/// A line or a function of user code, or one of the rows without.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Site {
    /// Path of the file as recorded; `[no python]` and `[no user code]` for those rows.
    pub file: String,
    pub line: Option<u32>,
    /// `None` for a line.
    pub function: Option<String>,
    pub level: LineLevel,
}

impl Site {
    fn without(text: &str) -> Self {
        Self { file: text.to_string(), line: None, function: None, level: LineLevel::None }
    }

    /// `train.py:12` for a line, `train.py(10): train` for a function.
    pub fn text(&self) -> String {
        match (self.line, &self.function) {
            (Some(line), Some(function)) => format!("{}({line}): {function}", self.file),
            (Some(line), None) => format!("{}:{line}", self.file),
            _ => self.file.clone(),
        }
    }
}

/// What a frame runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A function of user code.
    User,
    /// A function that is not written in Python.
    BuiltIn,
    /// Python code of a library, or a call of a module.
    Library,
}

/// One Python frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonFrame {
    pub kind: FrameKind,
    /// To which the instants belong at which this frame is the innermost.
    pub line: LineId,
    /// The innermost user function at or around it; [`NO_USER_CODE`] if there is none.
    pub function: LineId,
    /// The line in user code from which it was called; `None` unless its caller is user code and the line is
    /// recorded.
    pub called_at: Option<LineId>,
    /// Row of the frame around it.
    pub outer: Option<u32>,
}

/// The lines of one rank.
pub struct Lines {
    /// By [`LineId`]; the first two are [`NO_PYTHON`] and [`NO_USER_CODE`].
    pub sites: Vec<Site>,
    /// By row: index of its frame, `NOWHERE` for other events.
    index: Vec<u32>,
    /// In the order of their rows.
    frames: Vec<PythonFrame>,
    /// The innermost frame at every instant, by lane.
    innermost: BTreeMap<u32, InnermostTimeline>,
}

impl Lines {
    /// The lines with the built-in list of library code, shared by all who ask.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(|trace| Self::new(trace, &UserCode::default()))
    }

    pub fn new(trace: &RankTrace, code: &UserCode) -> Self {
        let is_frame = |row: u32| trace.classes[row as usize] == Class::Python;
        let mut index = vec![NOWHERE; trace.classes.len()];
        let mut count = 0;
        for row in (0..trace.classes.len() as u32).filter(|row| is_frame(*row)) {
            index[row as usize] = count;
            count += 1;
        }
        let none = PythonFrame {
            kind: FrameKind::Library,
            line: NO_USER_CODE,
            function: NO_USER_CODE,
            called_at: None,
            outer: None,
        };
        let mut maker = Maker {
            trace,
            code,
            sites: vec![Site::without("[no python]"), Site::without("[no user code]")],
            names: HashMap::new(),
            places: HashMap::new(),
            known: HashMap::new(),
            frames: vec![none; count as usize],
            index,
        };
        let mut innermost = BTreeMap::new();
        for (lane, of_lane) in trace.host_rows_where(is_frame) {
            maker.nest(&of_lane);
            innermost.insert(lane, InnermostTimeline::new(&of_lane, &trace.columns, |_| false));
        }
        let Maker { sites, index, frames, .. } = maker;
        Self { sites, index, frames, innermost }
    }

    /// Whether there are no Python frames.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The row of an instant on a thread.
    pub(crate) fn at(&self, lane: u32, t: Ns) -> LineId {
        self.frame_at(lane, t).and_then(|row| self.frame(row)).map_or(NO_PYTHON, |f| f.line)
    }

    /// Row of the innermost frame that is open on a thread at an instant.
    pub fn frame_at(&self, lane: u32, t: Ns) -> Option<u32> {
        let piece = self.innermost.get(&lane)?.from(t).next()?;
        piece.span.holds(t).then_some(piece.row)
    }

    /// The frame at a row.
    pub fn frame(&self, row: u32) -> Option<&PythonFrame> {
        self.frames.get(*self.index.get(row as usize)? as usize)
    }

    /// Threads with frames: their lanes, and the innermost frame at every instant.
    pub fn threads(&self) -> &BTreeMap<u32, InnermostTimeline> {
        &self.innermost
    }

    /// A line or function; [`NO_PYTHON`]'s for an id that is none.
    pub fn site(&self, id: LineId) -> &Site {
        self.sites.get(id.0 as usize).unwrap_or(&self.sites[NO_PYTHON.0 as usize])
    }
}

struct Maker<'a> {
    trace: &'a RankTrace,
    code: &'a UserCode,
    sites: Vec<Site>,
    /// By name: what a frame runs, and the function if it is user code.
    names: HashMap<StrId, (FrameKind, LineId)>,
    /// Lines by the text of `CallFrom`; `None` for a text that is no place.
    places: HashMap<StrId, Option<LineId>>,
    known: HashMap<Site, LineId>,
    index: Vec<u32>,
    frames: Vec<PythonFrame>,
}

impl Maker<'_> {
    /// Places the frames of one thread, which are sorted outer first.
    fn nest(&mut self, rows: &[u32]) {
        let mut called = self.trace.columns.args.cursor(Arg::CallFrom);
        let mut open: Vec<(Ns, u32, PythonFrame)> = Vec::new();
        for &row in rows {
            let span = self.trace.span(row);
            while open.last().is_some_and(|(end, ..)| *end <= span.start) {
                open.pop();
            }
            let outer = open.last().map(|(_, row, frame)| (*row, *frame));
            let from = called.get(row).map(|text| StrId(text as u32));
            let frame = self.frame(self.trace.columns.name(row as usize), from, outer);
            if let Some(slot) = self.frames.get_mut(self.index[row as usize] as usize) {
                *slot = frame;
            }
            open.push((span.end, row, frame));
        }
    }

    fn frame(&mut self, name: StrId, from: Option<StrId>, outer: Option<(u32, PythonFrame)>) -> PythonFrame {
        let (kind, own) = self.named(name);
        let caller = outer.map(|(_, frame)| frame);
        let called_at = match caller.filter(|c| c.kind == FrameKind::User) {
            Some(_) => from.and_then(|text| self.place(text)),
            None => None,
        };
        let (line, function) = match (kind, caller) {
            (FrameKind::User, _) => (own, own),
            (_, Some(caller)) => (called_at.unwrap_or(caller.line), caller.function),
            (_, None) => (NO_USER_CODE, NO_USER_CODE),
        };
        PythonFrame { kind, line, function, called_at, outer: outer.map(|(row, _)| row) }
    }

    fn named(&mut self, name: StrId) -> (FrameKind, LineId) {
        if let Some(known) = self.names.get(&name) {
            return *known;
        }
        let text = self.trace.text(name);
        let found = match FrameName::new(text) {
            None if is_built_in(text) => (FrameKind::BuiltIn, NO_USER_CODE),
            Some(f) if self.code.holds(f.file) => {
                let (file, function) = (f.file.to_string(), Some(f.function.to_string()));
                (
                    FrameKind::User,
                    self.add(Site { file, line: Some(f.line), function, level: LineLevel::Function }),
                )
            }
            _ => (FrameKind::Library, NO_USER_CODE),
        };
        self.names.insert(name, found);
        found
    }

    fn place(&mut self, text: StrId) -> Option<LineId> {
        if let Some(known) = self.places.get(&text) {
            return *known;
        }
        let place = call_place(self.trace.text(text)).map(|(file, line)| Site {
            file: file.to_string(),
            line: Some(line),
            function: None,
            level: LineLevel::Line,
        });
        let found = place.map(|site| self.add(site));
        self.places.insert(text, found);
        found
    }

    fn add(&mut self, site: Site) -> LineId {
        let new = LineId(self.sites.len() as u32);
        let id = *self.known.entry(site.clone()).or_insert(new);
        if id == new {
            self.sites.push(site);
        }
        id
    }
}
