//! Texts that packets name by number: the recorder writes each once, before the events.

use super::fields::interned as at;
use super::wire::{WireMessage, WireValue};
use crate::kineto::composed::EventText;
use crate::room::of_map;
use hashbrown::HashMap;
use hta_trace::strings::StrId;
use std::cell::Cell;
use std::ops::Range;

/// Texts by their numbers.
#[derive(Default)]
pub(super) struct TextsById {
    places: HashMap<u64, TextPlace>,
    texts: Vec<u8>,
}

/// Where a text is, and its id among those of the trace, if it was looked for.
struct TextPlace {
    range: Range<usize>,
    id: Cell<Option<StrId>>,
}

impl TextsById {
    pub(super) fn get(&self, id: u64) -> Option<&[u8]> {
        Some(self.event_text(id)?.bytes)
    }

    /// The same for events, of which many may have it.
    pub(super) fn event_text(&self, id: u64) -> Option<EventText<'_>> {
        let place = self.places.get(&id)?;
        let bytes = self.texts.get(place.range.clone())?;
        Some(EventText { bytes, id: Some(&place.id) })
    }

    /// Adds a message of a number and a text, which has this field.
    fn add(&mut self, message: &[u8], text: u32) {
        let (mut id, mut found) = (0, None);
        for (number, value) in WireMessage::new(message) {
            match number {
                1 => id = value.number().unwrap_or(0),
                _ if number == text => found = value.bytes(),
                _ => {}
            }
        }
        if let Some(found) = found {
            let start = self.texts.len();
            self.texts.extend_from_slice(found);
            let place = TextPlace { range: start..self.texts.len(), id: Cell::new(None) };
            self.places.insert(id, place);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.values().filter_map(|place| self.texts.get(place.range.clone()))
    }

    /// Memory of the texts, bytes.
    fn held(&self) -> u64 {
        self.texts.len() as u64 + of_map(&self.places)
    }
}

/// The counters of a device.
#[derive(Default)]
pub(super) struct DeviceCounters {
    pub(super) device: u64,
    pub(super) names: TextsById,
}

/// Everything that was named so far.
#[derive(Default)]
pub(super) struct InternedData {
    pub(super) categories: TextsById,
    /// Names of events.
    pub(super) names: TextsById,
    /// Names of the kinds of device rows, and of the lanes they are drawn on.
    pub(super) specifications: TextsById,
    pub(super) kernels: TextsById,
    /// Names of the arguments of launches.
    pub(super) launch_arguments: TextsById,
    pub(super) counters: HashMap<u64, DeviceCounters>,
    /// Memory of the names of the counters, bytes.
    held_by_counters: u64,
}

impl InternedData {
    /// Takes over what a packet names. Returns whether the message is whole.
    pub(super) fn read(&mut self, bytes: &[u8]) -> bool {
        let mut message = WireMessage::new(bytes);
        while let Some((number, value)) = message.field() {
            let Some(entry) = value.bytes() else { continue };
            match number {
                at::CATEGORY => self.categories.add(entry, 2),
                at::NAME => self.names.add(entry, 2),
                at::SPECIFICATION => self.specifications.add(entry, 2),
                at::KERNEL => self.kernels.add(entry, 3),
                at::LAUNCH_ARGUMENT => self.launch_arguments.add(entry, 2),
                at::COUNTERS => self.add_counters(entry),
                _ => {}
            }
        }
        !message.is_broken()
    }

    fn add_counters(&mut self, message: &[u8]) {
        let (mut id, mut counters) = (0, DeviceCounters::default());
        for (number, value) in WireMessage::new(message) {
            match number {
                1 => id = value.number().unwrap_or(0),
                3 => counters.device = value.number().unwrap_or(0),
                2 => {
                    let specs = WireMessage::new(value.bytes().unwrap_or_default());
                    specs
                        .filter(|(number, _)| *number == 1)
                        .for_each(|(_, spec)| counters.names.add(spec.bytes().unwrap_or_default(), 2));
                }
                _ => {}
            }
        }
        self.held_by_counters += counters.names.held();
        if let Some(before) = self.counters.insert(id, counters) {
            self.held_by_counters -= before.names.held();
        }
    }

    fn texts(&self) -> [&TextsById; 5] {
        [&self.categories, &self.names, &self.specifications, &self.kernels, &self.launch_arguments]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.texts().iter().all(|texts| texts.places.is_empty())
    }

    /// Memory of the texts, bytes.
    pub(super) fn held(&self) -> u64 {
        let of_texts: u64 = self.texts().into_iter().map(TextsById::held).sum();
        of_texts + of_map(&self.counters) + self.held_by_counters
    }

    /// Most memory that a message takes when it is read, bytes.
    pub(super) fn growth(bytes: &[u8]) -> u64 {
        const TEXT: u64 = 4 * size_of::<(u64, TextPlace)>() as u64;
        const COUNTERS: u64 = 8 * size_of::<(u64, DeviceCounters)>() as u64;
        fn within(message: &[u8]) -> impl Iterator<Item = &[u8]> {
            WireMessage::new(message).filter_map(|(_, value)| value.bytes())
        }
        let of = |(number, value): (u32, WireValue)| match value.bytes() {
            Some(entry) if number == at::COUNTERS => {
                COUNTERS + within(entry).map(|specs| within(specs).count() as u64 * TEXT).sum::<u64>()
            }
            Some(_) => TEXT,
            None => 0,
        };
        2 * bytes.len() as u64 + WireMessage::new(bytes).map(of).sum::<u64>()
    }
}

/// The names of categories and of kinds of device rows of a writer.
#[derive(Default)]
pub(super) struct KindNames {
    pub(super) categories: TextsById,
    pub(super) specifications: TextsById,
}

impl KindNames {
    /// Takes over what a packet names, up to `most` texts of each.
    pub(super) fn read(&mut self, bytes: &[u8], most: usize) {
        for (number, value) in WireMessage::new(bytes) {
            let texts = match number {
                at::CATEGORY => &mut self.categories,
                at::SPECIFICATION => &mut self.specifications,
                _ => continue,
            };
            if texts.places.len() < most {
                texts.add(value.bytes().unwrap_or_default(), 2);
            }
        }
    }
}
