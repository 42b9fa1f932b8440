//! The arguments of an event: to columns, or to the text of those without one.

use crate::kineto::cursor::{Token, TokenKind};
use crate::kineto::emit_nvtx::add_arguments;
use crate::kineto::event::EventReader;
use crate::kineto::event::member;
use crate::kineto::number::{Integer, integer};
use crate::kineto::text::compact;
use crate::marked_operator::MarkedOperator;
use hta_base::health::Counter;
use hta_trace::args::{Arg, ArgType, Need, is_about_collectives};
use hta_trace::category::Class;
use hta_trace::flops::has_model;

impl EventReader {
    /// Adds the arguments of an event, and those that the text of its range tells.
    pub(super) fn arguments(
        &mut self,
        row: u32,
        class: Class,
        marked: Option<&MarkedOperator>,
        buf: &[u8],
        at: u64,
    ) {
        let mut needs_inputs = None;
        for i in 0..self.scratch.args.len() {
            let (arg, token, key) = self.scratch.args[i];
            if arg == Arg::EvIdx {
                self.note_profiler_index(token.bytes(buf));
                if !self.options.event_args {
                    continue;
                }
            }
            if arg.spec().need == Need::Inputs
                && !self.options.event_args
                && !*needs_inputs.get_or_insert_with(|| {
                    let name = self.scratch.name.bytes(buf);
                    let name = marked.map_or(name, |m| m.name.as_bytes());
                    // A range with inputs may be the title of a collective, which can have any name.
                    let is_range = class == Class::Annotation && marked.is_none();
                    is_range || is_about_collectives(name) || has_model(name)
                })
            {
                continue;
            }
            self.argument(row, arg, token, key, buf, at);
        }
        if let Some(marked) = marked {
            let args = &self.scratch.args;
            let given = |arg: Arg| args.iter().any(|(other, ..)| *other == arg);
            add_arguments(&mut self.columns, row, marked, given, self.options.event_args);
        }
    }

    /// Keeps the arguments of a device row that become other columns later.
    pub(super) fn device_fields(&mut self, row: u32, buf: &[u8], at: u64) {
        for i in 0..self.scratch.fields.len() {
            let (field, token) = self.scratch.fields[i];
            if token.kind == TokenKind::Bare && token.bytes(buf) == b"null" {
                continue;
            }
            let text = self.texts.intern(token, buf, &mut self.columns, at);
            self.columns.device_fields.push(row, field, text);
        }
    }

    /// Stores one argument with its column's type.
    pub(super) fn argument(&mut self, row: u32, arg: Arg, token: Token, key: usize, buf: &[u8], at: u64) {
        let raw = token.bytes(buf);
        if token.kind == TokenKind::Bare && raw == b"null" {
            return;
        }
        let value = match arg.spec().ty {
            ArgType::Int | ArgType::UInt => self.integer_argument(row, arg, token, key, buf, at),
            ArgType::Float => self.float_argument(token, raw, at),
            ArgType::Bool => match raw {
                b"true" | b"True" | b"1" => Some(1),
                b"false" | b"False" | b"0" => Some(0),
                _ => None,
            },
            ArgType::Text => {
                if raw.ends_with(b"...]") {
                    self.columns.health.hit(Counter::ListTruncated, at);
                }
                Some(u64::from(self.texts.intern(token, buf, &mut self.columns, at).0))
            }
            ArgType::Json => Some(self.json_argument(token, buf, at)),
        };
        if let Some(value) = value {
            self.columns.args.column_mut(arg).push(row, value);
        }
    }

    pub(super) fn integer_argument(
        &mut self,
        row: u32,
        arg: Arg,
        token: Token,
        key: usize,
        buf: &[u8],
        at: u64,
    ) -> Option<u64> {
        let raw = token.bytes(buf);
        let (value, above) = match integer(raw) {
            Integer::Value(v) => (v, false),
            Integer::Unsigned(v) => (v, true),
            Integer::TooLarge => {
                self.columns.health.hit(Counter::IntAboveI64, at);
                self.keep_as_text(key, token);
                return None;
            }
            Integer::NotANumber => {
                if !raw.is_empty() {
                    self.odd_number(key, token, at);
                }
                return None;
            }
        };
        if above {
            self.columns.health.hit(Counter::IntAboveI64, at);
        }
        if token.is_text() {
            let is_handle = arg == Arg::Context && raw.starts_with(b"0x");
            self.columns
                .health
                .hit(if is_handle { Counter::HandleAsText } else { Counter::NumberAsString }, at);
            if matches!(arg, Arg::Stream | Arg::Correlation) {
                self.columns.args.quoted_ids.push((row, arg));
            }
        }
        let negative = raw.first() == Some(&b'-');
        // An id of -1 means that there is none.
        (!(negative && arg.spec().ty == ArgType::UInt)).then_some(value)
    }

    pub(super) fn float_argument(&mut self, token: Token, raw: &[u8], at: u64) -> Option<u64> {
        let value = std::str::from_utf8(raw).ok().and_then(|t| t.parse::<f64>().ok());
        match value {
            Some(v) if v.is_finite() => {
                if token.is_text() {
                    self.columns.health.hit(Counter::NumberAsString, at);
                }
                Some(v.to_bits())
            }
            _ => {
                self.columns.health.hit(Counter::BareWord, at);
                None
            }
        }
    }

    /// Handles a value that is not a number in a numeric column.
    #[cold]
    pub(super) fn odd_number(&mut self, key: usize, token: Token, at: u64) {
        if token.kind == TokenKind::Bare {
            self.columns.health.hit(Counter::BareWord, at);
        } else {
            self.keep_as_text(key, token);
        }
    }

    /// Keeps a value that its typed column cannot represent among the other arguments.
    #[cold]
    pub(super) fn keep_as_text(&mut self, key: usize, token: Token) {
        if self.options.rest_args {
            self.scratch.rest.push(member(key, token));
        }
    }

    pub(super) fn json_argument(&mut self, token: Token, buf: &[u8], at: u64) -> u64 {
        let raw = token.bytes(buf);
        let text = compact(raw);
        if raw.ends_with(b"...]") || raw.windows(5).any(|w| w == b"\"...\"") {
            self.columns.health.hit(Counter::ListTruncated, at);
        }
        let token = Token { start: 0, end: text.len(), kind: TokenKind::Text };
        u64::from(self.texts.intern(token, &text, &mut self.columns, at).0)
    }

    /// Arguments without a column, as one JSON object.
    pub(super) fn rest(&mut self, row: u32, buf: &[u8], at: u64) {
        let mut text = vec![b'{'];
        for (i, token) in self.scratch.rest.iter().enumerate() {
            if i > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&compact(token.bytes(buf)));
        }
        text.push(b'}');
        let token = Token { start: 0, end: text.len(), kind: TokenKind::Text };
        let id = self.texts.intern(token, &text, &mut self.columns, at);
        self.columns.args.rest.push(row, u64::from(id.0));
    }
}
