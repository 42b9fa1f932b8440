//! Tests of HTA's heuristic on tables that can be checked by eye.

use crate::hta::stragglers::heuristic::*;

/// Parses ranks. Each is a line `rank number fractional`, followed by rows `id name ts dur stream
/// correlation` with times in ns.
fn read(text: &str) -> Vec<Rank<'_>> {
    let mut ranks = Vec::new();
    for line in text.lines() {
        let f: Vec<&str> = line.split_whitespace().collect();
        let n = |i: usize| f[i].parse::<i64>().unwrap();
        match f.as_slice() {
            [] => {}
            ["rank", ..] => ranks.push(Rank { rank: n(1), fractional: n(2) == 1, rows: Vec::new() }),
            _ => ranks.last_mut().unwrap().rows.push(HeuristicEvent {
                id: n(0) as u32,
                name: f[1],
                ts: n(2),
                dur: n(3),
                stream: n(4),
                correlation: n(5),
            }),
        }
    }
    ranks
}

fn options(candidates: i64) -> Choice {
    Choice { candidates, ..Choice::default() }
}

/// The rows of the ranks of `multirank_nccl_megatron_tp8` that matter: a step, a row that ends last, and one
/// launched kernel with its launch. Times in `kernels` are in us.
fn megatron(name: &str) -> Vec<Rank<'_>> {
    let kernels = [
        (611_797, 13_729),
        (625_839, 6906),
        (625_850, 6894),
        (625_845, 6899),
        (625_845, 6899),
        (625_847, 6898),
        (625_836, 6909),
        (625_832, 6912),
    ];
    let row = |id, name, ts: i64, dur: i64, stream, correlation| HeuristicEvent {
        id,
        name,
        ts: (1_706_850_122_846_000 + ts) * 1000,
        dur: dur * 1000,
        stream,
        correlation,
    };
    let rank = |(rank, (ts, dur))| Rank {
        rank,
        fractional: false,
        rows: vec![
            row(0, "ProfilerStep#3", 0, 603_240, -1, -1),
            row(1, "aten::mm", 10, 633_706, -1, -1),
            row(2, "cudaLaunchKernel", 20, 5, -1, 7),
            row(3, name, ts, dur, 24, 7),
        ],
    };
    (0..).zip(kernels).map(rank).collect()
}

#[test]
fn todays_kernel_names_have_no_candidate() {
    let ranks = megatron("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    assert_eq!(potential_stragglers(&ranks, &options(2)), Err(HtaException::NoKernel));
    let meant = Choice { prefix: "ncclDevKernel", ..options(2) };
    assert_eq!(potential_stragglers(&ranks, &meant).unwrap().ranks, [2, 5]);
}

/// Groups a list of ranks by points, in its order: the points, the number of ranks and the ranks as a set.
/// HTA's order of equal points depends on the machine, so the set is empty if the list has only some of the
/// ranks with these points.
fn by_points(found: &HeuristicStragglers, list: &[i64]) -> Vec<(i64, usize, BTreeSet<i64>)> {
    let points: BTreeMap<i64, i64> = found.points.iter().copied().collect();
    let chunks = list.chunk_by(|a, b| points[a] == points[b]);
    let group = |chunk: &[i64]| {
        let of = points[&chunk[0]];
        let is_whole = points.values().filter(|p| **p == of).count() == chunk.len();
        (of, chunk.len(), if is_whole { chunk.iter().copied().collect() } else { BTreeSet::new() })
    };
    chunks.map(group).collect()
}

#[test]
fn megatron_as_hta_has_it() {
    let ranks = megatron("ncclKernel_AllReduce");
    // The output of HTA on one machine for each number of candidates.
    let theirs: [&[i64]; 8] = [
        &[2],
        &[2, 5],
        &[3, 2, 5],
        &[3, 2, 5, 4],
        &[1, 2, 3, 4, 5],
        &[1, 2, 3, 4, 6, 5],
        &[1, 2, 3, 4, 6, 5, 7],
        &[0, 1, 2, 3, 4, 5, 6, 7],
    ];
    for (k, theirs) in (1..).zip(theirs) {
        let ours = potential_stragglers(&ranks, &options(k)).unwrap();
        assert_eq!(by_points(&ours, &ours.ranks), by_points(&ours, theirs), "{k}");
    }
    let two = potential_stragglers(&ranks, &options(2)).unwrap();
    assert_eq!((two.mean_step_us, two.stream, two.tied), (633_716.0, 24, false));
    assert_eq!(two.starts[2].normalized, 0.987_587_499_763_301);
    assert_eq!(two.points, [(0, 0), (1, 0), (2, 1), (3, 0), (4, 0), (5, 1), (6, 0), (7, 0)]);
    // Ranks 3 and 4 start at the same time, so there are four ranks for three places.
    let three = potential_stragglers(&ranks, &options(3)).unwrap();
    assert_eq!((three.ranks.as_slice(), three.tied), ([2, 3, 4].as_slice(), true));
    let nine = potential_stragglers(&ranks, &options(9));
    assert_eq!(nine, Err(HtaException::TooFew { step: 3, ranks: 8, asked: 9 }));
    let lone = potential_stragglers(&ranks[..1], &options(1));
    assert_eq!(lone, Err(HtaException::NoSpread));
}

/// Two ranks with fractional times, a GPU-side annotation because of which step 7 is kept in part, and a
/// launch by event 0.
const MIXED: &str = "
    rank 0 1
    0 cudaLaunchKernel 1000100 5000 -1 1
    1 ProfilerStep#5 1000000 100000 -1 -1
    2 ncclKernel_A 1010001 30500 20 1
    3 cudaLaunchKernel 1020000 5000 -1 2
    4 ncclKernel_A 1060001 30500 20 2
    5 ncclKernel_A 1050001 20500 20 2
    6 ProfilerStep#6 1100000 100000 -1 -1
    7 cudaLaunchKernel 1120000 5000 -1 3
    8 ncclKernel_A 1150250 30000 20 3
    9 ncclKernel_B 1190000 90000 20 3
    10 ProfilerStep#7 1200000 100000 -1 -1
    11 ProfilerStep#7 1230000 90000 -1 -1
    12 cudaLaunchKernel 1210000 5000 -1 4
    13 cudaLaunchKernel 1240000 5000 -1 5
    14 ncclKernel_A 1250000 30000 20 4
    15 ncclKernel_A 1290000 30000 20 5
    rank 1 1
    0 PyTorch 1000000 1000 -1 -1
    1 ProfilerStep#5 1000000 100000 -1 -1
    3 cudaLaunchKernel 1020000 5000 -1 2
    5 ncclKernel_A 1040001 20500 20 2
    6 ProfilerStep#6 1100000 100000 -1 -1
    7 cudaLaunchKernel 1120000 5000 -1 3
    8 ncclKernel_A 1155250 30000 20 3
    9 ncclKernel_B 1190000 100 20 3
    10 ProfilerStep#7 1200000 100000 -1 -1
    12 cudaLaunchKernel 1210000 5000 -1 4
    14 ncclKernel_A 1250000 30000 20 4
    ";

#[test]
fn loader_and_choice() {
    let ranks = read(MIXED);
    let found = potential_stragglers(&ranks, &options(1)).unwrap();
    let starts: Vec<_> = found.starts.iter().map(|s| (s.rank, s.step, s.ts_us, s.dur_us, s.late)).collect();
    // Step 7 has no candidate on rank 1, because that rank's own last step is dropped.
    let expected = [
        (0, 5, 51.0, 19.0, true),
        (0, 6, 151.0, 29.0, false),
        (0, 7, 250.0, 30.0, true),
        (1, 5, 41.0, 19.0, false),
        (1, 6, 156.0, 29.0, true),
    ];
    assert_eq!(starts, expected);
    assert_eq!((found.mean_step_us, found.ranks.as_slice(), found.tied), (100.0, [0].as_slice(), false));
    assert_eq!(
        potential_stragglers(&ranks, &options(2)),
        Err(HtaException::TooFew { step: 7, ranks: 1, asked: 2 })
    );
    let of_steps = |steps: &[i64]| Choice { steps: Some(steps.to_vec()), ..options(1) };
    assert_eq!(potential_stragglers(&ranks, &of_steps(&[6, 99])).unwrap().ranks, [1]);
    let none = HtaException::NoStep { asked: Some(vec![99]), available: vec![5, 6, 7] };
    assert_eq!(potential_stragglers(&ranks, &of_steps(&[99])), Err(none));
    let all = potential_stragglers(&ranks, &Choice { include_last: true, ..options(2) }).unwrap();
    assert_eq!(
        (all.starts.len(), all.ranks.as_slice(), all.mean_step_us),
        (6, [0, 1].as_slice(), 320.0 / 3.0)
    );
}

#[test]
fn a_short_kernel_becomes_shorter_than_nothing() {
    let ranks = read("rank 0 1\n1 ProfilerStep#1 0 100000 -1 -1\n2 x 10001 500 -1 -1");
    let loaded = load(&ranks, false).unwrap();
    assert_eq!((loaded.ranks[&0][1].ts, loaded.ranks[&0][1].dur), (11.0, -1.0));
    assert_eq!(loaded.ranks[&0][1].step, Some(1));
}

#[test]
fn steps_are_needed_and_numbered() {
    let without = read("rank 0 0\n1 aten::mm 0 5000 -1 -1");
    let none = HtaException::NoStep { asked: None, available: vec![] };
    assert_eq!(potential_stragglers(&without, &options(2)), Err(none));
    assert_eq!(potential_stragglers(&[], &options(2)).unwrap_err().to_string(), "no profiler step");
    let odd = read("rank 0 0\n1 ProfilerStep* 0 5000 -1 -1");
    assert_eq!(
        potential_stragglers(&odd, &options(2)),
        Err(HtaException::StepName("ProfilerStep*".to_string()))
    );
    assert_eq!(step_number("ProfilerStep # 12 "), Ok(12));
}

/// Each of three ranks starts last in one of three steps, so all have one point.
#[test]
fn of_equal_points_the_lowest_rank_comes_first() {
    let kernel = |rank: i64, step: i64| {
        let ts = step * 100_000 + if rank == step - 1 { 60_000 } else { 50_000 };
        let (call, id) = (step * 100_000 + 10_000, step * 10);
        format!(
            "{} ProfilerStep#{step} {} 100000 -1 -1\n{} cudaLaunchKernel {call} 5000 -1 {step}\n{} \
             ncclKernel_A {ts} {} 20 {step}\n",
            id + 1,
            step * 100_000,
            id + 2,
            id + 3,
            30_000 + rank * 1000
        )
    };
    let last = "99 ProfilerStep#4 400000 100000 -1 -1\n";
    let text: String = (0..3)
        .map(|rank| {
            format!("rank {rank} 0\n{}{last}", (1..4).map(|step| kernel(rank, step)).collect::<String>())
        })
        .collect();
    let found = potential_stragglers(&read(&text), &options(1)).unwrap();
    assert_eq!(found.points, [(0, 1), (1, 1), (2, 1)]);
    assert_eq!((found.ranks.as_slice(), found.tied), ([0].as_slice(), true));
    let three = potential_stragglers(&read(&text), &options(3)).unwrap();
    assert_eq!((three.ranks.as_slice(), three.tied), ([0, 1, 2].as_slice(), false));
}

#[test]
fn numbers_as_read_from_text() {
    assert_eq!(microseconds(1_500), 1.5);
    assert_eq!(microseconds(1_706_850_122_846_038_123), 1_706_850_122_846_038.123);
    assert_eq!(microseconds(-1_706_850_122_846_038_900), -1_706_850_122_846_038.9);
    assert!(deviation([3.0].into_iter()).is_nan() && mean([f64::NAN].into_iter()).is_nan());
    assert_eq!(deviation([1.0, 3.0].into_iter()), 2.0_f64.sqrt());
}
