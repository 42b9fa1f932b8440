//! Values by rank and step, for the maps of the page.

use crate::output::html::axis::{PageAxis, PageStep};
use crate::output::html::grid::{Cell, Grid};
use crate::output::html::texts::Texts;
use hta_base::table;
use hta_base::table::schema::{TableSpec, Text};

table! {
    /// The place of a value on the map.
    struct MapPlaces, MapPlaceRow = "map" by "ranks, steps" {
        ranks: Text, "", "rank, or consecutive ranks that share a row of the map", "rank";
        steps: Text, "", "step, or consecutive steps that share a column of the map", "step";
        count: u64, "", "ranks and steps that are aggregated here", "values";
    }
}

table! {
    /// The largest value of a place.
    struct MapLargest, MapLargestRow = "map" by "most_ns" {
        most_ns: i64, "ns", "the largest of the first value", "largest";
        most_rank: u32, "", "the rank that has it", "on rank";
    }
}

/// Number of places on each side of a heat map.
pub(crate) const SIDE: usize = 128;

/// Values by rank and step; the largest counts if several share a place.
pub(crate) struct Heat<const N: usize> {
    width: usize,
    cells: Vec<Option<LaneSums<N>>>,
}

#[derive(Clone)]
struct LaneSums<const N: usize> {
    count: u32,
    sums: [i64; N],
    most: (i64, u32),
}

impl<const N: usize> Heat<N> {
    pub(crate) fn new(ranks: &PageAxis<u32>, steps: &PageAxis<PageStep>) -> Self {
        Self { width: steps.len(), cells: vec![None; ranks.len() * steps.len()] }
    }

    /// Adds the values of a rank in a step. The first value decides which rank is named for a place.
    pub(crate) fn add(
        &mut self,
        ranks: &PageAxis<u32>,
        steps: &PageAxis<PageStep>,
        rank: u32,
        step: &PageStep,
        values: [i64; N],
    ) {
        let (Some(y), Some(x)) = (ranks.place(&rank), steps.place(step)) else { return };
        let Some(place) = self.cells.get_mut(y * self.width + x) else { return };
        let place = place.get_or_insert(LaneSums { count: 0, sums: [0; N], most: (i64::MIN, rank) });
        place.count += 1;
        place.sums.iter_mut().zip(values).for_each(|(a, b)| *a += b);
        place.most = place.most.max((values.first().copied().unwrap_or(0), rank));
    }

    /// The grid of a map with the columns of these values.
    pub(crate) fn grid(
        self,
        values: &TableSpec,
        ranks: &PageAxis<u32>,
        steps: &PageAxis<PageStep>,
        texts: &mut Texts,
    ) -> Grid {
        let mut grid = Grid::of_tables(values.name, &[MapPlaces::SPEC, values, MapLargest::SPEC]);
        for (i, place) in self.cells.iter().enumerate() {
            let Some(p) = place else { continue };
            let (y, x) = (i / self.width, i % self.width);
            let mut row = vec![texts.cell(&ranks.label(y)), texts.cell(&steps.label(x)), p.count.into()];
            row.extend(p.sums.map(Cell::Int));
            row.extend([Cell::from(p.most.0), Cell::from(p.most.1)]);
            grid.push(row);
        }
        if ranks.joined > 1 || steps.joined > 1 {
            grid.notes.push(format!(
                "Each field of the map stands for up to {} consecutive ranks and {} consecutive steps, and \
                 is coloured by the largest value among them.",
                ranks.joined, steps.joined
            ));
        }
        grid
    }
}
