//! Counters of conditions that concern all events of a rank.

use crate::activity::Activity;
use crate::args::Arg;
use crate::category::Class;
use crate::events::Columns;
use crate::launch::is_launch_call;
use crate::meta::{LARGEST_GROUP, Meta};
use crate::stream_capture::StreamCaptures;
use crate::strings::StrId;
use crate::timeline::WorkClass;
use hta_base::health::{Counter, Health};
use hta_base::units::fmt_ns;

/// Counts conditions that concern all events.
pub(crate) fn count_events(
    c: &Columns,
    classes: &[Class],
    meta: &Meta,
    all: &[Activity],
    stream_captures: &StreamCaptures,
    health: &mut Health,
) {
    let (mut zero, mut unknown, mut missing, mut overhead, mut sync, mut moved) = (0, 0, 0, 0, 0, 0);
    let mut unknown_name = String::new();
    let mut legacy = 0;
    let mut not_integer = 0;
    let unknown_text = c.strings.lookup(b"unknown");
    let mut lost = 0;
    let mut overhead_ns = 0;
    for (row, class) in classes.iter().enumerate() {
        zero += u64::from(c.dur[row] == 0);
        let cat = c.categories.get(usize::from(c.cat[row]));
        legacy += u64::from(cat.is_some_and(|k| k.legacy));
        let lane = c.lanes.get(c.lane[row] as usize);
        not_integer += u64::from(lane.is_some_and(|l| l.tid_num.is_none()));
        lost += u64::from(unknown_text == Some(c.name(row)));
        match class {
            Class::Unknown if cat.is_none_or(|k| k.text == StrId::EMPTY) => missing += 1,
            Class::Unknown => {
                unknown += 1;
                if unknown_name.is_empty() {
                    unknown_name = cat.map_or(String::new(), |k| c.strings.get(k.text).to_string());
                }
            }
            Class::Overhead => {
                overhead += 1;
                overhead_ns += c.dur[row];
            }
            Class::Sync => {
                sync += 1;
                moved += u64::from(lane.and_then(|l| l.tid_num).is_some_and(|t| t >= 1_000_000));
            }
            _ => {}
        }
    }
    let streams = c.args.column(Arg::Stream);
    let on_host = streams.rows().filter(|r| classes.get(*r as usize) == Some(&Class::HostOp)).count();
    let finished = c.args.column(Arg::Finished);
    let unfinished = finished.iter().filter(|(r, v)| {
        *v == 0 && matches!(classes.get(*r as usize), Some(Class::HostOp | Class::Annotation | Class::Title))
    });
    let too_large = |v: u64| i64::try_from(v).is_ok_and(|v| v > i64::from(LARGEST_GROUP));
    let mut sizes = c.args.column(Arg::GroupSize).iter().map(|(_, v)| v).filter(|v| too_large(*v));
    if let Some(first) = sizes.next() {
        health.add(Counter::GroupTooLarge, 1 + sizes.count() as u64, None, &first.to_string());
    }
    let unpaired: u64 = c.flow_counts.values().map(|[s, f]| s.abs_diff(*f)).sum();
    health.add(Counter::DurZero, zero, None, "");
    health.add(Counter::UnknownCategory, unknown, None, &unknown_name);
    health.add(Counter::MissingCategory, missing, None, "");
    health.add(Counter::ProfilerOverhead, overhead, None, &fmt_ns(overhead_ns));
    health.add(Counter::SyncRowExcluded, sync, None, "");
    health.add(Counter::SyncRowMoved, moved, None, "");
    health.add(Counter::LegacyCategory, legacy, None, "");
    health.add(Counter::TidNotInteger, not_integer, None, "");
    health.add(Counter::NameUnknown, lost, None, "");
    health.add(Counter::HostStreamArg, on_host as u64, None, "");
    health.add(Counter::Unfinished, unfinished.count() as u64, None, "");
    health.add(Counter::FlowUnpaired, unpaired, None, "");
    let nameless = meta.devices.iter().filter(|d| d.name.is_empty()).count();
    health.add(Counter::DeviceNameEmpty, nameless as u64, None, "");
    let communicates = all.iter().any(|a| matches!(a.work, WorkClass::Communication | WorkClass::Fused));
    if meta.world_size.is_some_and(|w| w > 1) && !all.is_empty() && !communicates {
        health.note(Counter::NoCommunicationFound, "");
    }
    health.add(Counter::LaunchWithoutKernel, idle_launches(c, classes, all, stream_captures), None, "");
}

/// Number of launch calls that started nothing and were not captured into a graph.
fn idle_launches(c: &Columns, classes: &[Class], all: &[Activity], stream_captures: &StreamCaptures) -> u64 {
    let mut launching = vec![false; c.len()];
    all.iter().filter_map(|a| a.launch()).for_each(|l| launching[l as usize] = true);
    let mut known: Vec<Option<bool>> = vec![None; c.strings.len()];
    let idle = (0..c.len()).filter(|&r| {
        let mut is_launch = || match known.get_mut(c.name(r).0 as usize) {
            Some(known) => *known.get_or_insert_with(|| is_launch_call(c.strings.get(c.name(r)))),
            None => false,
        };
        classes[r] == Class::Runtime && !launching[r] && is_launch() && !stream_captures.hold(c, r as u32)
    });
    idle.count() as u64
}
