//! Expert time and load by layer and rank, means over the steps: what the charts of the section on experts
//! show, however many passes there are.

use crate::output::html::axis::PageAxis;
use crate::output::html::grid::{Cell, CellType, Grid, Heading, Section};
use crate::output::html::heat::SIDE;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::experts::tables::ExpertRanks;
use hta_base::table::schema::Text;
use std::collections::{BTreeMap, BTreeSet};

columns! {
    ExpertPass of ExpertRanks {
        rank, direction: Text, position: u32, layer: Option<Text>, expert_ns: Option<i64>,
        tokens_in: Option<i64>, received_bytes: Option<i64>,
    }
}

/// Sums over the passes of a rank through a layer.
#[derive(Debug, Clone, Copy, Default)]
struct PassSums {
    passes: i64,
    expert_ns: i64,
    tokens: Option<i64>,
    bytes: Option<i64>,
}

/// A layer in a part of the step, the forward pass first.
type PassKey = (bool, String, u32);

#[derive(Default)]
struct LayerLoads {
    name: Option<String>,
    ranks: BTreeMap<u32, PassSums>,
}

const LOADS: &[Heading] = &[
    ("layer", "layer", CellType::Text, "module or annotation around it"),
    ("direction", "direction", CellType::Text, "part of the step: forward, backward, recompute"),
    ("position", "position", CellType::Id, "position among the layers of the step and direction"),
    ("ranks", "ranks", CellType::Text, "rank, or consecutive ranks that share a row of the map"),
    ("rank_count", "of ranks", CellType::Count, "how many they are"),
    ("least_ns", "shortest", CellType::Ns, "shortest mean expert time of a rank"),
    ("mean_ns", "mean", CellType::Ns, "mean expert time"),
    ("most_ns", "longest", CellType::Ns, "longest mean expert time of a rank"),
    ("most_rank", "on rank", CellType::Id, "the rank that has it"),
    ("tokens_in", "tokens in", CellType::Count, "tokens that it gets in a pass; of several ranks the mean"),
    ("received_bytes", "received", CellType::Bytes, "what it gets in a pass; of several ranks the mean"),
];

/// The section on experts, without its tables.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn section(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut layers: BTreeMap<PassKey, LayerLoads> = BTreeMap::new();
    let mut all: BTreeSet<u32> = BTreeSet::new();
    results.read::<ExpertPass>(|r| {
        let Some(expert_ns) = r.expert_ns else { return };
        all.insert(r.rank);
        let key = (r.direction != "forward", r.direction.to_string(), r.position);
        let layer = layers.entry(key).or_default();
        layer.name = layer.name.take().or(r.layer.map(str::to_string));
        let sums = layer.ranks.entry(r.rank).or_default();
        sums.passes += 1;
        sums.expert_ns += expert_ns;
        let add =
            |sum: &mut Option<i64>, more: Option<i64>| *sum = more.map(|v| sum.unwrap_or(0) + v).or(*sum);
        add(&mut sums.tokens, r.tokens_in);
        add(&mut sums.bytes, r.received_bytes);
    })?;
    let axis = PageAxis::new(&all, SIDE);
    let mut grid = Grid::new(ExpertRanks::SPEC.name, LOADS);
    for ((_, direction, position), layer) in &layers {
        let mut places: BTreeMap<usize, Vec<(u32, PassSums)>> = BTreeMap::new();
        for (rank, sums) in &layer.ranks {
            places.entry(axis.place(rank).unwrap_or(0)).or_default().push((*rank, *sums));
        }
        let name = layer.name.as_deref().map_or(Cell::Nothing, |name| texts.cell(name));
        for (place, ranks) in places {
            let mut row =
                vec![name, texts.cell(direction), Cell::from(*position), texts.cell(&axis.label(place))];
            row.extend(joined(&ranks));
            grid.push(row);
        }
    }
    if axis.joined > 1 {
        let joined = axis.joined;
        grid.notes.push(format!(
            "Each field of the map stands for up to {joined} consecutive ranks, and is coloured by the \
             longest."
        ));
    }
    Ok(Section::default().with("loads", grid))
}

/// Cells of the ranks that share a row.
fn joined(ranks: &[(u32, PassSums)]) -> Vec<Cell> {
    let times = || ranks.iter().map(|(rank, of)| (of.expert_ns / of.passes.max(1), *rank));
    let most = times().max().unwrap_or_default();
    let passes: i64 = ranks.iter().map(|(_, of)| of.passes).sum();
    let sum = |value: fn(&PassSums) -> Option<i64>| {
        ranks.iter().filter_map(|(_, of)| value(of)).reduce(|a, b| a + b)
    };
    let mean = |value| Cell::from(sum(value).map(|sum| sum / passes.max(1)));
    vec![
        Cell::from(ranks.len()),
        Cell::from(times().map(|(ns, _)| ns).min()),
        mean(|of| Some(of.expert_ns)),
        Cell::from(most.0),
        Cell::from(most.1),
        mean(|of| of.tokens),
        mean(|of| of.bytes),
    ]
}
