//! The options that a partial was made with: all options that change a byte of the result. Partials can be
//! merged only if these are equal, and merging uses them.

use hta_analysis::api::{AcrossOptions, Options, Wanted};
use hta_compat::Compat;
use hta_job::{ClockMode, MeshShape};
use hta_trace::flops::peaks::Peaks;
use hta_trace::rank_trace::{ModelOptions, StepFilter};
use hta_trace::rules::ClassRules;
use hta_trace::step::StepWindow;
use regex::Regex;
use std::collections::BTreeMap;

/// Values of options by their name on the command line.
pub type RecordedOptions = BTreeMap<String, String>;

/// The options whose files are recorded with their texts.
pub const RULES: &str = "--rules";
const MESH: &str = "--mesh";
pub(crate) const PEAKS: &str = "--peaks";

/// The texts of files that options name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionTexts {
    /// Kernel rules (`--rules`).
    pub rules: Option<String>,
    /// Device peaks (`--peaks`).
    pub peaks: Option<String>,
}

impl OptionTexts {
    /// Lets the rules and peaks of the texts take precedence over the built-in ones.
    ///
    /// # Errors
    /// When a text cannot be parsed: its option, and the reason.
    pub fn apply(&self, options: &mut Options) -> Result<(), (&'static str, String)> {
        if let Some(text) = &self.rules {
            options.model.rules =
                ClassRules::parse(text).map_err(|reason| (RULES, reason))?.before(ClassRules::builtin());
        }
        if let Some(text) = &self.peaks {
            options.peaks = Peaks::parse(text).map_err(|reason| (PEAKS, reason))?.before(Peaks::builtin());
        }
        Ok(())
    }
}

/// Records all options that change a byte of the result. `events` is the same as for the results folder.
pub fn record(
    options: &Options,
    compat: Option<Compat>,
    texts: &OptionTexts,
    skipped: Option<&str>,
    events: Option<bool>,
) -> RecordedOptions {
    let flag = |on: bool| on.then(|| "yes".to_string());
    let across = &options.across;
    let groups = serde_json::Value::from(across.groups.clone()).to_string();
    let all = [
        ("--step-window", Some(options.model.step_window.name().to_string())),
        ("--step-pattern", options.model.step_pattern.as_ref().map(|r| r.as_str().to_string())),
        ("--steps", options.model.steps.as_ref().map(filter_text)),
        ("--linked-only", flag(options.model.linked_only)),
        ("--ranks-by-position", flag(options.across.by_position)),
        (MESH, across.mesh.as_ref().map(MeshShape::to_string)),
        (RULES, texts.rules.clone()),
        (PEAKS, texts.peaks.clone()),
        ("--compat", compat.map(|c| c.name().to_string())),
        ("--hidden-min-us", Some(format!("{} ns", options.model.hidden_min))),
        ("--kernel-wait-max-us", Some(format!("{} ns", options.kernel_wait_max))),
        ("--top", Some(options.top.to_string())),
        ("--clock", Some(across.clock.name().to_string())),
        // Write the shortest text that parses to the same number.
        ("--straggler-min-pct", Some(format!("{:?}", across.straggler_min_pct))),
        ("--group", (!across.groups.is_empty()).then_some(groups)),
        ("--skip", skipped.map(str::to_string)),
        ("--no-events", flag(events.is_none())),
        ("--keep-args", flag(events == Some(true))),
    ];
    all.into_iter().filter_map(|(k, v)| Some((k.to_string(), v?))).collect()
}

fn filter_text(filter: &StepFilter) -> String {
    let labels = filter.labels.iter().map(|(a, b)| format!("{a}..{b}"));
    labels.chain(filter.indices.iter().map(|(a, b)| format!("@{a}..{b}"))).collect::<Vec<_>>().join(",")
}

fn filter(text: &str) -> Option<StepFilter> {
    let mut out = StepFilter::default();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        match part.strip_prefix('@') {
            Some(range) => out.indices.push(range.split_once("..").and_then(|(a, b)| both(a, b))?),
            None => out.labels.push(part.split_once("..").and_then(|(a, b)| both(a, b))?),
        }
    }
    Some(out)
}

fn both<T: std::str::FromStr>(a: &str, b: &str) -> Option<(T, T)> {
    Some((a.parse().ok()?, b.parse().ok()?))
}

/// The options that [`record`] recorded.
pub struct Restored {
    pub options: Options,
    pub compat: Option<Compat>,
    /// The same as for the results folder.
    pub events: Option<bool>,
}

/// Restores the options.
///
/// # Errors
/// When the text of an option is not valid: the option and its text.
pub fn restore(recorded: &RecordedOptions) -> Result<Restored, (String, String)> {
    let given = |name: &str| recorded.get(name).map(String::as_str);
    let bad = |name: &str| (name.to_string(), given(name).unwrap_or("nothing").to_string());
    let flag = |name: &str| given(name) == Some("yes");
    let texts = OptionTexts { rules: recorded.get(RULES).cloned(), peaks: recorded.get(PEAKS).cloned() };
    let step_pattern = match given("--step-pattern") {
        None => None,
        Some(text) => Some(Regex::new(text).map_err(|_| bad("--step-pattern"))?),
    };
    let steps = match given("--steps") {
        None => None,
        Some(text) => Some(filter(text).ok_or_else(|| bad("--steps"))?),
    };
    let mesh = given(MESH).map(|text| MeshShape::parse(text).map_err(|_| bad(MESH))).transpose()?;
    let window = StepWindow::ALL.into_iter().find(|w| Some(w.name()) == given("--step-window"));
    let clock = ClockMode::ALL.into_iter().find(|c| Some(c.name()) == given("--clock"));
    let compat = match given("--compat") {
        None => None,
        Some(text) => {
            Some(Compat::TOOLS.into_iter().find(|c| c.name() == text).ok_or_else(|| bad("--compat"))?)
        }
    };
    let wait = given("--kernel-wait-max-us").and_then(|t| t.strip_suffix(" ns")?.parse().ok());
    let hidden = given("--hidden-min-us").and_then(|t| t.strip_suffix(" ns")?.parse().ok());
    let percent = given("--straggler-min-pct").and_then(|t| t.parse().ok());
    let percent = percent.filter(|p: &f64| p.is_finite() && *p >= 0.0);
    let groups =
        given("--group").map_or(Ok(Vec::new()), |t| serde_json::from_str(t).map_err(|_| bad("--group")))?;
    let mut options = Options {
        model: ModelOptions {
            step_pattern,
            step_window: window.ok_or_else(|| bad("--step-window"))?,
            linked_only: flag("--linked-only"),
            steps,
            hidden_min: hidden.ok_or_else(|| bad("--hidden-min-us"))?,
            ..ModelOptions::default()
        },
        kernel_wait_max: wait.ok_or_else(|| bad("--kernel-wait-max-us"))?,
        top: given("--top").and_then(|t| t.parse().ok()).ok_or_else(|| bad("--top"))?,
        across: AcrossOptions {
            clock: clock.ok_or_else(|| bad("--clock"))?,
            straggler_min_pct: percent.ok_or_else(|| bad("--straggler-min-pct"))?,
            groups,
            by_position: flag("--ranks-by-position"),
            mesh,
            chooses_by_mesh: false,
        },
        wanted: if flag("--no-events") { Wanted::NoEvents } else { Wanted::All },
        ..Options::default()
    };
    texts.apply(&mut options).map_err(|(option, reason)| (option.to_string(), reason))?;
    Ok(Restored { options, compat, events: (!flag("--no-events")).then_some(flag("--keep-args")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_restored() {
        let mut o = restore(&record(&Options::default(), None, &OptionTexts::default(), None, Some(false)))
            .unwrap()
            .options;
        o.model.step_pattern = Some(Regex::new("step [0-9]+").unwrap());
        o.model.step_window = StepWindow::Device;
        o.model.steps = Some(StepFilter { labels: vec![(-3, 7)], indices: vec![(0, 0), (2, 4)] });
        o.across.straggler_min_pct = 0.1 + 0.2;
        o.across.groups = vec!["a, \"b\"".to_string(), String::new()];
        o.across.mesh = MeshShape::parse("pp=2,dp=4").ok();
        o.kernel_wait_max = 1;
        let texts =
            OptionTexts { rules: Some("rule = []".to_string()), peaks: Some("device = []".to_string()) };
        let recorded = record(&o, Some(Compat::Hta), &texts, Some("python_function"), None);
        let Restored { options: again, compat, events } = restore(&recorded).unwrap();
        assert_eq!(record(&again, compat, &texts, Some("python_function"), events), recorded);
        assert_eq!((again.model.steps, again.across.groups), (o.model.steps, o.across.groups));
        assert_eq!(again.across.mesh, o.across.mesh);
        assert_eq!(again.across.straggler_min_pct.to_bits(), (0.1f64 + 0.2).to_bits());
    }

    #[test]
    fn what_is_missing_or_no_value_is_an_error() {
        for (name, value) in [
            ("--mesh", "pp"),
            ("--top", "x"),
            ("--clock", ""),
            ("--steps", "1..y"),
            ("--step-pattern", "("),
            ("--group", "{"),
        ] {
            let mut recorded = record(&Options::default(), None, &OptionTexts::default(), None, None);
            recorded.insert(name.to_string(), value.to_string());
            assert_eq!(restore(&recorded).map(|_| ()).unwrap_err(), (name.to_string(), value.to_string()));
        }
        assert!(restore(&RecordedOptions::new()).is_err());
    }
}
