//! Products and sums of sizes that come from a file: too large ones are unknown instead of wrong.

/// The product; `None` if it does not fit.
pub(crate) fn product(factors: &[u64]) -> Option<u64> {
    factors.iter().try_fold(1u64, |all, f| all.checked_mul(*f))
}

/// The sum; `None` if one is unknown or it does not fit.
pub(crate) fn sum<const N: usize>(parts: [Option<u64>; N]) -> Option<u64> {
    parts.into_iter().try_fold(0u64, |all, p| all.checked_add(p?))
}
