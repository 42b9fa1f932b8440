//! Numbers and advice about clocks in words.

use crate::clocks::reason::SeenBeside;
use hta_base::units::fmt_count;

/// A clock without its unit: `1,980`.
pub(crate) fn megahertz(hertz: i64) -> String {
    fmt_count(hertz.max(0).unsigned_abs().saturating_add(500_000) / 1_000_000)
}

/// What to do about low clocks of ranks: for each group of ranks what is seen beside, whether power and
/// temperature are recorded, and the ranks in words.
pub(super) fn performance(groups: &[(Option<SeenBeside>, bool, String)]) -> String {
    let check = |(seen, is_recorded, who): &(Option<SeenBeside>, bool, String)| match seen {
        Some(SeenBeside::Power(_)) => Some(format!(
            "compare the power cap of {who} with what its node and cooling allow (`nvidia-smi -q -d POWER`, \
             `-pl` sets it)"
        )),
        Some(SeenBeside::Heat(_)) => {
            Some(format!("check the cooling of {who}: air flow, fans, coolant, its place in the rack"))
        }
        None if *is_recorded => Some(format!("look for locked or capped clocks of {who}")),
        None => None,
    };
    let record = |(seen, is_recorded, who): &(Option<SeenBeside>, bool, String)| {
        (seen.is_none() && !is_recorded).then(|| {
            format!("to see more in the next trace, record power and temperature of {who} beside the clock")
        })
    };
    let ask = "while the job runs, `nvidia-smi -q -d PERFORMANCE` tells the reason, which the trace does not \
               record";
    let all =
        groups.iter().filter_map(check).chain([ask.to_string()]).chain(groups.iter().filter_map(record));
    all.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_whole_megahertz() {
        assert_eq!(
            [megahertz(1_980_000_000), megahertz(1_410_500_000), megahertz(-1)],
            ["1,980", "1,411", "0"]
        );
    }

    #[test]
    fn no_reason_is_told_as_a_fact() {
        let all = [Some(SeenBeside::Power(700)), Some(SeenBeside::Heat(88)), None];
        let of = |seen, is_known| performance(&[(seen, is_known, "rank 3".to_string())]);
        for words in all.into_iter().flat_map(|seen| [true, false].map(|is_known| of(seen, is_known))) {
            assert!(words.contains("PERFORMANCE") && words.contains("rank 3"), "{words}");
            assert!(!words.contains("power limit") && !words.contains("thermal limit"), "{words}");
        }
    }

    #[test]
    fn each_group_of_ranks_has_its_own_advice() {
        let of = |seen, who: &str| (seen, true, who.to_string());
        let words = performance(&[
            of(Some(SeenBeside::Heat(88)), "rank 0"),
            of(Some(SeenBeside::Power(700)), "rank 1"),
            of(None, "rank 2"),
        ]);
        for part in ["cooling of rank 0", "power cap of rank 1", "capped clocks of rank 2"] {
            assert_eq!(words.matches(part).count(), 1, "{words}");
        }
        assert_eq!(words.matches("PERFORMANCE").count(), 1, "{words}");
    }
}
