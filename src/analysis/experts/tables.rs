//! The tables of expert layers, and what is printed of them.

use crate::collectives::GroupSelection;
use crate::experts::chances::LayerChances;
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, TableSpec, Text};
use hta_base::table::view::{Keep, ViewSpec};
use hta_base::units::Ns;
use hta_facts::direction::Direction;
use hta_job::delay::{StepKey, step_of};
use hta_job::experts::{JobLayer, JobLayers, combine_waits, exchange_wait};
use hta_job::{Job, Member};
use hta_trace::collective::{CollectiveCall, CollectiveKind};

table! {
    /// One pass of a group through an expert layer: how unequal its ranks are. What compares ranks is null if
    /// a rank of the group is not recorded.
    pub struct ExpertLayers, ExpertLayerRow = "expert_layers"
        by "step, step_label, direction, position, process_group" {
        step; step_label;
        direction: Text, "", "part of the step: forward, backward, recompute";
        position: u32, "", "position among the layers of the step and direction, from 0";
        layer: Option<Text>, "", "module or annotation around it; null where none is recorded";
        process_group: Text, "", "name and members of the group";
        member_count: u32, "ranks", "recorded ranks";
        expected_count: u32, "ranks", "ranks of the group";
        max_ns: Option<i64>, "ns", "largest expert time of a rank", "largest";
        mean_ns: Option<i64>, "ns", "mean expert time of the ranks", "mean";
        excess_ns: Option<i64>, "ns", "largest less mean: what the others wait for", "excess";
        hot_rank: Option<u32>, "", "rank with the largest expert time", "hot rank";
        max_over_mean: Option<f64>, "",
            "largest number of tokens over the mean; null: sizes are not recorded",
            "tokens, max/mean";
        per_token_over_mean: Option<f64>, "", "time per token of the hot rank over that of the mean",
            "time per token/mean";
        token_share_pct: Option<f64>, "%",
            "share of the excess that is due to tokens: ln(tokens ratio) over ln(time ratio), 100 from 80 % \
             on and 0 up to 20 %; null if not known or nobody takes longer", "by tokens";
        sizes_agree: Option<bool>, "", "each member received what each other sent it; null: not recorded";
        p_value: Option<f64>, "",
            "how often chance alone makes one rank as hot in this layer over all steps; null: too few steps";
        combine_wait_ns: Option<i64>, "ns", "what its ranks wait in the combine, together";
        label: Text, "", "the layer in words: its name or position, and the direction unless it is forward";
    }
}

table! {
    /// The layers of experts over all their passes; times are means of a pass. What compares ranks is null if
    /// it is in no pass.
    pub(crate) struct ExpertLayersOverSteps, ExpertLayerOverStepsRow = "expert_layers_over_steps"
        by "process_group, direction, position, label" {
        process_group: Text, "", "name and members of the group", "group";
        direction: Text, "", "part of the step: forward, backward, recompute";
        position: u32, "", "position among the layers of the step and direction, from 0";
        label: Text, "", "the layer in words, as in expert_layers", "layer";
        pass_count: u64, "", "passes" => rows;
        hot_ranks: Option<Text>, "", "ranks with the largest expert time of a pass", "hot rank"
            => list(hot_rank);
        max_ns: Option<f64>, "ns", "largest expert time of a rank", "largest" => mean(max_ns);
        mean_ns: Option<f64>, "ns", "mean expert time of the ranks", "mean" => mean(mean_ns);
        excess_ns: Option<f64>, "ns", "largest less mean: what the others wait for", "excess"
            => mean(excess_ns);
        max_over_mean: Option<f64>, "", "largest number of tokens over the mean, weighted by the excess",
            "tokens, max/mean" => mean(max_over_mean, excess_ns);
        token_share_pct: Option<f64>, "%", "share of the excess that is due to tokens, weighted by it",
            "by tokens" => mean(token_share_pct, excess_ns);
        combine_wait_ns: Option<f64>, "ns", "what the ranks wait in the combine, together", "others wait"
            => mean(combine_wait_ns);
    }
}

table! {
    /// One pass of a rank through an expert layer.
    pub struct ExpertRanks, ExpertRankRow = "expert_ranks"
        by "rank, step, step_label, direction, position" {
        rank; step; step_label;
        direction: Text, "", "part of the step: forward, backward, recompute";
        position: u32, "", "position among the layers of the step and direction, from 0";
        layer: Option<Text>, "", "module or annotation around it; null where none is recorded";
        process_group: Option<Text>, "", "name and members of the group, if known";
        dispatch_event_id: u32, "", "the exchange that sends tokens to their experts";
        combine_event_id: u32, "", "the exchange that brings results back";
        tokens_in: Option<i64>, "tokens",
            "received, own ones included; null: the size of a token is not recorded";
        tokens_out: Option<i64>, "tokens", "sent, own ones included";
        received_bytes: Option<i64>, "bytes", "received in the dispatch";
        sent_bytes: Option<i64>, "bytes", "sent in the dispatch";
        own_bytes: Option<i64>, "bytes", "of both, what stays on the rank; null: not recorded";
        expert_ns: Option<i64>, "ns", "time of the experts between the exchanges; null: inside fused kernels";
        per_token_ns: Option<f64>, "ns", "expert time over received tokens";
        dispatch_ns: Option<i64>, "ns", "length of the dispatch; null: a fused kernel";
        combine_ns: Option<i64>, "ns", "length of the combine; null: a fused kernel";
        dispatch_wait_ns: Option<i64>, "ns",
            "of the dispatch and the barriers around it, waiting for other ranks; null: not matched";
        combine_wait_ns: Option<i64>, "ns", "the same of the combine";
        transfer_ns: Option<i64>, "ns", "of both, the rest";
        label: Text, "", "the layer in words, as in expert_layers";
    }
}

table! {
    /// The passes of all recorded ranks through each layer of experts; times are means of a pass of a rank.
    pub(crate) struct ExpertPasses, ExpertPassRow = "expert_passes" by "direction, position, label" {
        direction: Text, "", "part of the step: forward, backward, recompute";
        position: u32, "", "position among the layers of the step and direction, from 0";
        label: Text, "", "the layer in words, as in expert_layers", "layer";
        pass_count: u64, "", "passes" => rows;
        expert_ns: Option<f64>, "ns", "time of the experts; null: inside fused kernels", "experts"
            => mean(expert_ns);
        dispatch_ns: Option<f64>, "ns", "length of the dispatch; null: a fused kernel" => mean(dispatch_ns);
        combine_ns: Option<f64>, "ns", "length of the combine; null: a fused kernel" => mean(combine_ns);
    }
}

pub(super) const ALL: &[&TableSpec] =
    &[ExpertLayers::SPEC, ExpertLayersOverSteps::SPEC, ExpertRanks::SPEC, ExpertPasses::SPEC];

pub(super) const ROLLUPS: [Rollup; 2] = [
    Rollup::of(ExpertLayers::SPEC, ExpertLayersOverSteps::SPEC),
    Rollup::of(ExpertRanks::SPEC, ExpertPasses::SPEC),
];

pub(super) const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "Expert time by layer, mean of its passes",
        columns: &[
            "label",
            "process_group?",
            "hot_ranks",
            "max_ns",
            "mean_ns",
            "excess_ns",
            "max_over_mean",
            "token_share_pct",
            "combine_wait_ns",
        ],
        keep: &[Keep::Known("max_ns")],
        by: "excess_ns",
        ..ViewSpec::of(ExpertLayersOverSteps::SPEC)
    },
    ViewSpec {
        title: "Layers of experts, mean of a pass of a rank",
        columns: &["label", "expert_ns", "dispatch_ns", "combine_ns"],
        ..ViewSpec::of(ExpertPasses::SPEC)
    },
];

pub(super) fn build(job: &Job, layers: &JobLayers, shown: &GroupSelection) -> Vec<Batch> {
    let chances = LayerChances::of(job, layers);
    let mut table = ExpertLayers::default();
    for l in layers.layers.iter().filter(|l| shown.has(l.group)) {
        push_layer(job, l, shown, chances.of_layer(l), &mut table);
    }
    vec![table.finish(), ranks(job, shown)]
}

fn push_layer(
    job: &Job,
    l: &JobLayer,
    shown: &GroupSelection,
    p_value: Option<f64>,
    table: &mut ExpertLayers,
) {
    let (step, step_label) = StepKey::cells(l.step);
    table.push(ExpertLayerRow {
        step,
        step_label,
        direction: l.direction.name(),
        position: l.ordinal,
        layer: Some(&*l.name).filter(|n| !n.is_empty()),
        process_group: shown.name(l.group),
        member_count: l.members.len() as u32,
        expected_count: l.expected,
        max_ns: l.balance.map(|b| b.max),
        mean_ns: l.balance.map(|b| b.mean),
        excess_ns: l.balance.map(|b| b.excess()),
        hot_rank: l.balance.and_then(|b| job.parts.get(b.hot as usize)).map(|p| p.rank),
        max_over_mean: l.balance.and_then(|b| b.load_ratio),
        per_token_over_mean: l.balance.and_then(|b| b.per_token_ratio),
        token_share_pct: l.balance.and_then(|b| b.token_share).map(|share| share * 100.0),
        sizes_agree: l.agrees,
        p_value,
        combine_wait_ns: l.balance.map(|_| combine_waits(job, l)),
        label: &label(&l.name, l.ordinal, l.direction),
    });
}

/// The layer as it is called, else by its position; with the part of the step unless it is the forward.
fn label(name: &str, ordinal: u32, direction: Direction) -> String {
    let name = if name.is_empty() { format!("layer {ordinal}") } else { name.to_string() };
    if direction == Direction::Forward { name } else { format!("{name}, {}", direction.name()) }
}

fn ranks(job: &Job, shown: &GroupSelection) -> Batch {
    let mut table = ExpertRanks::default();
    for (part, p) in (0u32..).zip(&job.parts) {
        for l in p.layers.iter() {
            let (dispatch, combine) = (Member { part, call: l.dispatch }, Member { part, call: l.combine });
            let (there, back) = (job.call(dispatch), job.call(combine));
            let group = job.matched.group_of(part, there.shape.group);
            if !group.map_or(shown.has_groupless(), |g| shown.has(g)) {
                continue;
            }
            let (step, step_label) = StepKey::cells(step_of(job, dispatch));
            let tokens = |bytes: Option<i64>| {
                let of_token = l.tokens.of_token.filter(|n| *n > 0)?;
                bytes.map(|b| b / of_token)
            };
            let [dispatch_wait, combine_wait] = l.exchanges().map(|calls| exchange_wait(job, part, calls));
            let transfer = |m: Member| -> Option<Ns> { job.transfer_ns(m) };
            table.push(ExpertRankRow {
                rank: p.rank,
                step,
                step_label,
                direction: l.direction.name(),
                position: l.ordinal,
                layer: Some(&*l.name).filter(|n| !n.is_empty()),
                process_group: group.map(|g| shown.name(g)),
                dispatch_event_id: there.event,
                combine_event_id: back.event,
                tokens_in: tokens(l.tokens.received),
                tokens_out: tokens(l.tokens.sent),
                received_bytes: l.tokens.received,
                sent_bytes: l.tokens.sent,
                own_bytes: l.tokens.own,
                expert_ns: l.expert,
                per_token_ns: tokens(l.tokens.received)
                    .filter(|n| *n > 0)
                    .and_then(|n| Some(l.expert? as f64 / n as f64)),
                dispatch_ns: length_alone(there),
                combine_ns: length_alone(back),
                dispatch_wait_ns: dispatch_wait,
                combine_wait_ns: combine_wait,
                transfer_ns: transfer(dispatch).zip(transfer(combine)).map(|(a, b)| a + b),
                label: &label(&l.name, l.ordinal, l.direction),
            });
        }
    }
    table.finish()
}

/// How long an exchange takes, ns; `None` for a fused kernel, which multiplies as well.
fn length_alone(call: &CollectiveCall) -> Option<Ns> {
    (call.shape.kind != CollectiveKind::Fused).then(|| call.span.len())
}
