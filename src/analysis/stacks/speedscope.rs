//! Stacks in the file format of speedscope (<https://www.speedscope.app>): one sampled profile for each rank
//! and thread (of memory: device).
//!
//! A sample is a stack, root first, as indices into the frames, and its weight is the value of the stack, so
//! weights of a profile add up to the time of its thread or the memory of its device.

use crate::api::Partial;
use crate::stacks::{StackNodes, StackUnit, stacks};
use hashbrown::HashMap;
use hta_facts::lines::source_place;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct SpeedscopeFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: String,
    name: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: SharedFrames<'a>,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct SharedFrames<'a> {
    frames: Vec<SpeedscopeFrame<'a>>,
}

#[derive(Serialize)]
struct SpeedscopeFrame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: i64,
    end_value: i64,
    samples: Vec<Vec<u32>>,
    weights: Vec<i64>,
}

/// The stacks of all ranks as JSON.
pub(crate) fn text(partials: &[Partial], name: &str, unit: StackUnit) -> String {
    let mut frames: Vec<SpeedscopeFrame> = Vec::new();
    let mut known: HashMap<&str, u32> = HashMap::new();
    let mut profiles = Vec::new();
    for partial in partials {
        let Some(batch) = partial.table(StackNodes::SPEC) else { continue };
        let mut by_root: BTreeMap<&str, Profile> = BTreeMap::new();
        for stack in stacks(batch) {
            let sample = stack.names.iter().map(|name| {
                *known.entry(name).or_insert_with(|| {
                    let place = source_place(name);
                    frames.push(SpeedscopeFrame { name, file: place.map(|p| p.0), line: place.map(|p| p.1) });
                    (frames.len() - 1) as u32
                })
            });
            let profile = by_root.entry(stack.root).or_insert_with(|| Profile {
                r#type: "sampled",
                name: format!("rank {}, {} {}", partial.rank, unit.root(), stack.root),
                unit: unit.name(),
                start_value: 0,
                end_value: 0,
                samples: Vec::new(),
                weights: Vec::new(),
            });
            profile.samples.push(sample.collect());
            profile.weights.push(stack.value);
            profile.end_value += stack.value;
        }
        // The thread with most time, or the fullest device, first, which is the one that a viewer opens.
        let mut of_rank: Vec<Profile> = by_root.into_values().collect();
        of_rank.sort_by_key(|p| std::cmp::Reverse(p.end_value));
        profiles.extend(of_rank);
    }
    let file = SpeedscopeFile {
        schema: "https://www.speedscope.app/file-format-schema.json",
        exporter: format!("hta {}", env!("CARGO_PKG_VERSION")),
        name,
        active: 0,
        shared: SharedFrames { frames },
        profiles,
    };
    let mut text = serde_json::to_string(&file).unwrap_or_default();
    text.push('\n');
    text
}
