//! Reading an object: as a stream, and in blocks at any place.
//!
//! ```text
//!   object   |-head-|........range........|........range........|...
//!   stream           frame frame frame ->   at most FRAMES frames wait for the reader
//! ```
//!
//! A stream asks for one range after the other, so that no connection has to last as long as the reader needs
//! for a large object. If an answer breaks off or is too short, the rest of the range is asked for again,
//! from the byte at which it ended. All ranges must be of the version of the object that was seen first (its
//! ETag, and its size): a result never mixes two versions, and never lacks bytes.

use super::address::Address;
use super::fault::{Fault, TRIES, has_no_ranges, is_beyond_end, pause, whole_answer};
use super::known::{SeenObject, StoreObject};
use super::location::Location;
use super::scheme::Service;
use super::stores::runtime;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// First bytes of an object, which are asked for together with its size and kept for a while: a file is
/// opened several times to see what it is.
const HEAD: u64 = 8 << 10;

/// Bytes asked for at a time by a stream.
const RANGE: u64 = 32 << 20;

/// Pieces of an answer, each of some hundred kilobytes at most, that wait for the reader.
const FRAMES: usize = 4;

impl Location {
    /// The object, with its first bytes, if they are still kept; asks the store for its size and them, once.
    pub(super) fn object(&self) -> Result<SeenObject, Fault> {
        let known = self.stores().known().get(self);
        if let Some(known) = known {
            return Ok(known);
        }
        let address = self.address()?;
        let store = self.stores().store_of(&address)?;
        let (object, head) = runtime()?.block_on(look(address, store))?;
        let seen = (Arc::new(object), head);
        self.stores().known().add(self, seen.clone());
        Ok(seen)
    }

    /// A stream of the bytes of the object from some place on.
    pub(super) fn stream(&self, start: u64) -> Result<ObjectStream, Fault> {
        let (object, head) = self.object()?;
        let rest = usize::try_from(start).ok().and_then(|from| head.get(from..));
        let frame = rest.map_or(Bytes::new(), |rest| head.slice_ref(rest));
        Ok(ObjectStream { object, at: start, frame, frames: None, fault: None })
    }
}

async fn look(address: Address, store: Arc<dyn ObjectStore>) -> Result<(StoreObject, Bytes), Fault> {
    let part = GetOptions { range: Some(GetRange::Bounded(0..HEAD)), ..GetOptions::default() };
    let mut failures = 0;
    loop {
        let (found, has_ranges) = match whole_answer(|| store.get_opts(&address.key, part.clone())).await {
            // A server of files without ranges.
            Err(e) if address.service == Service::Http && has_no_ranges(&e) => {
                (store.get(&address.key).await, false)
            }
            Err(e) if is_beyond_end(&e) => {
                let meta = whole_answer(|| store.head(&address.key)).await?;
                if meta.size > 0 {
                    return Err(e.into());
                }
                return Ok((StoreObject { address, store, meta, has_ranges: true }, Bytes::new()));
            }
            found => (found, true),
        };
        let found = found?;
        let meta = found.meta.clone();
        let head = match has_ranges {
            true => whole(found, HEAD.min(meta.size)).await,
            false => Some(Bytes::new()),
        };
        match head {
            Some(head) => return Ok((StoreObject { address, store, meta, has_ranges }, head)),
            None if failures < TRIES => failures += 1,
            None => return Err(Fault::ends_early(0, meta.size)),
        }
        tokio::time::sleep(pause(failures)).await;
    }
}

/// The first `length` bytes of an answer; `None` if it is shorter or breaks off.
async fn whole(answer: GetResult, length: u64) -> Option<Bytes> {
    let length = usize::try_from(length).ok()?;
    let (mut frames, mut bytes) = (answer.into_stream(), Vec::with_capacity(length));
    while bytes.len() < length {
        let frame = frames.next().await?.ok()?;
        bytes.extend_from_slice(frame.get(..frame.len().min(length - bytes.len()))?);
    }
    Some(bytes.into())
}

impl StoreObject {
    pub(crate) fn size(&self) -> u64 {
        self.meta.size
    }

    /// The answer for bytes from `start` on, and how many bytes of it precede `start`.
    async fn ask(&self, start: u64, end: u64) -> Result<(GetResult, u64), Fault> {
        let range = self.has_ranges.then_some(GetRange::Bounded(start..end));
        // A weak ETag never meets the condition.
        let if_match = self.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
        let asked = GetOptions { range, if_match, ..GetOptions::default() };
        let answer = whole_answer(|| self.store.get_opts(&self.address.key, asked.clone())).await?;
        // Servers of files may ignore the condition.
        let version = |meta: &ObjectMeta| (meta.size, meta.last_modified, meta.e_tag.clone());
        if version(&answer.meta) != version(&self.meta) {
            return Err(Fault::changed());
        }
        let before =
            start.checked_sub(answer.range.start).ok_or_else(|| Fault::ends_early(start, self.size()))?;
        Ok((answer, before))
    }

    /// Sends the bytes from `at` on, in order and without gaps, then nothing or a fault.
    async fn send(self: Arc<Self>, mut at: u64, to: Sender<Result<Bytes, Fault>>) {
        let mut failures = 0;
        while at < self.size() {
            let end = self.size().min(at.saturating_add(RANGE));
            let (answer, mut before) = match self.ask(at, end).await {
                Ok(answer) => answer,
                Err(fault) => return drop(to.send(Err(fault)).await),
            };
            let mut frames = answer.into_stream();
            while at < end
                && let Some(Ok(mut frame)) = frames.next().await
            {
                let skipped = before.min(frame.len() as u64);
                before -= skipped;
                // Never more than was asked for, even if the server sends more.
                let kept = (frame.len() as u64 - skipped).min(end - at);
                let frame = frame.split_off(skipped as usize).split_to(kept as usize);
                if frame.is_empty() {
                    continue;
                }
                (at, failures) = (at + kept, 0);
                if to.send(Ok(frame)).await.is_err() {
                    return;
                }
            }
            if at < end {
                failures += 1;
                if failures > TRIES {
                    return drop(to.send(Err(Fault::ends_early(at, self.size()))).await);
                }
                tokio::time::sleep(pause(failures)).await;
            }
        }
    }

    /// The bytes between two places; fewer at the end.
    fn part(&self, start: u64, end: u64) -> Result<Bytes, Fault> {
        let end = end.min(self.size());
        let length = end.saturating_sub(start);
        runtime()?.block_on(async {
            for failures in 1..=TRIES {
                let (answer, before) = self.ask(start, end).await?;
                if let Some(bytes) = whole(answer, before + length).await {
                    return Ok(bytes.slice(usize::try_from(before).unwrap_or(usize::MAX)..));
                }
                tokio::time::sleep(pause(failures)).await;
            }
            Err(Fault::ends_early(start, self.size()))
        })
    }
}

/// A stream of the bytes of an object from some place on.
pub(super) struct ObjectStream {
    object: Arc<StoreObject>,
    at: u64,
    frame: Bytes,
    /// Frames on their way, once more than the head was needed.
    frames: Option<Receiver<Result<Bytes, Fault>>>,
    fault: Option<Fault>,
}

impl ObjectStream {
    /// The next frame; empty at the end.
    fn next(&mut self) -> Result<Bytes, Fault> {
        if self.at >= self.object.size() {
            return Ok(Bytes::new());
        }
        let frames = match &mut self.frames {
            Some(frames) => frames,
            none => {
                let (to, frames) = channel(FRAMES);
                runtime()?.spawn(Arc::clone(&self.object).send(self.at, to));
                none.insert(frames)
            }
        };
        frames.blocking_recv().unwrap_or_else(|| Err(Fault::ends_early(self.at, self.object.size())))
    }
}

impl Read for ObjectStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone().into());
        }
        if self.frame.is_empty() && !out.is_empty() {
            match self.next() {
                Ok(frame) => self.frame = frame,
                Err(fault) => {
                    self.fault = Some(fault.clone());
                    return Err(fault.into());
                }
            }
        }
        let n = out.len().min(self.frame.len());
        let read = self.frame.split_to(n);
        out[..n].copy_from_slice(&read);
        self.at += n as u64;
        Ok(n)
    }
}

/// Bytes of a block.
const BLOCK: u64 = 1 << 20;

/// Blocks that are kept.
const BLOCKS: usize = 8;

/// An object that is read at any place. What is read lately is kept in blocks, because a table is read page
/// by page.
#[derive(Debug, Clone)]
pub struct ObjectBlocks {
    pub(super) object: Arc<StoreObject>,
    head: Bytes,
    kept: Arc<Mutex<VecDeque<(u64, Bytes)>>>,
}

impl ObjectBlocks {
    pub(super) fn new((object, head): SeenObject) -> Self {
        Self { object, head, kept: Arc::default() }
    }

    /// The bytes between two places; fewer at the end.
    fn part(&self, start: u64, end: u64) -> Result<Bytes, Fault> {
        let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end.min(self.object.size())))
        else {
            return self.object.part(start, end);
        };
        let known = self.head.get(from..to).map(|part| self.head.slice_ref(part));
        known.map_or_else(|| self.object.part(start, end), Ok)
    }

    /// The bytes from `at` on to the end of their block; empty at the end.
    pub(super) fn from(&self, at: u64) -> Result<Bytes, Fault> {
        let (block, inside) = (at / BLOCK, usize::try_from(at % BLOCK).unwrap_or(usize::MAX));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match kept.iter().find(|(number, _)| *number == block) {
            Some((_, bytes)) => bytes.clone(),
            None => {
                let bytes = self.part(block * BLOCK, (block + 1).saturating_mul(BLOCK))?;
                if kept.len() == BLOCKS {
                    kept.pop_front();
                }
                kept.push_back((block, bytes.clone()));
                bytes
            }
        };
        Ok(bytes.slice(inside.min(bytes.len())..))
    }

    /// The bytes between two places.
    pub(super) fn between(&self, start: u64, length: usize) -> Result<Bytes, Fault> {
        let first = self.from(start)?;
        if first.len() >= length {
            return Ok(first.slice(..length));
        }
        let end = start.saturating_add(length as u64);
        let bytes = self.part(start, end)?;
        if bytes.len() == length { Ok(bytes) } else { Err(Fault::ends_early(self.object.size(), end)) }
    }
}
