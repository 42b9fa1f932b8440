//! `--capture` and `--captures`: captures that one process wrote one after the other, which are no ranks.

use crate::cli::progress::Bar;
use clap::Args;
use hta_analysis::api::Analysis;
use hta_analysis::printed::{number, text};
use hta_base::table::schema::Batch;
use hta_base::units::fmt_ns;
use hta_read::error::SetError;
use hta_read::input::Input;
use hta_read::options::LoadOptions;
use hta_results::output::captures::{CaptureRow, CapturesTable};
use hta_results::output::columns::grid;
use hta_results::output::text::verdict;
use hta_results::output::visible;
use hta_results::run::{NoRows, Request, RunError, WhichCapture, captures_by_process, run};

// Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Of captures that one process wrote one after the other, only this one: `last`, or its number in order
    /// of time
    #[arg(id = "of_capture", long = "capture", value_name = "last|N", value_parser = WhichCapture::parse)]
    pub which: Option<WhichCapture>,
}

impl CaptureArgs {
    /// Leaves the files of the capture that is asked for.
    ///
    /// # Errors
    /// When there is no such capture.
    pub fn choose(&self, inputs: &mut Vec<Input>, load: LoadOptions) -> Result<(), SetError> {
        if let Some(which) = self.which {
            *inputs = which.of(inputs, load)?;
        }
        Ok(())
    }
}

/// Puts the captures of each process in order.
///
/// # Errors
/// When the files are no captures of one process.
pub fn processes(inputs: &mut Vec<Input>, load: LoadOptions) -> Result<Vec<Vec<Input>>, SetError> {
    let found = captures_by_process(inputs, load);
    if found.is_empty() {
        let reason = "expected several captures of one process without a rank".to_string();
        return Err(SetError::Argument { option: "--captures", value: "these files".to_string(), reason });
    }
    *inputs = found.iter().flatten().cloned().collect();
    Ok(found)
}

/// Diagnoses each capture by itself: the table, and how it is printed.
///
/// # Errors
/// When a capture cannot be analysed.
pub fn each(
    request: &Request,
    diagnosis: &'static dyn Analysis,
    processes: &[Vec<Input>],
    width: usize,
) -> Result<(Batch, String), RunError> {
    let (mut table, mut lines, mut verdicts) = (CapturesTable::default(), Vec::new(), String::new());
    for of in processes {
        let mut before: Option<i64> = None;
        for (number, input) in (1..).zip(of) {
            let one = Request {
                inputs: std::slice::from_ref(input),
                analyses: &[diagnosis],
                ranks: &[],
                ..*request
            };
            let outcome = run(&one, &NoRows, &Bar::default())?;
            let Some(row) = outcome.recording.ranks().next() else { continue };
            let told = verdict(&outcome);
            let steps = told.map_or(0, |t| t.totals.step_count);
            let step = told.and_then(|t| t.totals.length_ns.checked_div(i64::from(steps)));
            let first = told.map_or("", |t| t.lines[0].as_str());
            let period = before.map(|b| row.recorded_start_ns.saturating_sub(b));
            before = Some(row.recorded_start_ns);
            table.push(CaptureRow {
                process: row.pids,
                capture: number,
                file: &input.shown,
                start_ns: row.recorded_start_ns,
                end_ns: row.recorded_end_ns,
                period_ns: period,
                step_count: steps,
                step_ns: step,
                verdict: first,
            });
            lines.push(vec![
                row.pids.to_string(),
                number.to_string(),
                period.map_or_else(String::new, |p| format!("+{}", fmt_ns(p))),
                fmt_ns(row.recorded_end_ns.saturating_sub(row.recorded_start_ns)),
                steps.to_string(),
                step.map_or_else(String::new, fmt_ns),
            ]);
            verdicts.push_str(&format!("  {number}: {}\n", visible::line(first)));
        }
    }
    let columns = [
        text("process"),
        number("capture"),
        number("after"),
        number("length"),
        number("steps"),
        number("step"),
    ];
    Ok((
        table.finish(),
        format!(
            "\nCaptures, each by itself\n{}\nVerdict of each\n{verdicts}",
            grid(&columns, &lines, &[], width)
        ),
    ))
}
