//! `--ranks`: which ranks a command is about.

use clap::Args;
use hta_job::{MeshShape, dimension_name};
use hta_read::input::Input;
use hta_results::results::{Results, ResultsError};
use hta_results::run::{AlongDimension, RunError, ranks_along, ranks_along_of};

// Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct RanksArg {
    /// Only these ranks, e.g. 0,3,8-15; or along dimensions of the job, e.g. pp=2 or pp=2,tp=0-3
    #[arg(long, visible_alias = "rank", value_name = "LIST", value_parser = parse_choice)]
    ranks: Option<RankChoice>,
    /// The dimensions of the job with their sizes, outermost first, e.g. pp=4,dp=8,tp=8, instead of those
    /// that the files tell
    #[arg(long, value_name = "SIZES", value_parser = MeshShape::parse)]
    pub mesh: Option<MeshShape>,
}

/// What `--ranks` asks for.
#[derive(Debug, Clone)]
pub enum RankChoice {
    Numbers(RankRanges),
    Along(Vec<AlongDimension>),
}

/// Ranges of ranks as in `0,3,8-15`, both ends inclusive.
#[derive(Debug, Clone)]
pub struct RankRanges(pub Vec<(u32, u32)>);

impl RanksArg {
    /// Whether ranks are asked for by coordinates.
    pub fn are_along(&self) -> bool {
        matches!(self.ranks, Some(RankChoice::Along(_)))
    }

    /// The ranges among the ranks of results; empty for all ranks.
    ///
    /// # Errors
    /// When ranks are asked for by coordinates, and the results have none, or none of these.
    pub fn of_results(&self, results: &Results) -> Result<Vec<(u32, u32)>, ResultsError> {
        match &self.ranks {
            None => Ok(Vec::new()),
            Some(RankChoice::Numbers(ranges)) => Ok(ranges.0.clone()),
            Some(RankChoice::Along(asked)) => ranks_along_of(results, asked),
        }
    }

    /// The ranges among the ranks of these files; empty for all ranks.
    ///
    /// # Errors
    /// When ranks are asked for by coordinates, and the files have none, or none of these.
    pub fn ranges(&self, inputs: &[Input]) -> Result<Vec<(u32, u32)>, RunError> {
        match &self.ranks {
            None => Ok(Vec::new()),
            Some(RankChoice::Numbers(ranges)) => Ok(ranges.0.clone()),
            Some(RankChoice::Along(asked)) => ranks_along(inputs, asked, self.mesh.as_ref()),
        }
    }
}

/// Parses numbers, or coordinates as in `pp=2,tp=0-3`.
fn parse_choice(text: &str) -> Result<RankChoice, String> {
    if !text.contains('=') {
        return parse_ranks(text).map(RankChoice::Numbers);
    }
    let along = |part: &str| {
        let expected = || format!("expected a dimension with a coordinate, e.g. pp=2, found `{part}`");
        let (name, at) = part.split_once('=').ok_or_else(expected)?;
        Ok((dimension_name(name).ok_or_else(expected)?, range(at)?))
    };
    text.split(',').map(along).collect::<Result<_, String>>().map(RankChoice::Along)
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
