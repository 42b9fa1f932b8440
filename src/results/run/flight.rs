//! Admission of ranks to memory: each thread takes ranks in order, as long as all ranks in flight fit the
//! memory limit.
//!
//! ```text
//!   waiting      a rank starts when its estimate fits beside the ranks in flight; the lowest rank comes first
//!   flying       its share is the estimate, or more once it has grown
//!   landed       done, but its rows wait for those of lower ranks and still take memory
//!   done         only its partials are left
//! ```
//!
//! If a rank grows beyond the room beside the others, it is dropped and restarts later with its known need.
//! Only the lowest rank in flight may wait for the others instead, so there is always progress. If rows of
//! landed ranks are in its way, they are dropped and their ranks are mapped again. Whether a rank is refused
//! depends on that rank alone, so neither the limit nor the number of threads changes a result.

use crate::run::Progress;
use crate::run::order::InOrder;
use hta_read::room::{MemoryGate, MemoryLimit, MemoryUse, OutOfMemory, need};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The ranks of a run. If memory is limited, it must have its thread pool to itself.
pub(super) struct Admission<'a, T> {
    limit: Option<MemoryLimit>,
    order: &'a InOrder<'a>,
    state: Mutex<FlightState<T>>,
    changed: Condvar,
    /// Memory of what the ranks that are done have left, bytes.
    kept: &'a (dyn Fn() -> u64 + Sync),
}

struct FlightState<T> {
    waiting: BTreeSet<usize>,
    /// Memory that each rank needs, bytes: the estimate, or more once it is known.
    needs: Vec<u64>,
    /// Memory that the ranks in flight hold, bytes.
    flying: BTreeMap<usize, u64>,
    /// Ranks that were dropped because they had grown, and have to restart.
    gave_way: BTreeSet<usize>,
    /// Idle threads. The lowest of them takes the next rank, so that memory that it has freed is reused from
    /// its own arena.
    idle: BTreeSet<usize>,
    results: BTreeMap<usize, T>,
}

/// How long an idle thread sleeps before it checks whether it can help another one.
const NAP: Duration = Duration::from_millis(2);

impl<'a, T: Send> Admission<'a, T> {
    /// `estimates`: what each rank is likely to need, bytes; `kept`: what all results take.
    pub(super) fn new(
        estimates: Vec<u64>,
        limit: Option<MemoryLimit>,
        order: &'a InOrder<'a>,
        kept: &'a (dyn Fn() -> u64 + Sync),
    ) -> Self {
        let most = limit.map_or(u64::MAX, |l| l.bytes);
        let needs: Vec<u64> = estimates.into_iter().map(|n| n.min(most)).collect();
        let state = FlightState {
            waiting: (0..needs.len()).collect(),
            needs,
            flying: BTreeMap::new(),
            gave_way: BTreeSet::new(),
            idle: BTreeSet::new(),
            results: BTreeMap::new(),
        };
        Self { limit, order, state: Mutex::new(state), changed: Condvar::new(), kept }
    }

    /// Runs `fly` for every rank on all threads of the pool, and returns the results in order.
    pub(super) fn run(
        self,
        progress: &dyn Progress,
        fly: impl Fn(usize, &dyn MemoryGate) -> T + Sync,
    ) -> Vec<T> {
        // Not `par_iter`: a thread that waits for parallel work inside one rank would start another rank.
        rayon::broadcast(|thread| {
            while let Some(rank) = self.next(thread.index()) {
                let seat = AdmittedRank { flight: &self, rank };
                let result = fly(rank, &seat);
                if self.land(rank, result) {
                    progress.rank_done();
                }
            }
        });
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).results.into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, FlightState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the next rank fits, and returns it. Returns `None` when all have started; a dropped rank
    /// is restarted by its own thread.
    fn next(&self, thread: usize) -> Option<usize> {
        let mut state = self.lock();
        loop {
            let rank = state.waiting.first().copied()?;
            state.idle.insert(thread);
            if state.idle.first() == Some(&thread) && self.fits(&mut state, rank) {
                state.waiting.remove(&rank);
                let needs = state.needs.get(rank).copied().unwrap_or(0);
                state.flying.insert(rank, needs);
                state.idle.remove(&thread);
                self.changed.notify_all();
                return Some(rank);
            }
            state = self.changed.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0;
            state.idle.remove(&thread);
            drop(state);
            // Help with the parallel work of a rank in flight.
            while rayon::yield_now() == Some(rayon::Yield::Executed) {}
            state = self.lock();
        }
    }

    fn fits(&self, state: &mut FlightState<T>, rank: usize) -> bool {
        let Some(limit) = self.limit else { return true };
        let needs = state.needs.get(rank).copied().unwrap_or(0);
        loop {
            let flying: u64 = state.flying.values().sum();
            let taken = flying.saturating_add(self.order.waiting_bytes()).saturating_add((self.kept)());
            if taken.saturating_add(needs) <= limit.bytes {
                return true;
            }
            if !state.flying.is_empty() || !self.drop_rows(state) {
                return state.flying.is_empty();
            }
        }
    }

    /// Drops the rows of the last landed rank that waits for its turn; that rank is mapped again.
    fn drop_rows(&self, state: &mut FlightState<T>) -> bool {
        let Some(last) = self.order.forget_last() else { return false };
        state.results.remove(&last);
        state.waiting.insert(last);
        true
    }

    /// Registers a result. Returns `false` if the rank was dropped and has to restart.
    fn land(&self, rank: usize, result: T) -> bool {
        // Write rows before the next rank takes their memory.
        let again = self.lock().gave_way.remove(&rank);
        if !again {
            self.order.end(rank);
        }
        let mut state = self.lock();
        if again {
            state.waiting.insert(rank);
        } else {
            state.results.insert(rank, result);
        }
        state.flying.remove(&rank);
        self.changed.notify_all();
        !again
    }

    fn grow(&self, rank: usize, held: MemoryUse) -> Result<(), OutOfMemory> {
        let Some(limit) = self.limit else { return Ok(()) };
        let needs = need(held);
        if needs > limit.bytes {
            return Err(OutOfMemory { limit, held });
        }
        let mut state = self.lock();
        loop {
            let Some(before) = state.flying.get(&rank).copied() else { return Ok(()) };
            // At the end of the file the need is known, so the estimate no longer counts.
            let mine = if held.is_whole { needs } else { before.max(needs) };
            let others: u64 = state.flying.iter().filter(|(r, _)| **r != rank).map(|(_, n)| n).sum();
            if mine <= before
                || others.saturating_add(self.order.waiting_bytes()).saturating_add(mine) <= limit.bytes
            {
                state.flying.insert(rank, mine);
                self.changed.notify_all();
                return Ok(());
            }
            if state.flying.keys().next() != Some(&rank) {
                state.gave_way.insert(rank);
                if let Some(known) = state.needs.get_mut(rank) {
                    *known = mine;
                }
                return Err(OutOfMemory { limit, held });
            }
            if others == 0 && self.drop_rows(&mut state) {
                continue;
            }
            state = self.changed.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The admission handle of one rank in flight.
struct AdmittedRank<'a, 'b, T: Send> {
    flight: &'a Admission<'b, T>,
    rank: usize,
}

impl<T: Send> MemoryGate for AdmittedRank<'_, '_, T> {
    fn hold(&self, held: MemoryUse) -> Result<(), OutOfMemory> {
        self.flight.grow(self.rank, held)
    }
}

impl<T: Send> Drop for AdmittedRank<'_, '_, T> {
    fn drop(&mut self) {
        // Release the share of a thread that panicked, so that others do not wait forever.
        if std::thread::panicking() {
            self.flight.lock().flying.remove(&self.rank);
            self.flight.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::NoRows;
    use hta_read::source::ByteCount;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Nowhere;

    impl Progress for Nowhere {
        fn start(&self, _: usize, _: u64, _: &ByteCount) {}
        fn rank_done(&self) {}
        fn finish(&self) {}
    }

    const MIB: u64 = 1 << 20;

    /// Ranks that grow to sizes other than their estimates; some do not fit at all.
    fn sizes(seed: u64) -> Vec<(u64, u64)> {
        let random = |i: u64| i.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) % 1000;
        (0..40).map(|i| ((9 + random(i) % 20) * MIB, (9 + random(i + 7) % 120) * MIB)).collect()
    }

    #[test]
    fn ranks_that_fit_alone_are_done_and_never_hold_more_than_the_limit_together() {
        let limit = MemoryLimit { bytes: 100 * MIB, given: true };
        for (seed, threads) in (0..30).zip([1, 2, 3, 8].into_iter().cycle()) {
            let order = InOrder::new(&NoRows);
            let sizes = sizes(seed);
            let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
            let fly = |rank: usize, room: &dyn MemoryGate| {
                let (_, size) = sizes[rank];
                let mut read = 0;
                while read < size {
                    read = (read + 5 * MIB).min(size);
                    // `unpacked` counts a sixteenth in the estimate.
                    room.hold(MemoryUse { unpacked: read * 16, ..MemoryUse::default() }).ok()?;
                }
                most.fetch_max(now.fetch_add(size, Ordering::SeqCst) + size, Ordering::SeqCst);
                now.fetch_sub(size, Ordering::SeqCst);
                Some(size)
            };
            let estimates = sizes.iter().map(|s| s.0).collect();
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let done =
                pool.install(|| Admission::new(estimates, Some(limit), &order, &|| 0).run(&Nowhere, fly));
            let expected: Vec<_> = sizes.iter().map(|s| (s.1 <= limit.bytes).then_some(s.1)).collect();
            assert_eq!(done, expected, "seed {seed}, {threads} threads");
            assert!(most.into_inner() <= limit.bytes, "seed {seed}, {threads} threads");
        }
    }
}
