//! Where in the user's code an event is.

use crate::lines::frame_name::FrameName;
use crate::lines::user_code::UserCode;
use hashbrown::HashMap;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// Start of the names of frames that are calls of modules.
const MODULE: &str = "nn.Module: ";

/// The innermost Python function of the user around an event, and the innermost module; each is empty where
/// it is not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodePlace {
    function: StrId,
    module: StrId,
}

impl CodePlace {
    /// The place of a function; `None` unless it is the name of a frame with a file.
    pub fn of_function(trace: &RankTrace, name: StrId) -> Option<Self> {
        FrameName::new(trace.text(name)).map(|_| Self { function: name, module: StrId::EMPTY })
    }

    /// The same if the function is the user's.
    pub fn of_user_function(trace: &RankTrace, name: StrId) -> Option<Self> {
        let frame = FrameName::new(trace.text(name))?;
        UserCode::default().holds(frame.file).then_some(Self { function: name, module: StrId::EMPTY })
    }

    /// Whether no function is recorded.
    pub fn is_empty(self) -> bool {
        self.function == StrId::EMPTY
    }

    /// For example `model.py:22 forward, module Linear_0`; empty without a function of the user.
    pub fn text(self, trace: &RankTrace) -> String {
        let Some(f) = FrameName::new(trace.text(self.function)) else { return String::new() };
        let module = trace.text(self.module).strip_prefix(MODULE);
        let module = module.map_or(String::new(), |name| format!(", module {name}"));
        format!("{}:{} {}{module}", f.file, f.line, f.function)
    }

    /// The same, and where the library is from which an event comes, if its frame is not the user's.
    pub fn text_from(self, trace: &RankTrace, frame: u32) -> String {
        let text = self.text(trace);
        let name = trace.columns.name(frame as usize);
        match FrameName::new(trace.text(name)).filter(|_| name != self.function && !text.is_empty()) {
            Some(library) => format!("{text} (in {}:{})", library.file, library.line),
            None => text,
        }
    }
}

/// Finds places in the code of one rank.
pub struct CodePlaces<'a> {
    trace: &'a RankTrace,
    code: UserCode,
    /// By name of a frame: whether it is a function of the user.
    is_user: HashMap<StrId, bool>,
}

impl<'a> CodePlaces<'a> {
    pub fn new(trace: &'a RankTrace) -> Self {
        Self { trace, code: UserCode::default(), is_user: HashMap::new() }
    }

    /// The place of an event; none for `u32::MAX`.
    pub fn of(&mut self, row: u32) -> CodePlace {
        let mut place = CodePlace::default();
        if row == u32::MAX {
            return place;
        }
        let trace = self.trace;
        for row in trace.stacks.outward(row).filter(|r| trace.classes[*r as usize] == Class::Python) {
            let name = trace.columns.name(row as usize);
            let text = trace.text(name);
            if text.starts_with(MODULE) {
                if place.module == StrId::EMPTY {
                    place.module = name;
                }
                continue;
            }
            let code = &self.code;
            let holds =
                || FrameName::new(text).is_some_and(|f| f.file.ends_with(".py") && code.holds(f.file));
            if *self.is_user.entry(name).or_insert_with(holds) {
                place.function = name;
                break;
            }
        }
        place
    }
}
