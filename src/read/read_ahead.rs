//! Decompresses on a thread of its own, ahead of the reader.

use crate::source::{Source, SourceError, Trailing};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

/// Number of blocks buffered between the two threads.
const BLOCKS_AHEAD: usize = 4;

const BLOCK: usize = 128 << 10;

/// A block of bytes in reused memory.
#[derive(Default)]
struct ByteBlock {
    memory: Vec<u8>,
    /// Number of valid bytes.
    len: usize,
}

/// Runs another source on its own thread, a few blocks ahead.
pub(super) struct ReadAhead {
    blocks: mpsc::Receiver<Result<ByteBlock, SourceError>>,
    current: ByteBlock,
    used: usize,
    /// Returns used blocks to the thread.
    spent: mpsc::Sender<Vec<u8>>,
    garbage: Arc<AtomicU64>,
    window: u64,
}

impl ReadAhead {
    pub(super) fn new(mut source: Box<dyn Source>) -> Self {
        let (send, blocks) = mpsc::sync_channel(BLOCKS_AHEAD);
        let (spent, free) = mpsc::channel();
        let window = source.window();
        let garbage = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&garbage);
        std::thread::spawn(move || {
            loop {
                let mut memory = free.try_recv().unwrap_or_else(|_| vec![0; BLOCK]);
                let step = source.read(&mut memory);
                let last = !matches!(step, Ok(1..));
                if last {
                    seen.store(u64::from(source.trailing().garbage), Ordering::Release);
                }
                if send.send(step.map(|len| ByteBlock { memory, len })).is_err() || last {
                    return;
                }
            }
        });
        Self { blocks, current: ByteBlock::default(), used: 0, spent, garbage, window }
    }
}

impl Source for ReadAhead {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        let mut n = 0;
        while n < out.len() {
            if self.used == self.current.len {
                match self.blocks.recv() {
                    Ok(Ok(block)) if block.len > 0 => {
                        let read = std::mem::replace(&mut self.current, block);
                        self.used = 0;
                        if !read.memory.is_empty() {
                            // If the receiver is gone, the stream has ended and the memory is not needed.
                            let _ = self.spent.send(read.memory);
                        }
                    }
                    Ok(Err(e)) if n == 0 => return Err(e),
                    Ok(Err(e)) => {
                        // Return what came before, and the error on the next call.
                        let (send, blocks) = mpsc::sync_channel(1);
                        let _ = send.send(Err(e));
                        self.blocks = blocks;
                        break;
                    }
                    Ok(Ok(_)) | Err(mpsc::RecvError) => break,
                }
            }
            let k = (out.len() - n).min(self.current.len - self.used);
            out[n..n + k].copy_from_slice(&self.current.memory[self.used..self.used + k]);
            self.used += k;
            n += k;
        }
        Ok(n)
    }

    fn trailing(&self) -> Trailing {
        Trailing { garbage: self.garbage.load(Ordering::Acquire) != 0 }
    }

    fn window(&self) -> u64 {
        self.window
    }
}
