//! What stands out of the gaps of all ranks.

use crate::api::{Certainty, Observation, Partial};
use crate::idle::{IdleHost, Idles};
use crate::population::{SelectedRows, groups, several_devices};
use hashbrown::{HashMap, HashSet};
use hta_base::table::schema::ColumnsOf;
use hta_base::table::typed::Values;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::capital;
use hta_base::wording::names::clip;
use std::cmp::Reverse;

/// The rank that idles most.
pub fn observations(partials: &[Partial]) -> Vec<Observation> {
    let groups = groups::<Idles>(partials);
    let worst = groups.iter().max_by_key(|g| (g.mean(|t| t.idle_ns), Reverse(g.rank)));
    worst.and_then(|g| observation(g, partials, several_devices(&groups))).into_iter().collect()
}

struct IdleCause<'a> {
    activity: &'a str,
    name: &'a str,
    time: Ns,
}

/// Host activities during host wait, over the windows on which averages are based.
fn causes<'a>(partials: &'a [Partial], groups: &[SelectedRows<Idles>]) -> Vec<IdleCause<'a>> {
    let mut sums: HashMap<(&str, &str), Ns> = HashMap::new();
    let mut left = groups;
    for p in partials {
        // Groups are in the same order as the partials.
        let (own, others) = left.split_at(left.iter().take_while(|g| g.rank == p.rank).count());
        left = others;
        if let Some(host) = p.columns::<IdleHost>() {
            host_times(&host, own).into_iter().for_each(|(key, ns)| *sums.entry(key).or_default() += ns);
        }
    }
    let mut all: Vec<IdleCause> =
        sums.into_iter().map(|((activity, name), time)| IdleCause { activity, name, time }).collect();
    all.sort_by_key(|c| (Reverse(c.time), c.activity, c.name));
    all
}

/// Sums of a rank's `idle_host` by activity and name, over the windows of its groups, ns.
fn host_times<'a>(
    host: &ColumnsOf<'a, IdleHost>,
    groups: &[SelectedRows<Idles>],
) -> Vec<((&'a str, &'a str), Ns)> {
    let keys = groups.iter().flat_map(|g| g.windows());
    let windows: HashSet<(Option<i64>, &str, Option<u32>)> =
        keys.map(|w| (w.device, w.scope, w.step)).collect();
    let mut sums: HashMap<(usize, usize), Ns> = HashMap::new();
    // Rows of one window are consecutive.
    let mut last = (None, false);
    for (row, time) in host.time_ns.iter().enumerate() {
        let window = (host.device.at(row), host.scope.key(row), host.step.at(row));
        if last.0 != Some(window) {
            let asked = (window.0, host.scope.at(row), window.2);
            last = (Some(window), windows.contains(&asked));
        }
        if last.1 {
            *sums.entry((host.activity.key(row), host.name.key(row))).or_default() += time;
        }
    }
    let text = |(activity, name)| (host.activity.text_of(activity), host.name.text_of(name));
    sums.into_iter().map(|(keys, ns)| (text(keys), ns)).collect()
}

fn observation(g: &SelectedRows<Idles>, partials: &[Partial], several: bool) -> Option<Observation> {
    let idle = g.mean(|t| t.idle_ns);
    let share = g.percent(|t| t.idle_ns);
    if idle == 0 || share.is_none_or(|s| s < 2.0) {
        return None;
    }
    let own: Vec<Partial> = partials.iter().filter(|p| p.rank == g.rank).cloned().collect();
    let one = [SelectedRows { rows: g.rows.clone(), ..*g }];
    let causes = causes(&own, &one);
    let host = g.mean(|t| t.host_wait_ns);
    let mut sentence = format!(
        "{} idles {} {} ({} of {})",
        capital(&g.who(several)),
        fmt_ns(idle),
        g.per(),
        fmt_pct(share),
        fmt_ns(g.mean(|t| t.dur_ns))
    );
    let mut certainty = Certainty::Measured;
    let (kernel, other) = (g.mean(|t| t.kernel_wait_ns), g.mean(|t| t.other_ns));
    match causes.first() {
        Some(c) if host * 2 >= idle => {
            let time = c.time / g.rows.len().max(1) as i64;
            certainty = Certainty::Inferred;
            sentence.push_str(&format!(
                ": {} of that is waiting for the host, which spends {} in {}{}",
                fmt_pct(percent(host, idle)),
                fmt_ns(time),
                c.activity.replace('_', " "),
                if c.name.is_empty() { String::new() } else { format!(" `{}`", clip(c.name, 60)) },
            ));
        }
        _ if other * 2 >= idle => {
            sentence.push_str(": work was submitted but could not start, or its launch is unknown")
        }
        _ if kernel * 2 > idle => sentence.push_str(", mostly between a launch and its start"),
        _ => sentence.push_str(&format!(
            ": {} waiting for the host, {} between a launch and its start, {} with work submitted that \
             could not start, or its launch unknown",
            fmt_pct(percent(host, idle)),
            fmt_pct(percent(kernel, idle)),
            fmt_pct(percent(other, idle)),
        )),
    }
    let step = g.worst_step(|t| t.idle_ns);
    if let Some((step, ns)) = &step {
        sentence.push_str(&format!("; worst in step {step}: {}", fmt_ns(*ns)));
    }
    Some(Observation {
        analysis: "idle",
        ranks: vec![g.rank],
        steps: step.into_iter().map(|s| s.0).collect(),
        cost_ns_per_step: idle,
        share_of_step: share.map(|s| s / 100.0),
        certainty,
        sentence,
        table: Idles::SPEC.name,
    })
}
