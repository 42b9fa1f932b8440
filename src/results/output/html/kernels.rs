//! Kernels, copies and sets by name over all ranks: what they do, which operator launches them with which shapes, and how
//! far they are from what the device can do.

use crate::output::html::grid::{Cell, CellType, Grid, Section, missing};
use crate::output::html::names::{MOST_NAMES, of_ranks};
use crate::output::html::tally::Tally;
use crate::output::html::texts::Texts;
use crate::output::html::work;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::kernels::KernelsByName;
use hta_base::table::schema::Text;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

columns! {
    Kernel of KernelsByName {
        rank, scope, class: Text, category: Text, short_name: Text, name: Text, sum_ns: i64, count: u64, min_ns: i64,
        max_ns: i64, main_op: Option<Text>, main_op_ns: Option<i64>, main_input_dims: Option<Text>,
        main_input_ns: Option<i64>, work_ns: i64, flops: Option<u64>, bytes: Option<u64>, roofline_pct: Option<f64>,
        bound: Option<Text>,
    }
}

/// Sums by text; few texts.
#[derive(Default)]
struct Shares(Vec<(String, i64)>);

impl Shares {
    fn add(&mut self, text: &str, ns: i64) {
        match self.0.iter_mut().find(|(t, _)| t == text) {
            Some((_, sum)) => *sum += ns,
            None => self.0.push((text.to_string(), ns)),
        }
    }

    /// The text with most time; of equal ones the first in the order of the alphabet.
    fn largest(&self) -> Option<(&str, i64)> {
        self.0.iter().max_by_key(|(text, ns)| (*ns, Reverse(text))).map(|(text, ns)| (text.as_str(), *ns))
    }
}

/// What a kernel of one name and category is beside its sums.
#[derive(Default)]
struct Details {
    shortest: Option<i64>,
    longest: i64,
    /// Time by main operator; what ranks have beside their main one is not in the table.
    ops: Shares,
    /// By operator, time by shapes of its inputs.
    inputs: BTreeMap<String, Shares>,
    work_ns: i64,
    flops: Option<f64>,
    bytes: Option<f64>,
    /// Time of which the attainable part is known, and that part of it.
    rated_ns: i64,
    attained_ns: f64,
    bounds: Shares,
}

impl Details {
    fn add(&mut self, r: &Kernel) {
        self.shortest = Some(self.shortest.map_or(r.min_ns, |s| s.min(r.min_ns)));
        self.longest = self.longest.max(r.max_ns);
        if let Some((op, ns)) = r.main_op.zip(r.main_op_ns) {
            self.ops.add(op, ns);
            if let Some((dims, ns)) = r.main_input_dims.zip(r.main_input_ns) {
                if !self.inputs.contains_key(op) {
                    self.inputs.insert(op.to_string(), Shares::default());
                }
                self.inputs.entry(op.to_string()).or_default().add(dims, ns);
            }
        }
        self.work_ns += r.work_ns;
        let add = |sum: &mut Option<f64>, v: Option<u64>| *sum = v.map(|v| sum.unwrap_or(0.0) + v as f64).or(*sum);
        add(&mut self.flops, r.flops);
        add(&mut self.bytes, r.bytes);
        if let Some((pct, bound)) = r.roofline_pct.zip(r.bound) {
            self.rated_ns += r.work_ns;
            self.attained_ns += pct / 100.0 * r.work_ns as f64;
            self.bounds.add(bound, r.work_ns);
        }
    }

    /// Which roof limits it, or why that cannot be told.
    fn roof(&self, class: &str) -> Option<&str> {
        match (self.bounds.largest(), class) {
            (Some((bound, _)), _) => Some(bound),
            (None, "compute") if self.work_ns == 0 => Some("cannot tell: operations unknown"),
            (None, "compute") if self.bytes.is_none() => Some("cannot tell: bytes unknown"),
            (None, "compute") => Some("cannot tell: device unknown"),
            (None, _) => None,
        }
    }

    /// Operator, its part, shapes, FLOP/byte, TFLOP/s, TB/s, attained part, roof.
    fn cells(&self, class: &str, sum_ns: i64, texts: &mut Texts) -> [Cell; 8] {
        let op = self.ops.largest();
        let dims = op.and_then(|(op, _)| self.inputs.get(op)).and_then(Shares::largest).map(|(dims, _)| dims);
        let rate = |of: Option<f64>| of.filter(|_| self.work_ns > 0).map(|v| v / self.work_ns as f64 / 1e3);
        let intensity = self.flops.zip(self.bytes).filter(|(f, b)| *f > 0.0 && *b > 0.0).map(|(f, b)| f / b);
        [
            texts.of(op.map(|(op, _)| op)),
            op.filter(|_| sum_ns > 0).map(|(_, ns)| ns as f64 / sum_ns as f64).into(),
            texts.of(dims),
            intensity.into(),
            rate(self.flops.filter(|f| *f > 0.0)).into(),
            rate(self.bytes).into(),
            Some(self.attained_ns / self.rated_ns as f64).filter(|_| self.rated_ns > 0).into(),
            texts.of(self.roof(class)),
        ]
    }
}

/// The section.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn section(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut names: Tally<4, 2> = Tally::default();
    let mut details: HashMap<String, Vec<(String, Details)>> = HashMap::new();
    let there = results.read::<Kernel>(|r| {
        if r.scope != "span" {
            return;
        }
        names.add([r.category, r.class, r.short_name, r.name], r.rank, [r.sum_ns, r.count as i64]);
        if !details.contains_key(r.name) {
            details.insert(r.name.to_string(), Vec::new());
        }
        let Some(of_name) = details.get_mut(r.name) else { return };
        match of_name.iter_mut().find(|(category, _)| category == r.category) {
            Some((_, of)) => of.add(&r),
            None => {
                let mut of = Details::default();
                of.add(&r);
                of_name.push((r.category.to_string(), of));
            }
        }
    })?;
    if names.is_empty() {
        let cpu = "No kernels were recorded: a CPU-only job, or a capture without device activity.";
        return Ok(Section::without(if there { cpu.to_string() } else { missing("kernels_by_name") }));
    }
    let mut grid = Grid::new(
        "kernels_by_name",
        &[
            ("category", "category", CellType::Text, "what it does; `hta explain kernels`"),
            ("class", "class", CellType::Text, "compute, communication or memory; `hta explain rules`"),
            ("short", "kernel", CellType::Text, "short name; `hta explain kernels`"),
            ("name", "full name", CellType::Text, "full name"),
            ("sum_ns", "time", CellType::Ns, "sum of durations over all ranks; concurrent ones count twice"),
            ("count", "count", CellType::Count, "how often, over all ranks"),
            ("op", "operator", CellType::Text, "operator that launched most of its time"),
            ("op_share", "by it", CellType::Ratio, "part of the time that this operator launched, at least"),
            (
                "input_dims",
                "shapes",
                CellType::Text,
                "shapes of the operator's inputs in most of that time, where recorded",
            ),
            ("intensity", "FLOP/byte", CellType::Number, "operations per byte of compulsory traffic, where known"),
            ("tflops_per_s", "TFLOP/s", CellType::Number, "operations over the time of the kernels that do them"),
            ("tb_per_s", "TB/s", CellType::Number, "compulsory traffic over the same"),
            (
                "attainable",
                "of attainable",
                CellType::Ratio,
                "of what the device can do at this intensity; above 100 %: operations are overestimated",
            ),
            (
                "roof",
                "roof",
                CellType::Text,
                "what limits it: compute, memory, or latency where it is short and far from both",
            ),
            ("ranks", "ranks", CellType::Count, "ranks that have it"),
            ("most_ns", "largest", CellType::Ns, "sum on the rank with most of it"),
            ("most_rank", "on rank", CellType::Id, "that rank"),
            ("min_ns", "shortest", CellType::Ns, "shortest of all"),
            ("max_ns", "longest", CellType::Ns, "longest of all"),
        ],
    );
    let nothing = Details::default();
    names.fill(&mut grid, texts, MOST_NAMES, |t, texts| {
        let [category, class, _, name] = names.key(t);
        let of = details.get(name).and_then(|all| all.iter().find(|(c, _)| c == category));
        let of = of.map_or(&nothing, |(_, of)| of);
        let mut cells: Vec<Cell> = of.cells(class, t.sums[0], texts).into();
        cells.extend(of_ranks(t, texts));
        cells.extend([Cell::from(of.shortest), Cell::from(of.longest)]);
        cells
    });
    Ok(Section::default().with("kernels", grid).with("categories", work::categories(results, texts)?))
}
