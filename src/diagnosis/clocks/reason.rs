//! What power and temperature are while a clock is low. Neither is the reason for sure: the driver's reasons
//! are not recorded.

use hta_base::units::{Ns, fmt_count};
use hta_trace::hardware_counters::HardwareCounter;
use std::iter::Sum;

/// What is seen beside a low clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenBeside {
    /// The power is at its highest, W.
    Power(i64),
    /// The device is as hot as it gets, C.
    Heat(i64),
}

/// For how long power and temperature of a device are known, and for how long they are at their highest, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StateTimes {
    /// Time with a known power, and of that at the plateau.
    pub(super) power: Ns,
    pub(super) plateau: Ns,
    /// Time with a known temperature, and of that near the highest.
    pub(super) temperature: Ns,
    pub(super) hot: Ns,
}

impl Sum for StateTimes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            power: a.power + b.power,
            plateau: a.plateau + b.plateau,
            temperature: a.temperature + b.temperature,
            hot: a.hot + b.hot,
        })
    }
}

/// Power and temperature of a device while its clock is low.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LowState {
    pub(super) times: StateTimes,
    /// The plateau of the power, and the highest temperature, in millionths.
    pub(super) top_power: Option<i64>,
    pub(super) top_temperature: Option<i64>,
    /// Median power and temperature then, and those to compare with: of the others, or of the rest of the
    /// time.
    pub(super) own: [Option<i64>; 2],
    pub(super) usual: [Option<i64>; 2],
}

const MILLION: i64 = 1_000_000;
/// Power from this share of its plateau on is at the plateau, percent.
pub(super) const PLATEAU_PCT: i128 = 97;
/// A temperature is near its highest within this, in millionths of a degree.
pub(super) const HOT_WITHIN: i64 = 2 * MILLION;
/// Share of the low time for which something must be so, percent.
const MOST_PCT: i128 = 80;
/// Devices slow down for heat from about this temperature on, in millionths of a degree. A device that
/// never gets this hot is not slowed down by heat, so its temperature does not speak against power as the
/// reason.
const HOT: i64 = 80 * MILLION;
/// Or the device is hotter than else by this.
const HOTTER: i64 = 3 * MILLION;
/// Power below this share of that of the others is not at the plateau of the model, percent.
const BELOW_PCT: i128 = 95;

fn is_most(part: Ns, whole: Ns) -> bool {
    whole > 0 && i128::from(part) * 100 >= i128::from(whole) * MOST_PCT
}

impl LowState {
    pub(super) fn seen(&self) -> Option<SeenBeside> {
        let [power, temperature] = self.own;
        let [usual_power, usual_temperature] = self.usual;
        let times = &self.times;
        let is_near = is_most(times.hot, times.temperature);
        let is_hot = self.top_temperature.is_some_and(|t| t >= HOT);
        let is_hotter = temperature
            .zip(usual_temperature)
            .is_some_and(|(own, usual)| own.saturating_sub(usual) >= HOTTER);
        if is_most(times.plateau, times.power) && !(is_near && is_hot) {
            return Some(SeenBeside::Power(rounded(self.top_power?)));
        }
        let is_lower = power
            .zip(usual_power)
            .is_some_and(|(own, usual)| i128::from(own) * 100 < i128::from(usual) * BELOW_PCT);
        let is_below = is_most(times.power - times.plateau, times.power) || is_lower;
        (is_near && (is_hot || is_hotter) && is_below).then_some(SeenBeside::Heat(rounded(temperature?)))
    }

    /// Whether both power and temperature are recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.times.power > 0 && self.times.temperature > 0
    }
}

fn rounded(millionths: i64) -> i64 {
    millionths.saturating_add(MILLION / 2).div_euclid(MILLION)
}

impl SeenBeside {
    /// The kind of the counter that shows it.
    pub(crate) fn counter(self) -> &'static str {
        match self {
            Self::Power(_) => HardwareCounter::Power.key(),
            Self::Heat(_) => HardwareCounter::Temperature.key(),
        }
    }

    /// In W or C.
    pub(super) fn value(self) -> i64 {
        match self {
            Self::Power(value) | Self::Heat(value) => value,
        }
    }

    /// In a sentence, of devices with states of one kind: `most` has the largest value, and this the
    /// smallest.
    pub(super) fn words_to(self, most: Self) -> String {
        let shown = |value: i64| match self {
            Self::Power(_) => fmt_count(value.max(0).unsigned_abs()),
            Self::Heat(_) => value.to_string(),
        };
        let values = match (self.value(), most.value()) {
            (least, most) if least == most => shown(least),
            (least, most) => format!("{} to {}", shown(least), shown(most)),
        };
        match self {
            Self::Power(_) => format!("at a power plateau of {values} W"),
            Self::Heat(_) => format!("at {values} C while the clock falls"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(plateau: Ns, hot: Ns, top: i64) -> LowState {
        LowState {
            times: StateTimes { power: 100, plateau, temperature: 100, hot },
            top_power: Some(700_400_000),
            top_temperature: Some(top * MILLION),
            own: [Some(600 * MILLION), Some((top - 1) * MILLION)],
            usual: [Some(600 * MILLION), Some((top - 2) * MILLION)],
        }
    }

    #[test]
    fn power_is_at_its_plateau_for_most_of_the_time() {
        assert_eq!(state(80, 100, 66).seen(), Some(SeenBeside::Power(700)));
        let power = SeenBeside::Power(1_200);
        assert_eq!(power.words_to(power), "at a power plateau of 1,200 W");
        assert_eq!(
            SeenBeside::Heat(86).words_to(SeenBeside::Heat(88)),
            "at 86 to 88 C while the clock falls"
        );
        assert_eq!(state(79, 100, 66).seen(), None);
        assert_eq!(state(100, 79, 90).seen(), Some(SeenBeside::Power(700)));
        // Both at their highest: neither is told.
        assert_eq!(state(100, 100, 90).seen(), None);
        let times = StateTimes { power: 100, plateau: 90, ..StateTimes::default() };
        let no_heat = LowState { times, top_temperature: None, ..state(0, 0, 0) };
        assert_eq!(no_heat.seen(), Some(SeenBeside::Power(700)));
    }

    #[test]
    fn heat_is_near_its_highest_with_power_below_its_plateau() {
        assert_eq!(state(20, 80, 89).seen(), Some(SeenBeside::Heat(88)));
        assert_eq!([state(21, 80, 89).seen(), state(20, 79, 89).seen()], [None, None]);
        // A device that is as warm as always says nothing, but one that is warmer then does.
        assert_eq!(state(0, 100, 66).seen(), None);
        let warmer = LowState { usual: [None, Some(60 * MILLION)], ..state(0, 100, 66) };
        assert_eq!(warmer.seen(), Some(SeenBeside::Heat(65)));
        // It draws less than the others, always.
        let less = LowState { usual: [Some(700 * MILLION), None], ..state(100, 100, 90) };
        assert_eq!(less.seen(), Some(SeenBeside::Heat(89)));
        assert_eq!(LowState::default().seen(), None);
    }
}
