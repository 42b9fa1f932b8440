//! What a row of the table stands for: a line or function, a function, a file, or a module.

use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_facts::by_owner;
use hta_facts::lines::{Charge, FrameKind, LineId, LineLevel, Lines, NO_PYTHON, NO_USER_CODE, Site};
use hta_facts::modules::Modules;
use hta_trace::rank_trace::RankTrace;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineBy {
    Line,
    Function,
    File,
    Module,
}

impl LineBy {
    pub(crate) const NAMES: [&'static str; 4] = ["line", "function", "file", "module"];

    pub(crate) fn named(text: Option<&str>) -> Self {
        match text {
            Some("function") => LineBy::Function,
            Some("file") => LineBy::File,
            Some("module") => LineBy::Module,
            _ => LineBy::Line,
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineGroup(u32);

/// GPU work of unknown launch.
pub(crate) const UNLINKED: LineGroup = LineGroup(u32::MAX);
const NO_FRAME: LineGroup = LineGroup(0);
const NO_OWNER: LineGroup = LineGroup(1);

/// The key cells of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupCells {
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) function: Option<String>,
    pub(crate) module: Option<String>,
    pub(crate) level: &'static str,
}

/// The rows of one rank.
pub(crate) struct Grouping<'a> {
    trace: &'a RankTrace,
    lines: &'a Lines,
    by: LineBy,
    /// By the id of a function: the group of its file. Empty unless rows are files.
    file_of: Vec<LineGroup>,
    files: Vec<&'a str>,
    modules: Modules,
}

impl<'a> Grouping<'a> {
    pub(crate) fn new(trace: &'a RankTrace, lines: &'a Lines, by: LineBy) -> Self {
        let mut files: Vec<&str> = Vec::new();
        let mut file_of = Vec::new();
        if by == LineBy::File {
            let mut known: HashMap<&str, LineGroup> = HashMap::new();
            for site in &lines.sites {
                file_of.push(match site.level {
                    LineLevel::None => NO_OWNER,
                    _ => *known.entry(&site.file).or_insert_with(|| {
                        files.push(&site.file);
                        LineGroup(files.len() as u32 + NO_OWNER.0)
                    }),
                });
            }
        }
        let modules = if by == LineBy::Module { Modules::new(trace) } else { Modules::default() };
        Self { trace, lines, by, file_of, files, modules }
    }

    /// The modules, if rows are modules.
    pub(crate) fn modules(&self) -> Option<&Modules> {
        (self.by == LineBy::Module).then_some(&self.modules)
    }

    /// The row of the instants at which a frame is the innermost.
    pub(crate) fn of_frame(&self, row: u32) -> LineGroup {
        let Some(frame) = self.lines.frame(row) else { return NO_FRAME };
        match self.by {
            LineBy::Line => LineGroup(frame.line.0),
            LineBy::Function => LineGroup(frame.function.0),
            LineBy::File => self.file(frame.function),
            LineBy::Module => self.modules.of(Some(row)).map_or(NO_OWNER, module),
        }
    }

    /// The row of an instant on a thread.
    pub(crate) fn at(&self, lane: u32, t: Ns) -> LineGroup {
        self.lines.frame_at(lane, t).map_or(NO_FRAME, |row| self.of_frame(row))
    }

    /// The row that is charged.
    pub(crate) fn of_charge(&self, charge: &Charge) -> LineGroup {
        match self.by {
            LineBy::Line => LineGroup(charge.line.0),
            _ => self.at(charge.lane, charge.t),
        }
    }

    /// The rows of which a frame is a call.
    pub(crate) fn called(&self, row: u32) -> impl Iterator<Item = LineGroup> {
        let frame = self.lines.frame(row);
        let user = frame.filter(|f| f.kind == FrameKind::User).map(|f| f.function);
        let (first, second) = match self.by {
            LineBy::Line => (frame.and_then(|f| f.called_at), user),
            LineBy::Function => (None, user),
            LineBy::File | LineBy::Module => (None, None),
        };
        let file = user.filter(|_| self.by == LineBy::File).map(|function| self.file(function));
        let is_call = self.by == LineBy::Module && self.trace.name(row).starts_with("nn.Module: ");
        let of_module = self.modules.of(Some(row)).filter(|_| is_call).map(module);
        [first, second].into_iter().flatten().map(|id| LineGroup(id.0)).chain(file).chain(of_module)
    }

    fn file(&self, function: LineId) -> LineGroup {
        self.file_of.get(function.0 as usize).copied().unwrap_or(NO_OWNER)
    }

    pub(crate) fn cells(&self, group: LineGroup) -> GroupCells {
        let none = GroupCells {
            file: None,
            line: None,
            function: None,
            module: None,
            level: LineLevel::None.name(),
        };
        let named = |text: &str| GroupCells { file: Some(text.to_string()), ..none.clone() };
        let index = group.0.wrapping_sub(NO_OWNER.0 + 1) as usize;
        match (group, self.by) {
            (UNLINKED, _) => named(by_owner::UNLINKED),
            (NO_FRAME, _) => named(&self.lines.site(NO_PYTHON).file),
            (NO_OWNER, LineBy::Module) => named(by_owner::NO_MODULE),
            (NO_OWNER, _) => named(&self.lines.site(NO_USER_CODE).file),
            (_, LineBy::File) => {
                GroupCells { level: "file", ..named(self.files.get(index).copied().unwrap_or_default()) }
            }
            (LineGroup(m), LineBy::Module) => {
                let path = self.modules.path(self.trace, m - NO_OWNER.0 - 1);
                GroupCells { module: Some(path), level: "module", ..none }
            }
            (LineGroup(id), LineBy::Line | LineBy::Function) => {
                let Site { file, line, function, level } = self.lines.site(LineId(id)).clone();
                GroupCells { file: Some(file), line, function, level: level.name(), module: None }
            }
        }
    }
}

fn module(index: u32) -> LineGroup {
    LineGroup(index + NO_OWNER.0 + 1)
}
