//! Place in the fabric: which host, rail, NIC or link makes the transfers of its groups slow.

mod excess;
mod few;
mod found;
mod hosts;
mod links;
mod peaks;
mod places;
mod rule;
mod saved;
#[cfg(test)]
mod simulated_tests;
pub mod tables;
mod transfers;
mod verdict;
mod view;
mod wires;
mod words;

pub(crate) use found::Fabric;
pub(crate) use saved::{SavedTransfers, SlowTransfers};
pub(crate) use wires::TransferLink;

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter};
use crate::collectives::GroupSelection;
use crate::fabric::peaks::{FabricDeviceRow, FabricDevices, FabricPeaks, LINKS, NIC_GBIT};
use crate::fabric::tables::{FabricGroups, FabricPlaces, group_table, place_table};
use crate::job::Job;
use crate::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;

pub(crate) struct FabricOf;

impl Analysis for FabricOf {
    fn about(&self) -> About {
        About {
            stem: "fabric",
            title: "which host, rail, NIC or link makes transfers slow",
            explain: include_str!("page.md"),
            tables: &[FabricPlaces::SPEC, FabricGroups::SPEC],
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
        let mut visible = view::visibility_view(&fabric, partials);
        visible.notes.extend(peaks.problem.clone());
        let classes = view::class_view(job, &fabric, options);
        let views = [Some(visible), Some(classes).filter(|v| !v.rows.is_empty()), view::slow_view(&fabric)];
        Output {
            tables: vec![place_table(&fabric), group_table(job, &fabric, &shown, &peaks)],
            observations: view::observations(&fabric),
            views: views.into_iter().flatten().collect(),
            ..Output::default()
        }
    }
}
