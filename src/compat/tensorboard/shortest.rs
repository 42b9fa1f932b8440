//! Synchronizing and transfer time as the distributed view of the PyTorch TensorBoard plugin defines them.
//!
//! What: the plugin divides the time of collectives without comparing the clocks of workers. It matches
//! ranges by their number. Of the matched ranges of all workers, the shortest is the transfer. A longer one
//! waits first and then transfers.
//!
//! ```text
//!   worker 0   [------- wait ------|== transfer ==]      the k-th operator's j-th range, on each worker
//!   worker 1                  [== transfer ==]           the shortest: all of it is transfer
//!   worker 2       [------ wait ----|== transfer ==]
//! ```
//!
//! Why: the method needs only durations, so it works if time origins are unknown, and it gives the numbers
//! that users of the plugin know. It is not the default, because arrivals on a common clock are more
//! informative.
//!
//! Exact rules:
//! - The operators of a worker are sorted by start; of equal starts, the longer one comes first. The k-th
//!   operators of all workers are matched, whatever their names.
//! - The ranges of an operator are **its host range and each of its kernels**, sorted in the same way. The
//!   j-th ranges of all workers are matched. m(k, j) is their shortest length.
//! - Latency = length of the union of the ranges. Transfer = length of the union of the *last* m(k, j) of
//!   each range. Synchronizing = latency - transfer, never negative. Both unions are formed once per step
//!   (over all operators inside it) and once per operator name (over the whole capture), so rows by name may
//!   add up to more than the steps.
//! - Overlap: compute and communication are two sets of ranges, cut to the step. other = step + overlap -
//!   compute - communication.
//! - "all" is the sum over steps divided by their number, truncated (not rounded) to a whole number. For
//!   waits only steps with an operator count, and the operators outside every step count as one more step.
//!
//! Units: times are i64 ns with any origin, which may differ between workers; `bytes` is in bytes. The plugin
//! prints microseconds, as the trace does, and truncates "all" to whole microseconds; here it is truncated to
//! whole nanoseconds. The plugin rounds its means by operator half to even; everything here is an exact sum.
//!
//! To match the plugin, the caller selects events as follows (only events of `ph` X; categories in upper or
//! lower case):
//! - Collective operators: category `cpu_op`, `CollectiveOperator`, `python`, `user_annotation` or
//!   `gpu_user_annotation`, and a name that is *equal to* `nccl:` or `gloo:` followed by one of broadcast,
//!   reduce, all_reduce, all_gather, reduce_scatter. The plugin ignores all others (`nccl:_all_gather_base`,
//!   `nccl:send`, `nccl:all_to_all`, `mpi:`, `ucc:`). There is one operator per `External id`: a later one
//!   (by ts) with the same id replaces an earlier one; all operators without an id share one entry. If a
//!   worker has both `nccl:` and `gloo:` operators, the plugin shows no distributed view at all.
//! - Their kernels: only for nccl, events of category `kernel` whose `external id` (else `External id`) is
//!   the operator's. gloo operators have none, even if a kernel has their id.
//! - Communication ranges for the overlap: the range of every collective operator (also of replaced ones),
//!   and every kernel whose external id is that of a collective operator. This applies to nccl and gloo
//!   alike.
//! - Compute ranges: every other kernel. Copies and memsets are not kernels; a kernel of a collective that
//!   was not linked counts as compute. Only if the *whole worker* has no other kernel (gloo on CPU; only NCCL
//!   kernels on a GPU), compute is every other event of the categories above (not `python_function`, not
//!   runtime calls) except `ProfilerStep#*`, `enumerate(DataLoader)#*.__next__` and `enumerate(DataPipe)#*`.
//!   Threads are pooled, so a wait in one thread during an operator in another counts as overlap. (The
//!   published package, 0.4.3, leaves out annotations here.)
//! - Steps: `ProfilerStep#N` of any category above, by ts, named "N" (so a GPU-side annotation is an
//!   additional step). The plugin moves the borders of steps only if the trace has calls of category
//!   `Runtime` (traces of 2021; the plugin does not know `cuda_runtime`) and one of them inside a step
//!   launched device work (kernel, copy or memset, by correlation). Then each end moves to the end of the
//!   last device work launched inside the step, and each start to the end of the previous step (the first
//!   start: to the end of device work that was launched outside every step and was done before the step's
//!   own), both only if that is later. Then trailing steps without device work are dropped, and after that
//!   the last step if it launched less than 80 % of what the previous one did. **Without any `ProfilerStep`**
//!   there is one step named "0": from the first start to the last end over `cpu_op`, `CollectiveOperator`
//!   and `python` events. Without such events there is no step (the plugin shows -1.8e19). "all" is not a
//!   step: see above.
//! - Bytes (`operator_bytes`): over `Input Dims`, product of the dimensions x size of the same-numbered
//!   `Input type`, summed over all inputs. This is not the message size: both input and output of an
//!   all-gather count.
//!
//! Surprising: the host range counts like a kernel. A broadcast kernel of 16 ns below an operator of 75 ns
//! has a "latency" of 75, and the host's submission time is transfer if it is the shortest range. With
//! asynchronous launches, a step's latency also contains kernels that end long after the step.
//!
//! On traces since about 2022 the plugin finds **no kernel** of any collective, without a message: a kernel's
//! External id is that of `record_param_comms`, not of `nccl:all_reduce` (or, with Megatron, a correlation).
//! The plugin's waits are then those of host ranges, and NCCL kernels count as compute. GPU-side `nccl:`
//! annotations have no id, so all but the last of them are dropped. A caller that can link the right kernels
//! may pass them; the same division is then applied to better ranges.
//!
//! Errors: if a worker has no operator, if numbers of operators differ, or if the numbers of ranges of the
//! k-th operators differ, the plugin drops the whole distributed view and logs a line. Here that is an `Err`
//! with the numbers of all workers. Different names at one position are an error neither in the plugin nor
//! here, but they are counted here.
//!
//! Source: behaviour of pytorch/kineto `tb_plugin` (BSD-3), last state before its removal:
//! `communication.py`, `event_parser.py`, `loader.py`, `overall_parser.py`, `run_generator.py`. Independent
//! implementation, checked against the plugin's golden results.

/// Start and end, ns.
pub(crate) type PluginRange = (i64, i64);

/// Limit of times, 146 years before and after the origin, so that no length overflows.
const FAR: i64 = 1 << 62;

/// One collective host range with its kernels.
#[derive(Debug, Clone, Default)]
pub(crate) struct CollectiveOperator {
    /// Name as recorded, e.g. `nccl:all_reduce`.
    pub(crate) name: String,
    pub(crate) span: PluginRange,
    /// Kernels with the same external id; empty for gloo.
    pub(crate) kernels: Vec<PluginRange>,
    /// See `operator_bytes`.
    pub(crate) bytes: i64,
    /// Index into [`PluginWorker::steps`]; see `steps_of`.
    pub(crate) step: Option<usize>,
}

/// The ranges of one worker (rank).
#[derive(Debug, Clone, Default)]
pub(crate) struct PluginWorker {
    pub(crate) operators: Vec<CollectiveOperator>,
    /// Name, start, end.
    pub(crate) steps: Vec<(String, i64, i64)>,
    /// Ranges of computation for the overlap; may overlap each other.
    pub(crate) compute: Vec<PluginRange>,
    /// Ranges of communication for the overlap; may overlap each other.
    pub(crate) communication: Vec<PluginRange>,
}

/// A row of `steps_to_overlap`, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PluginOverlap {
    pub(crate) compute_only: i64,
    pub(crate) overlap: i64,
    pub(crate) communication_only: i64,
    pub(crate) other: i64,
}

/// A row of `steps_to_wait`, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PluginWait {
    pub(crate) transfer: i64,
    pub(crate) synchronizing: i64,
}

/// A row of `comm_ops`. The plugin divides these sums by `calls` and rounds half to even.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommOpTotals {
    pub(crate) name: String,
    pub(crate) calls: i64,
    pub(crate) bytes: i64,
    pub(crate) latency: i64,
    pub(crate) transfer: i64,
}

/// The view of one worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WorkerView {
    /// One row per step, in the order of [`PluginWorker::steps`].
    pub(crate) overlap: Vec<PluginOverlap>,
    /// The mean over the steps: the plugin's "all".
    pub(crate) overlap_all: PluginOverlap,
    /// Only steps with operators, in the order of their first operator. Steps with the same name are merged
    /// under the first of them. `None`: the operators outside every step.
    pub(crate) wait: Vec<(Option<usize>, PluginWait)>,
    /// The mean over the rows of `wait`: the plugin's "all".
    pub(crate) wait_all: PluginWait,
    /// In the order of first appearance.
    pub(crate) operators: Vec<CommOpTotals>,
}

/// The distributed view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DistributedView {
    /// One per worker, in the given order.
    pub(crate) workers: Vec<WorkerView>,
    /// Number of positions at which the workers' operators have different names, which suggests that matching
    /// by position is wrong.
    pub(crate) names_differ: usize,
}

/// The distributed view of `workers`, or the reason why there is none.
///
/// # Errors
/// When there is no worker, a worker has no operators, numbers of operators or ranges differ, a range ends
/// before it starts, a time is too far from its origin, a step does not exist, or a sum of bytes exceeds i64.
pub(crate) fn shortest(workers: &[PluginWorker]) -> Result<DistributedView, String> {
    if workers.is_empty() {
        return Err("no worker".to_string());
    }
    let counts: Vec<usize> = workers.iter().map(|w| w.operators.len()).collect();
    if let Some(w) = counts.iter().position(|n| *n == 0) {
        return Err(format!("worker {w} has no collective operator"));
    }
    if counts.iter().any(|n| *n != counts[0]) {
        return Err(format!("numbers of collective operators differ: {}", listed(&counts)));
    }
    let mut all: Vec<Vec<Ranked>> = Vec::with_capacity(workers.len());
    for (w, worker) in workers.iter().enumerate() {
        check(w, worker)?;
        all.push(ranked(&worker.operators));
    }
    let mut names_differ = 0;
    for k in 0..counts[0] {
        names_differ += usize::from(all.iter().any(|of| of[k].operator.name != all[0][k].operator.name));
        let sizes: Vec<usize> = all.iter().map(|of| of[k].ranges.len()).collect();
        if sizes.iter().any(|n| *n != sizes[0]) {
            let kernels: Vec<usize> = sizes.iter().map(|n| n - 1).collect();
            let name = &all[0][k].operator.name;
            return Err(format!(
                "numbers of kernels of collective operator {k} ({name}) differ: {}",
                listed(&kernels)
            ));
        }
        for j in 0..sizes[0] {
            let least = all.iter().map(|of| of[k].ranges[j]).map(|(a, b)| b - a).min().unwrap_or(0);
            for of in &mut all {
                let end = of[k].ranges[j].1;
                of[k].transfers.push((end - least, end));
            }
        }
    }
    let views = workers.iter().zip(&all).map(|(w, of)| view(w, of));
    Ok(DistributedView { workers: views.collect::<Result<_, _>>()?, names_differ })
}

/// An operator with its sorted ranges, and the transfer part of each range.
struct Ranked<'a> {
    operator: &'a CollectiveOperator,
    ranges: Vec<PluginRange>,
    transfers: Vec<PluginRange>,
}

fn ranked(operators: &[CollectiveOperator]) -> Vec<Ranked<'_>> {
    let longer_first = |r: &PluginRange| (r.0, std::cmp::Reverse(r.1));
    let mut all: Vec<Ranked<'_>> = operators
        .iter()
        .map(|operator| {
            let mut ranges = vec![operator.span];
            ranges.extend(&operator.kernels);
            ranges.sort_by_key(longer_first);
            Ranked { operator, transfers: Vec::with_capacity(ranges.len()), ranges }
        })
        .collect();
    all.sort_by_key(|r| longer_first(&r.operator.span));
    all
}

fn check(index: usize, worker: &PluginWorker) -> Result<(), String> {
    let usable = |(a, b): PluginRange| a <= b && a > -FAR && b < FAR;
    let refuse =
        |what: String, (a, b): PluginRange| Err(format!("worker {index}: {what} has the range {a} to {b}"));
    for (k, operator) in worker.operators.iter().enumerate() {
        let ranges = std::iter::once(&operator.span).chain(&operator.kernels);
        if let Some(bad) = ranges.copied().find(|r| !usable(*r)) {
            return refuse(format!("operator {k} ({})", operator.name), bad);
        }
        if let Some(step) = operator.step.filter(|s| *s >= worker.steps.len()) {
            return Err(format!(
                "worker {index}: operator {k} ({}) is in step {step} of none",
                operator.name
            ));
        }
    }
    if let Some((name, a, b)) = worker.steps.iter().find(|(_, a, b)| !usable((*a, *b))) {
        return refuse(format!("step {name}"), (*a, *b));
    }
    if let Some(bad) = worker.compute.iter().copied().find(|r| !usable(*r)) {
        return refuse("a compute event".to_string(), bad);
    }
    if let Some(bad) = worker.communication.iter().copied().find(|r| !usable(*r)) {
        return refuse("a communication event".to_string(), bad);
    }
    Ok(())
}

fn view(worker: &PluginWorker, operators: &[Ranked<'_>]) -> Result<WorkerView, String> {
    let (compute, communication) = (union(worker.compute.clone()), union(worker.communication.clone()));
    let both = common(&compute, &communication);
    let overlap: Vec<PluginOverlap> = worker
        .steps
        .iter()
        .map(|(_, start, end)| {
            let inside = |ranges: &[PluginRange]| covered(ranges, (*start, *end));
            let (compute, communication, overlap) = (inside(&compute), inside(&communication), inside(&both));
            PluginOverlap {
                compute_only: compute - overlap,
                overlap,
                communication_only: communication - overlap,
                other: end - start - compute + (overlap - communication),
            }
        })
        .collect();
    let mean = |part: fn(&PluginOverlap) -> i64| whole_mean(overlap.iter().map(part));
    let overlap_all = PluginOverlap {
        compute_only: mean(|o| o.compute_only),
        overlap: mean(|o| o.overlap),
        communication_only: mean(|o| o.communication_only),
        other: mean(|o| o.other),
    };

    let first_of_name = |step: usize| worker.steps.iter().position(|s| s.0 == worker.steps[step].0);
    let wait: Vec<(Option<usize>, PluginWait)> = grouped(operators, |o| o.step.and_then(first_of_name))
        .into_iter()
        .map(|(step, of)| {
            let (latency, transfer) = lengths(&of);
            (step, PluginWait { transfer, synchronizing: latency - transfer })
        })
        .collect();
    let wait_all = PluginWait {
        transfer: whole_mean(wait.iter().map(|w| w.1.transfer)),
        synchronizing: whole_mean(wait.iter().map(|w| w.1.synchronizing)),
    };

    let totals = grouped(operators, |o| o.name.as_str()).into_iter().map(|(name, of)| {
        let (latency, transfer) = lengths(&of);
        let bytes = of.iter().try_fold(0_i64, |sum, r| sum.checked_add(r.operator.bytes));
        let bytes = bytes.ok_or_else(|| format!("bytes of {name} beyond what fits"))?;
        Ok(CommOpTotals { name: name.to_string(), calls: of.len() as i64, bytes, latency, transfer })
    });
    Ok(WorkerView { overlap, overlap_all, wait, wait_all, operators: totals.collect::<Result<_, String>>()? })
}

/// Groups by `key`, in the order of first appearance.
fn grouped<'a, 'b, K: Ord + Copy>(
    operators: &'a [Ranked<'b>],
    key: impl Fn(&'b CollectiveOperator) -> K,
) -> Vec<(K, Vec<&'a Ranked<'b>>)> {
    let mut places = std::collections::BTreeMap::new();
    let mut groups: Vec<(K, Vec<&Ranked<'_>>)> = Vec::new();
    for r in operators {
        let key = key(r.operator);
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.1.push(r),
            None => groups.push((key, vec![r])),
        }
    }
    groups
}

/// Latency and transfer of some operators, ns.
fn lengths(operators: &[&Ranked<'_>]) -> (i64, i64) {
    let latency = union(operators.iter().flat_map(|r| &r.ranges).copied().collect());
    let transfer = union(operators.iter().flat_map(|r| &r.transfers).copied().collect());
    let length = |ranges: Vec<PluginRange>| ranges.iter().map(|(a, b)| b - a).sum();
    (length(latency), length(transfer))
}

/// Sum divided by count, truncated towards zero; 0 for no values.
fn whole_mean(values: impl Iterator<Item = i64>) -> i64 {
    let (sum, count) = values.fold((0_i128, 0_i128), |(s, n), v| (s + i128::from(v), n + 1));
    // A mean of i64 values fits into i64.
    i64::try_from(sum / count.max(1)).unwrap_or(i64::MAX)
}

/// The union as disjoint ranges, sorted by start.
fn union(mut ranges: Vec<PluginRange>) -> Vec<PluginRange> {
    ranges.sort_unstable();
    let mut merged: Vec<PluginRange> = Vec::new();
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// The intersection of two unions.
fn common(left: &[PluginRange], right: &[PluginRange]) -> Vec<PluginRange> {
    let (mut i, mut j, mut result) = (0, 0, Vec::new());
    while let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
        let (start, end) = (a.0.max(b.0), a.1.min(b.1));
        if start < end {
            result.push((start, end));
        }
        if a.1 < b.1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    result
}

/// Length of a union inside a window.
fn covered(ranges: &[PluginRange], (start, end): PluginRange) -> i64 {
    let first = ranges.partition_point(|r| r.1 <= start);
    ranges[first..].iter().take_while(|r| r.0 < end).map(|r| r.1.min(end) - r.0.max(start)).sum()
}

/// A list such as "3 (worker 0), 2 (worker 1)".
fn listed(counts: &[usize]) -> String {
    let each: Vec<String> = counts.iter().enumerate().map(|(w, n)| format!("{n} (worker {w})")).collect();
    each.join(", ")
}

#[cfg(test)]
mod tests;
