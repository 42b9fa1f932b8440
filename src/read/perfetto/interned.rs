//! Texts that packets name by number: the recorder writes each once, before the events.

use super::fields::interned as at;
use super::wire::WireMessage;
use hashbrown::HashMap;
use std::ops::Range;

/// Texts by their numbers.
#[derive(Default)]
pub(super) struct TextsById {
    places: HashMap<u64, Range<usize>>,
    texts: Vec<u8>,
}

impl TextsById {
    pub(super) fn get(&self, id: u64) -> Option<&[u8]> {
        self.texts.get(self.places.get(&id)?.clone())
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
            self.places.insert(id, start..self.texts.len());
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.values().filter_map(|place| self.texts.get(place.clone()))
    }

    /// Memory of the texts, bytes.
    fn held(&self) -> u64 {
        const ENTRY: u64 = 32;
        self.texts.len() as u64 + self.places.len() as u64 * ENTRY
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
        self.counters.insert(id, counters);
    }

    /// Memory of the texts, bytes.
    pub(super) fn held(&self) -> u64 {
        let all =
            [&self.categories, &self.names, &self.specifications, &self.kernels, &self.launch_arguments];
        let of_counters = self.counters.values().map(|counters| counters.names.held());
        all.into_iter().map(TextsById::held).chain(of_counters).sum()
    }
}
