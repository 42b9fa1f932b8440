//! `hta diff` on memory snapshots.

use super::inputs::of_paths;
use super::{MemoryInput, tell_losses};
use crate::cli::args::CommonArgs;
use crate::cli::exit::Exit;
use crate::cli::memory;
use crate::cli::output::width;
use crate::cli::table::OutputArgs;
use crate::cli::watch::{Watch, WatchLimits};
use hta_analysis::snapshot::compare::{ComparedDevice, compare};
use hta_analysis::snapshot::device::{OnlyDevice, devices};
use hta_analysis::snapshot::history::Until;
use hta_analysis::snapshot::site::Sites;
use hta_analysis::snapshot::tables::MemoryDiff;
use hta_base::health::Health;
use hta_read::discover::assign_ranks;
use hta_read::error::SetError;
use hta_read::files::Location;
use hta_read::input::Input;
use hta_read::snapshot::{MemoryFile, load_snapshot};
use hta_read::source::ByteCount;
use hta_results::output::inputs::Inputs;
use hta_results::output::text;

/// The files of both sides, if both are memory snapshots; `None` if none is.
///
/// # Errors
/// When only one side has snapshots, or a side has memory timelines.
pub fn sides(base: &Location, test: &Location) -> Result<Option<[Vec<MemoryInput>; 2]>, SetError> {
    let found = [base, test].map(|p| of_paths(std::iter::once(p.clone())));
    let is_memory = found.each_ref().map(|f| !f.memory.is_empty() && !f.has_traces);
    if is_memory == [false, false] {
        return Ok(None);
    }
    let refuse = |path: &Location, reason: &str| {
        let value = path.display().to_string();
        Err(SetError::Argument { option: "hta diff", value, reason: reason.to_string() })
    };
    for (path, is) in [(base, is_memory[0]), (test, is_memory[1])] {
        if !is {
            return refuse(path, "the other side is a memory snapshot: give two snapshots, or two sets of traces");
        }
    }
    let is_timeline = |m: &MemoryInput| matches!(m.kind, MemoryFile::Timeline);
    if found.iter().any(|f| f.memory.iter().any(is_timeline)) {
        return refuse(base, "memory timelines are not compared, only snapshots (`hta memory` shows both)");
    }
    Ok(Some(found.map(|f| f.memory)))
}

/// Compares the snapshots of two sides.
///
/// # Errors
/// When one cannot be read or nothing can be written.
pub fn run(sides: &[Vec<MemoryInput>; 2], output: &OutputArgs, common: &CommonArgs) -> anyhow::Result<Exit> {
    let table = output.table(&[MemoryDiff::SPEC])?;
    let limit = memory::limit(common.memory_limit);
    let _watch = Watch::start(WatchLimits::of_snapshots(limit));
    let mut has_loss = false;
    let mut compared: [Vec<ComparedDevice>; 2] = [Vec::new(), Vec::new()];
    for (files, into) in sides.iter().zip(&mut compared) {
        let inputs: Vec<Input> = files.iter().map(|f| f.input.clone()).collect();
        output.allow(&Inputs::of_traces(&inputs))?;
        let ranks = assign_ranks(&inputs, &vec![None; inputs.len()]);
        for (input, (rank, _)) in inputs.iter().zip(ranks) {
            let snapshot = load_snapshot(&input.path, &input.shown, limit, &ByteCount::default())?;
            let (sites, mut health) = (Sites::new(&snapshot), Health::default());
            let all = devices(&snapshot, Until::default(), OnlyDevice::Any, &mut health);
            into.extend(all.iter().map(|device| ComparedDevice::new(rank, device, &sites)));
            has_loss |= tell_losses(&snapshot.health, &input.shown, rank);
        }
        into.sort_by_key(|d| d.rank());
    }
    if common.strict.refuses_loss(has_loss) {
        return Ok(Exit::Nothing);
    }
    let [base, test] = &compared;
    let out = compare(base, test, common.top);
    output.write(table, &out.tables, || text::one_output(&out, width()))?;
    Ok(Exit::of_loss(has_loss))
}
