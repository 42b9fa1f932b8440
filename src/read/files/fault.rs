//! Why an object could not be read or written, in words without secrets.
//!
//! Errors of the libraries below quote whole URLs, which may be signed, and whole answers of the server. So
//! nothing of them is passed on but the status, the server's own code for it, and the innermost cause.

use super::secrets::without_queries;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error;
use std::io;
use std::time::Duration;

/// How often a request is made again that has no answer.
pub(super) const RETRIES: usize = 6;

/// How often the same is asked for after an answer broke off.
pub(super) const TRIES: u32 = 6;

/// Why a store failed. It is the inner error of an [`io::Error`] where files and objects are read alike.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Fault {
    pub reason: String,
    /// Advice for the user.
    pub hint: Option<&'static str>,
    pub(crate) kind: io::ErrorKind,
}

const CREDENTIALS: &str = "credentials are taken from the environment (AWS_ACCESS_KEY_ID ..., \
                           AZURE_STORAGE_ACCOUNT_KEY ..., GOOGLE_APPLICATION_CREDENTIALS), for s3:// also \
                           from a profile of ~/.aws, or the machine's role; `hta explain stores` lists them";
const CHANGED: &str = "it was written again meanwhile: read it when its writer is done";
const LATER: &str = "the store was asked several times: try again later";
const ELSEWHERE: &str =
    "give the address at which the store answers by --endpoint, or its region (AWS_REGION)";

/// What the crate says before the status of an answer. Its types for these errors are private.
const STATUS: &str = "Server returned non-2xx status code: ";
/// What it says of a redirect that does not say where to.
const NO_PLACE: &str = "redirect without LOCATION";
/// What it says of an answer without the range that was asked for.
const NO_RANGES: [&str; 2] =
    ["Received non-partial response when range requested", "Range request not supported by"];

/// Addresses at which clouds tell a machine its credentials.
const METADATA: [&str; 3] = ["169.254.169.254", "metadata.google.internal", "169.254.170.2"];

impl Fault {
    pub(crate) fn new(kind: io::ErrorKind, reason: impl Into<String>, hint: Option<&'static str>) -> Self {
        Self { reason: reason.into(), hint, kind }
    }

    /// The fault inside an error of reading, if a store caused it.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// The fault with advice on credentials, if it has none of its own.
    pub(super) fn of_credentials(self) -> Self {
        Self { hint: self.hint.or(Some(CREDENTIALS)), ..self }
    }

    /// An object that is not the one that was opened any more.
    pub(super) fn changed() -> Self {
        Self::new(io::ErrorKind::InvalidData, "the object changed while it was read", Some(CHANGED))
    }

    /// An object of which a part could not be had, however often it was asked for.
    pub(super) fn ends_early(at: u64, size: u64) -> Self {
        let reason = format!("the store's answers end at byte {at} of {size}");
        Self::new(io::ErrorKind::UnexpectedEof, reason, Some(LATER))
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        io::Error::new(fault.kind, fault)
    }
}

impl From<object_store::Error> for Fault {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as Of;
        if let Some(fault) = causes(&error).find_map(|cause| cause.downcast_ref::<Self>()) {
            return fault.clone();
        }
        let told = told(&error);
        let with = |what: &str| if told.is_empty() { what.to_string() } else { format!("{what} ({told})") };
        match &error {
            Of::NotFound { .. } => Self::new(io::ErrorKind::NotFound, with("no such object"), None),
            Of::Precondition { .. } => Self::changed(),
            Of::PermissionDenied { .. } | Of::Unauthenticated { .. } => Self::new(
                io::ErrorKind::PermissionDenied,
                with("the store refuses access"),
                Some(CREDENTIALS),
            ),
            _ if METADATA.iter().any(|address| error.to_string().contains(address)) => {
                let reason = "no credentials: none in the environment or a profile, and this machine has no \
                              role in the cloud";
                Self::new(io::ErrorKind::PermissionDenied, reason, Some(CREDENTIALS))
            }
            _ if has_status(&error, &["401", "403"]) => Self::new(
                io::ErrorKind::PermissionDenied,
                with("the store refuses access"),
                Some(CREDENTIALS),
            ),
            _ if has_status(&error, &[""]) => {
                let hint = if was_retried(&error) {
                    Some(LATER)
                } else {
                    has_status(&error, &["3"]).then_some(ELSEWHERE)
                };
                Self::new(io::ErrorKind::InvalidData, with("the store answers with an error"), hint)
            }
            _ => {
                let is_redirect = chain(&error).any(|text| text.contains(NO_PLACE));
                Self::new(io::ErrorKind::ConnectionAborted, told, is_redirect.then_some(ELSEWHERE))
            }
        }
    }
}

/// Whether a server sent a whole object although a part was asked for.
pub(super) fn has_no_ranges(error: &object_store::Error) -> bool {
    chain(error).any(|text| NO_RANGES.iter().any(|no_ranges| text.contains(no_ranges)))
}

/// Whether a server refused a range because the object is shorter, as stores do for an empty object.
pub(super) fn is_beyond_end(error: &object_store::Error) -> bool {
    has_status(error, &["416"])
}

/// Whether a request was made several times before its error was told: errors of the request are told at
/// once.
fn was_retried(error: &object_store::Error) -> bool {
    chain(error).any(|text| text.split_once(", after ").is_some_and(|(_, rest)| rest.contains(" retries")))
}

/// Whether a server answered with an error whose number begins so. One with 3 sends the request elsewhere,
/// which is not followed.
fn has_status(error: &object_store::Error, begins: &[&str]) -> bool {
    let is_one = |status: &str| begins.iter().any(|begin| status.starts_with(begin));
    chain(error).any(|text| text.strip_prefix(STATUS).is_some_and(is_one))
}

/// Whether an answer broke off. The crate asks again, [`RETRIES`] times, only until an answer has begun.
fn broke_off(error: &object_store::Error) -> bool {
    let is_interrupted =
        |e: &HttpError| matches!(e.kind(), HttpErrorKind::Interrupted | HttpErrorKind::Decode);
    let given_up = format!(", after {RETRIES} retries");
    causes(error).filter_map(|cause| cause.downcast_ref()).any(is_interrupted)
        && !chain(error).any(|text| text.contains(&given_up))
}

/// The answer to a request that changes nothing, which is asked again if an answer breaks off.
pub(super) async fn whole_answer<T, F>(ask: impl Fn() -> F) -> object_store::Result<T>
where
    F: Future<Output = object_store::Result<T>>,
{
    let mut failures = 0;
    loop {
        match ask().await {
            Err(error) if failures < TRIES && broke_off(&error) => failures += 1,
            answer => return answer,
        }
        tokio::time::sleep(pause(failures)).await;
    }
}

/// Time before the same is asked for again.
pub(super) fn pause(failures: u32) -> Duration {
    Duration::from_millis(50 << failures.min(6))
}

/// An error and its causes, outermost first.
fn causes(error: &object_store::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |cause| (*cause).source())
}

/// The texts of an error and of its causes, outermost first.
fn chain(error: &object_store::Error) -> impl Iterator<Item = String> {
    causes(error).map(ToString::to_string)
}

/// What is known of the cause: status and code of the server's answer, or the innermost error.
fn told(error: &object_store::Error) -> String {
    if let Some(answer) = chain(error).find_map(|text| text.strip_prefix(STATUS).map(str::to_string)) {
        let (status, body) = answer.split_once(": ").unwrap_or((&answer, ""));
        let code =
            body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>")).map(|(code, _)| code);
        return match code.filter(|code| code.len() < 64 && code.bytes().all(|b| b.is_ascii_alphanumeric())) {
            Some(code) => format!("{status}, {code}"),
            None => status.to_string(),
        };
    }
    without_queries(&chain(error).last().unwrap_or_default())
}
