//! Copies the events of one file: inspects each event, changes the fields that must change, and writes it.
//!
//! Several ranks in one file share process ids (each has a device 0), flow ids and a time axis, so these
//! fields of a rank's events get new values ([`Rewrite`]). Everything else is copied byte for byte. Without a
//! [`Rewrite`] nothing is written: this first pass only collects what is needed to plan the copy
//! ([`Survey`]).

use crate::overlay::copy::mend;
use crate::overlay::copy::mend::Edit;
use crate::overlay::copy::retime::Retime;
use hta_base::health::Health;
use hta_base::units::Ns;
use hta_read::kineto::cursor::{Token, TokenKind};
use hta_read::kineto::number::{Integer, integer};
use hta_read::kineto::sink::{Accepted, EventSink};
use hta_read::kineto::text::decode;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopiedProcess {
    /// Position among the processes of the file, in order of first event.
    pub order: u32,
    pub name: Option<String>,
    /// `process_labels`, e.g. `CPU` or `GPU 0`.
    pub label: Option<String>,
    /// `process_sort_index`.
    pub sort_index: Option<i64>,
}

/// What the first pass learns about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Number of events to copy.
    pub events: u64,
    /// Number of these that are complete events (phase X).
    pub complete: u64,
    pub processes: BTreeMap<String, CopiedProcess>,
    /// Largest flow id that viewers can represent exactly.
    pub largest_id: u64,
    /// First start of a complete event, ns on the file's axis.
    pub first: Option<Ns>,
    /// Last start of a complete event, ns on the file's axis.
    pub last: Option<Ns>,
    /// Events that were not valid JSON and were repaired. Counted while copying.
    pub mended: u64,
    /// Events that could not be repaired and were left out.
    pub unwritten: u64,
}

/// Integers below this are exact in viewers that store numbers as doubles.
const EXACT: u64 = 1 << 52;

/// New values for the fields that change.
#[derive(Default)]
pub struct Rewrite {
    pub processes: Option<CopiedProcesses>,
    pub ids: Option<FlowIds>,
    pub time: Retime,
    /// Whether top-level members are copied as well as events.
    pub keeps_members: bool,
}

/// New process ids, and process names that contain the rank.
#[derive(Debug, Clone, Default)]
pub struct CopiedProcesses {
    /// New process ids, by old `pid` as text.
    pub ids: BTreeMap<String, u64>,
    /// Prefix of each process name, e.g. `rank 3: `.
    pub prefix: String,
    /// New sort indices, by old `pid` as text.
    pub sort: BTreeMap<String, u64>,
}

impl CopiedProcesses {
    /// Name of a process in the copy.
    pub fn name(&self, name: &str, pid: &str) -> String {
        let name = if name.is_empty() { "process" } else { name };
        let own = if pid.is_empty() { String::new() } else { format!(" ({pid})") };
        format!("{}{name}{own}", self.prefix)
    }
}

/// New flow ids. Each rank has its own range of `ID_SPAN` ids.
#[derive(Debug, Clone)]
pub struct FlowIds {
    base: u64,
    /// New ids for old ids that are too large or not numbers.
    others: BTreeMap<String, u64>,
}

/// Size of a rank's range of flow ids. The first half is for ids that keep their offset, the second half for
/// all others.
const ID_SPAN: u64 = 1 << 33;

impl FlowIds {
    /// Ids of the rank at `position` among the sources.
    pub fn of_rank(position: usize) -> Self {
        Self { base: Self::first(position), others: BTreeMap::new() }
    }

    /// First id of the range at `position`.
    pub fn first(position: usize) -> u64 {
        position as u64 * ID_SPAN
    }

    fn id(&mut self, text: &str) -> u64 {
        match integer(text.as_bytes()) {
            Integer::Value(v) if v < ID_SPAN / 2 => self.base + v,
            _ => {
                let next = self.base + ID_SPAN / 2 + self.others.len() as u64;
                *self.others.entry(text.to_string()).or_insert(next)
            }
        }
    }
}

/// Copies a file, or only surveys it.
#[derive(Default)]
pub struct Copier {
    pub survey: Survey,
    rewrite: Option<Rewrite>,
    /// Output that the caller has not taken yet.
    pub out: Vec<u8>,
    /// Top-level members that follow the events in the file; written when the events are complete.
    behind: Vec<u8>,
    in_events: bool,
    wrote_member: bool,
    /// Whether an event has been written, so that the next one needs a comma.
    pub wrote_event: bool,
    edits: Vec<Edit>,
    /// The last event's `pid`, as bytes of the file and as text.
    last_pid: Option<(Vec<u8>, String)>,
}

impl Copier {
    /// Surveys a file without writing.
    pub fn survey() -> Self {
        Self::default()
    }

    /// Copies a file. `wrote_event`: the output already has events of another file.
    pub fn copy(rewrite: Rewrite, wrote_event: bool) -> Self {
        Self { rewrite: Some(rewrite), wrote_event, ..Self::default() }
    }

    /// Takes the top-level members that follow the events, each preceded by a comma.
    pub fn behind(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.behind)
    }

    /// The event's process; registers it if it is new. Consecutive events mostly share a process, so the last
    /// one is tried first.
    fn pid_of(&mut self, e: &Accepted) -> String {
        let token = e.tokens.pid;
        if let Some((raw, pid)) = &mut self.last_pid
            && *raw == token.bytes(e.buf)
        {
            return std::mem::take(pid);
        }
        let pid = text(token, e.buf);
        let order = self.survey.processes.len() as u32;
        self.survey
            .processes
            .entry(pid.clone())
            .or_insert_with(|| CopiedProcess { order, ..CopiedProcess::default() });
        pid
    }

    fn keep_pid(&mut self, e: &Accepted, pid: String) {
        let (raw, text) = self.last_pid.get_or_insert_default();
        raw.clear();
        raw.extend_from_slice(e.tokens.pid.bytes(e.buf));
        *text = pid;
    }

    /// Collects the edits of one event in `self.edits`.
    fn edit(&mut self, r: &mut Rewrite, e: &Accepted, pid: &str, label: Option<&str>) {
        let t = e.tokens;
        let edits = &mut self.edits;
        edits.clear();
        if t.loose_name {
            let mut name = Vec::new();
            mend::text(t.name.bytes(e.buf), &mut name);
            edits.push(Edit { at: whole(t.name), text: name });
        }
        if let Some(p) = &r.processes {
            let new = p.ids.get(pid).copied().unwrap_or_default();
            match t.pid.kind {
                TokenKind::Absent => {
                    edits.push(Edit {
                        at: t.start + 1..t.start + 1,
                        text: format!("\"pid\": {new}, ").into_bytes(),
                    });
                }
                _ => edits.push(Edit { at: whole(t.pid), text: new.to_string().into_bytes() }),
            }
            if t.label.kind != TokenKind::Absent {
                let old = text(t.label, e.buf);
                let mut new = Vec::new();
                match label {
                    Some("process_name") => mend::text(escaped(&p.name(&old, pid)).as_bytes(), &mut new),
                    Some("process_sort_index") => {
                        let index = p.sort.get(pid).copied().unwrap_or_default();
                        new.extend_from_slice(index.to_string().as_bytes());
                    }
                    _ => {}
                }
                if !new.is_empty() {
                    edits.push(Edit { at: whole(t.label), text: new });
                }
            }
        }
        if let (Some(ids), true) = (&mut r.ids, has_id(e.phase) && t.id.kind != TokenKind::Absent) {
            edits.push(Edit { at: whole(t.id), text: ids.id(&text(t.id, e.buf)).to_string().into_bytes() });
        }
        let (start, length) = (t.ts.bytes(e.buf), t.dur.bytes(e.buf));
        if let Some(new) = r.time.start(start) {
            edits.push(Edit { at: t.ts.start..t.ts.end, text: new });
        }
        if let Some(new) = r.time.length(start, length) {
            edits.push(Edit { at: t.dur.start..t.dur.end, text: new });
        }
        edits.sort_by_key(|e| e.at.start);
    }

    /// Registers an event whose arguments cannot be parsed.
    fn without_args(&mut self, e: &Accepted) {
        let t = e.tokens;
        let insert = self.edits.iter().find(|x| x.at.is_empty());
        self.out.push(b'{');
        if let Some(e) = insert {
            self.out.extend_from_slice(&e.text);
        }
        let known: [(&str, Token); 8] = [
            ("ph", t.ph),
            ("cat", t.cat),
            ("name", t.name),
            ("pid", t.pid),
            ("tid", t.tid),
            ("ts", t.ts),
            ("dur", t.dur),
            ("id", t.id),
        ];
        for (i, (key, token)) in known.into_iter().filter(|(_, t)| t.kind != TokenKind::Absent).enumerate() {
            self.out.extend_from_slice(if i == 0 { b"\"" } else { b", \"" });
            self.out.extend_from_slice(key.as_bytes());
            self.out.extend_from_slice(b"\": ");
            let edit = self.edits.iter().find(|x| x.at == whole(token) || x.at == (token.start..token.end));
            let is_inside = edit.is_some_and(|x| x.at != whole(token));
            let raw = edit.map_or(token.bytes(e.buf), |x| &x.text);
            match edit {
                Some(_) if !is_inside || token.kind == TokenKind::Bare => self.out.extend_from_slice(raw),
                None if token.kind == TokenKind::Bare && mend::is_json(raw) => {
                    self.out.extend_from_slice(raw)
                }
                _ => mend::text(raw, &mut self.out),
            }
        }
        self.out.push(b'}');
    }
}

impl EventSink for Copier {
    fn member(&mut self, key: &str, value: &[u8]) {
        let wanted = self.rewrite.as_ref().is_some_and(|r| r.keeps_members);
        if !wanted || !mend::is_json(value) {
            return;
        }
        let out = if self.in_events { &mut self.behind } else { &mut self.out };
        if !self.in_events {
            out.extend_from_slice(if self.wrote_member { b",\n  " } else { b"{\n  " });
            self.wrote_member = true;
        } else {
            out.extend_from_slice(b",\n  ");
        }
        mend::text(key.as_bytes(), out);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
    }

    // A second `traceEvents` array of the same file is merged into the first.
    fn events_begin(&mut self, root_is_array: bool) {
        let wanted = self.rewrite.as_ref().is_some_and(|r| r.keeps_members);
        if wanted && !self.in_events {
            let before: &[u8] = match (root_is_array, self.wrote_member) {
                (true, _) => b"[\n",
                (false, true) => b",\n  \"traceEvents\": [\n",
                (false, false) => b"{\n  \"traceEvents\": [\n",
            };
            self.out.extend_from_slice(before);
        }
        self.in_events = true;
    }

    fn event(&mut self, e: &Accepted) -> bool {
        let t = e.tokens;
        self.survey.events += 1;
        let pid = self.pid_of(e);
        let label = (e.phase == b'M').then(|| text(t.name, e.buf));
        if let (Some(label), Some(process)) = (&label, self.survey.processes.get_mut(&pid)) {
            match label.as_str() {
                "process_name" => process.name = Some(text(t.label, e.buf)),
                "process_labels" => process.label = Some(text(t.label, e.buf)),
                "process_sort_index" => process.sort_index = text(t.label, e.buf).parse().ok(),
                _ => {}
            }
        }
        if matches!(e.phase, b'X' | b'B') {
            self.survey.complete += 1;
            if let Some(ts) = e.ts {
                self.survey.first = Some(self.survey.first.map_or(ts, |f| f.min(ts)));
                self.survey.last = Some(self.survey.last.map_or(ts, |l| l.max(ts)));
            }
        }
        if is_flow(e.phase)
            && let Integer::Value(id) | Integer::Unsigned(id) = integer(t.id.bytes(e.buf))
            && id < EXACT
        {
            self.survey.largest_id = self.survey.largest_id.max(id);
        }
        let Some(mut rewrite) = self.rewrite.take() else {
            self.keep_pid(e, pid);
            return true;
        };
        self.edit(&mut rewrite, e, &pid, label.as_deref());
        self.rewrite = Some(rewrite);
        self.keep_pid(e, pid);
        let before = self.out.len();
        if self.wrote_event {
            self.out.extend_from_slice(b",\n");
        }
        let how = if t.lost_args {
            self.without_args(e);
            Some(true)
        } else {
            mend::write(e.buf, t.start..t.end, &self.edits, &mut self.out)
        };
        match how {
            Some(mended) => {
                self.survey.mended += u64::from(mended);
                self.wrote_event = true;
            }
            None => {
                self.out.truncate(before);
                self.survey.events -= 1;
                self.survey.unwritten += 1;
            }
        }
        how.is_some()
    }
}

/// A copier shared by the reader, which feeds it, and its owner, which takes the output.
#[derive(Clone, Default)]
pub struct SharedCopier(Arc<Mutex<Copier>>);

impl SharedCopier {
    pub fn new(copier: Copier) -> Self {
        Self(Arc::new(Mutex::new(copier)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Copier> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for SharedCopier {
    fn member(&mut self, key: &str, value: &[u8]) {
        self.lock().member(key, value);
    }

    fn events_begin(&mut self, root_is_array: bool) {
        self.lock().events_begin(root_is_array);
    }

    fn event(&mut self, event: &Accepted) -> bool {
        self.lock().event(event)
    }
}

/// Doubles backslashes, so that a text that was parsed is written as it was.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
}

/// Range of a string token including its quotes.
fn whole(t: Token) -> std::ops::Range<usize> {
    let quote = usize::from(t.is_text());
    t.start - quote..t.end + quote
}

fn text(t: Token, buf: &[u8]) -> String {
    decode(t.bytes(buf), t.kind == TokenKind::Escaped, &mut Health::default(), 0).into_owned()
}

fn is_flow(phase: u8) -> bool {
    matches!(phase, b's' | b't' | b'f')
}

/// Whether events of this phase are connected by `id`: flows and asynchronous events.
fn has_id(phase: u8) -> bool {
    is_flow(phase) || matches!(phase, b'b' | b'n' | b'e' | b'S' | b'T' | b'p' | b'F' | b'N' | b'O' | b'D')
}
