//! `stragglers --compat hta`: HTA's `get_potential_stragglers`, for comparison.

use crate::analysis::api::{Align, Output, View};
use crate::analysis::compat::hta_stragglers::{Options, Rank, Row, potential_stragglers};
use crate::job::{HtaRow, Job};
use crate::table;
use crate::table::schema::{TableSpec, Text};

table! {
    /// HTA's `get_potential_stragglers` with its two candidates. No rows where HTA raises an exception.
    pub struct Potential, PotentialRow = "compat_hta_potential_stragglers" by "position" {
        position: u32, "", "order of the answer";
        rank: u32, "", "rank";
        points: i64, "", "steps in which it is among the latest starters";
        kernel: Text, "", "the kernel that was looked at";
        stream: i64, "", "its stream";
    }
}

pub const TABLES: &[&TableSpec] = &[Potential::SPEC];

pub fn reduce(job: &Job) -> Output {
    let ranks: Vec<Rank> = job
        .parts
        .iter()
        .filter_map(|p| {
            let rows = p.hta.as_ref()?;
            let row = |r: &HtaRow| Row {
                id: r.id,
                name: p.hta_name(r),
                ts: r.ts,
                dur: r.dur,
                stream: r.stream,
                correlation: r.correlation,
            };
            Some(Rank {
                rank: i64::from(p.rank),
                fractional: rows.fractional,
                rows: rows.rows.iter().map(row).collect(),
            })
        })
        .collect();
    let mut table = Potential::default();
    let mut view = View {
        title: "HTA's potential stragglers: who starts one kernel last".to_string(),
        columns: vec![("rank", Align::Left), ("points", Align::Right), ("kernel", Align::Left)],
        rows: Vec::new(),
        notes: vec![
            "it says who starts last, not who is slow, and always names two: see `hta explain stragglers`".to_string(),
        ],
    };
    let found = if ranks.len() < 2 {
        Err("one rank cannot be compared".to_string())
    } else {
        potential_stragglers(&ranks, &Options::default()).map_err(|e| e.to_string())
    };
    match found {
        Err(reason) => view.notes.push(format!("HTA has no answer here and raises an exception: {reason}")),
        Ok(s) => {
            for (position, rank) in s.ranks.iter().enumerate() {
                let points = s.points.iter().find(|(r, _)| r == rank).map_or(0, |(_, p)| *p);
                table.push(PotentialRow {
                    position: position as u32,
                    rank: u32::try_from(*rank).unwrap_or(u32::MAX),
                    points,
                    kernel: &s.kernel,
                    stream: s.stream,
                });
                view.rows.push(vec![rank.to_string(), points.to_string(), s.kernel.clone()]);
            }
            if s.tied {
                view.notes
                    .push("another rank has as many points: which one HTA names depends on the machine".to_string());
            }
        }
    }
    Output { tables: vec![table.finish()], findings: Vec::new(), views: vec![view], raw: None }
}
