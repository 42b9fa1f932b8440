//! The energy of a job in one line, for the head of a report and of a page.

use hta_base::units::fmt_joules;
use std::collections::{BTreeMap, BTreeSet};

/// A device and its rank.
pub type DeviceOfRank = (u32, Option<i64>);

/// The energies of one device that works, in joules; `None`: not known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KnownEnergy {
    /// Of a usual step.
    pub step: Option<f64>,
    pub token: Option<f64>,
    /// Of all that is recorded.
    pub capture: Option<f64>,
}

/// What the devices that work take: their sum and spread where there are several. `None` if nothing is known.
/// `noun`: step or iteration.
pub fn energy_of_devices(
    working: &BTreeSet<DeviceOfRank>,
    known: &BTreeMap<DeviceOfRank, KnownEnergy>,
    noun: &str,
) -> Option<String> {
    let of = |device: &DeviceOfRank| known.get(device).copied().unwrap_or_default();
    energy_line(&working.iter().map(of).collect::<Vec<KnownEnergy>>(), noun)
}

/// The line of devices with these energies. Tokens of several devices are not added up, because devices that share a model
/// bring the same tokens on.
fn energy_line(devices: &[KnownEnergy], noun: &str) -> Option<String> {
    let known = |of: fn(&KnownEnergy) -> Option<f64>| devices.iter().filter_map(of).collect::<Vec<f64>>();
    let (steps, tokens) = (known(|d| d.step), known(|d| d.token));
    let (all, per) = match steps.is_empty() {
        true => (known(|d| d.capture), "in the recorded time".to_string()),
        false => (steps, format!("{} {noun}", article(noun))),
    };
    if all.is_empty() {
        return None;
    }
    let sum = fmt_joules(all.iter().sum());
    if devices.len() == 1 {
        let token = tokens.first().map_or(String::new(), |j| format!(", {} a token", fmt_joules(*j)));
        return Some(format!("{sum} {per}{token}"));
    }
    let whose = match all.len() == devices.len() {
        true => format!("on {} devices", devices.len()),
        false => format!("on {} of {} devices", all.len(), devices.len()),
    };
    let each = if all.len() > 1 { format!(", {} each", spread(&all)) } else { String::new() };
    let token = if tokens.is_empty() { String::new() } else { format!("; {} a token each", spread(&tokens)) };
    Some(format!("{sum} {per} {whose}{each}{token}"))
}

fn article(noun: &str) -> &'static str {
    if noun == "iteration" { "an" } else { "a" }
}

/// From the least to the most.
fn spread(all: &[f64]) -> String {
    let (least, most) = all.iter().fold((f64::INFINITY, 0.0f64), |(a, b), j| (a.min(*j), b.max(*j)));
    let (least, most) = (fmt_joules(least), fmt_joules(most));
    if least == most { most } else { format!("{least} to {most}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(step: Option<f64>, token: Option<f64>, capture: Option<f64>) -> KnownEnergy {
        KnownEnergy { step, token, capture }
    }

    #[test]
    fn the_energy_of_one_device() {
        let line = |device| energy_line(&[device], "step");
        assert_eq!(line(of(Some(0.144), None, Some(0.432))).as_deref(), Some("144.0 mJ a step"));
        assert_eq!(
            line(of(Some(12.0), Some(0.25), None)).as_deref(),
            Some("12.0 J a step, 250.0 mJ a token")
        );
        assert_eq!(line(of(None, None, Some(0.432))).as_deref(), Some("432.0 mJ in the recorded time"));
        assert_eq!((line(of(None, None, None)), energy_line(&[], "step")), (None, None));
    }

    #[test]
    fn several_devices_have_a_sum_and_a_spread() {
        let two = [of(Some(140.0), Some(0.5), None), of(Some(148.0), Some(0.5), None)];
        assert_eq!(
            energy_line(&two, "iteration").as_deref(),
            Some("288.0 J an iteration on 2 devices, 140.0 J to 148.0 J each; 500.0 mJ a token each")
        );
        // What is not known is not taken for 0.
        let three = [two[0], two[1], of(None, None, Some(9.0))];
        assert_eq!(
            energy_line(&three, "step").as_deref(),
            Some("288.0 J a step on 2 of 3 devices, 140.0 J to 148.0 J each; 500.0 mJ a token each")
        );
        let one = [of(Some(140.0), None, None), KnownEnergy::default()];
        assert_eq!(energy_line(&one, "step").as_deref(), Some("140.0 J a step on 1 of 2 devices"));
    }
}
