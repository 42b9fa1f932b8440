//! Values by rank and step, for the maps of the page.

use crate::output::html::axis::{PageAxis, PageStep};
use crate::output::html::grid::{Cell, CellType, Grid, Heading};
use crate::output::html::texts::Texts;

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

    pub(crate) fn grid(
        self,
        table: &'static str,
        values: &[Heading],
        ranks: &PageAxis<u32>,
        steps: &PageAxis<PageStep>,
        texts: &mut Texts,
    ) -> Grid {
        let mut headings: Vec<Heading> = vec![
            ("ranks", "rank", CellType::Text, "rank, or consecutive ranks that share a row of the map"),
            ("steps", "step", CellType::Text, "step, or consecutive steps that share a column of the map"),
            ("count", "values", CellType::Count, "ranks and steps that are aggregated here"),
        ];
        headings.extend(values);
        headings.extend([
            ("most_ns", "largest", CellType::Ns, "the largest of the first value"),
            ("most_rank", "on rank", CellType::Id, "the rank that has it"),
        ]);
        let mut grid = Grid::new(table, &headings);
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
