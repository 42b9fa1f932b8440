//! Numbers and advice about clocks in words.

use crate::diagnosis::clocks::reason::SeenBeside;
use hta_base::units::fmt_count;

/// A clock without its unit: `1,980`.
pub(crate) fn megahertz(hertz: i64) -> String {
    fmt_count(hertz.max(0).unsigned_abs().saturating_add(500_000) / 1_000_000)
}

/// What to do about a low clock of ranks.
pub(crate) fn performance(seen: Option<SeenBeside>, is_state_recorded: bool, who: &str) -> String {
    let ask = "`nvidia-smi -q -d PERFORMANCE` tells the reason, which the trace does not record";
    match seen {
        Some(SeenBeside::Power(_)) => format!(
            "compare the power cap of {who} with what its node and cooling allow (`nvidia-smi -q -d POWER`, \
             `-pl` sets it); while the job runs, {ask}"
        ),
        Some(SeenBeside::Heat(_)) => format!(
            "check the cooling of {who}: air flow, fans, coolant, its place in the rack; while the job runs, \
             {ask}"
        ),
        None if is_state_recorded => {
            format!("look for locked or capped clocks of {who}; while the job runs, {ask}")
        }
        None => format!(
            "while the job runs, {ask}; to see more in the next trace, record power and temperature of {who} \
             beside the clock"
        ),
    }
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
        for words in
            all.into_iter().flat_map(|seen| [true, false].map(|known| performance(seen, known, "rank 3")))
        {
            assert!(words.contains("PERFORMANCE") && words.contains("rank 3"), "{words}");
            assert!(!words.contains("power limit") && !words.contains("thermal limit"), "{words}");
        }
    }
}
