//! `host_python`: the device idles while the launching thread runs code outside operators for 200 us and
//! longer.

use crate::diagnosis::cause::Cause;
use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::certainty::CauseCertainty;
use crate::diagnosis::context::Context;
use crate::diagnosis::lost_words::{LostWords, shown};
use crate::diagnosis::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use crate::facts::host_activity::HostActivity;
use crate::facts::vendor::DeviceVendor;
use crate::job::TimeUse;
use hta_trace::strings::StrId;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_python",
    evidence: "I while the launching thread runs code outside operators for 200 us or longer, or is in an \
               event of 1 ms or longer that launches nothing and does not wait for the device",
    owns: "I, S behind it",
    shown_by: "tests/data/causes/host_python.json.gz",
    family: CauseFamily::Lost(LostRule {
        // The code is named when all of it is known.
        of_host: OfHost::Any(|host, m| host.is_code(m).then_some((StrId::EMPTY, m.code_row()))),
        key: |key| key,
        uses: Some(CODE),
        late_by: CODE,
        joins_alike: |key| key.is_empty(),
        is_told: |w| w.trust.vendor != DeviceVendor::Host || !w.key.is_empty(),
        words,
        finish,
        tint: Some(4),
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

const CODE: &[TimeUse] = &[
    TimeUse::Host(HostActivity::Python),
    TimeUse::Host(HostActivity::Annotation),
    TimeUse::Host(HostActivity::Untracked),
];

fn finish(_: &Context, cause: &mut Cause) {
    if cause.key.is_empty() {
        // What the code is was not recorded.
        cause.certainty = cause.certainty.max(CauseCertainty::Likely);
    }
}

fn words(w: &LostWords) -> CauseWords {
    let (idles, idle) = (w.device_of_ranks("idles"), w.idle());
    match w.key.is_empty() {
        false => CauseWords::new(
            format!("{idles} while the host runs {}", shown(w.key)),
            idle,
            "make this code faster, move it to another process, or do it while the device works",
        ),
        true if w.trust.has_frames => CauseWords::new(
            format!("{idles} while the host runs Python code of many functions"),
            idle,
            "do this work while the device computes, or in another process (hta idle lists the functions)",
        ),
        true => CauseWords::new(
            format!("{idles} while the host runs code outside operators"),
            idle,
            "record with with_stack=True to see which lines; do this work while the device computes",
        ),
    }
}
