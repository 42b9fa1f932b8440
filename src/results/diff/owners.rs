//! The mapper of a diff: GPU time by operator or module. No results hold it by step, so `--by` needs the
//! traces.

use crate::diff::BY;
use hashbrown::HashMap;
use hta_analysis::api::Options;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::Ns;
use hta_facts::by_owner::{ByOwner, NO_MODULE, NO_OPERATOR, UNLINKED};
use hta_facts::graphs::nodes::{GraphNodes, OperatorCall};
use hta_facts::modules::RowModules;
use hta_facts::step_scopes::StepScopes;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::{Interner, StrId};
use hta_trace::timeline::WorkClass;
use std::sync::Arc;

table! {
    /// Activities of one rank by name, owner and step.
    pub(crate) struct GpuByOwner, GpuByOwnerRow = "diff_gpu_by_owner" by "rank, class, name, owner, step" {
        rank;
        has_modules: bool, "", "frames of nn.Module are recorded (looked for with --by module)";
        class: Text, "", "class";
        name: Text, "", "full name";
        owner: Text, "", "operator or module";
        step: Option<u32>, "", "index; null: the capture";
        count: u64, "", "activities";
        sum_ns: i64, "ns", "summed durations";
    }
}

/// The keys of `--by` that need the traces.
pub const KEYS_OF_TRACES: [&str; 3] = ["op", "op,shape", "module"];

/// The table of a rank; `None` if what was asked for is in the results.
pub(crate) fn map(trace: &RankTrace, options: &Options) -> Option<Batch> {
    let by = options.settings.text(&BY).filter(|by| KEYS_OF_TRACES.contains(by))?;
    let scopes = StepScopes::of_marked_steps(trace, &options.model);
    let mut owners = Owners::new(trace, by);
    let mut sums: ByOwner<(WorkClass, StrId, StrId), (u64, Ns)> = ByOwner::default();
    for (i, a) in (0..).zip(&trace.activities) {
        let owner = owners.of(i, a.launch());
        sums.charge(scopes.of(a.step()), (a.work, a.name, owner), |sum| {
            *sum = (sum.0 + 1, sum.1 + a.span.len())
        });
    }
    let text = |(window, (work, name, owner), sum): (usize, (WorkClass, StrId, StrId), (u64, Ns))| {
        let step = scopes.windows()[window].step;
        ((work.name(), trace.text(name), owners.texts.get(owner), step), sum)
    };
    let mut rows: Vec<_> = sums.into_rows().map(text).collect();
    rows.sort_unstable_by_key(|(key, _)| *key);
    let mut table = GpuByOwner::default();
    let has_modules = owners.modules.as_ref().is_some_and(|m| !m.paths.is_empty());
    if rows.is_empty() && has_modules {
        // A rank without activities, of which only this is known.
        rows.push((("", "", NO_MODULE, None), (0, 0)));
    }
    for ((class, name, owner, step), (count, sum_ns)) in rows {
        table.push(GpuByOwnerRow { rank: trace.rank, has_modules, class, name, owner, step, count, sum_ns });
    }
    Some(table.finish())
}

/// Says to which operator or module an activity belongs.
struct Owners<'a> {
    trace: &'a RankTrace,
    by: &'a str,
    nodes: Arc<GraphNodes>,
    modules: Option<RowModules<'a>>,
    /// Operator with the dimensions of its inputs.
    with_shapes: HashMap<(StrId, Option<StrId>), StrId>,
    texts: Interner,
}

impl<'a> Owners<'a> {
    fn new(trace: &'a RankTrace, by: &'a str) -> Self {
        let modules = (by == "module").then(|| RowModules::new(trace));
        let (with_shapes, texts) = (HashMap::new(), Interner::default());
        Self { trace, by, nodes: GraphNodes::of(trace), modules, with_shapes, texts }
    }

    /// The owner of activity `i` with this launch call.
    fn of(&mut self, i: u32, launch: Option<u32>) -> StrId {
        let Self { trace, nodes, .. } = self;
        let Some(launch) = launch else { return self.texts.intern(UNLINKED) };
        let call = nodes.owner(trace, i);
        if self.by == "module" {
            let module = |row: u32| self.modules.as_ref()?.path(row);
            let path = match call {
                Some(OperatorCall::Row(op)) => module(op),
                Some(OperatorCall::Captured(_, operator)) => {
                    nodes.operator(operator).and_then(|o| o.module).map(|m| trace.text(m))
                }
                None => None,
            };
            return self.texts.intern(path.or_else(|| module(launch)).unwrap_or(NO_MODULE));
        }
        let Some(call) = call else { return self.texts.intern(NO_OPERATOR) };
        let name = nodes.name(trace, call);
        let [dims, ..] = nodes.inputs(trace, call);
        if self.by == "op" {
            return self.texts.intern(trace.text(name));
        }
        *self.with_shapes.entry((name, dims)).or_insert_with(|| {
            let dims = dims.map_or("", |d| trace.text(d));
            self.texts.intern(format!("{} {dims}", trace.text(name)).trim_end())
        })
    }
}
