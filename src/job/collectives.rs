//! Matches the collective calls of all ranks to instances.

use crate::by_sequence::by_sequence;
use crate::groups::{Resolved, resolve};
use crate::in_turn::in_turn;
use crate::infer::infer;
use crate::matching::{MatchMethod, Matched, Member, Use, call};
use crate::part::RankSummary;
use hashbrown::HashMap;
use hta_trace::collective::CollectiveKind;
use std::collections::BTreeMap;

/// Matches all calls except messages between two ranks. `by_turn`: also by their order alone.
pub(crate) fn collectives(parts: &[RankSummary], by_turn: bool) -> Matched {
    let comparable = |p: &RankSummary| p.has_origin;
    let used: Vec<Vec<u32>> = parts
        .iter()
        .map(|p| {
            let mut seen = vec![false; p.calls.groups.len()];
            let mut order: Vec<u32> = Vec::new();
            for c in p.calls.calls.iter().filter(|_| comparable(p)) {
                if let Some(seen) = seen.get_mut(c.shape.group as usize).filter(|seen| !**seen) {
                    *seen = true;
                    order.push(c.shape.group);
                }
            }
            order
        })
        .collect();
    let Resolved { groups, mut unknown } = resolve(parts, &used);
    let mut matched = Matched::default();
    for group in groups {
        matched.add_group(group);
    }
    let mut uses: Vec<Vec<Use>> = Vec::new();
    uses.resize_with(matched.groups.len(), Vec::new);
    for (part, p) in parts.iter().enumerate().filter(|(_, p)| comparable(p)) {
        for (i, c) in p.calls.calls.iter().enumerate().filter(|(_, c)| !c.shape.kind.is_point_to_point()) {
            if let Some(list) =
                matched.group_of(part as u32, c.shape.group).and_then(|g| uses.get_mut(g as usize))
            {
                match list.last_mut() {
                    Some(u) if u.part == part as u32 => u.calls.push(i as u32),
                    _ => list.push(Use { part: part as u32, calls: vec![i as u32] }),
                }
            }
        }
    }
    for (g, uses) in uses.iter().enumerate() {
        group(&mut matched, parts, g as u32, uses, MatchMethod::Sequence);
    }
    for found in if by_turn { in_turn(parts, &mut unknown) } else { Vec::new() } {
        let g = matched.add_group(found.group);
        for k in 0..found.uses.first().map_or(0, |u| u.calls.len()) {
            let member = |u: &Use| Some(Member { part: u.part, call: *u.calls.get(k)? });
            let members = found.uses.iter().filter_map(member).collect();
            matched.add(parts, g, MatchMethod::Inferred, found.uses.len(), members);
        }
    }
    for found in infer(parts, &unknown) {
        let uses: Vec<Use> = found.calls.into_iter().map(|(part, calls)| Use { part, calls }).collect();
        let g = matched.add_group(found.group);
        group(&mut matched, parts, g, &uses, MatchMethod::Inferred);
    }
    // A group that joins a program with others counts its members otherwise, and only those of one are its
    // uses.
    let mut recorded: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for p in parts.iter().filter(|p| !p.is_left_out) {
        recorded.entry(p.program()).or_default().push(p.rank);
    }
    for g in &mut matched.groups {
        let program = g.parts().next().and_then(|part| parts.get(part as usize)).map(RankSummary::program);
        let of_program = program.and_then(|program| recorded.get(&program)).map_or(&[][..], Vec::as_slice);
        g.misses_rank = g.misses(of_program);
    }
    matched
}

fn numbered(parts: &[RankSummary], u: &Use) -> bool {
    u.calls.iter().all(|&i| call(parts, u, i).seq.is_some())
}

/// Matches a group by number if all calls have one, else by sequence.
fn group(matched: &mut Matched, parts: &[RankSummary], g: u32, uses: &[Use], otherwise: MatchMethod) {
    let expected = matched.groups[g as usize].expected();
    let kept = (matched.instances.len(), matched.members.len(), matched.conflicts.len());
    if !uses.is_empty() && uses.iter().all(|u| numbered(parts, u)) {
        if by_number(matched, parts, g, uses, expected) {
            return;
        }
        // Numbers that hardly two ranks share may count something else, so they are not evidence.
        matched.instances.truncate(kept.0);
        matched.members.truncate(kept.1);
        matched.conflicts.truncate(kept.2);
    }
    by_sequence(matched, parts, g, uses, expected, otherwise);
}

/// Matches by kind and number; a number that one rank has several times (several kernels of one call) counts
/// its occurrences. Returns `false` if several ranks have calls and hardly any number occurs on two of them.
fn by_number(matched: &mut Matched, parts: &[RankSummary], g: u32, uses: &[Use], expected: usize) -> bool {
    let mut keyed: Vec<(u64, CollectiveKind, u32, Member)> =
        Vec::with_capacity(uses.iter().map(|u| u.calls.len()).sum());
    for u in uses {
        let mut seen: HashMap<(u64, CollectiveKind), u32> = HashMap::new();
        for &i in &u.calls {
            let c = call(parts, u, i);
            let seq = c.seq.unwrap_or_default();
            let nth = seen.entry((seq, c.shape.kind)).or_default();
            keyed.push((seq, c.shape.kind, *nth, Member { part: u.part, call: i }));
            *nth += 1;
        }
    }
    keyed.sort_unstable();
    let mut shared = 0;
    for same in keyed.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)) {
        shared += if same.len() > 1 { same.len() } else { 0 };
        matched.add(parts, g, MatchMethod::Number, expected, same.iter().map(|k| k.3).collect());
    }
    for same in keyed.chunk_by(|a, b| a.0 == b.0) {
        let mut kinds: Vec<CollectiveKind> = same.iter().map(|k| k.1).collect();
        kinds.dedup();
        // Two kinds under one number are a conflict only if they are on different ranks.
        let on_one = |part: u32| same.iter().filter(|k| k.3.part == part).map(|k| k.1).collect::<Vec<_>>();
        let split =
            kinds.len() > 1 && same.iter().any(|k| !kinds.iter().all(|x| on_one(k.3.part).contains(x)));
        if split {
            matched.conflicts.push((g, same[0].0, kinds));
        }
    }
    uses.len() < 2 || shared * 4 >= keyed.len()
}
