//! Runs a file through a [`Copier`]: a first pass surveys it, a second pass copies it.

use crate::overlay::copy::copier::{Copier, Rewrite, SharedCopier, Survey};
use hta_base::health::{Counter, Health};
use hta_read::error::ReadError;
use hta_read::input::Input;
use hta_read::kineto::document::Document;
use hta_read::kineto::load::{drained, refused, refused_by};
use hta_read::kineto::number::FractionVerdict;
use hta_read::kineto::part::settle;
use hta_read::opening::open;
use hta_read::options::LoadOptions;
use hta_read::reading::Chunks;
use hta_read::room::{FixedLimit, MemoryGate, MemoryLimit, Unbounded};
use hta_read::source::ByteCount;
use hta_trace::meta::Meta;
use std::io;

/// What the survey found out about a file.
#[derive(Debug, Clone)]
pub struct Surveyed {
    pub survey: Survey,
    pub meta: Meta,
    pub root_is_array: bool,
    /// The fractions of its times lack leading zeros.
    pub is_unpadded: bool,
    pub health: Health,
    pub unpacked_bytes: u64,
}

pub struct Copied {
    pub survey: Survey,
    /// Top-level members that follow the events, each preceded by a comma; empty unless members are kept.
    pub behind: Vec<u8>,
    pub wrote_event: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("cannot write the copy: {0}")]
    Write(io::Error),
}

/// Surveys a file without writing anything.
///
/// # Errors
/// As [`load`](hta_read::load::load): files that an analysis would refuse are refused here.
pub fn survey(input: &Input, memory: Option<MemoryLimit>, count: &ByteCount) -> Result<Surveyed, ReadError> {
    let mut nothing = |_: &[u8]| Ok(());
    let copier = SharedCopier::new(Copier::survey());
    let document = run(input, &copier, memory, count, &mut nothing).map_err(|e| match e {
        CopyError::Read(e) => e,
        CopyError::Write(error) => ReadError::io(&input.shown, error),
    })?;
    let (unpacked_bytes, root_is_array) = (document.offset(), document.root_is_array());
    let survey = copier.lock().survey.clone();
    let health = document.reader.columns.recorded.health;
    if survey.complete == 0 {
        return Err(ReadError::NoEvents { file: input.shown.clone(), health: Box::new(health) });
    }
    let mut meta = document.meta;
    settle(&mut meta, input);
    let is_unpadded = document.reader.shapes.verdict() == FractionVerdict::Unpadded;
    Ok(Surveyed { survey, meta, root_is_array, is_unpadded, health, unpacked_bytes })
}

/// Copies the events of a file and, with [`Rewrite::keeps_members`], the members before them. `wrote_event`:
/// the output already has events of another file.
///
/// # Errors
/// When the file can no longer be read, or the copy cannot be written.
pub fn copy(
    input: &Input,
    rewrite: Rewrite,
    wrote_event: bool,
    count: &ByteCount,
    out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<Copied, CopyError> {
    let copier = SharedCopier::new(Copier::copy(rewrite, wrote_event));
    run(input, &copier, None, count, out)?;
    let mut copier = copier.lock();
    Ok(Copied { behind: copier.behind(), survey: copier.survey.clone(), wrote_event: copier.wrote_event })
}

fn run(
    input: &Input,
    copier: &SharedCopier,
    memory: Option<MemoryLimit>,
    count: &ByteCount,
    out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<Document, CopyError> {
    let io_error = |error| ReadError::io(&input.shown, error);
    let packed = input.packing().map_err(io_error)?;
    let mut source = open(&input.path, packed, count, true).map_err(io_error)?;
    let mut document = Document::new(LoadOptions::default());
    document.reader.take_part(input);
    document.reader.sink = Some(Box::new(copier.clone()));
    let mut failed = None;
    let mut drain = |_: &mut Document| {
        let mut copier = copier.lock();
        let wrote = out(&copier.out);
        copier.out.clear();
        wrote.map_err(|e| {
            failed = Some(e);
            io::Error::other("the copy cannot be written")
        })
    };
    let alone = memory.map(FixedLimit);
    let room: &dyn MemoryGate = match &alone {
        Some(alone) => alone,
        None => &Unbounded,
    };
    let outcome = drained(&mut document, source.as_mut(), Chunks::default().block, room, &mut drain);
    if let Some(e) = failed {
        return Err(CopyError::Write(e));
    }
    outcome.map_err(io_error)?.map_err(|r| refused_by(input, r, &document.reader.columns.health))?;
    if source.trailing().garbage {
        document.reader.columns.health.note(Counter::TrailingGarbage, &input.shown);
    }
    document.finish().map_err(|r| refused(input, r))?;
    Ok(document)
}
