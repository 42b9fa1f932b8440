//! The tokens of one event, collected before its row is made, because keys come in any order.

use super::cursor::{Token, TokenKind};
use super::gaps::GapEnd;
use super::memory::MemoryArg;
use hta_base::units::Ns;
use hta_trace::args::Arg;
use hta_trace::device_fields::DeviceField;

#[derive(Default)]
pub struct Scratch {
    /// The event's braces, including the closing one.
    pub start: usize,
    pub end: usize,
    pub ph: Token,
    pub cat: Token,
    pub name: Token,
    pub pid: Token,
    pub tid: Token,
    pub ts: Token,
    pub dur: Token,
    /// Start and duration of files that have them as integers. They count instead of `ts` and `dur`.
    pub(super) exact_ts: Option<Ns>,
    pub(super) exact_dur: Option<Ns>,
    pub id: Token,
    /// Arguments with columns: argument, value, position of the key's opening quote.
    pub(super) args: Vec<(Arg, Token, usize)>,
    /// Arguments of `[memory]` records.
    pub(super) memory: Vec<(MemoryArg, Token)>,
    /// Arguments of device rows without a column.
    pub(super) fields: Vec<(DeviceField, Token)>,
    /// Arguments without a column: from the key's opening quote to the end of the value.
    pub(super) rest: Vec<Token>,
    /// `args.name`, `args.labels` or `args.sort_index` of `M` events.
    pub label: Token,
    /// The argument without a name: the value of a counter.
    pub value: Token,
    /// Ids of the event before several files were merged.
    pub(super) raw: RawIds,
    pub loose_name: bool,
    /// Whether the arguments are damaged and dropped.
    pub lost_args: bool,
    /// Number of integers beyond 64 bits among the arguments without a column.
    pub(super) huge: u64,
    /// Whether a key that is stored occurred twice.
    pub(super) repeated_key: bool,
    pub(super) seen_args: bool,
    pub(super) in_args: bool,
}

impl Scratch {
    pub(super) fn clear(&mut self) {
        let (mut args, mut rest) = (std::mem::take(&mut self.args), std::mem::take(&mut self.rest));
        let (mut memory, mut fields) = (std::mem::take(&mut self.memory), std::mem::take(&mut self.fields));
        args.clear();
        rest.clear();
        memory.clear();
        fields.clear();
        *self = Scratch { args, memory, fields, rest, ..Scratch::default() };
    }

    /// Keeps the value of an argument without a column, if it has a use.
    pub(super) fn keep_argument(&mut self, step: GapEnd, value: Token) {
        match step {
            GapEnd::Other { label: true } => self.label = value,
            GapEnd::Memory(arg) => self.memory.push((arg, value)),
            GapEnd::Device(field) => {
                self.fields.push((field, value));
                if field == DeviceField::Name {
                    self.label = value;
                }
            }
            GapEnd::Value => self.value = value,
            _ => {}
        }
    }

    /// Whether reading stopped inside `args`, after everything that identifies the event.
    pub(crate) fn can_do_without_args(&self) -> bool {
        self.in_args && self.ph.is_text() && self.ts.kind != TokenKind::Absent
    }
}

/// Ids of an event before the files were merged.
#[derive(Default)]
pub(super) struct RawIds {
    pub(super) rank: Token,
    pub(super) pid: Token,
    pub(super) correlation: Token,
    pub(super) id: Token,
}

impl RawIds {
    /// Keeps the value of an argument that merging has added. `key` begins with the opening quote.
    pub(super) fn keep(&mut self, key: &[u8], value: Token) -> bool {
        let name = key.get(1..).and_then(|k| k.split(|b| *b == b'"').next()).unwrap_or_default();
        let slot = match name {
            b"rank" => &mut self.rank,
            b"pid_raw" => &mut self.pid,
            b"correlation_raw" => &mut self.correlation,
            b"id_raw" => &mut self.id,
            _ => return false,
        };
        *slot = value;
        true
    }
}
