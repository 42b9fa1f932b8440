//! `--ranks`: which ranks a command is about.

use clap::Args;

// Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct RanksArg {
    /// Only these ranks, e.g. 0,3,8-15
    #[arg(long, visible_alias = "rank", value_name = "LIST", value_parser = parse_ranks)]
    ranks: Option<RankRanges>,
}

/// Ranges of ranks as in `0,3,8-15`, both ends inclusive.
#[derive(Debug, Clone)]
pub struct RankRanges(pub Vec<(u32, u32)>);

impl RanksArg {
    /// The ranges; empty for all ranks.
    pub fn ranges(&self) -> &[(u32, u32)] {
        self.ranks.as_ref().map_or(&[], |r| &r.0)
    }
}

pub fn parse_ranks(text: &str) -> Result<RankRanges, String> {
    text.split(',').map(range).collect::<Result<_, _>>().map(RankRanges)
}

/// Parses a number or a range of numbers.
///
/// # Errors
/// When it is neither, or the range runs downwards.
pub fn range<T: std::str::FromStr + PartialOrd + Copy>(text: &str) -> Result<(T, T), String> {
    let number = |t: &str| t.trim().parse::<T>().map_err(|_| format!("expected a number, found `{t}`"));
    let (a, b) = match text.split_once('-') {
        Some((a, b)) if !a.is_empty() => (number(a)?, number(b)?),
        _ => (number(text)?, number(text)?),
    };
    if b < a { Err(format!("expected a range upwards, found `{text}`")) } else { Ok((a, b)) }
}
