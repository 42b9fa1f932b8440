//! The first screen: whole sentences at every width, and the same words on all screens.

use crate::run::{Answer, answer, options};
use hta_analysis::verdict::JobVerdict;
use hta_results::output::text::{self, ReportExtent};
use std::path::Path;

const SAMPLES: [&str; 6] =
    ["gpu_ddp8", "gloo_ddp4", "gpu_single", "cpu_single", "serving", "serving_capture"];

fn of_sample(name: &str) -> Answer {
    answer(&[Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples").join(name)], &options())
}

fn told(answer: &Answer) -> &JobVerdict {
    text::verdict(&answer.outcome).expect("a run of all analyses has a verdict")
}

/// The text without its line breaks.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn no_sentence_of_verdict_and_causes_is_cut_at_any_width() {
    for sample in SAMPLES {
        let answer = of_sample(sample);
        let told = told(&answer);
        for width in [40, 60, 80, 100, 120] {
            let screen = text::report(&answer.outcome, width, ReportExtent::Short, "hta-out");
            let words = joined(&screen);
            let causes = told.causes.iter().flat_map(|c| [&c.sentence, &c.saved, &c.place, &c.action]);
            for sentence in told.lines.iter().chain([&told.recorded]).chain(causes) {
                assert!(
                    words.contains(&joined(sentence)),
                    "{sample}, {width}: `{sentence}` is not in\n{screen}"
                );
                assert!(!sentence.contains("..."), "{sample}: {sentence}");
            }
        }
    }
}

#[test]
fn the_verdict_is_two_sentences_of_words() {
    for sample in SAMPLES {
        let answer = of_sample(sample);
        let told = told(&answer);
        for line in &told.lines {
            let is_sentence = line.starts_with(char::is_uppercase) && line.ends_with('.');
            assert!(is_sentence && !line.contains(".."), "{sample}: {line}");
            for kind in hta_diagnosis::CauseKind::ALL.iter().map(|k| k.name()) {
                assert!(!kind.contains('_') || !line.contains(kind), "{sample}: {line} has the name {kind}");
            }
        }
    }
}

#[test]
fn a_cause_has_the_same_words_on_the_screen_in_tables_and_in_the_summary() {
    for sample in SAMPLES {
        let answer = of_sample(sample);
        let told = told(&answer);
        let verdict: Vec<String> =
            answer.rows("verdict").iter().map(|r| r.text("text").to_string()).collect();
        assert_eq!(verdict, told.lines, "{sample}");
        assert_eq!(text::brief(told), format!("{}\n{}\n", told.lines[0], told.lines[1]));
        let findings = answer.rows("findings");
        for cause in &told.causes {
            let row = findings.iter().find(|r| r.text("finding_id") == cause.finding_id);
            let row = row.unwrap_or_else(|| panic!("{sample}: {} is no finding", cause.finding_id));
            let in_table = ["sentence", "detail", "place", "action", "certainty"].map(|c| row.text(c));
            let on_screen = [&cause.sentence, &cause.detail, &cause.place, &cause.action].map(String::as_str);
            assert_eq!(in_table[..4], on_screen, "{sample}");
            assert_eq!(in_table[4], cause.certainty, "{sample}");
        }
        let summary = serde_json::to_value(told).expect("a verdict is JSON");
        assert_eq!(summary["lines"], serde_json::json!(told.lines), "{sample}");
    }
}
