//! How fast work ran against what the device can do at most.
//!
//! ```text
//!   arithmetic intensity   FLOPs / bytes
//!   attainable             min(peak of the number type, intensity x peak bandwidth)
//!   bound                  compute if intensity >= peak / bandwidth, else memory;
//!                          latency if below 10 % of both peaks and shorter than 10 us;
//!                          unknown above 100 % of the peak, where the FLOPs are not those that ran
//! ```

use hta_base::units::Ns;

/// A kernel that is shorter than this and far from both peaks is bound by latency, ns.
const LATENCY_BELOW: Ns = 10_000;
/// Far from a peak: below this, percent.
const LATENCY_PCT: f64 = 10.0;

/// What limits work on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bound {
    Compute,
    Memory,
    Latency,
}

impl Bound {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Compute => "compute",
            Bound::Memory => "memory",
            Bound::Latency => "latency",
        }
    }
}

/// The work of several calls, summed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Calls with known FLOPs.
    pub count: u64,
    flops: Option<u64>,
    bytes: Option<u64>,
    /// Time that the FLOPs take at the peak of their number types, s; `None` if a peak is unknown.
    at_peak_s: Option<f64>,
    /// The same for the bytes at peak bandwidth.
    at_bandwidth_s: Option<f64>,
}

impl Default for Load {
    fn default() -> Self {
        Self { count: 0, flops: Some(0), bytes: Some(0), at_peak_s: Some(0.0), at_bandwidth_s: Some(0.0) }
    }
}

/// Peaks for one call: FLOP/s and bytes/s; `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CallPeaks {
    pub flops_per_s: Option<f64>,
    pub bytes_per_s: Option<f64>,
}

/// Rates of a load; what is unknown is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LoadRates {
    /// 1e12 operations per second.
    pub tflops_per_s: Option<f64>,
    /// 1e12 bytes per second.
    pub tb_per_s: Option<f64>,
    pub flops_per_byte: Option<f64>,
    /// Of the peak of the number types, percent.
    pub peak_flops_pct: Option<f64>,
    /// Of the peak bandwidth, percent.
    pub peak_bandwidth_pct: Option<f64>,
    /// Of what is attainable at this intensity, percent.
    pub roofline_pct: Option<f64>,
    /// `None` too if the FLOPs are more than the device can do: then they are not what ran.
    pub bound: Option<Bound>,
}

impl Load {
    /// Adds a call whose FLOPs are known.
    pub fn add(&mut self, flops: u64, bytes: Option<u64>, peaks: CallPeaks) {
        self.count += 1;
        self.flops = self.flops.and_then(|all| all.checked_add(flops));
        self.bytes = self.bytes.zip(bytes).and_then(|(all, b)| all.checked_add(b));
        // Without operations there is no time at the peak, whatever the peak is.
        let at_peak = if flops == 0 { Some(0.0) } else { peaks.flops_per_s.map(|peak| flops as f64 / peak) };
        self.at_peak_s = self.at_peak_s.zip(at_peak).map(|(all, s)| all + s);
        let at_bandwidth = bytes.zip(peaks.bytes_per_s).map(|(b, peak)| b as f64 / peak);
        self.at_bandwidth_s = self.at_bandwidth_s.zip(at_bandwidth).map(|(all, s)| all + s);
    }

    /// Operations; `None` without a call whose operations are known.
    pub fn flops(&self) -> Option<u64> {
        self.flops.filter(|_| self.count > 0)
    }

    /// Bytes; `None` if those of a call are unknown.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes.filter(|_| self.count > 0)
    }

    /// Time that the FLOPs take at the peak, s.
    pub fn at_peak_s(&self) -> Option<f64> {
        self.at_peak_s.filter(|_| self.count > 0)
    }

    /// Least time for the work on this device, ns: at the peak rate or at the peak bandwidth, whichever is
    /// longer.
    pub(crate) fn ideal_ns(&self) -> Option<f64> {
        let seconds = self.at_peak_s()?.max(self.at_bandwidth_s?);
        Some(seconds * 1e9)
    }

    /// Rates over the time in which the kernels of the calls ran.
    pub fn rates(&self, busy: Ns) -> LoadRates {
        if busy <= 0 || self.count == 0 {
            return LoadRates::default();
        }
        let seconds = busy as f64 / 1e9;
        let peak_flops_pct = self.at_peak_s.filter(|_| self.flops() != Some(0)).map(|s| 100.0 * s / seconds);
        let peak_bandwidth_pct = self.at_bandwidth_s.map(|s| 100.0 * s / seconds);
        let roofline_pct = self.ideal_ns().map(|ns| 100.0 * ns / busy as f64);
        let is_possible = peak_flops_pct.is_none_or(|pct| pct <= 100.0);
        let bound =
            self.at_peak_s.zip(self.at_bandwidth_s).filter(|_| is_possible).map(|(peak, bandwidth)| {
                let is_short = busy / (self.count as Ns).max(1) < LATENCY_BELOW;
                match roofline_pct {
                    Some(pct) if pct < LATENCY_PCT && is_short => Bound::Latency,
                    _ if peak >= bandwidth => Bound::Compute,
                    _ => Bound::Memory,
                }
            });
        LoadRates {
            tflops_per_s: self.flops().map(|f| f as f64 / seconds / 1e12),
            tb_per_s: self.bytes().map(|b| b as f64 / seconds / 1e12),
            flops_per_byte: self
                .flops()
                .zip(self.bytes().filter(|b| *b > 0))
                .map(|(f, b)| f as f64 / b as f64),
            peak_flops_pct,
            peak_bandwidth_pct,
            roofline_pct,
            bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of 100 TFLOP/s and 1 TB/s: 100 operations per byte are both.
    const PEAKS: CallPeaks = CallPeaks { flops_per_s: Some(1e14), bytes_per_s: Some(1e12) };

    /// To six digits after the point.
    fn rounded(values: [Option<f64>; 2]) -> [Option<f64>; 2] {
        values.map(|v| v.map(|v| (v * 1e6).round() / 1e6))
    }

    #[test]
    fn rates_are_against_the_peaks() {
        let mut load = Load::default();
        load.add(1_000_000_000, Some(1_000_000), PEAKS);
        // 10 us at the peak, 1 us at the bandwidth.
        let rates = load.rates(20_000);
        assert_eq!(rounded([rates.tflops_per_s, rates.tb_per_s]), [Some(50.0), Some(0.05)]);
        assert_eq!(rounded([rates.peak_flops_pct, rates.peak_bandwidth_pct]), [Some(50.0), Some(5.0)]);
        assert_eq!((rounded([rates.roofline_pct, None])[0], rates.bound), (Some(50.0), Some(Bound::Compute)));
        assert_eq!(load.rates(2_000_000).bound, Some(Bound::Compute));
        let mut small = Load::default();
        small.add(1_000, Some(1_000), PEAKS);
        assert_eq!(small.rates(5_000).bound, Some(Bound::Latency));
        assert_eq!(small.rates(15_000).bound, Some(Bound::Memory));
    }

    #[test]
    fn more_than_the_peak_is_not_said_to_be_bound_by_it() {
        let mut load = Load::default();
        load.add(1_000_000_000, Some(1_000_000), PEAKS);
        // 10 us at the peak, in 5 us.
        assert_eq!((load.rates(5_000).bound, load.rates(10_000).bound), (None, Some(Bound::Compute)));
    }

    #[test]
    fn what_is_unknown_stays_unknown() {
        let mut load = Load::default();
        load.add(1_000, None, PEAKS);
        let rates = load.rates(1_000);
        assert_eq!((rounded([rates.tflops_per_s, rates.tb_per_s]), rates.bound), ([Some(0.001), None], None));
        load.add(1_000, Some(1), CallPeaks::default());
        assert_eq!(load.rates(1_000).peak_flops_pct, None);
        assert_eq!(Load::default().rates(1_000), LoadRates::default());
        assert_eq!(load.rates(0), LoadRates::default());
    }
}
