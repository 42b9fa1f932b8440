//! Rows of a database being pushed into the columns of a trace, for all recorders.

use super::database::Database;
use crate::error::ReadError;
use crate::input::Input;
use crate::reading::{Reading, Unsettled};
use crate::room::{MemoryUse, OutOfMemory};
use hashbrown::HashMap;
use hta_base::health::Counter;
use hta_trace::args::Arg;
use hta_trace::events::ColumnsBuilder;
use hta_trace::meta::Meta;
use hta_trace::strings::StrId;
use std::sync::atomic::Ordering;

/// Start and end as recorded.
pub(crate) type RecordedSpan = (Option<i64>, Option<i64>);

/// Where a row runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowPlace {
    Stream { device: i64, stream: i64 },
    Thread { process: i64, thread: i64 },
}

/// What all rows of GPU work have.
pub(crate) struct GpuWork {
    pub(crate) span: RecordedSpan,
    pub(crate) device: Option<i64>,
    pub(crate) stream: Option<i64>,
    pub(crate) context: Option<i64>,
    pub(crate) correlation: Option<i64>,
}

pub(crate) struct Rows<'a> {
    pub(crate) columns: ColumnsBuilder,
    pub(crate) how: &'a Reading<'a>,
    /// By id in the database's table of texts.
    texts: HashMap<i64, StrId>,
    /// By process and thread, or device and stream.
    lanes: HashMap<(i64, i64), u32>,
    /// The categories so far; there are few.
    categories: Vec<(&'static str, u16)>,
    /// Texts of blocks and threads of kernels.
    sizes: HashMap<[i64; 3], StrId>,
    /// Bytes that ranges, and (next field) rows that wait for others, hold beside the columns.
    beside: u64,
    waiting: u64,
    /// Bytes of the texts when memory was asked for.
    asked_texts: u64,
    /// Set once memory was refused: from then on no row is kept.
    refused: Option<OutOfMemory>,
}

/// Rows after which memory is asked for again.
pub(crate) const ROWS_BETWEEN_CHECKS: usize = 1 << 16;

/// The same for bytes of texts.
const TEXT_BETWEEN_CHECKS: u64 = 1 << 20;

impl<'a> Rows<'a> {
    pub(crate) fn new(how: &'a Reading<'a>) -> Self {
        Self {
            columns: ColumnsBuilder::default(),
            how,
            texts: HashMap::new(),
            lanes: HashMap::new(),
            categories: Vec::new(),
            sizes: HashMap::new(),
            beside: 0,
            waiting: 0,
            asked_texts: 0,
            refused: None,
        }
    }

    /// Adds a text of the database.
    pub(crate) fn add_text(&mut self, id: i64, text: &str) {
        if self.refused.is_none() {
            let text = self.intern(text);
            self.texts.insert(id, text);
        }
    }

    /// A text of a row, for which memory is asked.
    pub(crate) fn intern(&mut self, text: &str) -> StrId {
        let id = self.columns.strings.intern(text);
        if self.columns.strings.held_bytes() > self.asked_texts + TEXT_BETWEEN_CHECKS {
            self.asked_texts = self.columns.strings.held_bytes();
            self.ask();
        }
        id
    }

    /// The first of some texts that the file has.
    pub(crate) fn named(&self, ids: &[Option<i64>]) -> StrId {
        ids.iter().flatten().find_map(|id| self.texts.get(id)).copied().unwrap_or_default()
    }

    /// Whether memory was refused, so that further rows are of no use.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Asks for the memory of what is held now, and of some bytes beside the columns.
    pub(crate) fn hold_beside(&mut self, bytes: u64) {
        self.beside = bytes;
        self.ask();
    }

    /// The same for rows that wait for others. Whether there is memory for them.
    pub(crate) fn hold_waiting(&mut self, bytes: usize) -> bool {
        self.waiting = bytes as u64;
        self.ask();
        self.refused.is_none()
    }

    fn ask(&mut self) {
        if self.refused.is_none() {
            self.refused = self.how.room.hold(self.held(0, false)).err();
        }
    }

    fn held(&self, unpacked: u64, is_whole: bool) -> MemoryUse {
        let texts = self.columns.strings.held_bytes();
        let columns = self.columns.held_bytes() - texts;
        // A slot of a map has a byte besides its key and value, and an eighth of the slots is free.
        let maps = self.texts.capacity() * 20 + self.lanes.capacity() * 32 + self.sizes.capacity() * 40;
        MemoryUse { columns, texts, buffers: self.beside + self.waiting + maps as u64, unpacked, is_whole }
    }

    /// Adds a row; `None` if its times cannot be, or memory was refused.
    pub(crate) fn push(
        &mut self,
        category: &'static str,
        name: StrId,
        span: RecordedSpan,
        place: &RowPlace,
    ) -> Option<u32> {
        let c = &mut self.columns;
        let Some((start, end)) = span.0.zip(span.1) else {
            c.health.add(Counter::TsMissing, 1, None, "");
            return None;
        };
        let Some(length) = end.checked_sub(start) else {
            c.health.add(Counter::TimeOverflow, 1, None, "");
            return None;
        };
        c.health.add(Counter::DurNegative, u64::from(length < 0), None, "");
        let length = length.max(0);
        if c.len().is_multiple_of(ROWS_BETWEEN_CHECKS) {
            self.ask();
        }
        if self.refused.is_some() {
            return None;
        }
        let c = &mut self.columns;
        let (pid, tid) = match place {
            RowPlace::Stream { device, stream } => (*device, *stream),
            RowPlace::Thread { process, thread } => (*process, *thread),
        };
        let lane = *self.lanes.entry((pid, tid)).or_insert_with(|| {
            let [pid, tid] = [pid, tid].map(|id| c.strings.intern(&id.to_string()));
            c.lane(pid, tid)
        });
        let known = self.categories.iter().find(|(name, _)| *name == category);
        let category = known.map(|(_, id)| *id).unwrap_or_else(|| {
            let text = c.strings.intern(category);
            let id = c.category(text);
            self.categories.push((category, id));
            id
        });
        let row = c.len() as u32;
        c.ts.push(start);
        c.dur.push(length);
        c.name.push(name);
        c.cat.push(category);
        c.lane.push(lane);
        Some(row)
    }

    pub(crate) fn int(&mut self, row: u32, arg: Arg, value: Option<i64>) {
        if let Some(value) = value {
            self.columns.args.column_mut(arg).push(row, value as u64);
        }
    }

    pub(crate) fn text(&mut self, row: u32, arg: Arg, value: &str) {
        let id = self.intern(value);
        self.interned(row, arg, Some(id));
    }

    pub(crate) fn interned(&mut self, row: u32, arg: Arg, value: Option<StrId>) {
        if let Some(value) = value {
            self.columns.args.column_mut(arg).push(row, u64::from(value.0));
        }
    }

    /// Adds a row of GPU work with what all have.
    pub(crate) fn work(&mut self, category: &'static str, name: StrId, work: &GpuWork) -> Option<u32> {
        let place = RowPlace::Stream { device: work.device.unwrap_or(0), stream: work.stream.unwrap_or(0) };
        let row = self.push(category, name, work.span, &place)?;
        self.int(row, Arg::Device, work.device);
        self.int(row, Arg::Stream, work.stream);
        self.int(row, Arg::Correlation, work.correlation.filter(|c| *c >= 0));
        if self.how.options.event_args {
            self.int(row, Arg::Context, work.context.filter(|c| *c >= 0));
        }
        Some(row)
    }

    /// Adds the blocks or threads of a kernel if all three numbers are recorded.
    pub(crate) fn dim3(&mut self, row: u32, arg: Arg, [x, y, z]: [Option<i64>; 3]) {
        if let (Some(x), Some(y), Some(z)) = (x, y, z) {
            let strings = &mut self.columns.strings;
            let text =
                *self.sizes.entry([x, y, z]).or_insert_with(|| strings.intern(&format!("[{x},{y},{z}]")));
            self.interned(row, arg, Some(text));
        }
    }

    /// Adds a call of the API.
    pub(crate) fn call(
        &mut self,
        is_driver: bool,
        name: StrId,
        span: RecordedSpan,
        place: &RowPlace,
        correlation: Option<i64>,
    ) {
        let category = if is_driver { "cuda_driver" } else { "cuda_runtime" };
        let Some(row) = self.push(category, name, span, place) else { return };
        self.int(row, Arg::Correlation, correlation.filter(|c| *c > 0));
    }

    /// End of the last row so far.
    pub(crate) fn last_end(&self) -> Option<i64> {
        self.columns.ts.iter().zip(&self.columns.dur).map(|(ts, dur)| ts.saturating_add(*dur)).max()
    }

    /// Counts the tables that are not read, and hands on what was read.
    ///
    /// # Errors
    /// When the file is damaged, or takes more memory than there is.
    pub(crate) fn finish(
        mut self,
        database: &Database,
        is_read: impl Fn(&str) -> bool,
        meta: Meta,
        input: &Input,
    ) -> Result<Unsettled, ReadError> {
        for table in database.tables().iter().filter(|t| !t.starts_with("sqlite_") && !is_read(t)) {
            let count = database.count(table)?;
            self.columns.health.add(Counter::TableIgnored, count, None, table);
        }
        self.columns.health.merge(&database.health());
        let mut journal = input.path.to_path_buf().into_os_string();
        journal.push("-wal");
        if std::fs::metadata(journal).is_ok_and(|m| m.len() > 0) {
            self.columns.health.add(Counter::JournalIgnored, 1, None, &input.shown);
        }
        let length = std::fs::metadata(&input.path).map_or(0, |m| m.len());
        let length = input.process.as_ref().map_or(length, |part| part.share(length));
        let count = self.columns.len() as u64;
        self.columns.phases.insert(b'X', count);
        let too_large = |limit| ReadError::TooLarge { file: input.shown.clone(), needs: None, limit };
        let refused = self.refused.or_else(|| self.how.room.hold(self.held(length, true)).err());
        if let Some(refused) = refused {
            return Err(too_large(refused.limit));
        }
        let Self { columns, how, .. } = self;
        how.count.fetch_add(length, Ordering::Relaxed);
        Ok(Unsettled { columns, meta, unpacked_bytes: length })
    }
}
