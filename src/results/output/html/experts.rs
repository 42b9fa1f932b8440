//! Expert time and load by layer and rank, means over the steps: what the charts of the section on experts
//! show, however many passes there are.

use crate::output::html::axis::PageAxis;
use crate::output::html::grid::Section;
use crate::output::html::heat::SIDE;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::experts::tables::ExpertRanks;
use hta_base::table;
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

table! {
    /// Expert time and load by layer and rank.
    struct LayerMap, LayerMapRow = "expert_ranks" by "direction, position, ranks" {
        layer: Option<Text>, "", "module or annotation around it";
        direction: Text, "", "part of the step: forward, backward, recompute";
        position: u32, "", "position among the layers of the step and direction";
        ranks: Text, "", "rank, or consecutive ranks that share a row of the map";
        rank_count: u64, "", "how many they are", "of ranks";
        least_ns: Option<i64>, "ns", "shortest mean expert time of a rank", "shortest";
        mean_ns: Option<i64>, "ns", "mean expert time";
        most_ns: i64, "ns", "longest mean expert time of a rank", "longest";
        most_rank: u32, "", "the rank that has it", "on rank";
        tokens_in: Option<u64>, "", "tokens that it gets in a pass; of several ranks the mean";
        received_bytes: Option<i64>, "bytes", "what it gets in a pass; of several ranks the mean";
    }
}

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
    let mut map = LayerMap::default();
    for ((_, direction, position), layer) in &layers {
        let mut places: BTreeMap<usize, Vec<(u32, PassSums)>> = BTreeMap::new();
        for (rank, sums) in &layer.ranks {
            places.entry(axis.place(rank).unwrap_or(0)).or_default().push((*rank, *sums));
        }
        for (place, of_place) in places {
            let (layer, ranks) = (layer.name.as_deref(), &axis.label(place));
            map.push(LayerMapRow { layer, direction, position: *position, ranks, ..joined(&of_place) });
        }
    }
    let mut grid = texts.grid(map);
    if axis.joined > 1 {
        let joined = axis.joined;
        grid.notes.push(format!(
            "Each field of the map stands for up to {joined} consecutive ranks, and is coloured by the \
             longest."
        ));
    }
    Ok(Section::default().with("loads", grid))
}

/// A row of the ranks that share it, without its place.
fn joined(ranks: &[(u32, PassSums)]) -> LayerMapRow<'static> {
    let times = || ranks.iter().map(|(rank, of)| (of.expert_ns / of.passes.max(1), *rank));
    let most = times().max().unwrap_or_default();
    let passes: i64 = ranks.iter().map(|(_, of)| of.passes).sum();
    let sum = |value: fn(&PassSums) -> Option<i64>| {
        ranks.iter().filter_map(|(_, of)| value(of)).reduce(|a, b| a + b)
    };
    let mean = |value| sum(value).map(|sum| sum / passes.max(1));
    LayerMapRow {
        rank_count: ranks.len() as u64,
        least_ns: times().map(|(ns, _)| ns).min(),
        mean_ns: mean(|of| Some(of.expert_ns)),
        most_ns: most.0,
        most_rank: most.1,
        tokens_in: mean(|of| of.tokens).map(i64::cast_unsigned),
        received_bytes: mean(|of| of.bytes),
        ..LayerMapRow::default()
    }
}
