//! The memory that tables of results may take.

use crate::results::ResultsError;
use hta_base::units::MemoryLimit;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Part of a memory limit that is reserved for the program, bytes.
const OWN_BYTES: u64 = 64 << 20;

/// Memory for what is made of tables, as a multiple of them.
const TIMES_TABLES: u64 = 2;

/// The memory that tables may take, and have taken.
#[derive(Debug, Default)]
pub(crate) struct TableRoom {
    /// The limit of the user; `None` without one.
    limit: Option<MemoryLimit>,
    /// Size of the values that were read, bytes.
    taken: AtomicU64,
}

impl TableRoom {
    pub(crate) fn new(limit: Option<MemoryLimit>) -> Self {
        Self { limit, taken: AtomicU64::new(0) }
    }

    /// What is left for tables, bytes; `None` without a limit.
    pub(crate) fn left(&self) -> Option<u64> {
        let all = self.limit?.bytes.saturating_sub(OWN_BYTES) / TIMES_TABLES;
        Some(all.saturating_sub(self.taken.load(Ordering::Relaxed)))
    }

    /// Accounts for values that were read.
    ///
    /// # Errors
    /// When the tables take more than the limit.
    pub(crate) fn take(&self, path: &Path, bytes: u64) -> Result<(), ResultsError> {
        if self.left().is_some_and(|left| bytes > left) {
            return Err(self.exceeded(path));
        }
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The size of something and of what is made of it, bytes.
    pub(crate) fn with_working_space(&self, bytes: u64) -> u64 {
        bytes.saturating_mul(TIMES_TABLES)
    }

    pub(crate) fn exceeded(&self, path: &Path) -> ResultsError {
        let limit = self.limit.unwrap_or(MemoryLimit { bytes: u64::MAX, given: false });
        ResultsError::TooLarge { path: path.display().to_string(), limit }
    }
}
