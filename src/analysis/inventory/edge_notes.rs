//! Sentences about where recordings begin or end in the middle of work.

use crate::api::Partial;
use crate::inventory::Ranks;
use crate::inventory::record_edges::RecordEdgeTable;
use hta_base::units::{Ns, Span, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_base::wording::ranks::ranks_named;
use hta_job::recording::facts::{RECORDED, RecordingRow, Recordings};
use hta_trace::device_offset::in_words;
use std::cmp::Reverse;

/// A lead or a lost tail, for the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    pub rank: u32,
    pub device: Option<i64>,
    pub is_lead: bool,
    pub span: Span,
    pub launches: i64,
    pub excerpt: bool,
    /// Whether the file ends in the middle of its events.
    pub is_cut: bool,
    /// First to last recorded event of the rank, ns.
    pub recorded: Ns,
}

/// The single note of a run about leads and lost tails.
pub fn note(inventory: &[Partial]) -> Option<String> {
    let mut noted = Vec::new();
    for p in inventory {
        let Some(rank) = p.rows::<Ranks>().next() else { continue };
        let recorded = rank.last_ts_ns - rank.first_ts_ns;
        let facts = p.rows::<Recordings>().next();
        let is_cut = facts.as_ref().is_some_and(RecordingRow::is_cut);
        let lost = facts.filter(|r| r.device_state != RECORDED).map(|r| r.lost_launch_count);
        for row in p.rows::<RecordEdgeTable>() {
            let Some(scope @ ("lead" | "lost_tail")) = row.scope else { continue };
            if lost.is_some_and(|lost| !is_edge_of_lost(scope, row.launches, lost)) {
                continue;
            }
            noted.push(Noted {
                rank: p.rank,
                device: row.device,
                is_lead: scope == "lead",
                span: Span::new(row.from_ns, row.to_ns),
                launches: row.launches as i64,
                excerpt: row.excerpt,
                is_cut,
                recorded,
            });
        }
    }
    sentences(&noted, inventory.len())
}

/// That the times of devices were moved, because their clocks are off those of their hosts.
pub fn moved_clocks(inventory: &[Partial]) -> Option<String> {
    let of = |p: &Partial| p.rows::<Recordings>().next().map(|r| (r.rank, r.clock_moved_ns));
    let moved: Vec<(u32, Ns)> = inventory.iter().filter_map(of).filter(|(_, by)| *by != 0).collect();
    let most = moved.iter().map(|(_, by)| *by).max_by_key(|by| by.abs())?;
    let by = format!("{}{}", in_words(most), if most > 0 { " of" } else { "" });
    let ranks: Vec<u32> = moved.iter().map(|(rank, _)| *rank).collect();
    Some(match &ranks[..] {
        [_] if inventory.len() == 1 => format!(
            "The clock of the GPU is {by} the host's, by the same time at every launch: its times were \
             moved by that."
        ),
        _ => format!(
            "The clocks of the GPUs of {} are up to {by} their hosts', by the same time at every launch: \
             their times were moved by that.",
            ranks_named(&ranks)
        ),
    })
}

/// Whether what seems to be an edge is one, although more launches lack activities than the note is about:
/// the device seems to wait for earlier work where its kernels are not recorded, but launches in a row at the
/// end are lost there.
pub fn is_edge_of_lost(scope: &str, launches: u64, lost: u64) -> bool {
    scope == "lost_tail" && launches * 2 >= lost
}

/// The text of the note, for rows from any source. `ranks`: number of ranks of the set.
pub fn sentences(noted: &[Noted], ranks: usize) -> Option<String> {
    let of = |is_lead: bool, is_cut: bool| -> Vec<&Noted> {
        noted.iter().filter(|n| (n.is_lead, n.is_cut) == (is_lead, is_cut)).collect()
    };
    let said = [
        lead_sentence(&of(true, false), ranks),
        cut_sentence(&of(true, true), ranks, true),
        tail_sentence(&of(false, false), ranks),
        cut_sentence(&of(false, true), ranks, false),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// The subject of a sentence: a device, or the devices of several ranks.
fn who(of: &[&Noted], ranks: usize) -> String {
    let gpu = |n: &Noted| n.device.map_or_else(|| "the GPU".to_string(), |d| format!("GPU {d}"));
    match of {
        [one] if ranks == 1 => gpu(one),
        [one] => format!("{} of rank {}", gpu(one), one.rank),
        _ => {
            let mut all: Vec<u32> = of.iter().map(|n| n.rank).collect();
            all.dedup();
            format!("{} of {}", plural(of.len(), "GPU"), ranks_named(&all))
        }
    }
}

fn lead_sentence(of: &[&Noted], ranks: usize) -> Option<String> {
    let most = of.iter().max_by_key(|n| (n.span.len(), Reverse(n.rank)))?;
    let (who, time) = (who(of, ranks), fmt_ns(most.span.len()));
    let share = fmt_pct(percent(most.span.len(), most.recorded));
    let mut said = match of {
        [_] => format!(
            "{} was still running work launched before this file begins: {time}, {share} of the file, left \
             out of every share.",
            hta_base::wording::counts::capital(&who),
        ),
        _ => format!(
            "{} were still running work launched before their files begin: at most {time} (rank {}), {share} \
             of its file, left out of every share.",
            hta_base::wording::counts::capital(&who),
            most.rank,
        ),
    };
    let cut = of.iter().filter(|n| n.excerpt).count();
    said.push_str(match (cut, of.len()) {
        (0, _) => " Next time synchronise before starting the profiler, or skip the first iteration.",
        (n, all) if n == all => {
            " A tool cut this file out of a longer recording, so the work is most likely an earlier \
             iteration (inferred): analyse the uncut trace for gaps and periods."
        }
        _ => {
            " Where a file was cut out of a longer recording, analyse the uncut trace for gaps and periods; \
             else synchronise before starting the profiler, or skip the first iteration."
        }
    });
    Some(said)
}

fn tail_sentence(of: &[&Noted], ranks: usize) -> Option<String> {
    let most = of.iter().max_by_key(|n| (n.launches, Reverse(n.rank)))?;
    let who = who(of, ranks);
    Some(match of {
        [_] => format!(
            "What the last {} of {who} started was not recorded: {} after the last recorded activity, left \
             out of every share. Next time synchronise before stopping the profiler.",
            plural(most.launches as usize, "launch call"),
            fmt_ns(most.span.len()),
        ),
        _ => format!(
            "What the last launch calls of {who} started was not recorded (at most {} calls, rank {}); the \
             time after the last recorded activities is left out of every share. Next time synchronise \
             before stopping the profiler.",
            fmt_count(most.launches as u64),
            most.rank,
        ),
    })
}

/// The same of files that are cut: what is missing may stand behind the cut. Nothing, where no time is left
/// out for it: that the file is cut is told anyway.
fn cut_sentence(of: &[&Noted], ranks: usize, is_lead: bool) -> Option<String> {
    let of: Vec<&Noted> = of.iter().filter(|n| !n.span.is_empty()).copied().collect();
    let most = of.iter().max_by_key(|n| (n.span.len(), Reverse(n.rank)))?;
    let (who, time) = (who(&of, ranks), fmt_ns(most.span.len()));
    let what = match is_lead {
        true => format!("the launches of what {who} ran first"),
        false => format!("what the last launch calls of {who} started"),
    };
    let (files, at_most, whole) = match &of[..] {
        [_] => ("The file is", "", "file"),
        _ => ("Files are", "at most ", "files"),
    };
    Some(format!(
        "{files} cut, and {what} may stand behind the cut: {at_most}{time} left out of every share. Get the \
         whole {whole}."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_cut_file_only_time_that_is_left_out_is_noted() {
        let of = |rank, end| Noted {
            rank,
            device: Some(0),
            is_lead: false,
            span: Span::new(500, end),
            launches: 2,
            excerpt: false,
            is_cut: true,
            recorded: 1000,
        };
        assert_eq!(sentences(&[of(0, 500)], 2), None);
        let said = sentences(&[of(0, 500), of(1, 600)], 2).expect("100 ns are left out");
        assert!(
            said.starts_with("The file is cut, and what the last launch calls of GPU 0 of rank 1"),
            "{said}"
        );
        assert!(said.contains(": 100 ns left out of every share."), "{said}");
    }
}
