//! Spans of streams and threads for the ranks of the first causes, from the events of the results. The
//! shortest spans are left out where there are too many, and counted.

use crate::output::html::axis::PageStep;
use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use crate::output::html::timeline::lanes::{ShownStepKey, TimelineLanes};
use crate::results::{Results, ResultsError};
use arrow_array::RecordBatch;
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::column::Column;
use hta_base::table::schema::Text;
use hta_base::wording::counts::counted;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Largest number of pairs of rank and step that have tracks.
const PAIRS: usize = 6;
/// Largest number of ranks of one cause that have tracks.
const OF_CAUSE: usize = 2;
/// Largest number of spans of a pair, for its streams and for its threads.
const SPANS: usize = 2_500;
/// Largest number of streams, and of threads, of a pair.
const TRACKS: usize = 6;
/// The host works ahead of its devices: its events are shown from a window's start minus this part of the
/// window.
const BEFORE: i64 = 8;

const COLUMNS: [&str; 7] = ["class", "name", "ts_ns", "dur_ns", "pid", "tid", "thread_name"];

const GPU: [&str; 3] = ["kernel", "memcpy", "memset"];
const PYTHON: &str = "python";
const HOST: [&str; 5] = ["operator", "annotation", "runtime_call", PYTHON, "collective"];

table! {
    /// Streams and threads.
    struct ShownTracks, ShownTrackRow = "events" by "lane" {
        lane: i64, "", "row of the device and step";
        stream: bool, "", "1: a stream, 0: a thread of the host";
        name: Text, "", "name";
        spans: u64, "", "spans";
        left: u64, "", "shorter spans that are left out", "left out";
    }
}

table! {
    /// What runs in them.
    struct ShownSpans, ShownSpanRow = "events" by "start_ns" {
        start_ns: i64, "ns", "start, after the start of the step";
        dur_ns: i64, "ns", "length", "length";
        depth: u64, "", "depth in the call tree";
        name: Text, "", "name";
        class: Text, "", "class";
    }
}

/// A stream or thread: whether it is a stream, device or process, stream or thread.
type TrackKey = (bool, String, String);

#[derive(Debug, Clone, Copy)]
struct TrackSpan {
    start: i64,
    dur: i64,
    depth: usize,
    name: u32,
    class: &'static str,
}

/// Spans of a rank in a window.
#[derive(Default)]
struct SpansInWindow {
    tracks: BTreeMap<TrackKey, (usize, String)>,
    names: BTreeMap<String, u32>,
    /// By track.
    spans: Vec<Vec<TrackSpan>>,
}

/// The grids of tracks and their spans; empty without causes.
///
/// # Errors
/// When a file of events is damaged.
pub(crate) fn grids(
    results: &Results,
    lanes: &TimelineLanes,
    causes: Option<&[(Vec<u32>, Vec<String>)]>,
    texts: &mut Texts,
) -> Result<Vec<(&'static str, Grid)>, ResultsError> {
    let (mut tracks, mut spans) = (ShownTracks::default(), ShownSpans::default());
    let mut without = 0;
    for (rank, step) in causes.map_or_else(Vec::new, |causes| pairs(lanes, causes)) {
        let Some(lane) = lanes.first_of(rank, step) else { continue };
        let Some(window) = lanes.window(lane, step) else { continue };
        let (from, until) = (window.start - window.len / BEFORE, window.start + window.len);
        let mut found = SpansInWindow::default();
        if !results.read_events(rank, &COLUMNS, |batch| found.add(batch, from, until))? {
            without += 1;
            continue;
        }
        found.nest();
        found.skip_outer();
        let names: BTreeMap<u32, &str> = found.names.iter().map(|(name, id)| (*id, name.as_str())).collect();
        for (key, label, chosen, left) in found.chosen() {
            let Some((row, _)) = lanes.place(lane, step, from) else { continue };
            tracks.push(ShownTrackRow {
                lane: row as i64,
                stream: key.0,
                name: &label,
                spans: chosen.len() as u64,
                left: left as u64,
            });
            for s in chosen {
                let Some((_, start_ns)) = lanes.place(lane, step, s.start) else { continue };
                let name = names.get(&s.name).copied().unwrap_or_default();
                let (dur_ns, depth) = (s.dur, s.depth as u64);
                spans.push(ShownSpanRow { start_ns, dur_ns, depth, name, class: s.class });
            }
        }
    }
    let mut tracks = texts.grid(tracks);
    if without > 0 {
        let ranks = counted(without, "rank");
        tracks
            .notes
            .push(format!("Streams and threads of {ranks} are not among these results (--no-events)."));
    }
    Ok(vec![("tracks", tracks), ("spans", texts.grid(spans))])
}

/// Ranks and steps that have tracks: those of the first causes; the longest step where a cause names none
/// that is shown.
fn pairs(lanes: &TimelineLanes, causes: &[(Vec<u32>, Vec<String>)]) -> Vec<(u32, ShownStepKey)> {
    let shown = |label: &String| {
        let step = label.strip_prefix('@').map_or_else(
            || label.parse().ok().map(PageStep::Label),
            |index| index.parse().ok().map(PageStep::Index),
        );
        step.filter(|step| lanes.steps.iter().any(|s| s.key == Some(*step)))
    };
    let Some(longest) = lanes.steps.first().map(|s| s.key) else { return Vec::new() };
    let first = lanes.ranks().next();
    let mut out: Vec<(u32, ShownStepKey)> = Vec::new();
    for (ranks, labels) in causes {
        let step = labels.iter().find_map(shown).map_or(longest, Some);
        for rank in ranks.iter().take(OF_CAUSE) {
            if !out.contains(&(*rank, step)) {
                out.push((*rank, step));
            }
        }
    }
    if out.is_empty() {
        out.extend(first.map(|rank| (rank, longest)));
    }
    out.truncate(PAIRS);
    out
}

/// A class that has tracks, and whether it is of streams.
fn shown_class(text: &str) -> Option<(&'static str, bool)> {
    let all = GPU.iter().map(|c| (*c, true)).chain(HOST.iter().map(|c| (*c, false)));
    all.into_iter().find(|(class, _)| *class == text)
}

impl SpansInWindow {
    /// Adds the events of a batch that overlap a stretch of time.
    fn add(&mut self, batch: &RecordBatch, from: i64, until: i64) {
        let columns = COLUMNS.map(|name: &str| batch.column_by_name(name).and_then(Column::new));
        let [Some(class), Some(name), Some(ts), Some(dur), Some(pid), Some(tid), Some(thread)] = columns
        else {
            return;
        };
        // What is known of the texts of this batch, by their numbers.
        let mut classes: HashMap<Option<i32>, Option<(&'static str, bool)>> = HashMap::new();
        let mut names: HashMap<Option<i32>, u32> = HashMap::new();
        let mut tracks: HashMap<(bool, Option<i32>, Option<i32>), usize> = HashMap::new();
        for row in 0..batch.num_rows() {
            let (Some(start), Some(len)) = (ts.int(row), dur.int(row)) else { continue };
            if start >= until || start + len <= from || len == 0 {
                continue;
            }
            let shown = *classes
                .entry(class.text_number(row))
                .or_insert_with(|| class.text(row).and_then(shown_class));
            let Some((class, on_stream)) = shown else { continue };
            let part = |column: Column| column.text(row).unwrap_or_default().to_string();
            let track =
                *tracks.entry((on_stream, pid.text_number(row), tid.text_number(row))).or_insert_with(|| {
                    let count = self.tracks.len();
                    self.tracks
                        .entry((on_stream, part(pid), part(tid)))
                        .or_insert_with(|| (count, part(thread)))
                        .0
                });
            let id = *names.entry(name.text_number(row)).or_insert_with(|| {
                let count = self.names.len() as u32;
                *self.names.entry(part(name)).or_insert(count)
            });
            let (start, end) = (start.max(from), (start + len).min(until));
            self.spans.resize_with(self.tracks.len(), Vec::new);
            self.spans[track].push(TrackSpan { start, dur: end - start, depth: 0, name: id, class });
        }
    }

    /// Sets how deep each span of a thread lies in those around it: threads have annotations beside their
    /// call trees.
    fn nest(&mut self) {
        for ((on_stream, ..), (track, _)) in &self.tracks {
            let spans = &mut self.spans[*track];
            spans.sort_by_key(|s| (s.start, Reverse(s.dur)));
            let mut ends = Vec::new();
            for s in spans.iter_mut().filter(|_| !on_stream) {
                while ends.last().is_some_and(|end| *end <= s.start) {
                    ends.pop();
                }
                s.depth = ends.len();
                ends.push(s.start + s.dur);
            }
        }
    }

    /// Leaves out the outermost spans of a thread that hold all the others: the frames that lead to the work,
    /// from the launcher inwards, say nothing about it.
    ///
    /// ```text
    ///   run.py(5): main      [===================]      left out
    ///   train.py(9): loop    [===================]      left out
    ///   ProfilerStep          [=======][=======]        outermost that is shown
    /// ```
    fn skip_outer(&mut self) {
        for (_, (track, _)) in self.tracks.iter().filter(|((on_stream, ..), _)| !on_stream) {
            let spans = &mut self.spans[*track];
            // Spans are in order of start and the outer ones first, so the outermost of all is the first. A
            // thread that has nothing but one stack keeps its innermost frame.
            let (mut outer, mut least) = (0, usize::MAX);
            for (i, span) in spans.iter().enumerate().rev() {
                outer = if span.depth < least && i + 1 < spans.len() { outer + 1 } else { 0 };
                least = least.min(span.depth);
            }
            spans.drain(..outer);
            spans.iter_mut().for_each(|s| s.depth -= outer);
        }
    }

    /// Time in which a track works, ns: streams in what they run, threads in operators and calls. A thread of
    /// which only Python frames are recorded sleeps.
    fn work(&self, track: usize) -> i64 {
        self.spans[track].iter().filter(|s| s.class != PYTHON).map(|s| s.dur).sum()
    }

    /// The tracks with most spans, streams first and sleeping threads last, each with its longest spans in
    /// order of time and the number of those left out.
    fn chosen(&self) -> Vec<(TrackKey, String, Vec<TrackSpan>, usize)> {
        let mut out = Vec::new();
        for on_stream in [true, false] {
            let mut tracks: Vec<(&TrackKey, usize, &str)> = self
                .tracks
                .iter()
                .filter(|(key, _)| key.0 == on_stream)
                .map(|(key, (track, thread))| (key, *track, thread.as_str()))
                .collect();
            tracks.sort_by_key(|(_, track, _)| (Reverse(self.spans[*track].len()), *track));
            tracks.truncate(TRACKS);
            // In order of time within a track.
            let mut kept: Vec<usize> = tracks.iter().map(|(_, track, _)| *track).collect();
            kept.sort_unstable();
            let all = kept.iter().flat_map(|&track| (0..self.spans[track].len()).map(move |i| (track, i)));
            let mut spans: Vec<(usize, usize)> = all.collect();
            if spans.len() > SPANS {
                let longest = |&(track, i): &(usize, usize)| {
                    let s = &self.spans[track][i];
                    (Reverse(s.dur), s.start, s.depth, track, i)
                };
                spans.select_nth_unstable_by_key(SPANS, longest);
                spans.truncate(SPANS);
            }
            spans.sort_unstable();
            let sleeps = |track: usize| !on_stream && self.work(track) == 0;
            tracks.sort_by_key(|(key, track, _)| (sleeps(*track), *key));
            for (key, track, thread) in tracks {
                let own = spans.iter().filter(|(of, _)| *of == track);
                let own: Vec<TrackSpan> = own.map(|(_, i)| self.spans[track][*i]).collect();
                let label = match (on_stream, thread.is_empty()) {
                    (true, _) => format!("stream {}", key.2),
                    (false, true) => format!("thread {}", key.2),
                    (false, false) => thread.to_string(),
                };
                let left = self.spans[track].len() - own.len();
                out.push((key.clone(), label, own, left));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_a_thread_lie_in_those_around_them() {
        // frame     [0......................100)
        // operator     [10.......50)  [60..80)
        // call             [20.30)
        let mut found = SpansInWindow::default();
        found.tracks.insert((false, String::new(), "1".to_string()), (0, String::new()));
        found.tracks.insert((true, String::new(), "7".to_string()), (1, String::new()));
        let span =
            |start, end: i64| TrackSpan { start, dur: end - start, depth: 0, name: 0, class: "operator" };
        found.spans = vec![
            vec![span(20, 30), span(60, 80), span(0, 100), span(10, 50)],
            vec![span(5, 40), span(10, 20)],
        ];
        found.nest();
        let shown = found.spans.iter().map(|of| of.iter().map(|s| (s.start, s.depth)).collect::<Vec<_>>());
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [vec![(0, 0), (10, 1), (20, 2), (60, 1)], vec![(5, 0), (10, 0)]]
        );
    }

    /// A thread's spans `(class, start, end)`, and what of them is shown: `(start, depth)`.
    fn shown(spans: &[(&'static str, i64, i64)]) -> Vec<(i64, usize)> {
        let mut found = SpansInWindow::default();
        found.tracks.insert((false, String::new(), "1".to_string()), (0, String::new()));
        let span = |&(class, start, end): &(&'static str, i64, i64)| TrackSpan {
            start,
            dur: end - start,
            depth: 0,
            name: 0,
            class,
        };
        found.spans = vec![spans.iter().map(span).collect()];
        found.nest();
        found.skip_outer();
        found.spans[0].iter().map(|s| (s.start, s.depth)).collect()
    }

    #[test]
    fn frames_that_hold_all_others_are_left_out() {
        // run       [0......................100)
        // main       [1.....................100)
        // step         [10.......50)[50.....100)
        // operator       [20.30)
        let of_step = [("annotation", 10, 50), ("operator", 20, 30), ("annotation", 50, 100)];
        let all = [&[("python", 0, 100), ("python", 1, 100)], &of_step[..]].concat();
        assert_eq!(shown(&all), [(10, 0), (20, 1), (50, 0)]);
        // A thread that waits in one call shows that call.
        assert_eq!(shown(&[("python", 0, 100), ("python", 2, 90)]), [(2, 0)]);
    }

    #[test]
    fn threads_that_sleep_come_behind_those_that_work() {
        let mut found = SpansInWindow::default();
        let span = |class| TrackSpan { start: 0, dur: 10, depth: 0, name: 0, class };
        for (track, class) in ["python", "operator"].into_iter().enumerate() {
            found.tracks.insert((false, String::new(), track.to_string()), (track, String::new()));
            found.spans.push(vec![span(class)]);
        }
        let names: Vec<String> = found.chosen().into_iter().map(|(_, name, ..)| name).collect();
        assert_eq!(names, ["thread 1", "thread 0"]);
    }
}
