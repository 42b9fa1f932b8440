//! Whether the ends of a rank's collectives prove an offset of its clock.
//!
//! Many ends do by their medians. Where collectives are few, all ends must agree under the offset, within
//! less than the shortest of the calls:
//!
//! ```text
//!   rank 0   [waiting|transfer]              [waiting|transfer]           on its own clock
//!   rank 1                 |--- 40 ms ---[   |transfer]                   ends before the other arrives
//! ```

use hta_base::units::Ns;

/// Offsets up to this are not applied, ns.
pub(super) const SMALL: Ns = 20_000;

/// How the ends of a rank's instances fit the offsets found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EndFit {
    instances: i64,
    /// Instances that are possible only without the offsets, minus those that are only with them: an end
    /// before the last arrival is not possible.
    worse: i64,
    /// Largest distance between the ends of an instance under the offsets, ns.
    apart: Ns,
    /// The shortest call, ns.
    shortest: Ns,
    on_host: bool,
}

impl EndFit {
    pub(super) fn add(&mut self, worse: i64, apart: Ns, shortest: Ns, on_host: bool) {
        self.shortest = if self.instances == 0 { shortest } else { self.shortest.min(shortest) };
        self.instances += 1;
        self.worse += worse;
        self.apart = self.apart.max(apart);
        self.on_host |= on_host;
    }

    /// Whether an offset is true. One under which more instances end before their last arrival than without
    /// any is refuted; one that makes most of them possible is needed, however small it is. `is_few`: medians
    /// over so few instances prove nothing.
    pub(super) fn proves(&self, offset: Ns, is_few: bool) -> bool {
        let is_needed = -self.worse * 2 > self.instances;
        let is_large = offset.abs() > SMALL || is_needed;
        is_large && self.worse <= 0 && (!is_few || self.fits(offset, is_needed))
    }

    /// Whether few instances prove an offset. Ends of calls on the host, and that of a single instance, agree
    /// by chance.
    fn fits(&self, offset: Ns, is_needed: bool) -> bool {
        let agree = self.apart <= self.shortest && offset.abs() > 4 * self.apart;
        agree && (is_needed || self.instances > 1 && !self.on_host)
    }

    /// How far the ends leave the offset open: those of a single instance agree under it by definition.
    pub(super) fn doubt(&self) -> Ns {
        if self.instances > 1 { self.apart } else { self.shortest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    fn fit(ends_apart: &[Ns], worse: i64) -> EndFit {
        let mut fit = EndFit::default();
        ends_apart.iter().for_each(|apart| fit.add(worse, *apart, MS, false));
        fit
    }

    #[test]
    fn few_ends_prove_an_offset_if_all_of_them_agree() {
        assert!(fit(&[0, 900], -1).proves(40 * MS, true));
        assert!(!fit(&[0, 2 * MS], -1).proves(40 * MS, true), "farther than the shortest call");
        assert!(!fit(&[0, 900], 0).proves(3_000, true), "small, and nothing contradicts the clocks");
        assert!(fit(&[0, 700], -1).proves(3_000, true), "without it all end before the last arrival");
        assert!(!fit(&[0, 0], 1).proves(40 * MS, false), "refuted");
    }

    #[test]
    fn one_collective_proves_an_offset_only_where_it_is_needed() {
        assert!(fit(&[0], -1).proves(40 * MS, true));
        assert!(!fit(&[0], 0).proves(MS / 2, true));
        assert_eq!((fit(&[0], -1).doubt(), fit(&[0, 900], -1).doubt()), (MS, 900));
    }
}
