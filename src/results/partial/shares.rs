//! Shares of a job (`hta analyze --partial --share K/N`): a partial records which it holds, so that a merge
//! without one of them is an error and not a result with fewer ranks.

use crate::partial::error::PartialError;
use crate::partial::folder::PartialFolder;
use crate::partial::options::RecordedOptions;
use crate::run::RunShare;
use hta_base::wording::ranks::rank_list;
use std::collections::BTreeSet;

/// The option under which the shares are recorded. It is the only one that may differ between partials.
pub(super) const OPTION: &str = "--share";

/// Records the share of a partial.
pub fn record_share(options: &mut RecordedOptions, share: Option<RunShare>) {
    if let Some(share) = share {
        options.insert(OPTION.to_string(), share.to_string());
    }
}

/// The shares that partials hold.
struct HeldShares {
    indices: BTreeSet<usize>,
    count: usize,
}

/// The shares that all partials hold together; `None` if they were made without `--share`.
///
/// # Errors
/// When only some were made with `--share`, or with another number of shares.
pub(super) fn joined(partials: &[PartialFolder]) -> Result<Option<String>, PartialError> {
    Ok(held(partials)?.map(|held| held.text()))
}

/// Checks that no share is missing.
///
/// # Errors
/// When one is, or as `joined`.
pub fn check_complete(partials: &[PartialFolder]) -> Result<(), PartialError> {
    let Some(held) = held(partials)? else { return Ok(()) };
    let missing: Vec<u32> = (0..held.count).filter(|i| !held.indices.contains(i)).map(|i| i as u32).collect();
    match missing.as_slice() {
        [] => Ok(()),
        all => Err(PartialError::MissingShares { missing: rank_list(all), count: held.count }),
    }
}

fn held(partials: &[PartialFolder]) -> Result<Option<HeldShares>, PartialError> {
    let Some((first, others)) = partials.split_first() else { return Ok(None) };
    let mut all = shares_of(first)?;
    for other in others {
        let of_other = shares_of(other)?;
        match (&mut all, of_other) {
            (None, None) => {}
            (Some(all), Some(more)) if all.count == more.count => all.indices.extend(more.indices),
            _ => {
                let shown = |p: &PartialFolder| {
                    p.options.get(OPTION).map_or("not given".to_string(), |t| format!("`{t}`"))
                };
                return Err(PartialError::Options {
                    first: first.shown(),
                    second: other.shown(),
                    option: OPTION.to_string(),
                    values: Box::new((shown(first), shown(other))),
                });
            }
        }
    }
    Ok(all)
}

fn shares_of(partial: &PartialFolder) -> Result<Option<HeldShares>, PartialError> {
    let Some(text) = partial.options.get(OPTION) else { return Ok(None) };
    HeldShares::parse(text).map(Some).ok_or_else(|| PartialError::Damaged {
        path: partial.shown(),
        file: "partial.json".to_string(),
        expected: format!("a value of {OPTION}"),
        found: text.clone(),
    })
}

impl HeldShares {
    /// Reads `3/16`, or what [`HeldShares::text`] writes for several: `0,1,7/16`.
    fn parse(text: &str) -> Option<Self> {
        let (list, count) = text.split_once('/')?;
        let index = |k: &str| RunShare::parse(&format!("{k}/{count}")).map(|share| share.index).ok();
        Some(Self { indices: list.split(',').map(index).collect::<Option<_>>()?, count: count.parse().ok()? })
    }

    fn text(&self) -> String {
        let indices: Vec<String> = self.indices.iter().map(ToString::to_string).collect();
        format!("{}/{}", indices.join(","), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_shares_are_read_as_they_are_written() {
        for text in ["3/16", "0,1,7/16", "0,2,4/5"] {
            assert_eq!(HeldShares::parse(text).map(|h| h.text()), Some(text.to_string()));
        }
        for bad in ["", "3", "0,16/16", "x/4", "1,/4", "1/"] {
            assert!(HeldShares::parse(bad).is_none(), "{bad}");
        }
    }
}
