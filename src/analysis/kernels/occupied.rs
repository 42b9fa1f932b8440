//! How the activities of a row of `kernels_by_name` occupy the device.

use hta_base::units::Ns;
use hta_trace::kernel::occupancy::{Limiter, Occupancy};
use std::collections::BTreeMap;

/// How the activities of a row occupy the device, weighted by duration.
#[derive(Default)]
pub(super) struct Occupied {
    blocks: Option<(f64, Ns)>,
    pub(super) known: Ns,
    pub(super) occupancy: f64,
    pub(super) waves: f64,
    pub(super) tail: f64,
    limiters: BTreeMap<Limiter, Ns>,
}

impl Occupied {
    pub(super) fn add(&mut self, ns: Ns, blocks_per_sm: Option<f64>, occupancy: Option<Occupancy>) {
        if let Some(blocks) = blocks_per_sm {
            let sum = self.blocks.get_or_insert((0.0, 0));
            *sum = (sum.0 + blocks * ns as f64, sum.1 + ns);
        }
        if let Some(o) = occupancy {
            self.known += ns;
            self.occupancy += o.pct * ns as f64;
            self.waves += o.waves * ns as f64;
            self.tail += o.tail() * ns as f64;
            *self.limiters.entry(o.limiter).or_default() += ns;
        }
    }

    pub(super) fn mean(&self, sum: f64) -> Option<f64> {
        (self.known > 0).then(|| sum / self.known as f64)
    }

    pub(super) fn blocks_per_sm(&self) -> Option<f64> {
        self.blocks.filter(|b| b.1 > 0).map(|(sum, ns)| sum / ns as f64)
    }

    /// What limits the blocks of a multiprocessor for most of the time.
    pub(super) fn limiter(&self) -> Option<&'static str> {
        self.limiters.iter().max_by_key(|(_, ns)| **ns).map(|(limiter, _)| limiter.name())
    }
}
