//! `host_python`: the device idles while the launching thread runs code outside operators for 200 us and
//! longer.

use crate::diagnosis::cause::Cause;
use crate::diagnosis::confidence::Confidence;
use crate::diagnosis::context::Context;
use crate::diagnosis::lost_words::{LostWords, shown};
use crate::diagnosis::rule::{CauseFamily, CauseRule, LostRule, OfHost};
use crate::facts::host_activity::HostActivity;
use crate::facts::vendor::DeviceVendor;
use crate::job::TimeUse;
use hta_trace::strings::StrId;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_python",
    evidence: "I while the launching thread runs code outside operators for 200 us or longer",
    owns: "I, S behind it",
    shown_by: "tests/data/causes/host_python.json.gz",
    family: CauseFamily::Lost(LostRule {
        // The code is named when all of it is known.
        of_host: OfHost::Any(|host, m| host.is_code(m).then_some((StrId::EMPTY, m.row))),
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
        cause.confidence = cause.confidence.max(Confidence::Interpreted);
    }
}

fn words(w: &LostWords) -> (String, String) {
    let (device, who, idle) = (w.device(), w.who(), w.idle());
    match w.key.is_empty() {
        false => (
            format!("The {device} idles while the host runs {}{}{who}: {idle}", shown(w.key), w.top_place()),
            "make this code faster, move it to another process, or do it while the device works".to_string(),
        ),
        true if w.trust.has_frames => (
            format!("The {device} idles while the host runs Python code of many functions{who}: {idle}"),
            "do this work while the device computes, or in another process (hta idle lists the functions)"
                .to_string(),
        ),
        true => (
            format!("The {device} idles while the host runs code outside operators{who}: {idle}"),
            "record with with_stack=True to see which lines; do this work while the device computes"
                .to_string(),
        ),
    }
}
