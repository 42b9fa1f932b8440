//! Which of the files are captures of one process, and which of them is asked for.

use hta_base::table::schema::{Batch, Table};
use hta_job::recording::belong::{FileOrigin, captures};
use hta_job::recording::facts::{Recordings, of_rank};
use hta_read::error::SetError;
use hta_read::input::Input;
use hta_read::load::load;
use hta_read::options::LoadOptions;
use hta_read::reading::Spread;
use hta_read::source::ByteCount;
use hta_trace::meta::RankSource;
use hta_trace::rank_trace::ModelOptions;

/// A capture of each process that wrote several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichCapture {
    Last,
    /// Its number, from 1.
    Number(usize),
}

impl WhichCapture {
    /// # Errors
    /// When the text is no number of a capture.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "last" => Ok(Self::Last),
            _ => match text.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!("expected `last` or a number from 1, found `{text}`")),
            },
        }
    }

    /// The files of this capture, one of each process.
    ///
    /// # Errors
    /// When the files are no captures, or none has this number.
    pub fn of(self, inputs: &[Input], options: LoadOptions) -> Result<Vec<Input>, SetError> {
        let processes = by_process(inputs, options);
        let most = processes.iter().map(Vec::len).max().unwrap_or(0);
        let pick = |of: &Vec<Input>| match self {
            Self::Last => of.last().cloned(),
            Self::Number(number) => of.get(number - 1).cloned(),
        };
        let found: Vec<Input> = processes.iter().filter_map(pick).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let value = if let Self::Number(number) = self { number.to_string() } else { "last".to_string() };
        let reason = match most {
            0 => "the files are no captures of one process".to_string(),
            _ => format!("there are captures 1 to {most}"),
        };
        Err(SetError::Argument { option: "--capture", value, reason })
    }
}

/// The captures of each process in order of time; none if no process wrote several. One file is one capture.
pub fn by_process(inputs: &[Input], options: LoadOptions) -> Vec<Vec<Input>> {
    if inputs.len() == 1 {
        return vec![inputs.to_vec()];
    }
    let options =
        LoadOptions { event_args: false, rest_args: false, skip_memory: true, skip_python: true, ..options };
    let (mut known, mut rows): (Vec<&Input>, Vec<Batch>) = (Vec::new(), Vec::new());
    for input in inputs {
        let Ok(loaded) = load(input, options, Spread::AllCores, &ByteCount::default()) else { continue };
        let source = if loaded.meta.rank.is_some() { RankSource::File } else { RankSource::Position };
        let trace =
            loaded.into_trace(known.len() as u32, source, input.shown.clone(), &ModelOptions::default());
        known.push(input);
        rows.push(of_rank(&trace));
    }
    let origins: Vec<FileOrigin> = rows.iter().flat_map(Recordings::rows).map(FileOrigin::from).collect();
    captures(&origins)
        .into_iter()
        .map(|positions| positions.into_iter().filter_map(|at| known.get(at).map(|i| (*i).clone())).collect())
        .collect()
}
