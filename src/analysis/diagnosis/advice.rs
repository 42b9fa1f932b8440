//! The words of causes: one sentence with the numbers, one action, and the evidence.

use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::kind::CauseKind;
use crate::diagnosis::trust::RecordingTrust;
use crate::facts::vendor::DeviceVendor;
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::names::{clip, frame_parts};
use hta_trace::kernel::short_name;

/// Largest width of a name in a sentence, characters.
const NAME: usize = 60;

/// A name with the lost time that it owns.
pub(crate) struct NamedTime<'a> {
    pub(crate) name: &'a str,
    /// The Python frame around it; empty if not recorded.
    pub(crate) detail: &'a str,
    /// ns per step and rank.
    pub(crate) per_step: Ns,
    /// Of the cause, percent.
    pub(crate) share: f64,
    pub(crate) count: u64,
}

/// The numbers of a cause of lost time; times per step and rank, ns.
pub(crate) struct LostWords<'a> {
    pub(crate) idle: Ns,
    pub(crate) copies: Ns,
    /// Waiting behind it, mean of all devices, per step.
    pub(crate) waits: Ns,
    /// All idle time of its ranks.
    pub(crate) idle_all: Ns,
    pub(crate) step: Ns,
    /// The largest names.
    pub(crate) top: Vec<NamedTime<'a>>,
    pub(crate) trust: &'a RecordingTrust,
}

/// What kernels take after a repair.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NewTime {
    /// Share of what they take now, percent.
    Known(f64),
    /// So many times as fast.
    Assumed(f64),
}

/// The numbers of a cause in the mix of kernels.
pub(crate) struct MixWords<'a> {
    /// Of the compute time, percent.
    pub(crate) share: f64,
    pub(crate) count: u64,
    pub(crate) new_time: NewTime,
    /// Whether convolutions, whose kernels have layouts of their own, are a part of the mix that counts.
    pub(crate) has_convolutions: bool,
    pub(crate) trust: &'a RecordingTrust,
}

/// The class of a data loader, from the name of the range around `__next__`.
pub(crate) fn loader(name: &str) -> &'static str {
    if name.contains("SingleProcess") { "single process" } else { "worker processes" }
}

/// A name as it is shown: kernels without arguments, a frame as function and place.
pub(crate) fn shown(name: &str) -> String {
    match frame(name) {
        Some((function, place)) => format!("`{function}` ({})", clip(&place, NAME)),
        None => format!("`{}`", clip(&short_name(name), NAME)),
    }
}

/// Function and place of a Python frame, `path/file.py(12): function`; the path without its front.
fn frame(name: &str) -> Option<(&str, String)> {
    let (path, line, function) = frame_parts(name)?;
    let file = path.rsplit('/').next().unwrap_or(path);
    Some((function, format!("{file}:{line}")))
}

/// Whether one operator, other than the launch calls themselves, takes much of the time in which the host launches.
pub(crate) fn has_large_part(words: &LostWords) -> bool {
    let largest = words.top.iter().find(|n| !hta_trace::launch::is_launch_call(n.name));
    largest.is_some_and(|n| n.share >= LARGE_PART_PCT)
}

/// Share from which a name is a large part of its cause, percent.
const LARGE_PART_PCT: f64 = 30.0;

/// Sentence and action of a cause of lost time.
pub(crate) fn lost(kind: CauseKind, key: &str, who: &str, words: &LostWords) -> (String, String) {
    let top = words.top.first();
    let vendor = words.trust.vendor;
    let device = if vendor == DeviceVendor::Host { "process" } else { "device" };
    let per = words.trust.per_step();
    let who = if who == "rank 0" && words.trust.present == 1 { String::new() } else { format!(" on {who}") };
    let idle = format!("{} of {} idle time{per}", fmt_ns(words.idle), fmt_ns(words.idle_all));
    let place = |n: &NamedTime| match frame(n.detail) {
        Some((function, place)) if !n.name.contains(n.detail) => format!(" in `{function}` ({place})"),
        _ => String::new(),
    };
    let top_words = top.map(|t| format!("{}{}", shown(t.name), place(t)));
    let of_top = top_words.clone().unwrap_or_else(|| "code that was not recorded".to_string());
    match kind {
        CauseKind::DataLoader => {
            let workers = if key == "single process" {
                "load in the background: DataLoader(num_workers > 0), with pin_memory"
            } else {
                "more or faster workers (num_workers, prefetch_factor), pin_memory, cheaper decoding"
            };
            let how = if key == "single process" { " (num_workers = 0)" } else { "" };
            (format!("The {device} waits for the data loader{how}{who}: {idle}"), workers.to_string())
        }
        CauseKind::HostAlloc => (
            format!("The {device} idles while memory is allocated or freed by {of_top}{who}: {idle}"),
            "keep memory in the caching allocator: warm it up with the largest batch, avoid empty_cache(), \
             try expandable_segments"
                .to_string(),
        ),
        CauseKind::WarmUp => (
            format!("Kernels are loaded at their first use{who}: {idle} inside {of_top}"),
            "record after a warm-up: run some iterations before the profiler starts, as schedule(warmup=...) does".to_string(),
        ),
        CauseKind::HostPause if !key.is_empty() => (
            format!("Single calls of {} stand still{who}, far beyond their usual length: {idle}", shown(key)),
            "look at what these calls wait for (hta query on host_pauses lists them): tuning for a new shape, a lock, page \
             faults, another process on the same cores"
                .to_string(),
        ),
        CauseKind::HostPause => (
            format!(
                "Host threads stand still{who}, in whatever operator they are in: {idle}; behind it a rank waits {}",
                fmt_ns(words.waits)
            ),
            "find what stops the process: CPU quota (throttling has a period of 100 ms), too few cores, no pinning, \
             garbage collection (gc.freeze(), or collect on all ranks at once)"
                .to_string(),
        ),
        CauseKind::HostLock => (
            format!("The launching thread stands still{who} while another thread works in {}: {idle}", shown(key)),
            "look at the code of that thread: it holds the interpreter lock (loaders, loggers, checkpoints); move it \
             to another process"
                .to_string(),
        ),
        CauseKind::IterationGap => (
            format!("The GPU waits between iterations for the host{who}, most in {of_top}: {idle}"),
            "do this work while the GPU computes: overlapped (asynchronous) scheduling, less work on results and on the \
             next batch between iterations"
                .to_string(),
        ),
        CauseKind::GraphPreparation => (
            format!("The GPU waits for the preparation of an iteration before its graph{who}: {idle}"),
            "prepare inputs while the GPU computes the iteration before, with fewer small operators and copies"
                .to_string(),
        ),
        CauseKind::GraphLaunch => (
            format!("The GPU waits inside the graph launch call{who}, {of_top}: {idle}"),
            "if it is not only the first launch of this graph: upload the graph before, or make fewer and larger graphs"
                .to_string(),
        ),
        CauseKind::HostSync => {
            let at = top.map(place).unwrap_or_default();
            (
                format!("The host waits for the {device} in `{}`{at}{who} and launches too late afterwards: {idle}", clip(key, NAME)),
                "remove or defer this call: read results later or less often, non_blocking=True and an event for copies"
                    .to_string(),
            )
        }
        CauseKind::CopyPageable | CauseKind::CopySync | CauseKind::CopySmall => {
            let time = fmt_ns(words.idle + words.copies);
            let (what, action) = match kind {
                CauseKind::CopyPageable => {
                    ("from or to pageable memory", "pin the memory (pin_memory=True), then copy with non_blocking=True")
                }
                CauseKind::CopySync => ("that block the host", "copy with non_blocking=True from pinned memory"),
                _ => ("of less than 64 KiB", "pack small tensors into one copy"),
            };
            (format!("Copies {what}{who} take {time}{per} in which nothing else runs"), action.to_string())
        }
        CauseKind::HostPython => match frame(key).is_some() || !key.is_empty() {
            true => (
                format!("The {device} idles while the host runs {}{}{who}: {idle}", shown(key), top.map(place).unwrap_or_default()),
                "make this code faster, move it to another process, or do it while the device works".to_string(),
            ),
            false if words.trust.has_frames => (
                format!("The {device} idles while the host runs Python code of many functions{who}: {idle}"),
                "do this work while the device computes, or in another process (hta idle lists the functions)"
                    .to_string(),
            ),
            false => (
                format!("The {device} idles while the host runs code outside operators{who}: {idle}"),
                "record with with_stack=True to see which lines; do this work while the device computes".to_string(),
            ),
        },
        CauseKind::HostDispatch => {
            let spread = match top {
                Some(t) if t.share >= LARGE_PART_PCT => {
                    format!("largest part {} ({})", shown(t.name), fmt_pct(Some(t.share)))
                }
                _ => "spread over many operators".to_string(),
            };
            let action = match vendor {
                DeviceVendor::Nvidia if words.trust.by_graph => {
                    "fewer pieces between graph launches, less scheduling on the host"
                }
                DeviceVendor::Nvidia => "torch.compile or CUDA graphs, or a larger batch",
                DeviceVendor::Amd => "torch.compile or HIP graphs, or a larger batch",
                _ => "larger batches, fewer and larger operators",
            };
            let runs = if words.trust.by_graph { "launches too slowly" } else { "launches kernels one by one" };
            (format!("The {device} waits while the host {runs}{who}, {spread}: {idle}"), action.to_string())
        }
        _ => (String::new(), String::new()),
    }
}

/// Evidence of a cause of lost time.
pub(crate) fn evidence(kind: CauseKind, words: &LostWords, has_steps: bool) -> Vec<Evidence> {
    let scope = if has_steps { "scope = 'step'" } else { "scope = 'span'" };
    let is_copy = matches!(kind, CauseKind::CopyPageable | CauseKind::CopySync | CauseKind::CopySmall);
    let (table, filter) =
        if is_copy { ("memory_copy_rules", scope.to_string()) } else { ("idle_host", scope.to_string()) };
    let per = words.trust.per_step();
    let whole = if words.trust.has_steps { "step" } else { "recording" };
    let mut out = vec![Evidence {
        table: "time_account",
        filter: format!("cause = '{}'", kind.name()),
        words: format!(
            "idle {} of {}{per} ({} of the {whole})",
            fmt_ns(words.idle),
            fmt_ns(words.idle_all),
            fmt_pct(percent(words.idle, words.step))
        ),
    }];
    // A part of what is spread over many operators is not named.
    let is_named = kind != CauseKind::HostDispatch || has_large_part(words);
    for n in words.top.iter().filter(|_| is_named) {
        out.push(Evidence {
            table,
            filter: filter.clone(),
            words: format!("{}{per} in {} ({} times)", fmt_ns(n.per_step), shown(n.name), fmt_count(n.count)),
        });
    }
    out
}

/// Rules by which communication is not divided although all ranks are recorded.
const TIMES: [&str; 2] = ["time_origin", "ends_apart"];

/// Sentence and action of exposed communication.
pub(crate) fn communication(kind: CauseKind, each: Ns, step: Ns, trust: &RecordingTrust) -> (String, String) {
    let (share, per) = (fmt_pct(percent(each, step)), trust.per_step());
    match kind {
        CauseKind::CommUnmatched => {
            let takes = format!("Exposed communication takes {}{per} ({share}), waiting or transfer", fmt_ns(each));
            if let Some(limit) = trust.recording.limits().iter().find(|l| TIMES.contains(&l.rule)) {
                return (format!("{takes}: cannot tell: {}", limit.sentence), limit.next.clone());
            }
            let is_whole = trust.world == Some(trust.present) && trust.present > 1;
            let present = match trust.world {
                _ if is_whole => "collectives of which the ranks are not recorded".to_string(),
                Some(world) => format!("{} of {world} ranks recorded", trust.present),
                None => format!("{} recorded", hta_base::wording::counts::plural(trust.present as usize, "rank")),
            };
            (
                format!("{takes}: cannot tell with {present}"),
                if is_whole {
                    "record again with a PyTorch that writes the process group of each collective (2.2 or later)"
                } else {
                    "collect the traces of the other ranks and analyse them together"
                }
                .to_string(),
            )
        }
        _ => (
            format!("Exposed transfers take {}{per} ({share}) that no compute hides", fmt_ns(each)),
            "overlap by splitting work, exchange less (precision, sharding), or compute more per exchange".to_string(),
        ),
    }
}

/// Sentence and action of a cause in the communication itself; `time` in words.
pub(crate) fn transfer(kind: CauseKind, of: &str, group: &str, who: &str, time: &str) -> (String, String) {
    let of_group = if group.is_empty() { String::new() } else { format!(" of group {group}") };
    match kind {
        CauseKind::TransferQueued => (
            format!("Exposed {of}{of_group} start late on {who}, queued behind another exposed collective: {time}"),
            "give it a stream (process group) of its own, issue what is needed first, or use smaller buckets"
                .to_string(),
        ),
        CauseKind::TransferBandwidth => (
            format!("Exposed {of}{of_group} transfer slower on {who} than the same calls usually do: {time} longer"),
            "compare slow and fast calls in the table collectives: protocol, topology, network interface of the group"
                .to_string(),
        ),
        _ => (
            format!("Stages of a pipeline wait for each other in {of}{of_group} on {who}: {time}"),
            "more micro-batches, interleaved stages, or move a layer from the slowest stage".to_string(),
        ),
    }
}

/// Sentence and action of a cause in the mix of kernels.
pub(crate) fn kernel_mix(kind: CauseKind, words: &MixWords) -> (String, String) {
    let share = fmt_pct(Some(words.share));
    let count = fmt_count(words.count);
    // Whatever is known is said in the words of the kind.
    let after = |known: &str| match words.new_time {
        NewTime::Known(pct) => format!("; {known} {} of that", fmt_pct(Some(pct))),
        NewTime::Assumed(factor) => format!(", if they become {factor} times as fast"),
    };
    match kind {
        CauseKind::KernelElementwise => (
            format!(
                "{share} of GPU time is unfused elementwise kernels ({count} of them{})",
                after("with each chain as one kernel they take")
            ),
            "torch.compile fuses them; for optimizers use the fused or foreach variant".to_string(),
        ),
        CauseKind::KernelAttention => (
            format!(
                "{share} of GPU time is attention made of softmax and batched matrix products{}",
                after("at the peak the products take")
            ),
            "torch.nn.functional.scaled_dot_product_attention".to_string(),
        ),
        CauseKind::KernelLayout => (
            format!("{share} of GPU time only changes memory layouts ({count} kernels)"),
            match words.has_convolutions {
                true => "memory_format=torch.channels_last for model and input; contiguous() once",
                false => "keep one layout from operator to operator: transpose once, contiguous() only where a kernel needs it",
            }
            .to_string(),
        ),
        CauseKind::KernelPrecision => {
            let action = if words.trust.has_bf16 {
                "bf16 autocast, or at least torch.set_float32_matmul_precision('high') for TF32"
            } else {
                "fp16 autocast with a gradient scaler"
            };
            (
                format!(
                    "{share} of GPU time is fp32 matrix products and convolutions that use no tensor cores{}",
                    after("with them, at the same share of the peak, it takes")
                ),
                action.to_string(),
            )
        }
        _ => (
            format!(
                "{share} of GPU time is in kernels shorter than 10 us{}",
                after("at the peaks of the device their work takes")
            ),
            match words.trust.vendor {
                _ if words.trust.by_graph => "larger batches, fused kernels",
                DeviceVendor::Amd => "larger batches, fused kernels, torch.compile or HIP graphs",
                DeviceVendor::Nvidia => "larger batches, fused kernels, torch.compile or CUDA graphs",
                _ => "larger batches, fused kernels",
            }
            .to_string(),
        ),
    }
}
