//! What a cause declares. Causes of one family are found, sized and told in the same way, and differ in the
//! fields of the family.

use crate::CauseKind;
use crate::account::{RepairTime, TimePart};
use crate::cause::{Cause, GainBasis};
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::compute::ComputeKernel;
use crate::context::Context;
use crate::evidence::Evidence;
use crate::exposed_lane::{ExposedLane, KnownTransfers, TransferShare, TransferWords};
use crate::host::{HostOwners, HostSide, TakeMoment};
use crate::kernel_facts::{KernelFacts, KernelsAfter};
use crate::late::{LateFacts, LateWords};
use crate::late_ranks::LateRanks;
use crate::lost_words::LostWords;
use crate::mix_words::MixWords;
use crate::threat::{MemoryFacts, Threat};
use crate::trust::RecordingTrust;
use hta_analysis::copies::copy::Copy;
use hta_base::units::{Ns, Span};
use hta_facts::host_activity::HostActivity;
use hta_facts::iterations::DeviceIteration;
use hta_facts::vendor::DeviceVendor;
use hta_job::TimeUse;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// Smallest gain of a cause, percent of the time of the job,
pub(crate) const OPEN_PCT: f64 = 1.0;
/// and in the verdict.
pub(crate) const LISTED_PCT: f64 = 2.0;

/// A cause.
pub(crate) struct CauseRule {
    /// As in the tables.
    pub(crate) name: &'static str,
    /// How sure it is with the best evidence.
    pub(crate) certainty: CauseCertainty,
    /// What it rests on.
    pub(crate) needs: &'static [Capability],
    /// Whether it matters only if it lasts, which one step cannot tell.
    pub(crate) must_last: bool,
    /// Whether it is a fact, however far its gain is only a bound.
    pub(crate) is_fact: bool,
    /// Whether it is the price of how the job is built, unless a replay knows what is slow.
    pub(crate) is_price: bool,
    /// Smallest gain, or share of owned time, of a finding, and (next field) gain in the verdict, percent.
    pub(crate) open_pct: f64,
    pub(crate) listed_pct: f64,
    pub(crate) family: CauseFamily,
    /// When it holds, and (next field) which time it owns, for the page of `hta explain`.
    pub(crate) evidence: &'static str,
    pub(crate) owns: &'static str,
    /// The command whose answer shows it.
    pub(crate) command: &'static str,
    /// A trace of this repository that has it, or the tests that make one; empty if only traces of third
    /// parties do.
    pub(crate) shown_by: &'static str,
}

impl CauseRule {
    pub(crate) const DEFAULT: CauseRule = CauseRule {
        name: "",
        certainty: CauseCertainty::Sure,
        needs: &[],
        must_last: false,
        is_fact: false,
        is_price: false,
        open_pct: OPEN_PCT,
        listed_pct: LISTED_PCT,
        family: CauseFamily::NoOwner,
        evidence: "",
        owns: "",
        command: "diagnosis",
        shown_by: "",
    };
    pub(crate) const LATE: CauseRule =
        CauseRule { needs: &[Capability::Ranks], command: "stragglers", ..CauseRule::DEFAULT };
    pub(crate) const HOST: CauseRule =
        CauseRule { needs: &[Capability::Idle, Capability::Host], command: "idle", ..CauseRule::DEFAULT };
    pub(crate) const COMMUNICATION: CauseRule =
        CauseRule { needs: &[Capability::Transfer], command: "communication", ..CauseRule::DEFAULT };
    pub(crate) const KERNELS: CauseRule = CauseRule {
        needs: &[Capability::DeviceTime],
        owns: "part of the compute",
        command: "kernels",
        ..CauseRule::DEFAULT
    };
    pub(crate) const MEMORY: CauseRule =
        CauseRule { needs: &[Capability::Memory], owns: "nothing", command: "memory", ..CauseRule::DEFAULT };
}

pub(crate) enum CauseFamily {
    /// A rank makes the others wait.
    Late(LateRule),
    /// Idle time of a device, waiting behind it, and exposed copies.
    Lost(LostRule),
    /// Exposed communication by the call that runs.
    Transfer(TransferRule),
    /// What the others leave of exposed communication.
    Communication(CommunicationRule),
    /// Compute time in a mix of kernels that could take less.
    Kernels(KernelRule),
    /// Memory, which owns no time.
    Memory(MemoryRule),
    /// What is seen in the job as a whole, after all other causes of time.
    Job(fn(&Context, &[Cause], &LateRanks) -> Option<Cause>),
    /// Time that nothing owns.
    NoOwner,
}

/// Of the causes of this family the last one that holds is that of a late rank.
pub(crate) struct LateRule {
    /// What is told of a late rank; `None` if it is not late for this cause.
    pub(crate) words: fn(&LateFacts) -> Option<LateWords>,
    /// The same trouble on all ranks at once, so that none of them is late.
    pub(crate) of_all: fn(&Context) -> Option<Cause>,
}

/// Where lost time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostPlace {
    Host,
    /// Iterations of an inference engine. These causes come first, in their order.
    Iteration,
    Copies,
}

/// Which moments of a host are of a cause if a device idles meanwhile.
#[derive(Clone, Copy)]
pub(crate) enum OfHost {
    Nothing,
    /// Those in which the host does this; they are about its event.
    While(HostActivity),
    /// Of those in calls of which more is known than their kind, what this takes.
    InMarkedCall(TakeMoment),
    /// Of all, what this takes.
    Any(TakeMoment),
}

pub(crate) struct LostRule {
    pub(crate) place: LostPlace,
    /// The moments of the host that it owns. The first kind that takes a moment owns it.
    pub(crate) of_host: OfHost,
    /// Whether a copy is one of the cause. The first kind that takes it owns it.
    pub(crate) of_copy: fn(&Copy) -> bool,
    /// Stretches of an iteration of a device, up to the next one, in which idle time is of the cause.
    pub(crate) of_iteration: fn(&RankTrace, &DeviceIteration, Option<&DeviceIteration>) -> Vec<Span>,
    /// Of a key, whether a cold step has more of it than others. What has a name of the user's is the user's.
    pub(crate) is_cold: fn(&str) -> bool,
    /// If the pauses of the launching threads, of so many ns, are of the cause: the name that it is about.
    /// The last kind that takes them owns them.
    pub(crate) of_pauses: Option<fn(&HostSide, Ns) -> Option<StrId>>,
    /// What tells causes of this kind apart, from the name that a piece of lost time is about.
    pub(crate) key: fn(&str) -> &str,
    /// Uses of an idle device that a replay does without if the cause is repaired; `None`: any.
    pub(crate) uses: Option<&'static [TimeUse]>,
    /// Uses of an idle device that make a rank late which does the same for longer than others.
    pub(crate) late_by: &'static [TimeUse],
    /// Host time that a repair saves, from the time that the host does this, and the idle time that the cause
    /// owns, ns.
    pub(crate) saves: fn(Ns, Ns) -> Ns,
    /// Whether ranks belong to a cause whose hosts do the same, but whose devices do not wait for it.
    pub(crate) joins_alike: bool,
    pub(crate) is_told: fn(&LostWords) -> bool,
    pub(crate) words: fn(&LostWords) -> CauseWords,
    /// Whether the largest names are evidence.
    pub(crate) names_parts: fn(&LostWords) -> bool,
    /// Changes what is particular about a cause that is told.
    pub(crate) finish: fn(&Context, &mut Cause),
    /// Its colour on the time axis of the page, one of those of kinds of spans.
    pub(crate) tint: Option<u8>,
}

impl LostRule {
    /// Whether it may make a rank late which does this for longer than others. Idle time of iterations is
    /// divided by when it is, whatever the host does.
    pub(crate) fn makes_late_by(&self, what: TimeUse) -> bool {
        self.late_by.contains(&what) || self.place == LostPlace::Iteration
    }
}

/// What a host does that launches work.
pub(crate) const LAUNCHING: &[TimeUse] = &[
    TimeUse::Host(HostActivity::Operator),
    TimeUse::Host(HostActivity::CommunicationOperator),
    TimeUse::Host(HostActivity::LaunchCall),
    TimeUse::Host(HostActivity::RuntimeCall),
];

/// Smallest gain of a cause in the iterations of an inference engine, percent of the time of the job.
const ITERATION_PCT: f64 = 5.0;

impl LostRule {
    pub(crate) const HOST: LostRule = LostRule {
        place: LostPlace::Host,
        of_host: OfHost::Nothing,
        of_copy: |_| false,
        of_iteration: |_, _, _| Vec::new(),
        is_cold: |_| false,
        of_pauses: None,
        key: |_| "",
        uses: None,
        late_by: &[],
        saves: |own, idle| own.max(idle),
        joins_alike: true,
        // Without a device nothing waits for launches; only code that can be named is a cause.
        is_told: |w| w.trust.vendor != DeviceVendor::Host,
        words: |_| CauseWords::default(),
        names_parts: |_| true,
        finish: |_, _| {},
        tint: None,
    };
    /// Of what makes host threads stand still.
    pub(crate) const PAUSE: LostRule = LostRule {
        key: |key| key,
        late_by: LAUNCHING,
        finish: |context, cause| context.add_pauses(cause),
        tint: Some(3),
        ..LostRule::HOST
    };
    pub(crate) const ITERATION: LostRule = LostRule {
        place: LostPlace::Iteration,
        is_told: |w| {
            w.trust.vendor != DeviceVendor::Host && w.gain_pct.is_some_and(|pct| pct >= ITERATION_PCT)
        },
        finish: |context, cause| {
            if context.is_only_of_first(&cause.owned) {
                cause.words.what.push_str(" (first iteration after the profiler started)");
            }
        },
        ..LostRule::HOST
    };
    pub(crate) const COPIES: LostRule =
        LostRule { place: LostPlace::Copies, joins_alike: false, tint: Some(7), ..LostRule::HOST };
}

pub(crate) struct TransferRule {
    /// The part of a step's time that it owns.
    pub(crate) part: TimePart,
    /// How much of the exposed pieces of a lane it takes, of which earlier kinds left so much, ns.
    pub(crate) takes: fn(&ExposedLane, &[Ns]) -> Vec<TransferShare>,
    /// What is known of the transfers of a key beyond the time that they take.
    pub(crate) known: fn(&Context, &str) -> Option<KnownTransfers>,
    /// The calls of a key in the table `collectives`, as a condition.
    pub(crate) filter: fn(&str) -> String,
    pub(crate) words: fn(&TransferWords) -> CauseWords,
}

impl TransferRule {
    pub(crate) const DEFAULT: TransferRule = TransferRule {
        part: TimePart::Transfer,
        takes: |_, _| Vec::new(),
        known: |_, _| None,
        filter: |key| format!("kind = '{key}'"),
        words: |_| CauseWords::default(),
    };
}

pub(crate) struct CommunicationRule {
    pub(crate) part: TimePart,
    /// Smallest share of the time of all devices, percent.
    pub(crate) least_pct: f64,
    /// The gain, from the time that the cause owns, ns.
    pub(crate) gain: fn(&Context, Ns) -> Ns,
    /// Made from the time of a step and device, and that of a step.
    pub(crate) words: fn(Ns, Ns, &Context) -> CauseWords,
    /// What is exposed, in the evidence.
    pub(crate) noun: &'static str,
    /// What else the words rest on.
    pub(crate) beside: fn(&RecordingTrust) -> Option<Evidence>,
}

pub(crate) struct KernelRule {
    /// Kernels that the repair is about.
    pub(crate) kernels: fn(&KernelFacts, &[ComputeKernel]) -> KernelsAfter,
    /// Smallest share of compute time, percent.
    pub(crate) least_pct: f64,
    /// What else must be so.
    pub(crate) holds: fn(&Context, &RepairTime) -> bool,
    /// Whether the operators of the kernels are told.
    pub(crate) names_operators: bool,
    /// How many times as fast kernels become that cannot be compared with a peak.
    pub(crate) assumed_factor: f64,
    /// How the gain is found if the new times are known.
    pub(crate) basis: GainBasis,
    pub(crate) words: fn(&MixWords) -> CauseWords,
    /// What the kernels take afterwards, for the page of `hta explain`.
    pub(crate) new_time: &'static str,
}

pub(crate) struct MemoryRule {
    pub(crate) threats: fn(&MemoryFacts) -> Vec<Threat>,
    pub(crate) action: &'static str,
    /// Where the evidence stands: table, and (next field) the condition beside the device.
    pub(crate) table: &'static str,
    pub(crate) condition: &'static str,
    /// Where the line or operator stands that the words name: table, and (next field) the condition for it.
    pub(crate) site: Option<(&'static str, &'static str)>,
}

macro_rules! families {
    ($($(#[doc = $doc:literal])+ $family:ident $rule:ident: $one:ident, $all:ident;)+) => {
        impl CauseKind {
            $($(#[doc = $doc])+
            pub(crate) fn $one(self) -> Option<&'static $rule> {
                match &self.rule().family {
                    CauseFamily::$family(rule) => Some(rule),
                    _ => None,
                }
            }

            pub(crate) fn $all() -> impl DoubleEndedIterator<Item = (CauseKind, &'static $rule)> {
                Self::ALL.iter().filter_map(|kind| Some((*kind, kind.$one()?)))
            })+
        }
    };
}

families! {
    /// The rule of a cause of late ranks.
    Late LateRule: late, all_late;
    /// The rule of a cause of idle time or exposed copies.
    Lost LostRule: lost, all_lost;
    /// The rule of a cause in the communication itself.
    Transfer TransferRule: transfer, all_transfer;
    /// The rule of a cause of what is left of exposed communication.
    Communication CommunicationRule: communication, all_communication;
    /// The rule of a cause in the mix of kernels, which owns compute time.
    Kernels KernelRule: kernels, all_kernels;
    /// The rule of a cause about memory, which owns no time.
    Memory MemoryRule: memory, all_memory;
}

impl CauseKind {
    /// The kinds that can own a moment of a host, by what the host does and whether more is known of the
    /// call.
    pub(crate) fn owners_of_host() -> HostOwners {
        HostOwners::new(|activity, is_marked| {
            let take = |(kind, rule): (CauseKind, &LostRule)| {
                let own: TakeMoment = |_, moment| Some(moment.own());
                let take = match rule.of_host {
                    OfHost::While(during) => (during == activity).then_some(own),
                    OfHost::InMarkedCall(take) => is_marked.then_some(take),
                    OfHost::Any(take) => Some(take),
                    OfHost::Nothing => None,
                };
                Some((kind, take?))
            };
            Self::all_lost().filter_map(take).collect()
        })
    }

    /// Whether it is about ranks that make others wait.
    pub(crate) fn is_late(self) -> bool {
        self.late().is_some()
    }

    /// Whether it is about communication itself.
    pub(crate) fn is_of_transfers(self) -> bool {
        self.transfer().is_some() || self.communication().is_some()
    }

    /// Whether it owns pauses, which come one after the other on many ranks.
    pub(crate) fn is_of_pauses(self) -> bool {
        self.lost().is_some_and(|rule| rule.of_pauses.is_some())
    }

    /// As in the tables.
    pub fn name(self) -> &'static str {
        self.rule().name
    }

    pub fn named(name: &str) -> Option<CauseKind> {
        Self::ALL.iter().copied().find(|k| k.name() == name)
    }

    /// A trace of the repository that has such a cause, or the tests that make one; empty if there is none.
    pub fn shown_by(self) -> &'static str {
        self.rule().shown_by
    }

    /// The colour of such a cause on the time axis of the page; `None` if it has no place there.
    pub fn tint(self) -> Option<u8> {
        self.lost()?.tint
    }

    /// The place of the lost time of such a cause.
    pub(crate) fn is_at(self, place: LostPlace) -> bool {
        self.lost().is_some_and(|rule| rule.place == place)
    }
}
