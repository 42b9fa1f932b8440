//! The profile of the AWS tools: which one is used, and what its files say of it.
//!
//! `AWS_PROFILE` names it, else it is `default`. Its keys are in `~/.aws/credentials` (`[NAME]`) and
//! `~/.aws/config` (`[profile NAME]`); a key that is in both counts as the first file has it.
//! `AWS_CONFIG_FILE` and `AWS_SHARED_CREDENTIALS_FILE` name other files. A file that does not exist has no
//! profiles.

use super::aws_file::{AwsSection, AwsValue, sections};
use super::fault::Fault;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind::InvalidInput;
use std::path::{Path, PathBuf};

const NAMED: &str =
    "AWS_PROFILE names the profile, AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name the files";
const FILES: &str = "AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name other files";

/// Names of profiles that are listed when one is missing.
const MOST_NAMES: usize = 20;

/// What the environment says, without variables that are empty: the AWS tools take them as not set.
pub(super) struct AwsEnvironment {
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) home: Option<PathBuf>,
}

impl AwsEnvironment {
    /// That of this process.
    pub(crate) fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let variables = std::env::vars_os().filter_map(text);
        let variables = variables.filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty());
        Self { variables: variables.collect(), home: std::env::home_dir() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The file that a variable names, else the usual one.
    fn file(&self, variable: &str, usual: &str) -> Option<PathBuf> {
        match self.get(variable) {
            Some(path) => match (path.strip_prefix("~/"), &self.home) {
                (Some(below), Some(home)) => Some(home.join(below)),
                _ => Some(path.into()),
            },
            None => Some(self.home.as_ref()?.join(".aws").join(usual)),
        }
    }
}

/// A profile.
pub(super) struct AwsProfile {
    pub(crate) name: String,
    /// What the file of credentials says of it.
    pub(crate) credentials: ProfilePart,
    /// What the configuration says of it.
    pub(crate) config: ProfilePart,
    /// All sections of the configuration but the profile's.
    others: Vec<AwsSection>,
}

/// The keys that a file has for a profile.
pub(super) struct ProfilePart {
    pub(crate) path: PathBuf,
    values: BTreeMap<String, AwsValue>,
}

impl AwsProfile {
    /// The profile that the environment chooses. `default` need not exist unless it is named.
    pub(crate) fn chosen(environment: &AwsEnvironment) -> Result<Self, Fault> {
        let named = environment.get("AWS_PROFILE").or_else(|| environment.get("AWS_DEFAULT_PROFILE"));
        let name = named.unwrap_or("default");
        let config = environment.file("AWS_CONFIG_FILE", "config").unwrap_or_default();
        let credentials = environment.file("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default();
        let (mut of_config, mut of_credentials) = (read(&config)?, read(&credentials)?);
        // Of `[default]` and `[profile default]` the later one counts.
        let in_config = of_config.iter().rposition(|section| section.profile().as_deref() == Some(name));
        let in_credentials = of_credentials.iter().position(|section| section.name == name);
        if named.is_some() && in_config.is_none() && in_credentials.is_none() {
            let in_config = listed(&config, of_config.iter().filter_map(AwsSection::profile));
            let in_credentials = listed(&credentials, of_credentials.into_iter().map(|s| s.name));
            let reason = format!("there is no AWS profile `{name}`: {in_config}; {in_credentials}");
            return Err(Fault::new(InvalidInput, reason, Some(NAMED)));
        }
        let part = |path, sections: &mut Vec<AwsSection>, at: Option<usize>| ProfilePart {
            path,
            values: at.map(|at| sections.swap_remove(at).values).unwrap_or_default(),
        };
        Ok(Self {
            name: name.to_string(),
            credentials: part(credentials, &mut of_credentials, in_credentials),
            config: part(config, &mut of_config, in_config),
            others: of_config,
        })
    }

    /// The part that decides about a key.
    fn part_with(&self, key: &str) -> &ProfilePart {
        if self.credentials.values.contains_key(key) { &self.credentials } else { &self.config }
    }

    /// The value of a key.
    pub(crate) fn setting(&self, key: &str) -> Result<Option<&str>, Fault> {
        self.part_with(key).setting(key)
    }

    /// The first of some keys that the profile has.
    pub(crate) fn first_of(&self, keys: &[&'static str]) -> Option<&'static str> {
        let has =
            |key: &&&'static str| self.part_with(key).values.get(**key).is_some_and(|v| !v.text.is_empty());
        keys.iter().find(has).copied()
    }

    /// A key that is indented below another one.
    pub(crate) fn nested(&self, key: &str, inner: &str) -> Option<&str> {
        let value = self.part_with(key).values.get(key)?.nested.get(inner)?;
        Some(value.as_str()).filter(|text| !text.is_empty())
    }

    /// A key of a service in the section of services that the profile names.
    pub(crate) fn of_service(&self, service: &str, key: &str) -> Result<Option<&str>, Fault> {
        let Some(name) = self.setting("services")? else { return Ok(None) };
        let section = self.others.iter().find(|section| section.named("services").as_deref() == Some(name));
        let section = section.ok_or_else(|| {
            let path = self.config.path.display();
            let reason = format!(
                "{path} has no section `[services {name}]`, which the AWS profile `{}` uses",
                self.name
            );
            Fault::new(InvalidInput, reason, None)
        })?;
        let value = section.values.get(service).and_then(|service| service.nested.get(key));
        Ok(value.map(String::as_str).filter(|text| !text.is_empty()))
    }
}

impl ProfilePart {
    /// The value of a key that has one, which must be on one line.
    pub(crate) fn setting(&self, key: &str) -> Result<Option<&str>, Fault> {
        let Some(value) = self.values.get(key).filter(|value| !value.text.is_empty()) else {
            return Ok(None);
        };
        if value.text.contains('\n') {
            let (path, line) = (self.path.display(), value.line);
            let reason = format!(
                "cannot read {path}: the value of `{key}` in line {line} goes on in the next line, which is \
                 indented"
            );
            return Err(Fault::new(InvalidInput, reason, Some(FILES)));
        }
        Ok(Some(&value.text))
    }
}

/// The sections of a file; none if it does not exist.
fn read(path: &Path) -> Result<Vec<AwsSection>, Fault> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let fault = |what: String| {
        Fault::new(InvalidInput, format!("cannot read {}: {what}", path.display()), Some(FILES))
    };
    let bytes = fs::read(path).map_err(|e| fault(e.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|e| {
        let before = bytes.get(..e.valid_up_to()).unwrap_or_default();
        fault(format!("line {} is not UTF-8", 1 + before.iter().filter(|b| **b == b'\n').count()))
    })?;
    sections(text).map_err(|bad| fault(format!("line {}: {}", bad.line, bad.reason)))
}

/// What profiles a file has, in words.
fn listed(path: &Path, names: impl Iterator<Item = String>) -> String {
    let path_text = path.display();
    if !path.is_file() {
        return format!("{path_text} does not exist");
    }
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => format!("{path_text} has no profiles"),
        n if n > MOST_NAMES => {
            let first = names.get(..MOST_NAMES).unwrap_or_default();
            format!("{path_text} has {} and {} more", first.join(", "), n - MOST_NAMES)
        }
        _ => format!("{path_text} has {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home with these files, and the environment of one who has it.
    fn at_home(
        config: &str,
        credentials: &str,
        variables: &[(&str, &str)],
    ) -> (tempfile::TempDir, AwsEnvironment) {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".aws")).unwrap();
        fs::write(home.path().join(".aws/config"), config).unwrap();
        fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let environment = AwsEnvironment { variables, home: Some(home.path().to_path_buf()) };
        (home, environment)
    }

    const CONFIG: &str = "[default]\nregion = a\n[profile dev]\nregion = b\nservices = near\n\
                          [services near]\ns3 =\n  endpoint_url = http://near\n[other]\n";
    const CREDENTIALS: &str = "[default]\naws_access_key_id = D\n[dev]\nregion = c\n[profile x]\n";

    fn region(variables: &[(&str, &str)]) -> String {
        let (_home, environment) = at_home(CONFIG, CREDENTIALS, variables);
        AwsProfile::chosen(&environment).unwrap().setting("region").unwrap().unwrap_or_default().to_string()
    }

    fn refused(config: &str, variables: &[(&str, &str)]) -> String {
        let (home, environment) = at_home(config, CREDENTIALS, variables);
        let profile = AwsProfile::chosen(&environment);
        let reason = profile.and_then(|p| p.setting("region").map(|_| ())).unwrap_err().reason;
        reason.replace(&home.path().display().to_string(), "~")
    }

    #[test]
    fn the_environment_names_the_profile_and_credentials_count_before_the_configuration() {
        assert_eq!(region(&[]), "a");
        assert_eq!(region(&[("AWS_DEFAULT_PROFILE", "dev")]), "c");
        assert_eq!(region(&[("AWS_DEFAULT_PROFILE", "dev"), ("AWS_PROFILE", "default")]), "a");
        // In the file of credentials a section is named as its profile.
        assert_eq!(region(&[("AWS_PROFILE", "profile x")]), "");
    }

    #[test]
    fn a_profile_that_is_named_must_exist() {
        let listed =
            "~/.aws/config has `default`, `dev`; ~/.aws/credentials has `default`, `dev`, `profile x`";
        assert_eq!(
            refused(CONFIG, &[("AWS_PROFILE", "x")]),
            format!("there is no AWS profile `x`: {listed}")
        );
        let elsewhere =
            [("AWS_PROFILE", "default"), ("AWS_CONFIG_FILE", "/no"), ("AWS_SHARED_CREDENTIALS_FILE", "~/no")];
        assert_eq!(
            refused(CONFIG, &elsewhere),
            "there is no AWS profile `default`: /no does not exist; ~/no does not exist"
        );
        let (_home, environment) = at_home("", "", &[]);
        assert!(AwsProfile::chosen(&environment).is_ok());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_with_its_line() {
        assert_eq!(
            refused("[default]\ns3cr3t\n", &[]),
            "cannot read ~/.aws/config: line 2: expected `key = value`"
        );
        let indented = refused("[default]\nregion = a\n  s3cr3t\n", &[]);
        assert!(indented.contains("`region` in line 2") && !indented.contains("s3cr3t"), "{indented}");
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("latin");
        fs::write(&path, b"[default]\n# \xe9\n").unwrap();
        assert!(read(&path).unwrap_err().reason.ends_with("line 2 is not UTF-8"));
    }

    #[test]
    fn of_two_sections_of_one_profile_the_later_one_counts() {
        for config in
            ["[profile default]\n[default]\nregion = a\n", "[default]\n[profile default]\nregion = a\n"]
        {
            let (_home, environment) = at_home(config, "", &[]);
            assert_eq!(AwsProfile::chosen(&environment).unwrap().setting("region").unwrap(), Some("a"));
        }
    }

    #[test]
    fn services_are_looked_up_by_the_name_in_the_profile() {
        let (_home, environment) = at_home(CONFIG, "", &[("AWS_PROFILE", "dev")]);
        let profile = AwsProfile::chosen(&environment).unwrap();
        assert_eq!(profile.of_service("s3", "endpoint_url").unwrap(), Some("http://near"));
        assert_eq!(profile.of_service("sts", "endpoint_url").unwrap(), None);
        let (_home, environment) = at_home("[default]\nservices = far\n", "", &[]);
        let refused = AwsProfile::chosen(&environment).unwrap();
        let refused = refused.of_service("s3", "endpoint_url").unwrap_err().reason;
        assert!(refused.contains("`[services far]`"), "{refused}");
    }
}
