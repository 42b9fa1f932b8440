//! Commands that answer one question from several analyses. The analyses keep their own names as hidden
//! commands.

use clap::Command;
use hta_analysis::api::Analysis;
use hta_diagnosis::registry::{ANALYSES, find};

/// A command, what it answers, and the analyses that it asks, the most important first.
struct Question {
    name: &'static str,
    about: &'static str,
    stems: &'static [&'static str],
}

const QUESTIONS: [Question; 4] = [
    Question {
        name: "diagnosis",
        about: "what costs time, what fixing it saves, how sure that is; the share of compute",
        stems: &["diagnosis", "efficiency"],
    },
    Question {
        name: "communication",
        about: "waiting for ranks against transfer, what compute hides, and collectives matched across ranks",
        stems: &["sync", "overlap", "collectives"],
    },
    Question {
        name: "kernels",
        about: "GPU time by what kernels do and by name; utilization and occupancy; hardware counters",
        stems: &["kernels", "counters", "cupti"],
    },
    Question {
        name: "launches",
        about: "the cost of launch calls, how soon their work starts, how many wait on each stream",
        stems: &["launches", "queue"],
    },
];

/// The analyses that a command asks; none if it is no command of analyses.
pub fn analyses(name: &str) -> Vec<&'static dyn Analysis> {
    let question = QUESTIONS.iter().find(|q| q.name == name);
    question.map_or(vec![name], |q| q.stems.to_vec()).into_iter().filter_map(find).collect()
}

/// The commands, made by `command` from name, description and analyses.
pub fn commands(
    command: impl Fn(&'static str, &'static str, &[&'static dyn Analysis]) -> Command,
) -> Vec<Command> {
    let questions = QUESTIONS.iter().map(|q| command(q.name, q.about, &analyses(q.name)));
    let of_one = ANALYSES.iter().filter(|a| QUESTIONS.iter().all(|q| q.name != a.stem())).map(|a| {
        let is_part = QUESTIONS.iter().any(|q| q.stems.contains(&a.stem()));
        command(a.stem(), a.about().title, &[*a]).hide(is_part)
    });
    questions.chain(of_one).collect()
}
