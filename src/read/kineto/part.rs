//! Which rows of a merged file are of a part, with the ids that they had before the files were merged.

use super::cursor::{Token, TokenKind};
use super::scratch::Scratch;
use crate::input::{Input, PartKey, RankMark};
use hta_trace::args::Arg;
use hta_trace::meta::Meta;
use std::collections::BTreeSet;

/// Whether an event is of a part. With `restores` it gets the ids that it had before the files were merged.
pub(super) fn takes(part: &PartKey, s: &mut Scratch, buf: &[u8], restores: bool) -> bool {
    let PartKey::Rank(rank, mark) = part else { return true };
    match mark {
        RankMark::Label(label) => {
            let is_own = s.pid.bytes(buf).starts_with(label.as_bytes());
            if is_own && restores {
                s.pid.start += label.len();
            }
            is_own
        }
        RankMark::Processes(pids) => {
            std::str::from_utf8(s.pid.bytes(buf)).is_ok_and(|pid| pids.contains(pid))
        }
        RankMark::Argument => {
            let is_own = number(s.raw.rank.bytes(buf)) == Some(*rank);
            if is_own && restores {
                restore(s);
            }
            is_own
        }
    }
}

fn restore(s: &mut Scratch) {
    let given = |token: Token| (token.kind != TokenKind::Absent).then_some(token);
    s.pid = given(s.raw.pid).unwrap_or(s.pid);
    s.id = given(s.raw.id).unwrap_or(s.id);
    if let Some(correlation) = given(s.raw.correlation) {
        s.args.iter_mut().filter(|a| a.0 == Arg::Correlation).for_each(|a| a.1 = correlation);
    }
}

/// The metadata of a part: its rank, and its share of the lists of devices that were joined.
pub fn settle(meta: &mut Meta, input: &Input) {
    let Some(part) = &input.process else { return };
    let PartKey::Rank(rank, _) = part.key else { return };
    meta.rank = Some(rank);
    let (index, count) =
        (usize::try_from(part.index).unwrap_or(0), usize::try_from(part.count).unwrap_or(1).max(1));
    let each = meta.devices.len() / count;
    let distinct: BTreeSet<i64> = meta.devices.iter().map(|d| d.id).collect();
    if each > 0 && each * count == meta.devices.len() && distinct.len() <= each {
        meta.devices = meta.devices.iter().skip(index * each).take(each).cloned().collect();
    }
}

pub(super) fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
