//! `--strict`: ends a command without a result when the input has a loss, or when the recording does not
//! carry what was asked for.

use crate::cli::output::note;
use clap::Args;
use hta_results::run::Outcome;

// Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Clone, Copy, Args)]
pub struct StrictArg {
    /// Treat any loss in the input as an error: exit 2, write nothing
    #[arg(long)]
    strict: bool,
}

impl StrictArg {
    /// Whether the command has to end because something in the input could not be used. Says so.
    pub fn refuses_loss(self, has_loss: bool) -> bool {
        let refuses = self.strict && has_loss;
        if refuses {
            note("hta: cannot go on with --strict: something in the input could not be used");
        }
        refuses
    }

    /// Whether the command has to end because the recording does not carry what was asked for. Says what is
    /// missing.
    pub fn refuses_withheld(self, outcome: &Outcome) -> bool {
        let Some(limit) = outcome.withheld().filter(|_| self.strict) else { return false };
        note(&format!("hta: cannot go on with --strict: {}", limit.sentence));
        note(&format!("hint: {}", limit.next));
        true
    }

    /// Whether the command has to end for one of the two reasons.
    pub fn refuses(self, outcome: &Outcome) -> bool {
        self.refuses_loss(outcome.has_loss()) || self.refuses_withheld(outcome)
    }
}
