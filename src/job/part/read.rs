//! Reads a [`RankSummary`] from its tables. Positions are checked, so invalid tables give an error here, and
//! reducing can rely on valid positions.

use crate::end_together::PartRuns;
use crate::local::Local;
use crate::part::by_start::orders;
use crate::part::chunks::PartChunks;
use crate::part::tables::*;
use crate::part::{PartLane, PartStep, PartWindow, RankSummary, Readiness};
use hta_base::table::checked::InvalidCell;
use hta_base::table::schema::{Batch, Table, TableSpec};
use hta_base::table::stored::Stored;
use hta_base::units::Span;
use hta_facts::experts::ExpertLayer;
use hta_facts::host_activity::HostActivity;
use hta_trace::collective::{CallShapes, CollectiveCall, LocalGroup, Members as LocalMembers, RankCalls};
use hta_trace::strings::Interner;

/// Columns that hold positions of rows of another table.
const POSITIONS: [(&TableSpec, &[&str], &TableSpec); 16] = [
    (PartMembers::SPEC, &["process_group"], PartGroups::SPEC),
    (PartCallTable::SPEC, &["process_group"], PartGroups::SPEC),
    (PartCallTable::SPEC, &["dtype"], Dtypes::SPEC),
    (PartCallTable::SPEC, &["title"], PartTitles::SPEC),
    (Edges::SPEC, &["call"], PartCallTable::SPEC),
    (PartLayers::SPEC, LAYER_CALLS, PartCallTable::SPEC),
    (PartTokens::SPEC, &["layer"], PartLayers::SPEC),
    (Exposed::SPEC, &["lane"], PartLanes::SPEC),
    (PartWindows::SPEC, &["lane"], PartLanes::SPEC),
    (WindowSpans::SPEC, &["window"], PartWindows::SPEC),
    (Cuts::SPEC, &["lane"], PartLanes::SPEC),
    (Entries::SPEC, &["lane"], PartLanes::SPEC),
    (Entries::SPEC, &["name", "detail"], PartNames::SPEC),
    (Origins::SPEC, &["kernel", "op", "frame", "place"], PartNames::SPEC),
    (PartRuns::SPEC, &["name"], PartNames::SPEC),
    (PartUnknownKernels::SPEC, &["kernel"], PartNames::SPEC),
];
const LAYER_CALLS: &[&str] =
    &["dispatch", "combine", "before_dispatch", "behind_dispatch", "before_combine", "behind_combine"];

impl RankSummary {
    /// The inverse of [`RankSummary::tables`].
    ///
    /// # Errors
    /// The first invalid cell.
    pub fn from_tables(tables: &[Batch]) -> Result<Self, InvalidCell> {
        let tables = StoredPart(tables);
        tables.check_positions()?;
        let mut heads = tables.list::<Heads>()?;
        let (Some(mut out), true) = (heads.pop(), heads.is_empty()) else {
            return Err(InvalidCell::new::<Heads>(0, "rank", "one row", "none or several"));
        };
        (out.calls, out.readiness) = tables.calls()?;
        out.names = tables.names()?;
        out.backward_lanes = tables.list::<BackwardLanes>()?;
        out.steps = tables.steps()?;
        out.phases = tables.list::<PartPhaseTable>()?;
        out.lanes = tables.lanes()?;
        out.layers = tables.layers()?.into();
        out.order = orders(&out.calls, &out.lanes);
        tables.each::<Origins>(|(kernel, origin)| out.origins.extend([(kernel, origin)]))?;
        out.chunks = tables.list::<PartChunks>()?;
        check_spans::<PartChunks>(out.chunks.iter().map(|c| c.span))?;
        out.runs = tables.list::<PartRuns>()?;
        check_spans::<PartRuns>(out.runs.iter().map(|r| r.span))?;
        out.tokens.unknown = tables.list::<PartUnknownKernels>()?;
        Ok(out)
    }
}

/// Checks that no span ends before it starts.
fn check_spans<T: Table>(spans: impl Iterator<Item = Span>) -> Result<(), InvalidCell> {
    for (row, span) in spans.enumerate() {
        if span.end < span.start {
            return Err(InvalidCell::new::<T>(row, "end_ns", "a time after its start", span.end));
        }
    }
    Ok(())
}

/// The tables of a summary.
struct StoredPart<'a>(&'a [Batch]);

impl<'a> StoredPart<'a> {
    fn batch(&self, spec: &'static TableSpec) -> Result<&'a Batch, InvalidCell> {
        let missing = || InvalidCell {
            table: spec.name,
            row: 0,
            column: spec.columns.first().map_or("", |c| c.name),
            expected: "the table".to_string(),
            found: "none".to_string(),
        };
        self.0.iter().find(|b| b.spec.name == spec.name).ok_or_else(missing)
    }

    fn rows<T: Table>(&self) -> Result<impl Iterator<Item = (usize, T::Row<'a>)>, InvalidCell> {
        Ok(T::rows(self.batch(T::SPEC)?).enumerate())
    }

    fn each<T: Stored>(&self, mut take: impl FnMut(T::Whole)) -> Result<(), InvalidCell> {
        T::wholes(self.batch(T::SPEC)?).try_for_each(|whole| whole.map(&mut take))
    }

    fn list<T: Stored>(&self) -> Result<Vec<T::Whole>, InvalidCell> {
        let mut list = Vec::with_capacity(self.batch(T::SPEC)?.len());
        self.each::<T>(|whole| list.push(whole))?;
        Ok(list)
    }

    /// Checks that the columns with positions of rows of other tables hold such.
    fn check_positions(&self) -> Result<(), InvalidCell> {
        for (spec, columns, of) in POSITIONS {
            // The empty name comes before those of the table.
            let count = self.batch(of)?.len() + usize::from(of.name == PartNames::SPEC.name);
            let batch = self.batch(spec)?;
            for column in columns {
                let Some(cells) = batch.column(column) else { continue };
                let outside = |row| Some((row, cells.int(row).filter(|i| *i >= count as i64)?));
                if let Some((row, found)) = (0..batch.len()).find_map(outside) {
                    let (expected, found) = (format!("a position below {count}"), found.to_string());
                    return Err(InvalidCell { table: spec.name, row, column, expected, found });
                }
            }
        }
        Ok(())
    }

    /// An interner that contains exactly the stored names, in their order.
    fn names(&self) -> Result<Interner, InvalidCell> {
        let mut names = Interner::default();
        for (row, r) in self.rows::<PartNames>()? {
            if names.intern(r.name).0 as usize != row + 1 {
                let (expected, found) = ("a name that did not come before", format!("`{}`", r.name));
                return Err(InvalidCell::new::<PartNames>(row, "name", expected, found));
            }
        }
        Ok(names)
    }

    fn steps(&self) -> Result<Vec<PartStep>, InvalidCell> {
        let mut steps = self.list::<PartSteps>()?;
        for (row, (index, activity, time)) in self.list::<PartHosts>()?.into_iter().enumerate() {
            let step = steps.iter_mut().find(|s| s.index == index);
            let step = step.ok_or_else(|| InvalidCell::new::<PartHosts>(row, "step", "a step", index))?;
            let sums = HostActivity::ALL.into_iter().zip(&mut step.host);
            sums.filter(|(of, _)| *of == activity).for_each(|(_, sum)| *sum = time);
        }
        Ok(steps)
    }

    fn calls(&self) -> Result<(RankCalls, Vec<Readiness>), InvalidCell> {
        let count = self.batch(PartCallTable::SPEC)?.len();
        let (mut all, mut readiness) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut shapes = CallShapes::default();
        self.each::<PartCallTable>(|((event, submit, span, released, seq, step), shape, ready)| {
            let shape = shapes.shared(shape);
            all.push(CollectiveCall { event, submit, span, released, seq, step, shape });
            readiness.push(ready);
        })?;
        let (edges, dtypes, titles) =
            (self.list::<Edges>()?, self.list::<Dtypes>()?, self.list::<PartTitles>()?);
        Ok((RankCalls::from_lists(all, self.groups()?, edges, dtypes, titles), readiness))
    }

    fn groups(&self) -> Result<Vec<LocalGroup>, InvalidCell> {
        let (mut groups, has_members): (Vec<_>, Vec<_>) = self.list::<PartGroups>()?.into_iter().unzip();
        let mut listed: Vec<Option<Vec<u32>>> =
            has_members.into_iter().map(|has| has.then(Vec::new)).collect();
        for (i, r) in self.rows::<PartMembers>()? {
            let invalid =
                |column, expected, found| InvalidCell::new::<PartMembers>(i, column, expected, found);
            let at = r.process_group as usize;
            let (group, list): (&mut LocalGroup, _) = (&mut groups[at], &mut listed[at]);
            if r.is_head {
                group.head.push(r.member);
                continue;
            }
            let expected = "a group whose members are known";
            let list = list.as_mut().ok_or_else(|| invalid("process_group", expected, r.process_group))?;
            if r.count == 1 {
                list.push(r.member);
            } else {
                let members = LocalMembers::regular(r.member, r.stride, r.count);
                let regular = members.filter(|_| group.members.is_none());
                group.members =
                    Some(regular.ok_or_else(|| invalid("count", "ranks at equal distances", r.count))?);
            }
        }
        for (group, list) in groups.iter_mut().zip(listed) {
            group.members = group.members.take().or_else(|| list.map(LocalMembers::listed));
        }
        Ok(groups)
    }

    fn layers(&self) -> Result<Vec<ExpertLayer>, InvalidCell> {
        let mut layers = self.list::<PartLayers>()?;
        self.each::<PartTokens>(|(layer, is_received, bytes)| {
            let tokens = &mut layers[layer as usize].tokens;
            let parts = if is_received { &mut tokens.received_parts } else { &mut tokens.sent_parts };
            parts.push(bytes);
        })?;
        Ok(layers)
    }

    fn lanes(&self) -> Result<Vec<PartLane>, InvalidCell> {
        let mut lanes = self.list::<PartLanes>()?;
        self.each::<Exposed>(|(lane, span)| lanes[lane as usize].exposed.push(span))?;
        let mut windows: Vec<(u32, PartWindow)> = self.list::<PartWindows>()?;
        self.each::<WindowSpans>(|(window, span)| windows[window as usize].1.spans.push(span))?;
        for (lane, mut window) in windows {
            window.spans.shrink_to_fit();
            lanes[lane as usize].windows.push(window);
        }
        let of_lanes = self.local(lanes.len())?;
        for (lane, local) in lanes.iter_mut().zip(of_lanes) {
            lane.exposed.shrink_to_fit();
            lane.windows.shrink_to_fit();
            lane.local = local;
        }
        Ok(lanes)
    }

    /// The local work of each lane.
    fn local(&self, lanes: usize) -> Result<Vec<Local>, InvalidCell> {
        let mut cuts = vec![Vec::new(); lanes];
        self.each::<Cuts>(|(lane, time)| cuts[lane as usize].push(time))?;
        cuts.iter_mut().for_each(Vec::shrink_to_fit);
        let pieces = |cuts: &Vec<_>| vec![Vec::new(); cuts.len().saturating_sub(1)];
        let mut entries: Vec<_> = cuts.iter().map(pieces).collect();
        for (i, stored) in Entries::wholes(self.batch(Entries::SPEC)?).enumerate() {
            let (lane, piece, entry) = stored?;
            let of_piece = entries[lane as usize].get_mut(piece as usize);
            let invalid = || InvalidCell::new::<Entries>(i, "piece", "a piece between two cuts", piece);
            of_piece.ok_or_else(invalid)?.push(entry);
        }
        Ok(cuts.into_iter().zip(entries).map(|(cuts, pieces)| Local::from_pieces(cuts, pieces)).collect())
    }
}
