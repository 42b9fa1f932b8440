//! Modules of the model as trees: of all ranks as one, and of single ranks.
//!
//! The grid has one row per module, trees one after the other, each module followed by what is inside it, the
//! largest first:
//!
//! ```text
//!   rank     null: all ranks, which come first; otherwise the tree of this rank
//!   parent   row of the grid with the module around it, which comes earlier; null for an outermost one
//! ```

use crate::output::html::detailed::detailed_ranks;
use crate::output::html::grid::{Cell, Grid, Section, missing};
use crate::output::html::overview::{PageRanks, nothing};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::ops::modules::ModulesTable;
use hta_analysis::ops::over_ranks::ModulesOverRanks;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::wording::counts::plural;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of modules of the tree of all ranks, and of one of a single rank.
const MOST_OF_ALL: usize = 500;
const MOST_OF_ONE: usize = 200;
/// Largest number of ranks with a tree of their own.
const MOST_RANKS: usize = 8;

columns! {
    Module of ModulesOverRanks {
        path: Text, name: Text, count: u64, host_ns: i64, host_self_ns: i64, gpu_ns: i64, gpu_self_ns: i64,
        bwd_gpu_ns: Option<i64>, bwd_gpu_self_ns: Option<i64>, bwd_host_ns: Option<i64>, rank_count: u32,
    }
}

columns! {
    RankModule of ModulesTable {
        rank, path: Text, name: Text, count: u64, host_ns: i64, host_self_ns: i64, gpu_ns: i64, gpu_self_ns: i64,
        bwd_gpu_ns: Option<i64>, bwd_gpu_self_ns: Option<i64>, bwd_host_ns: Option<i64>,
    }
}

table! {
    /// Nodes of the trees.
    struct ShownModules, ShownModuleRow = "modules" by "rank, path" {
        name: Text, "", "nn.Module", "module";
        rank: Option<u32>, "", "rank of the tree; none: all ranks";
        parent: Option<i64>, "", "row of the module around it, from 0; none for an outermost one",
            "inside row";
        gpu_ns: i64, "ns", "GPU work launched in it, with everything inside", "GPU time, forward";
        bwd_gpu_ns: Option<i64>, "ns", "of its backward pass, with everything inside",
            "GPU time, backward";
        host_ns: i64, "ns", "with everything inside", "host time, forward";
        bwd_host_ns: Option<i64>, "ns", "of its backward pass, with everything inside",
            "host time, backward";
        gpu_self_ns: i64, "ns", "without nested modules", "own GPU time, forward";
        bwd_gpu_self_ns: Option<i64>, "ns", "without nested modules", "own GPU time, backward";
        host_self_ns: i64, "ns", "without nested modules", "own host time, forward";
        count: u64, "", "calls";
        ranks: u64, "", "ranks that have it";
        path: Text, "", "names of the modules from the outermost in";
    }
}

impl<'a> RankModule<'a> {
    /// The module as one of all ranks.
    fn alone(&self) -> Module<'a> {
        Module {
            path: self.path,
            name: self.name,
            count: self.count,
            host_ns: self.host_ns,
            host_self_ns: self.host_self_ns,
            gpu_ns: self.gpu_ns,
            gpu_self_ns: self.gpu_self_ns,
            bwd_gpu_ns: self.bwd_gpu_ns,
            bwd_gpu_self_ns: self.bwd_gpu_self_ns,
            bwd_host_ns: self.bwd_host_ns,
            rank_count: 1,
        }
    }
}

/// What the modules of one path take.
#[derive(Default)]
struct ModuleTimes {
    name: String,
    /// Path of the module around it; empty for an outermost one.
    around: String,
    count: u64,
    /// Host time, own host time, GPU time, own GPU time.
    forward: [i64; 4],
    /// GPU time, own GPU time, host time; null where no backward pass is joined.
    backward: [Option<i64>; 3],
    ranks: u32,
}

impl ModuleTimes {
    fn gpu(&self) -> i64 {
        self.forward[2] + self.backward[0].unwrap_or(0)
    }
}

/// The modules of all ranks, or of one.
#[derive(Default)]
struct ModuleTree(BTreeMap<String, ModuleTimes>);

impl ModuleTree {
    fn add(&mut self, r: &Module) {
        // The name of a module may have a slash.
        let around = r.path.strip_suffix(r.name).and_then(|p| p.strip_suffix('/')).unwrap_or_default();
        let times = ModuleTimes {
            name: r.name.to_string(),
            around: around.to_string(),
            count: r.count,
            forward: [r.host_ns, r.host_self_ns, r.gpu_ns, r.gpu_self_ns],
            backward: [r.bwd_gpu_ns, r.bwd_gpu_self_ns, r.bwd_host_ns],
            ranks: r.rank_count,
        };
        self.0.insert(r.path.to_string(), times);
    }

    /// The modules with most time, and those around them, each followed by what is inside.
    fn order(&self, most: usize) -> Vec<&str> {
        let time = |path: &str| self.0.get(path).map_or((0, 0), |s| (s.gpu(), s.forward[0]));
        let mut largest: Vec<&str> = self.0.keys().map(String::as_str).collect();
        largest.sort_by_key(|path| Reverse(time(path)));
        let mut chosen: BTreeSet<&str> = BTreeSet::new();
        for path in largest.into_iter().take(most) {
            let mut at = Some(path);
            while let Some(path) = at.filter(|p| chosen.insert(p)) {
                at = self.around(path);
            }
        }
        let mut inside: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
        for path in chosen {
            inside.entry(self.around(path)).or_default().push(path);
        }
        // Reversed, because the last of a stack comes first.
        inside.values_mut().for_each(|all| all.sort_by_key(|path| (time(path), Reverse(*path))));
        let mut order = Vec::new();
        let mut open = inside.remove(&None).unwrap_or_default();
        while let Some(path) = open.pop() {
            order.push(path);
            open.extend(inside.remove(&Some(path)).unwrap_or_default());
        }
        order
    }

    /// The path of the module around one, if it is known.
    fn around(&self, path: &str) -> Option<&str> {
        let around = self.0.get(path)?.around.as_str();
        self.0.get_key_value(around).map(|(path, _)| path.as_str())
    }

    /// Adds the tree to the grid; gives the number of modules that are left out.
    fn show(&self, rank: Option<u32>, most: usize, grid: &mut Grid, texts: &mut Texts) -> usize {
        let order = self.order(most);
        let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
        for path in &order {
            rows.insert(path, grid.len());
            let Some(times) = self.0.get(*path) else { continue };
            let parent = self.around(path).and_then(|around| rows.get(around)).copied();
            let [bwd_gpu, bwd_gpu_self, bwd_host] = times.backward.map(Cell::from);
            let [host, host_self, gpu, gpu_self] = times.forward.map(Cell::Int);
            grid.push([
                texts.cell(&times.name),
                rank.into(),
                parent.into(),
                gpu,
                bwd_gpu,
                host,
                bwd_host,
                gpu_self,
                bwd_gpu_self,
                host_self,
                times.count.into(),
                times.ranks.into(),
                texts.cell(path),
            ]);
        }
        self.0.len() - order.len()
    }
}

/// The section.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn section(
    results: &Results,
    ranks: &PageRanks,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let mut single: Vec<(u32, ModuleTree)> = detailed_ranks(results, ranks, MOST_RANKS)?
        .into_iter()
        .map(|rank| (rank, ModuleTree::default()))
        .collect();
    let mut all = ModuleTree::default();
    let there = results.read::<Module>(|r| all.add(&r))?;
    results.read::<RankModule>(|r| {
        if let Some((_, tree)) = single.iter_mut().find(|(rank, _)| *rank == r.rank) {
            tree.add(&r.alone());
        }
    })?;
    if all.0.is_empty() {
        let none =
            "No modules: the traces were recorded without modules (with_modules=True or with_stack=True).";
        return Ok(Section::without(if there {
            nothing(results, none)?
        } else {
            missing("modules_over_ranks")
        }));
    }
    let mut grid = Grid::whole(ShownModules::SPEC);
    let left = all.show(None, MOST_OF_ALL, &mut grid, texts);
    if left > 0 {
        grid.notes.push(format!("{} with less time are in the table only.", plural(left, "module")));
    }
    if ranks.captures.len() > 1 {
        for (rank, tree) in single.iter().filter(|(_, tree)| !tree.0.is_empty()) {
            tree.show(Some(*rank), MOST_OF_ONE, &mut grid, texts);
        }
    }
    let left_out = ranks.captures.len().saturating_sub(single.len());
    if left_out > 0 {
        let others = plural(left_out, "other rank");
        grid.notes
            .push(format!("The {others} are only in the tree of all ranks; the table has each of them."));
    }
    Ok(Section::default().with("tree", grid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module<'a>(path: &'a str, name: &'a str, [host, gpu]: [i64; 2], bwd: Option<i64>) -> Module<'a> {
        Module {
            path,
            name,
            count: 1,
            host_ns: host,
            host_self_ns: 0,
            gpu_ns: gpu,
            gpu_self_ns: 0,
            bwd_gpu_ns: bwd,
            bwd_gpu_self_ns: bwd.map(|_| 0),
            bwd_host_ns: bwd.map(|_| 0),
            rank_count: 1,
        }
    }

    /// ```text
    ///   net      gpu 10, backward 20
    ///     a/b    gpu  2, backward 9         a name with a slash
    ///       act  gpu  1
    ///     head   gpu  8
    /// ```
    fn tree() -> ModuleTree {
        let mut tree = ModuleTree::default();
        for m in [
            module("net", "net", [100, 10], Some(20)),
            module("net/head", "head", [2, 8], None),
            module("net/a/b", "a/b", [18, 2], Some(9)),
            module("net/a/b/act", "act", [1, 1], None),
        ] {
            tree.add(&m);
        }
        tree
    }

    #[test]
    fn a_module_is_followed_by_what_is_inside_the_largest_first() {
        assert_eq!(tree().order(9), ["net", "net/a/b", "net/a/b/act", "net/head"]);
        assert_eq!(tree().0["net"].gpu(), 30);
    }

    #[test]
    fn of_many_modules_the_largest_stand_with_what_is_around_them() {
        assert_eq!(tree().order(1), ["net"]);
        assert_eq!(tree().order(2), ["net", "net/a/b"]);
        let mut odd = tree();
        // More than what is around it: work of another thread.
        odd.add(&module("net/head/deep", "deep", [1, 99], None));
        assert_eq!(odd.order(1), ["net", "net/head", "net/head/deep"]);
    }
}
