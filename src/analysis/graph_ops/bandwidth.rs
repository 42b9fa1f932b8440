//! How fast decode iterations read weights and the KV cache, against the bandwidth of the device's memory.
//!
//! Only bytes that follow from recorded shapes count, so every rate has the share of the GPU time that it is
//! about. A rate above the peak shows that bytes were counted that are not read, so it is not told.

use crate::api::Options;
use crate::graph_ops::WEIGHT_BYTES;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span, percent};
use hta_facts::graphs::nodes::{GraphNodes, OperatorCall};
use hta_facts::iterations::{DeviceIteration, Iterations, on_device};
use hta_trace::device::DeviceWork;
use hta_trace::flops::InputsOfCall;
use hta_trace::interval::Union;
use hta_trace::iteration::Phase;
use hta_trace::kernel::short_name;
use hta_trace::rank_trace::RankTrace;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Bytes of weights and of the KV cache that operators of decode iterations read, by shape.
    pub(crate) struct DecodeBandwidth, DecodeBandwidthRow = "decode_bandwidth"
        by "rank, device, kind, bytes descending, op, shape, kernels" {
        rank; device;
        kind: Text, "",
            "weights: the second matrix of a product; kv: keys and values of all tokens that requests attend \
             to";
        op: Text, "", "operator";
        shape: Text, "", "of the matrix; of keys and values: heads x size of each";
        kernels: Text, "", "short names of the kernels of one call, joined by +";
        count: u64, "", "calls";
        bytes: u64, "bytes", "read by these calls";
        busy_ns: i64, "ns", "length of the union of their GPU work";
        gb_per_s: Option<f64>, "GB/s", "bytes over busy_ns (1e9 bytes); null above the peak";
        peak_pct: Option<f64>, "%", "of the peak bandwidth of the device's memory; null if that is not known";
        reason: Option<Text>, "", "why there is no rate";
    }
}

table! {
    /// The same for all operators of a kind, without those that have no rate; `given` is --weight-bytes.
    pub(crate) struct DecodeBandwidthByKind, DecodeBandwidthByKindRow = "decode_bandwidth_summary"
        by "rank, device, kind" {
        rank; device;
        kind: Text, "", "weights, kv or given", "reads";
        count: u64, "", "calls; of `given`, decode iterations", "calls";
        bytes: u64, "bytes", "read by these calls";
        busy_ns: i64, "ns",
            "length of the union of their GPU work; of `given`, the sum of the periods", "GPU time";
        gb_per_s: Option<f64>, "GB/s", "bytes over busy_ns (1e9 bytes); null above the peak", "GB/s";
        peak_pct: Option<f64>, "%", "of the peak bandwidth of the device's memory; null if that is not known",
            "of peak";
        coverage_pct: Option<f64>, "%", "their share of the summed GPU time of decode iterations", "coverage";
        reason: Option<Text>, "", "why there is no rate";
    }
}

/// Why a rate is not told.
const ABOVE_PEAK: &str = "bytes over-counted (sliding window?)";

/// What an operator reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ReadKind {
    Kv,
    Weights,
}

impl ReadKind {
    fn name(self) -> &'static str {
        match self {
            ReadKind::Kv => "kv",
            ReadKind::Weights => "weights",
        }
    }
}

/// Whether an iteration only generates.
type IsDecode<'a> = &'a dyn Fn(&DeviceIteration) -> bool;

/// Calls that are told together: kind, operator, shape and kernels.
type GroupKey<'a> = (ReadKind, &'a str, String, String);

#[derive(Default)]
struct DecodeGroup {
    count: u64,
    bytes: u64,
    spans: Vec<Span>,
}

impl DecodeGroup {
    fn busy(&self) -> Ns {
        Union::new(self.spans.iter().copied()).len()
    }
}

pub(crate) fn tables(trace: &RankTrace, options: &Options) -> (Batch, Batch) {
    let (mut table, mut summary) = (DecodeBandwidth::default(), DecodeBandwidthByKind::default());
    let iterations = Iterations::of(trace);
    let decodes = |d: &DeviceIteration| {
        iterations.all.get(d.index).is_some_and(|it| it.about.phase == Some(Phase::Decode))
    };
    for work in trace.devices.iter().filter(|d| d.is_gpu) {
        let all = on_device(trace, work, &iterations);
        if all.iter().any(decodes) {
            push(trace, options, work, (&all, &decodes), (&mut table, &mut summary));
        }
    }
    (table.finish(), summary.finish())
}

fn push(
    trace: &RankTrace,
    options: &Options,
    work: &DeviceWork,
    (all, decodes): (&[DeviceIteration], IsDecode),
    (table, summary): (&mut DecodeBandwidth, &mut DecodeBandwidthByKind),
) {
    let iterations = Iterations::of(trace);
    let peak =
        trace.device_properties(work.device).and_then(|d| options.peaks.of(d)).map(|p| p.bytes_per_s());
    let mut groups: BTreeMap<GroupKey, DecodeGroup> = BTreeMap::new();
    let mut gpu: Ns = 0;
    for decode in all.iter().filter(|d| decodes(d)) {
        let kv_tokens = iterations.all.get(decode.index).and_then(|it| it.about.kv_tokens());
        gpu += decode
            .own
            .iter()
            .filter_map(|i| trace.activities.get(*i as usize))
            .map(|a| a.span.len())
            .sum::<Ns>();
        add(trace, decode, kv_tokens, &mut groups);
    }
    let mut rows: Vec<_> = groups.iter().collect();
    rows.sort_by_key(|((kind, op, shape, kernels), g)| {
        (kind.name(), std::cmp::Reverse(g.bytes), *op, shape, kernels)
    });
    let mut sums: BTreeMap<ReadKind, (DecodeGroup, Ns)> = BTreeMap::new();
    for ((kind, op, shape, kernels), g) in rows {
        let busy = g.busy();
        let told = rate(g.bytes, busy, peak);
        if told.reason.is_none() {
            let (sum, ns) = sums.entry(*kind).or_default();
            sum.count += g.count;
            sum.bytes = sum.bytes.saturating_add(g.bytes);
            sum.spans.extend_from_slice(&g.spans);
            *ns += g.spans.iter().map(|s| s.len()).sum::<Ns>();
        }
        table.push(DecodeBandwidthRow {
            rank: trace.rank,
            device: work.device,
            kind: kind.name(),
            op,
            shape,
            kernels,
            count: g.count,
            bytes: g.bytes,
            busy_ns: busy,
            gb_per_s: told.gb_per_s,
            peak_pct: told.peak_pct,
            reason: told.reason,
        });
    }
    let weight_bytes = options.settings.count(&WEIGHT_BYTES);
    let mut sum = |kind, count: u64, bytes, busy_ns, coverage_pct| {
        let told = rate(bytes, busy_ns, peak);
        summary.push(DecodeBandwidthByKindRow {
            rank: trace.rank,
            device: work.device,
            kind,
            count,
            bytes,
            busy_ns,
            gb_per_s: told.gb_per_s,
            peak_pct: told.peak_pct,
            coverage_pct,
            reason: told.reason,
        });
    };
    if weight_bytes > 0 {
        let periods = periods(all, decodes);
        let count = periods.len() as u64;
        sum("given", count, weight_bytes.saturating_mul(count), periods.iter().sum(), None);
    }
    for (kind, (g, ns)) in &sums {
        sum(kind.name(), g.count, g.bytes, g.busy(), percent(*ns, gpu));
    }
}

/// The periods of decode iterations: to the start of the next iteration, of the last one its window.
fn periods(all: &[DeviceIteration], decodes: IsDecode) -> Vec<Ns> {
    let period = |(k, d): (usize, &DeviceIteration)| {
        let next = all.get(k + 1).map(|n| n.window.start);
        next.unwrap_or(d.window.end) - d.window.start
    };
    all.iter().enumerate().filter(|(_, d)| decodes(d)).map(period).collect()
}

/// Adds the calls of an iteration.
fn add<'a>(
    trace: &'a RankTrace,
    decode: &DeviceIteration,
    kv_tokens: Option<u64>,
    groups: &mut BTreeMap<GroupKey<'a>, DecodeGroup>,
) {
    let nodes = GraphNodes::of(trace);
    let mut calls: BTreeMap<OperatorCall, Vec<u32>> = BTreeMap::new();
    for &i in &decode.own {
        if let Some(call) = nodes.owner(trace, i) {
            calls.entry(call).or_default().push(i);
        }
    }
    for (call, activities) in calls {
        let name = trace.text(nodes.name(trace, call));
        let [dims, types, ..] = nodes.inputs(trace, call).map(|id| id.map(|id| trace.text(id)));
        let Some(read) = dims.zip(types).and_then(|(dims, types)| reads(name, dims, types, kv_tokens)) else {
            continue;
        };
        let of = || activities.iter().filter_map(|i| trace.activities.get(*i as usize));
        let kernels: BTreeSet<String> = of().map(|a| short_name(trace.text(a.name))).collect();
        let kernels = kernels.into_iter().collect::<Vec<_>>().join(" + ");
        let group = groups.entry((read.kind, name, read.shape, kernels)).or_default();
        group.count += 1;
        group.bytes = group.bytes.saturating_add(read.bytes);
        group.spans.extend(of().map(|a| a.span));
    }
}

/// What one call reads.
struct Read {
    kind: ReadKind,
    shape: String,
    bytes: u64,
}

/// Bytes of weights or of the KV cache that a call reads, by its name and inputs.
fn reads(name: &str, dims: &str, types: &str, kv_tokens: Option<u64>) -> Option<Read> {
    let is_attention = name.contains("attention") || name.contains("attn");
    let matrix = match name {
        "aten::mm" | "aten::linear" => Some(1),
        "aten::addmm" => Some(2),
        _ => None,
    };
    if matrix.is_none() && !is_attention {
        return None;
    }
    let inputs = InputsOfCall::parse(dims, types, None, None)?;
    if let Some(at) = matrix {
        let weights = inputs.tensor(at)?;
        let shape = weights.dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
        return Some(Read {
            kind: ReadKind::Weights,
            shape,
            bytes: weights.elements()?.checked_mul(weights.size()?)?,
        });
    }
    let (keys, values) = (inputs.tensor(1)?, inputs.tensor(2)?);
    // Tokens, heads, size of a head.
    let ([_, key_heads, key_size], [_, value_heads, value_size]) =
        (keys.dims.as_slice(), values.dims.as_slice())
    else {
        return None;
    };
    let of_token = key_heads.checked_mul(*key_size)?.checked_add(value_heads.checked_mul(*value_size)?)?;
    Some(Read {
        kind: ReadKind::Kv,
        shape: format!("{key_heads}x{key_size} + {value_heads}x{value_size}"),
        bytes: kv_tokens?.checked_mul(of_token)?.checked_mul(keys.size()?)?,
    })
}

/// A rate, or why there is none.
struct ToldRate {
    gb_per_s: Option<f64>,
    peak_pct: Option<f64>,
    reason: Option<&'static str>,
}

fn rate(bytes: u64, busy: Ns, peak: Option<f64>) -> ToldRate {
    if busy <= 0 {
        return ToldRate { gb_per_s: None, peak_pct: None, reason: Some("no GPU time") };
    }
    // Bytes per ns are GB per second.
    let gb_per_s = bytes as f64 / busy as f64;
    let peak_pct = peak.filter(|p| *p > 0.0).map(|p| 100.0 * gb_per_s * 1e9 / p);
    match peak_pct.is_some_and(|pct| pct > 100.0) {
        true => ToldRate { gb_per_s: None, peak_pct: None, reason: Some(ABOVE_PEAK) },
        false => ToldRate { gb_per_s: Some(gb_per_s), peak_pct, reason: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_the_second_matrix_and_keys_and_values_are_of_all_tokens() {
        let read = |name: &str, dims: &str, types: &str| {
            reads(name, dims, types, Some(10)).map(|r| (r.kind, r.shape, r.bytes))
        };
        let bf16 = r#"["c10::BFloat16","c10::BFloat16","c10::BFloat16"]"#;
        assert_eq!(
            read("aten::addmm", "[[8],[4,16],[16,8]]", bf16),
            Some((ReadKind::Weights, "16x8".to_string(), 256))
        );
        assert_eq!(read("aten::mm", "[[4,16],[16,8]]", bf16).map(|r| r.2), Some(256));
        let attention = "vllm::unified_attention_with_output";
        assert_eq!(
            read(attention, "[[4,64,8],[4,2,8],[4,2,4]]", bf16),
            Some((ReadKind::Kv, "2x8 + 2x4".to_string(), 10 * (16 + 8) * 2))
        );
        assert_eq!(read(attention, "[[4,512],[4,16],[4,8]]", bf16), None);
        assert_eq!(read("aten::add", "[[4,16],[16,8]]", bf16), None);
        assert_eq!(reads("aten::mm", "[[4],[16,8]]", "", None).map(|r| r.bytes), None);
    }

    #[test]
    fn a_rate_above_the_peak_is_not_told() {
        let told = |bytes| {
            let t = rate(bytes, 1_000, Some(2e9));
            (t.gb_per_s, t.peak_pct, t.reason.is_some())
        };
        assert_eq!(told(1_000), (Some(1.0), Some(50.0), false));
        assert_eq!(told(3_000), (None, None, true));
        assert_eq!(rate(3_000, 1_000, None).gb_per_s, Some(3.0));
        assert!(rate(3_000, 0, None).reason.is_some());
    }
}
