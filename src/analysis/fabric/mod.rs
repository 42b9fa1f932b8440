//! Place in the fabric: which host, rail, NIC or link makes the transfers of its groups slow.

mod excess;
mod few;
mod found;
mod hosts;
mod links;
mod notes;
mod peaks;
mod places;
mod rule;
mod saved;
#[cfg(test)]
mod simulated_tests;
pub mod tables;
mod transfers;
mod verdict;
mod wires;
mod words;

pub use found::Fabric;
pub use saved::{SavedTransfers, SlowTransfers};
pub use wires::TransferLink;

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use crate::collectives::GroupSelection;
use crate::fabric::peaks::{FabricDeviceRow, FabricDevices, FabricPeaks, LINKS, NIC_GBIT};
use crate::fabric::tables::{
    FabricClasses, FabricGroups, FabricPlaces, FabricVisibility, ROLLUPS, SLOW, VIEWS, class_table,
    group_table, place_table,
};
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;

pub struct FabricOf;

impl Analysis for FabricOf {
    fn about(&self) -> About {
        About {
            stem: "fabric",
            title: "which host, rail, NIC or link makes transfers slow",
            explain: include_str!("page.md"),
            tables: &[FabricPlaces::SPEC, FabricVisibility::SPEC, FabricClasses::SPEC, FabricGroups::SPEC],
            views: &VIEWS,
            rollups: &ROLLUPS,
            kept_tables: &[FabricDevices::SPEC],
            settings: &[NIC_GBIT, LINKS],
            takes_steps: false,
            takes: &[AcrossOption::Group],
            joins_ranks: true,
            needs: &[Capability::Transfer],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        let mut devices = FabricDevices::default();
        let device = trace.devices.iter().find(|w| w.is_gpu);
        if let Some(properties) = device.and_then(|w| trace.device_properties(w.device)) {
            devices.push(FabricDeviceRow { rank: trace.rank, product: &properties.display_name() });
        }
        Partial { tables: vec![devices.finish()], ..Partial::joined_later(trace) }
    }

    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output {
        let fabric = job.shared(Fabric::of);
        let shown = GroupSelection::new(job, options);
        let peaks = FabricPeaks::new(partials, options);
        let limits = notes::limits(&fabric).into_iter().chain(peaks.problem.clone());
        let limits = limits.map(ViewNote::first);
        let slow = notes::slow_places(&fabric).into_iter().map(|text| ViewNote { view: SLOW, text });
        let places = [place_table(&fabric), class_table(job, &fabric)];
        Output {
            tables: places.into_iter().chain([group_table(job, &fabric, &shown, &peaks)]).collect(),
            notes: limits.chain(slow).collect(),
            ..Output::default()
        }
    }
}
