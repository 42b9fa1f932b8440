//! How S3 is reached: what the environment says, completed by the profile of the AWS tools.
//!
//! Credentials are those of the first of these that has any, in the order of the AWS CLI:
//!
//! 1. `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` of the environment, even if `AWS_PROFILE` is set
//! 2. a role that the profile assumes, which is refused
//! 3. a web identity, of the environment or the profile
//! 4. IAM Identity Center (SSO), which is refused
//! 5. keys in the file of credentials
//! 6. `aws login`, which is refused
//! 7. `credential_process`
//! 8. keys in the configuration
//! 9. the container's or the machine's role, for which the store's client asks
//!
//! What is refused is not passed over: what comes later in the list may be another account.

use super::aws_process::CredentialProcess;
use super::aws_profile::{AwsEnvironment, AwsProfile, ProfilePart};
use super::fault::Fault;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};
use reqwest::Url;
use std::collections::HashMap;
use std::io::ErrorKind::{InvalidInput, PermissionDenied};
use std::sync::Arc;

const EXPORT: &str =
    "put its credentials into the environment: eval \"$(aws configure export-credentials --format env)\"";

/// How S3 is reached.
pub(super) struct AwsSettings {
    /// Settings of the store's client, secrets among them.
    client: HashMap<Key, String>,
    /// The program that gives credentials.
    process: Option<Arc<CredentialProcess>>,
    /// Whether buckets are part of the server's name.
    has_virtual_hosts: bool,
}

impl AwsSettings {
    pub(crate) fn of(environment: &AwsEnvironment) -> Result<Self, Fault> {
        let profile = AwsProfile::chosen(environment)?;
        let mut client = HashMap::new();
        for (name, value) in &environment.variables {
            if let Ok(key) = name.to_ascii_lowercase().parse::<Key>() {
                client.insert(key, value.clone());
            }
        }
        // Of several names for one setting, that of the AWS tools counts.
        let named = [
            (Key::Token, "AWS_SECURITY_TOKEN"),
            (Key::Token, "AWS_SESSION_TOKEN"),
            (Key::Endpoint, "AWS_ENDPOINT_URL"),
        ];
        client
            .extend(named.iter().filter_map(|(key, name)| Some((*key, environment.get(name)?.to_string()))));
        let region = client.remove(&Key::Region).or_else(|| client.remove(&Key::DefaultRegion));
        let region = match region {
            None => profile.setting("region")?.map(str::to_string),
            given => given,
        };
        client.extend(region.map(|region| (Key::Region, region)));
        let endpoint = endpoint(environment, &profile, &client)?;
        client.remove(&Key::S3Endpoint);
        client.remove(&Key::Endpoint);
        client.extend(endpoint.map(|endpoint| (Key::Endpoint, endpoint)));
        let has_virtual_hosts = !client.contains_key(&Key::VirtualHostedStyleRequest)
            && profile.nested("s3", "addressing_style") == Some("virtual");
        let mut settings = Self { client, process: None, has_virtual_hosts };
        if !is_true(settings.client.get(&Key::SkipSignature).map(String::as_str)) {
            settings.find_credentials(&profile)?;
        }
        Ok(settings)
    }

    /// The client of a bucket, on the user's own server if there is one.
    pub(crate) fn builder(&self, bucket: &str, server: Option<&String>) -> AmazonS3Builder {
        let settings = self.client.iter().filter(|(key, _)| **key != Key::Endpoint);
        let mut builder = settings.fold(AmazonS3Builder::new(), |b, (key, value)| b.with_config(*key, value));
        let server = server
            .or_else(|| self.client.get(&Key::Endpoint))
            .map(|url| url.trim_end_matches('/').to_string());
        let host_label = Some(bucket).filter(|bucket| self.has_virtual_hosts && is_host_label(bucket));
        if let Some(server) = server {
            if server.starts_with("http://") {
                builder = builder.with_allow_http(true);
            }
            builder = match host_label.and_then(|bucket| with_host_label(&server, bucket)) {
                Some(server) => builder.with_endpoint(server).with_virtual_hosted_style_request(true),
                None => builder.with_endpoint(server),
            };
        } else if host_label.is_some() {
            builder = builder.with_virtual_hosted_style_request(true);
        }
        if let Some(process) = &self.process {
            builder = builder.with_credentials(Arc::clone(process) as _);
        }
        builder.with_bucket_name(bucket)
    }

    /// Takes the credentials from the first place that has any.
    fn find_credentials(&mut self, profile: &AwsProfile) -> Result<(), Fault> {
        let has = |key| self.client.contains_key(&key);
        match (has(Key::AccessKeyId), has(Key::SecretAccessKey)) {
            (true, true) => return Ok(()),
            (true, false) => {
                return Err(half("the environment", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"));
            }
            (false, true) => {
                return Err(half("the environment", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"));
            }
            (false, false) => {}
        }
        // A token without its key is nobody's.
        self.client.remove(&Key::Token);
        let name = &profile.name;
        let refused = |how: String| {
            Err(Fault::new(PermissionDenied, format!("the AWS profile `{name}` {how}"), Some(EXPORT)))
        };
        if profile.first_of(&["web_identity_token_file"]).is_none()
            && profile.first_of(&["role_arn"]).is_some()
        {
            return refused("assumes a role (`role_arn`), which is not supported".to_string());
        }
        if self.takes_web_identity(profile)? {
            return Ok(());
        }
        let signs_in =
            |key: &str| format!("signs in by IAM Identity Center (`{key}`), which is not supported");
        if let Some(key) = profile.first_of(&["sso_account_id", "sso_role_name"]) {
            return refused(signs_in(key));
        }
        if self.takes_keys(name, &profile.credentials)? {
            return Ok(());
        }
        if profile.first_of(&["login_session"]).is_some() {
            return refused("signs in by `aws login` (`login_session`), which is not supported".to_string());
        }
        if let Some(command) = profile.setting("credential_process")? {
            self.process = Some(Arc::new(CredentialProcess::new(name, command)?));
            return Ok(());
        }
        if self.takes_keys(name, &profile.config)? {
            return Ok(());
        }
        match profile.first_of(&["sso_session", "sso_start_url"]) {
            Some(key) => refused(signs_in(key)),
            None => Ok(()),
        }
    }

    /// Whether there is a web identity. Each of its settings is taken from the environment, else from the
    /// profile.
    fn takes_web_identity(&mut self, profile: &AwsProfile) -> Result<bool, Fault> {
        let keys = [
            (Key::WebIdentityTokenFile, "web_identity_token_file"),
            (Key::RoleArn, "role_arn"),
            (Key::RoleSessionName, "role_session_name"),
        ];
        for (key, name) in keys {
            if let (false, Some(value)) = (self.client.contains_key(&key), profile.setting(name)?) {
                self.client.insert(key, value.to_string());
            }
        }
        match (self.client.contains_key(&Key::WebIdentityTokenFile), self.client.contains_key(&Key::RoleArn))
        {
            (true, false) => {
                let reason = "there is a web identity (AWS_WEB_IDENTITY_TOKEN_FILE, \
                              `web_identity_token_file`) without its role (AWS_ROLE_ARN, `role_arn`)";
                Err(Fault::new(InvalidInput, reason, None))
            }
            (has_token, _) => Ok(has_token),
        }
    }

    /// Whether a file has keys for the profile.
    fn takes_keys(&mut self, profile: &str, part: &ProfilePart) -> Result<bool, Fault> {
        let (id, secret) = ("aws_access_key_id", "aws_secret_access_key");
        let whose = || format!("the AWS profile `{profile}` in {}", part.path.display());
        match (part.setting(id)?, part.setting(secret)?) {
            (None, None) => return Ok(false),
            (Some(_), None) => return Err(half(&whose(), id, secret)),
            (None, Some(_)) => return Err(half(&whose(), secret, id)),
            (Some(id), Some(secret)) => {
                self.client.insert(Key::AccessKeyId, id.to_string());
                self.client.insert(Key::SecretAccessKey, secret.to_string());
            }
        }
        let token = match part.setting("aws_session_token")? {
            None => part.setting("aws_security_token")?,
            token => token,
        };
        self.client.extend(token.map(|token| (Key::Token, token.to_string())));
        Ok(true)
    }
}

/// The user's own server: of the environment, else of the profile.
fn endpoint(
    environment: &AwsEnvironment,
    profile: &AwsProfile,
    client: &HashMap<Key, String>,
) -> Result<Option<String>, Fault> {
    let ignored = match environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
        None => profile.setting("ignore_configured_endpoint_urls")?,
        given => given,
    };
    if is_true(ignored) {
        return Ok(None);
    }
    if let Some(url) = client.get(&Key::S3Endpoint).or_else(|| client.get(&Key::Endpoint)) {
        return Ok(Some(url.clone()));
    }
    let url = match profile.of_service("s3", "endpoint_url")? {
        None => profile.setting("endpoint_url")?,
        given => given,
    };
    let Some(url) = url else { return Ok(None) };
    let is_server = |url: &Url| matches!(url.scheme(), "http" | "https") && url.password().is_none();
    match Url::parse(url).ok().filter(is_server) {
        Some(_) => Ok(Some(url.to_string())),
        None => {
            let reason = format!(
                "`endpoint_url` of the AWS profile `{}`: expected the URL of a server without user and \
                 password, as http://127.0.0.1:9000",
                profile.name
            );
            Err(Fault::new(InvalidInput, reason, None))
        }
    }
}

/// A key of two that belong together is missing.
fn half(place: &str, found: &str, missing: &str) -> Fault {
    Fault::new(PermissionDenied, format!("{place} has `{found}` and no `{missing}`"), None)
}

fn is_true(value: Option<&str>) -> bool {
    value.is_some_and(|v| v == "1" || v.eq_ignore_ascii_case("true"))
}

/// Whether a bucket's name can be the first part of a host's. One with dots fits no certificate.
fn is_host_label(bucket: &str) -> bool {
    bucket.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// `https://host` as `https://bucket.host`, unless the host is an address.
fn with_host_label(server: &str, bucket: &str) -> Option<String> {
    let mut url = Url::parse(server).ok()?;
    let host = format!("{bucket}.{}", url.domain()?);
    url.set_host(Some(&host)).ok()?;
    Some(url.as_str().trim_end_matches('/').to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What the client of the bucket `traces` is told by these files and variables.
    fn told(
        config: &str,
        credentials: &str,
        variables: &[(&str, &str)],
        keys: &[Key],
    ) -> Vec<Option<String>> {
        let settings = settings(config, credentials, variables).unwrap();
        let builder = settings.builder("traces", None);
        keys.iter().map(|key| builder.get_config_value(key)).collect()
    }

    fn settings(config: &str, credentials: &str, variables: &[(&str, &str)]) -> Result<AwsSettings, Fault> {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join(".aws")).unwrap();
        fs::write(home.path().join(".aws/config"), config).unwrap();
        fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        AwsSettings::of(&AwsEnvironment { variables, home: Some(home.path().to_path_buf()) })
    }

    fn key(config: &str, credentials: &str, variables: &[(&str, &str)]) -> String {
        let keys = [Key::AccessKeyId, Key::SecretAccessKey, Key::Token];
        let told = told(config, credentials, variables, &keys).into_iter();
        told.map(|value| value.unwrap_or("-".to_string())).collect::<Vec<_>>().join(" ")
    }

    fn endpoint_of(config: &str, variables: &[(&str, &str)]) -> String {
        told(config, "", variables, &[Key::Endpoint]).remove(0).unwrap_or_default()
    }

    fn refused(config: &str, credentials: &str, variables: &[(&str, &str)]) -> Fault {
        settings(config, credentials, variables).map(|_| ()).unwrap_err()
    }

    const CREDENTIALS: &str =
        "[default]\naws_access_key_id = F\naws_secret_access_key = f\naws_session_token = t\n";
    const CONFIG: &str = "[default]\naws_access_key_id = C\naws_secret_access_key = c\nregion = eu-west-1\n";
    const OF_ENVIRONMENT: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "e")];

    #[test]
    fn keys_of_the_environment_count_before_those_of_credentials_and_these_before_the_configuration() {
        assert_eq!(key(CONFIG, CREDENTIALS, &OF_ENVIRONMENT), "E e -");
        assert_eq!(key(CONFIG, CREDENTIALS, &[("AWS_SESSION_TOKEN", "stray")]), "F f t");
        assert_eq!(key(CONFIG, "", &[("AWS_SESSION_TOKEN", "stray")]), "C c -");
        assert_eq!(key("", "", &[]), "- - -");
        let with_profile = [("AWS_PROFILE", "default"), OF_ENVIRONMENT[0], OF_ENVIRONMENT[1]];
        assert_eq!(key(CONFIG, CREDENTIALS, &with_profile), "E e -");
    }

    #[test]
    fn the_region_of_the_profile_counts_if_the_environment_has_none() {
        let region =
            |variables: &[(&str, &str)]| told(CONFIG, "", variables, &[Key::Region]).remove(0).unwrap();
        assert_eq!(region(&[]), "eu-west-1");
        assert_eq!(region(&OF_ENVIRONMENT), "eu-west-1");
        assert_eq!(region(&[("AWS_DEFAULT_REGION", "b")]), "b");
        assert_eq!(region(&[("AWS_DEFAULT_REGION", "b"), ("AWS_REGION", "a")]), "a");
    }

    #[test]
    fn a_process_counts_before_the_configuration_and_after_credentials() {
        let with_process = format!("{CONFIG}credential_process = get\n");
        assert_eq!(key(&with_process, CREDENTIALS, &[]), "F f t");
        let settings = settings(&with_process, "", &[]).unwrap();
        assert!(settings.process.is_some() && !settings.client.contains_key(&Key::AccessKeyId));
    }

    #[test]
    fn a_web_identity_counts_before_the_keys_of_files() {
        let identity = "[default]\nrole_arn = r\nweb_identity_token_file = /token\n";
        let keys = [Key::AccessKeyId, Key::WebIdentityTokenFile, Key::RoleArn];
        let found = |config, variables: &[(&str, &str)]| {
            let told = told(config, CREDENTIALS, variables, &keys).into_iter();
            told.map(|value| value.unwrap_or("-".to_string())).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(identity, &[]), "- /token r");
        assert_eq!(found("", &[("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "q")]), "- /t q");
        let no_role = refused("", "", &[("AWS_WEB_IDENTITY_TOKEN_FILE", "/t")]);
        assert!(no_role.reason.contains("without its role"), "{no_role}");
    }

    #[test]
    fn roles_and_sign_ins_are_refused_with_a_way_out_unless_the_environment_has_keys() {
        for (config, told) in [
            ("[default]\nrole_arn = r\nsource_profile = b\nmfa_serial = m\n", "`role_arn`"),
            ("[default]\nrole_arn = r\ncredential_source = Environment\n", "`role_arn`"),
            ("[default]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n", "`sso_account_id`"),
        ] {
            let refused = refused(config, CREDENTIALS, &[]);
            assert!(refused.reason.contains("`default`") && refused.reason.contains(told), "{refused}");
            assert!(refused.hint.is_some_and(|hint| hint.contains("export-credentials")), "{refused}");
            assert_eq!(key(config, CREDENTIALS, &OF_ENVIRONMENT), "E e -");
            assert_eq!(key(config, CREDENTIALS, &[("AWS_SKIP_SIGNATURE", "true")]), "- - -");
        }
        for config in ["[default]\nlogin_session = l\n", "[default]\nsso_start_url = u\n"] {
            assert_eq!(key(config, CREDENTIALS, &[]), "F f t");
            assert!(refused(config, "", &[]).hint.is_some_and(|hint| hint.contains("export-credentials")));
        }
    }

    #[test]
    fn half_of_a_pair_of_keys_is_refused_and_not_shown() {
        for (config, credentials, variables) in [
            ("", "[default]\naws_access_key_id = s3cr3t\n", &[][..]),
            ("[default]\naws_secret_access_key = s3cr3t\n", "", &[]),
            (CONFIG, CREDENTIALS, &[("AWS_SECRET_ACCESS_KEY", "s3cr3t")]),
            (CONFIG, CREDENTIALS, &[("AWS_ACCESS_KEY_ID", "s3cr3t")]),
        ] {
            let refused = refused(config, credentials, variables);
            assert!(refused.reason.contains(" and no `"), "{refused}");
            assert!(!refused.reason.contains("s3cr3t"), "{refused}");
        }
    }

    #[test]
    fn endpoints_count_in_the_order_of_the_aws_tools() {
        let config = "[default]\nendpoint_url = http://all\nservices = near\n\
                      [services near]\ns3 =\n  endpoint_url = http://s3\n";
        let (of_s3, of_all) = (("AWS_ENDPOINT_URL_S3", "http://e3"), ("AWS_ENDPOINT_URL", "http://e"));
        assert_eq!(endpoint_of(config, &[of_all, of_s3]), "http://e3");
        assert_eq!(endpoint_of(config, &[of_all, ("AWS_ENDPOINT", "http://other")]), "http://e");
        assert_eq!(endpoint_of(config, &[]), "http://s3");
        assert_eq!(endpoint_of("[default]\nendpoint_url = http://all/\n", &[]), "http://all");
        let ignored = ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
        assert_eq!(endpoint_of(config, &[of_all, of_s3, ignored]), "");
        let in_profile =
            format!("[default]\nignore_configured_endpoint_urls = TRUE\n{}", &config["[default]\n".len()..]);
        assert_eq!(endpoint_of(&in_profile, &[of_all]), "");
        for wrong in ["host:9000", "http://u:s3cr3t@host"] {
            let refused = refused(&format!("[default]\nendpoint_url = {wrong}\n"), "", &[]).reason;
            assert!(refused.contains("`default`") && !refused.contains("s3cr3t"), "{refused}");
        }
    }

    #[test]
    fn buckets_are_part_of_the_host_if_the_profile_says_so_and_their_names_fit() {
        let config = "[default]\ns3 =\n  addressing_style = virtual\n";
        let found = |bucket: &str, server: Option<&str>, variables: &[(&str, &str)]| {
            let settings = settings(config, "", variables).unwrap();
            let builder = settings.builder(bucket, server.map(str::to_string).as_ref());
            let style = builder.get_config_value(&Key::VirtualHostedStyleRequest).unwrap();
            (style, builder.get_config_value(&Key::Endpoint).unwrap_or_default())
        };
        let (path, host) = ("false".to_string(), "true".to_string());
        assert_eq!(found("a-1", None, &[]), (host.clone(), String::new()));
        assert_eq!(found("a.b", None, &[]), (path.clone(), String::new()));
        assert_eq!(found("a-1", Some("https://s:9000/x"), &[]), (host, "https://a-1.s:9000/x".to_string()));
        assert_eq!(
            found("a-1", Some("http://127.0.0.1:1"), &[]),
            (path.clone(), "http://127.0.0.1:1".to_string())
        );
        let given = [("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "false")];
        assert_eq!(found("a-1", None, &given), (path, String::new()));
    }
}
