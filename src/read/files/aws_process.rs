//! Credentials from a program, which the profile names by `credential_process`.
//!
//! It is started as the AWS CLI does: by its words, without a shell. It prints JSON with a key, a secret and
//! maybe a time at which they expire, before which it is run again. Nothing that it prints is quoted but the
//! last line of its error messages.

use super::aws_file::words;
use super::fault::Fault;
use super::secrets::without_queries;
use chrono::{DateTime, Utc};
use object_store::aws::AwsCredential;
use object_store::{CredentialProvider, Error};
use serde_json::Value;
use std::fmt;
use std::io::ErrorKind::{InvalidInput, PermissionDenied};
use std::pin::Pin;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// How long before credentials expire the program is run again; for those that do not last twice as long,
/// half of the time that they have left.
const MARGIN: Duration = Duration::from_secs(300);

/// Longest part of a program's error message that is shown.
const MOST_TOLD: usize = 200;

/// The program, and what it has given.
pub(super) struct CredentialProcess {
    profile: String,
    words: Vec<String>,
    given: Mutex<Option<GivenCredentials>>,
}

struct GivenCredentials {
    credential: Arc<AwsCredential>,
    /// When the program is to be run again.
    until: Option<SystemTime>,
}

impl GivenCredentials {
    fn are_valid(&self) -> bool {
        self.until.is_none_or(|until| SystemTime::now() < until)
    }
}

impl CredentialProcess {
    pub(crate) fn new(profile: &str, command: &str) -> Result<Self, Fault> {
        let words = words(command).filter(|words| !words.is_empty()).ok_or_else(|| {
            let reason =
                format!("`credential_process` of the AWS profile `{profile}` has a quote that is not closed");
            Fault::new(InvalidInput, reason, None)
        })?;
        Ok(Self { profile: profile.to_string(), words, given: Mutex::default() })
    }

    fn run(profile: &str, words: &[String]) -> Result<GivenCredentials, Fault> {
        let (program, arguments) = words.split_first().map_or(("", words), |(first, rest)| (&**first, rest));
        let fault = |what: String| {
            let reason = format!("`credential_process` of the AWS profile `{profile}`: `{program}` {what}");
            Fault::new(PermissionDenied, reason, None)
        };
        let mut command = Command::new(program);
        // Standard input may be a trace, or the requests of a client.
        let output = command.args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|e| fault(format!("cannot be started: {e}")))?;
        if !output.status.success() {
            return Err(fault(failure(&output)));
        }
        given(&output.stdout, SystemTime::now()).map_err(fault)
    }
}

/// How a program ended, with the last line of its error messages.
fn failure(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    let last = last.map(|line| line.chars().filter(|c| !c.is_control()).take(MOST_TOLD).collect::<String>());
    match last {
        Some(line) => format!("ends with {}: {}", output.status, without_queries(&line)),
        None => format!("ends with {}", output.status),
    }
}

/// The credentials that a program prints, or what is wrong with them.
fn given(printed: &[u8], now: SystemTime) -> Result<GivenCredentials, String> {
    let found: Value = serde_json::from_slice(printed).map_err(|_| "does not print JSON".to_string())?;
    match found.get("Version") {
        Some(version) if version.as_u64() == Some(1) => {}
        Some(Value::Number(other)) => return Err(format!("prints `Version` {other}: expected 1")),
        _ => return Err("prints no `Version`: expected 1".to_string()),
    }
    let text = |key: &str| found.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let needed = |key: &str| text(key).map(str::to_string).ok_or_else(|| format!("prints no `{key}`"));
    let credential = AwsCredential {
        key_id: needed("AccessKeyId")?,
        secret_key: needed("SecretAccessKey")?,
        token: text("SessionToken").map(str::to_string),
    };
    let until = match found.get("Expiration").filter(|time| !time.is_null()) {
        None => None,
        Some(time) => {
            let end = time.as_str().and_then(|time| time.parse::<DateTime<Utc>>().ok());
            let end = end.ok_or("prints an `Expiration` that is not a time as 2026-01-31T12:00:00Z")?;
            let left = SystemTime::from(end).duration_since(now).ok().filter(|left| !left.is_zero());
            let left = left.ok_or_else(|| format!("prints credentials that expired at {end}"))?;
            now.checked_add(left.saturating_sub(MARGIN).max(left / 2))
        }
    };
    Ok(GivenCredentials { credential: Arc::new(credential), until })
}

impl fmt::Debug for CredentialProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialProcess").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl CredentialProvider for CredentialProcess {
    type Credential = AwsCredential;

    fn get_credential<'a, 'f>(
        &'a self,
    ) -> Pin<Box<dyn Future<Output = object_store::Result<Arc<AwsCredential>>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            // Requests that come meanwhile wait for the same run.
            let mut kept = self.given.lock().await;
            if let Some(given) = kept.as_ref().filter(|given| given.are_valid()) {
                return Ok(Arc::clone(&given.credential));
            }
            let (profile, words) = (self.profile.clone(), self.words.clone());
            let run = tokio::task::spawn_blocking(move || Self::run(&profile, &words)).await;
            let failed = |source| Error::Generic { store: "S3", source };
            let given = run.map_err(|e| failed(e.into()))?.map_err(|fault| failed(fault.into()))?;
            Ok(Arc::clone(&kept.insert(given).credential))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first second of 2026.
    fn now() -> SystemTime {
        SystemTime::from("2026-01-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap())
    }

    fn seconds(expiration: &str) -> Option<u64> {
        let printed = format!(
            r#"{{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "S", "Expiration": "{expiration}"}}"#
        );
        Some(given(printed.as_bytes(), now()).ok()?.until?.duration_since(now()).ok()?.as_secs())
    }

    fn refused(printed: &str) -> String {
        given(printed.as_bytes(), now()).map(|_| ()).unwrap_err()
    }

    #[test]
    fn credentials_are_read_from_json() {
        let printed = br#"{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "S", "SessionToken": "T"}"#;
        let given = given(printed, now()).unwrap();
        let expected =
            AwsCredential { key_id: "A".into(), secret_key: "S".into(), token: Some("T".to_string()) };
        assert_eq!((&*given.credential, given.until), (&expected, None));
    }

    #[test]
    fn the_program_is_run_again_before_its_credentials_expire() {
        assert_eq!(seconds("2026-01-01T01:00:00Z"), Some(3300));
        assert_eq!(seconds("2026-01-01T02:00:00+01:00"), Some(3300));
        assert_eq!(seconds("2026-01-01T00:04:00.5Z"), Some(120));
        assert_eq!(seconds("2025-12-31T23:59:59Z"), None);
        assert_eq!(seconds("tomorrow"), None);
    }

    #[test]
    fn what_is_wrong_is_told_without_what_was_printed() {
        assert_eq!(refused("s3cr3t"), "does not print JSON");
        assert_eq!(refused(r#"{"AccessKeyId": "s3cr3t"}"#), "prints no `Version`: expected 1");
        assert_eq!(refused(r#"{"Version": "s3cr3t"}"#), "prints no `Version`: expected 1");
        assert_eq!(refused(r#"{"Version": 2}"#), "prints `Version` 2: expected 1");
        let no_secret = r#"{"Version": 1, "AccessKeyId": "s3cr3t", "SecretAccessKey": 5}"#;
        assert_eq!(refused(no_secret), "prints no `SecretAccessKey`");
        let (keys, end) =
            (r#""AccessKeyId": "A", "SecretAccessKey": "S""#, r#""Expiration": "2025-01-01T00:00:00Z""#);
        let old = format!(r#"{{"Version": 1, {keys}, {end}}}"#);
        assert_eq!(refused(&old), "prints credentials that expired at 2025-01-01 00:00:00 UTC");
    }

    #[test]
    fn a_command_without_its_closing_quote_is_refused_without_being_shown() {
        let refused = CredentialProcess::new("dev", "get 's3cr3t").map(|_| ()).unwrap_err();
        assert!(refused.reason.contains("`dev`") && !refused.reason.contains("s3cr3t"), "{refused}");
    }
}
