//! Writes one table to standard output or to a file, in the chosen format.

use crate::cli::output::{print, stdout_is_terminal};
use anyhow::Context;
use clap::{Args, ValueEnum};
use hta_base::table::schema::{Batch, TableSpec};
use hta_read::error::SetError;
use hta_results::output::inputs::{Inputs, OutputRefused};
use hta_results::output::json::CsvStyle;
use hta_results::output::unfinished::write;
use hta_results::output::{json, parquet, visible};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Output format; `ops` also has torch and tensorboard, with the columns of torch.profiler and the
    /// TensorBoard plugin
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    format: TableFormat,
    /// Table to write (csv, json, parquet)
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    #[command(flatten)]
    out: OutArg,
    #[command(flatten)]
    csv: CsvArgs,
}

// Where one answer is written. Not a doc comment: clap would use it as the description of every command.
#[derive(Debug, Args)]
pub struct OutArg {
    /// File to write to instead of standard output
    #[arg(short, long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
}

impl OutArg {
    pub fn path(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    pub fn is_terminal(&self) -> bool {
        self.out.is_none() && stdout_is_terminal()
    }

    /// Checks that Parquet can be written there.
    ///
    /// # Errors
    /// When it is a terminal.
    pub fn takes_parquet(&self) -> Result<(), SetError> {
        if self.is_terminal() { Err(no_parquet_here("--format", "parquet")) } else { Ok(()) }
    }

    /// Checks that the file may be written.
    ///
    /// # Errors
    /// When it is one of the inputs.
    pub fn allow(&self, inputs: &Inputs) -> Result<(), OutputRefused> {
        self.out.as_ref().map_or(Ok(()), |out| inputs.allow_file(out))
    }

    /// # Errors
    /// When the file or standard output cannot be written.
    pub fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        match &self.out {
            Some(path) => write(path, bytes).with_context(|| format!("cannot write {}", path.display())),
            None => print(bytes).map(|_| ()).map_err(anyhow::Error::from),
        }
    }
}

/// Parquet would be printed on a terminal, because of this value of an option.
pub fn no_parquet_here(option: &'static str, value: &str) -> SetError {
    let reason = "a terminal cannot show Parquet; give a file with --out".to_string();
    SetError::Argument { option, value: value.to_string(), reason }
}

// Options of CSV. Not a doc comment: clap would use it as the description of every command that flattens
// this.
#[derive(Debug, Args)]
pub struct CsvArgs {
    /// Put a ' before CSV cells that a spreadsheet would take for a formula: texts that begin with = + - or
    /// @; default for files *.csv
    #[arg(long)]
    csv_safe: bool,
    /// Keep such cells as they are, also in files *.csv
    #[arg(long, conflicts_with = "csv_safe")]
    csv_exact: bool,
}

impl CsvArgs {
    /// The style of what is written to `out` or, without it, to standard output. People open files with the
    /// ending `csv` in spreadsheets; what goes to standard output is read by programs.
    pub fn style(&self, out: Option<&Path>) -> CsvStyle {
        let is_opened =
            || out.and_then(Path::extension).is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
        if self.csv_safe || !self.csv_exact && is_opened() {
            CsvStyle::ForSpreadsheets
        } else {
            CsvStyle::Plain
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TableFormat {
    Text,
    Csv,
    Json,
    Parquet,
    #[value(hide = true)]
    Torch,
    #[value(hide = true)]
    Tensorboard,
}

impl OutputArgs {
    pub fn is_text(&self) -> bool {
        matches!(self.format, TableFormat::Text | TableFormat::Torch | TableFormat::Tensorboard)
    }

    /// The other tool whose columns are asked for.
    pub fn columns_of(&self) -> Option<&'static str> {
        match self.format {
            TableFormat::Torch => Some("torch"),
            TableFormat::Tensorboard => Some("tensorboard"),
            _ => None,
        }
    }

    /// The table that the user asked for, or the first one.
    ///
    /// # Errors
    /// When the table is not declared, or the format cannot be shown on a terminal.
    pub fn table(&self, declared: &[&'static TableSpec]) -> Result<&'static TableSpec, SetError> {
        let table = match &self.table {
            None => declared.first().copied(),
            Some(name) => declared.iter().find(|s| s.name == name).copied(),
        };
        let Some(table) = table else {
            let names: Vec<&str> = declared.iter().map(|s| s.name).collect();
            let value = self.table.clone().unwrap_or_default();
            let reason = format!("expected one of {}", names.join(", "));
            return Err(SetError::Argument { option: "--table", value, reason });
        };
        if self.format == TableFormat::Parquet {
            self.out.takes_parquet()?;
        }
        Ok(table)
    }

    /// Checks that the output file may be written.
    ///
    /// # Errors
    /// When it is one of the inputs.
    pub fn allow(&self, inputs: &Inputs) -> Result<(), OutputRefused> {
        self.out.allow(inputs)
    }

    /// Writes the table, or the text report.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn write(
        &self,
        table: &'static TableSpec,
        batches: &[Batch],
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let bytes = match self.format {
            TableFormat::Text | TableFormat::Torch | TableFormat::Tensorboard => {
                visible::lines(&text()).into_owned().into_bytes()
            }
            TableFormat::Csv => {
                json::csv(table, &batches.iter().collect::<Vec<_>>(), self.csv.style(self.out.path()))
                    .into_bytes()
            }
            TableFormat::Json => {
                let rows: Vec<_> = batches.iter().flat_map(json::records).collect();
                let mut text = serde_json::to_string_pretty(&rows)?;
                text.push('\n');
                visible::json(&text).into_owned().into_bytes()
            }
            TableFormat::Parquet => {
                let mut bytes = Vec::new();
                parquet::write_to(&mut bytes, table, batches)?;
                bytes
            }
        };
        self.out.write(&bytes)
    }
}
