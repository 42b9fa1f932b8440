//! The table of operators with the columns of torch.profiler and of the TensorBoard plugin.
//!
//! Both give sums of GPU durations, and count recursion twice in totals; here an operator inside another one
//! of its own name adds nothing to the totals.

use crate::api::{Options, Partial, rows};
use crate::ops::operators::Operators;
use crate::ops::{COLUMNS, by_shape};
use hta_base::units::Ns;
use std::collections::BTreeMap;

/// An operator summed over ranks.
#[derive(Default)]
struct Total {
    count: u64,
    host_self: Ns,
    host: Ns,
    gpu_self: Ns,
    gpu: Ns,
    tensor_core_self: Ns,
    tensor_core: Ns,
    gpu_self_busy: Ns,
    gpu_busy: Ns,
    is_eligible: bool,
    flops: Option<u64>,
}

/// The whole text, if other columns than hta's are asked for.
pub(crate) fn text(partials: &[Partial], options: &Options) -> Option<String> {
    let columns = options.settings.text(&COLUMNS).filter(|c| *c != "hta")?;
    let mut totals: BTreeMap<(String, Option<String>), Total> = BTreeMap::new();
    for r in rows::<Operators>(partials).filter(|r| r.scope == "capture" && !r.name.starts_with('[')) {
        let dims = r.input_dims.map(spaced);
        let t = totals.entry((r.name.to_string(), dims)).or_default();
        t.count += r.count;
        t.host_self += r.host_self_ns;
        t.host += r.host_ns;
        t.gpu_self += r.gpu_self_ns;
        t.gpu += r.gpu_ns;
        t.tensor_core_self += r.tensor_core_self_ns;
        t.tensor_core += r.tensor_core_ns;
        t.gpu_self_busy += r.gpu_self_busy_ns;
        t.gpu_busy += r.gpu_busy_ns;
        t.is_eligible |= r.tensor_core_eligible;
        t.flops = r.flops.map(|f| f.saturating_add(t.flops.unwrap_or(0))).or(t.flops);
    }
    let has_gpu = totals.values().any(|t| t.gpu > 0);
    let mut rows: Vec<_> = totals.into_iter().collect();
    rows.sort_by(|(a, x), (b, y)| {
        let time = |t: &Total| if has_gpu { (t.gpu_self, t.host_self) } else { (t.host_self, t.gpu_self) };
        time(y).cmp(&time(x)).then_with(|| a.cmp(b))
    });
    Some(match columns {
        "torch" => torch(&rows, by_shape(options)),
        _ => tensorboard(&rows, by_shape(options)),
    })
}

type FormatRow = ((String, Option<String>), Total);

/// Shapes as Python prints them: `[[8, 10], []]`.
fn spaced(dims: &str) -> String {
    dims.replace(',', ", ")
}

/// A CSV cell.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

fn pct(part: Ns, whole: Ns) -> f64 {
    if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 }
}

/// CSV with times in us, as the plugin exports it.
fn tensorboard(rows: &[FormatRow], with_shape: bool) -> String {
    let mut out = String::from("Name,");
    if with_shape {
        out.push_str("Input Shape,");
    }
    out.push_str(
        "Calls,Device Self Duration (us),Device Total Duration (us),Host Self Duration (us),Host Total \
         Duration (us),\
         Tensor Cores Eligible,Tensor Cores Self (%),Tensor Cores Total (%)\n",
    );
    let micros = |ns: Ns| {
        let (whole, rest) = (ns / 1000, ns % 1000);
        if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}") }
    };
    // The plugin leaves out the wrappers of training loops.
    const LEFT_OUT: [&str; 2] = ["DataParallel.forward", "DistributedDataParallel.forward"];
    for ((name, dims), t) in rows.iter().filter(|((n, _), _)| !LEFT_OUT.contains(&n.as_str())) {
        if name.starts_with("Optimizer.") {
            continue;
        }
        out.push_str(&cell(name));
        out.push(',');
        if with_shape {
            out.push_str(&cell(dims.as_deref().unwrap_or_default()));
            out.push(',');
        }
        let cells = [t.gpu_self, t.gpu, t.host_self, t.host].map(micros);
        let eligible = if t.is_eligible { "Yes" } else { "No" };
        let shares = [(t.tensor_core_self, t.gpu_self_busy), (t.tensor_core, t.gpu_busy)];
        let [own, all] = shares.map(|(part, whole)| format!("{:.2}", pct(part, whole)));
        out.push_str(&format!("{},{},{eligible},{own},{all}\n", t.count, cells.join(",")));
    }
    out
}

/// Aligned text, as `key_averages().table()` prints it.
fn torch(rows: &[FormatRow], with_shape: bool) -> String {
    let has_gpu = rows.iter().any(|(_, t)| t.gpu > 0);
    let has_flops = rows.iter().any(|(_, t)| t.flops.is_some());
    let mut header = vec!["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"];
    if has_gpu {
        header.extend(["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]);
    }
    header.push("# of Calls");
    if with_shape {
        header.push("Input Shapes");
    }
    if has_flops {
        header.push("Total MFLOPs");
    }
    let [all_host, all_gpu] = [|t: &Total| t.host_self, |t: &Total| t.gpu_self]
        .map(|column| rows.iter().map(|(_, t)| column(t)).sum::<Ns>());
    let mut lines: Vec<Vec<String>> = vec![header.iter().map(|h| h.to_string()).collect()];
    for ((name, dims), t) in rows {
        let mean = |ns: Ns| time(ns as f64 / t.count.max(1) as f64);
        let share = |part, whole| format!("{:.2}%", pct(part, whole));
        let mut line = vec![
            name.clone(),
            share(t.host_self, all_host),
            time(t.host_self as f64),
            share(t.host, all_host),
            time(t.host as f64),
            mean(t.host),
        ];
        if has_gpu {
            line.extend([
                time(t.gpu_self as f64),
                share(t.gpu_self, all_gpu),
                time(t.gpu as f64),
                mean(t.gpu),
            ]);
        }
        line.push(t.count.to_string());
        if with_shape {
            line.push(dims.clone().unwrap_or_default());
        }
        if has_flops {
            line.push(t.flops.map_or_else(|| "--".to_string(), |f| format!("{:.3}", f as f64 / 1e6)));
        }
        lines.push(line);
    }
    let widths: Vec<usize> =
        (0..header.len()).map(|i| lines.iter().map(|l| l[i].chars().count()).max().unwrap_or(0)).collect();
    let rule = widths.iter().map(|w| "-".repeat(*w)).collect::<Vec<_>>().join("  ");
    let mut out = format!("{rule}\n");
    for (i, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(c, w)| format!("{c:>w$}")).collect();
        out.push_str(&cells.join("  "));
        out.push('\n');
        if i == 0 {
            out.push_str(&format!("{rule}\n"));
        }
    }
    out.push_str(&format!("{rule}\nSelf CPU time total: {}\n", time(all_host as f64)));
    if has_gpu {
        out.push_str(&format!("Self CUDA time total: {}\n", time(all_gpu as f64)));
    }
    out
}

/// A time as torch.profiler formats it.
fn time(ns: f64) -> String {
    match ns / 1e3 {
        us if us >= 1e6 => format!("{:.3}s", us / 1e6),
        us if us >= 1e3 => format!("{:.3}ms", us / 1e3),
        us => format!("{us:.3}us"),
    }
}
