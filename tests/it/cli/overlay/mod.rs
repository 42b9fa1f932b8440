//! `hta overlay`: it contains all events of its sources unchanged, and what it adds is valid in the Chrome trace
//! format. Read here with serde_json, independently of hta's own reader.

pub mod alone;
mod damaged;
mod open;
pub mod several;
pub mod valid;

use crate::run::{Quiet, options};
use hta::analysis::api::Options;
use hta::analysis::counters::series::DeviceCounter;
use hta::overlay::{OverlayError, OverlayOutput, OverlayRequest, OverlaySummary, Passes, Target, overlay};
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What to draw.
pub struct Asked {
    pub options: Options,
    pub draw: Vec<(u32, u32)>,
    pub counters: &'static [DeviceCounter],
    pub critical_path: bool,
    pub compares: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            options: options(),
            draw: vec![],
            counters: &DeviceCounter::ALL,
            critical_path: true,
            compares: true,
        }
    }
}

impl Asked {
    /// Only the events.
    pub fn nothing() -> Self {
        Self { counters: &[], critical_path: false, compares: false, ..Self::default() }
    }

    pub fn write(&self, from: &[PathBuf], to: &Path) -> Result<OverlaySummary, OverlayError> {
        let inputs = discover(from).expect("the traces are there");
        let mut out = OverlayOutput::create(&Target::File { path: to.to_path_buf(), force: true }, &inputs)?;
        let request = OverlayRequest {
            inputs: &inputs,
            ranks: &[],
            draw: &self.draw,
            options: &self.options,
            load: LoadOptions::default(),
            counters: self.counters,
            critical_path: self.critical_path,
            compares: self.compares,
        };
        let summary = overlay(&request, &mut out, &Passes { survey: &Quiet, marks: &Quiet, copy: &Quiet })?;
        out.finish()?;
        Ok(summary)
    }
}

/// The text of a file, decompressed.
pub fn text(path: &Path) -> Vec<u8> {
    let packed = std::fs::read(path).expect("the file can be read");
    let mut out = Vec::new();
    if packed.starts_with(&[0x1f, 0x8b]) {
        flate2::bufread::MultiGzDecoder::new(&packed[..]).read_to_end(&mut out).expect("gzip is whole");
    } else {
        out = packed;
    }
    out
}

/// Events as written in the file, byte for byte.
pub fn raw_events(text: &[u8]) -> Vec<String> {
    let of_list = |list: &RawValue| -> Vec<String> {
        let list: Vec<Box<RawValue>> = serde_json::from_str(list.get()).expect("events are a list");
        list.into_iter().map(|e| e.get().to_string()).collect()
    };
    let root: &RawValue = serde_json::from_slice(text).expect("the file is JSON");
    if root.get().starts_with('[') {
        return of_list(root);
    }
    let keys: BTreeMap<String, &RawValue> = serde_json::from_str(root.get()).expect("the file is an object");
    of_list(keys["traceEvents"])
}

/// Top-level values as written, without the events.
pub fn members(text: &[u8]) -> BTreeMap<String, String> {
    let keys: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(text).unwrap_or_default();
    keys.into_iter().filter(|(k, _)| k != "traceEvents").map(|(k, v)| (k, v.get().to_string())).collect()
}

/// Fields of an event as written.
pub fn fields(event: &str) -> BTreeMap<String, String> {
    let of: BTreeMap<String, Box<RawValue>> = serde_json::from_str(event).expect("an event is an object");
    of.into_iter().map(|(k, v)| (k, v.get().to_string())).collect()
}

/// Whether the overlay added this event.
pub fn is_added(event: &str) -> bool {
    fields(event).get("cat").is_some_and(|c| c.starts_with("\"hta_"))
}

/// A decimal number in 10^-9 of its unit, exact.
pub fn exact(text: &str) -> i128 {
    let text = text.trim_matches('"');
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |d| (true, d));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    assert!(fraction.len() <= 9 && !digits.contains(['e', 'E']), "{text}");
    let value: i128 = format!("{whole}{fraction:0<9}").parse().expect("a number");
    if negative { -value } else { value }
}
