//! Profiles of the AWS tools, through the program.

use super::server::{Mishap, Store};
use super::{SECRET, hta, said};
use crate::shared;
use std::fs;
use std::path::Path;
use std::process::Output;

const TOKEN: &str = "t0k3n0fth3s3ss10n";

fn with_trace() -> (Store, tempfile::TempDir) {
    let (store, home) = (Store::start(), tempfile::tempdir().expect("a folder"));
    let trace = fs::read(shared::samples().join("gpu_ddp8/rank_0.json.gz")).expect("a sample");
    store.put("a/rank_0.json.gz", &trace);
    fs::create_dir(home.path().join(".aws")).expect("a folder");
    (store, home)
}

/// Writes a file of profiles, in which `ENDPOINT`, `SECRET` and `TOKEN` stand for the real ones.
fn write(home: &Path, name: &str, store: &Store, text: &str) {
    let text = text.replace("ENDPOINT", &store.endpoint()).replace("SECRET", SECRET).replace("TOKEN", TOKEN);
    fs::write(home.join(".aws").join(name), text).expect("a file");
}

/// Reads a trace in a store of which only the profiles at home say where it is, and no secret is shown.
fn read(store: &Store, home: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = hta(store, home);
    let own = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"];
    let files = ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"];
    for name in own.iter().chain(&files) {
        command.env_remove(name);
    }
    command.env("HOME", home).envs(variables.iter().copied());
    let run = command.args(["breakdown", "s3://a/rank_0.json.gz"]).output().expect("the binary runs");
    assert!(!said(&run).contains(SECRET) && !said(&run).contains(TOKEN), "{}", said(&run));
    run
}

fn assert_signed_by(store: &Store, run: &Output, signer: &str) {
    assert!(run.status.success(), "{}", said(run));
    assert_eq!(store.signers().into_iter().collect::<Vec<_>>(), [signer]);
}

const CONFIG: &str = "[default]\nregion = us-west-1\nendpoint_url = ENDPOINT\n\n\
                      [profile train]\nregion = eu-central-1 # near\nservices = near\n\n\
                      [services near]\ns3 =\n  endpoint_url = ENDPOINT\n";
const CREDENTIALS: &str = "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = SECRET\n\n\
                           [train]\naws_access_key_id = AKTRAIN\naws_secret_access_key = SECRET\n\
                           aws_session_token = TOKEN\n";

#[test]
fn the_default_profile_at_home_is_used() {
    let (store, home) = with_trace();
    write(home.path(), "config", &store, CONFIG);
    write(home.path(), "credentials", &store, CREDENTIALS);
    assert_signed_by(&store, &read(&store, home.path(), &[]), "AKDEFAULT us-west-1");
}

#[test]
fn a_named_profile_is_used_with_its_services_and_token() {
    let (store, home) = with_trace();
    write(home.path(), "config", &store, CONFIG);
    write(home.path(), "other", &store, CREDENTIALS);
    let variables = [("AWS_PROFILE", "train"), ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/other")];
    let run = read(&store, home.path(), &variables);
    assert_signed_by(&store, &run, &format!("AKTRAIN eu-central-1 {TOKEN}"));
}

#[test]
fn keys_of_the_environment_are_used_with_the_region_of_the_profile() {
    let (store, home) = with_trace();
    write(home.path(), "config", &store, CONFIG);
    write(home.path(), "credentials", &store, CREDENTIALS);
    let keys = [("AWS_ACCESS_KEY_ID", "AKENV"), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_PROFILE", "train")];
    assert_signed_by(&store, &read(&store, home.path(), &keys), "AKENV eu-central-1");
}

#[test]
fn a_credential_process_is_run_once_and_its_failure_is_told() {
    let (store, home) = with_trace();
    let config =
        "[default]\nendpoint_url = ENDPOINT\ncredential_process = /bin/sh \"HOME/get it.sh\" 'a b'\n";
    let config = config.replace("HOME", &home.path().display().to_string());
    write(home.path(), "config", &store, &config);
    let script = |text: &str| {
        let text = text.replace("SECRET", SECRET).replace("TOKEN", TOKEN);
        fs::write(home.path().join("get it.sh"), text).expect("a file");
    };
    script(
        "[ \"$1\" = 'a b' ] && echo run >> runs && cat << END\n\
         {\"Version\": 1, \"AccessKeyId\": \"AKPROC\", \"SecretAccessKey\": \"SECRET\", \"SessionToken\": \"TOKEN\",\n\
         \"Expiration\": \"2999-01-01T00:00:00Z\"}\nEND\n",
    );
    let run = read(&store, home.path(), &[]);
    assert_signed_by(&store, &run, &format!("AKPROC us-east-1 {TOKEN}"));
    assert_eq!(fs::read_to_string(home.path().join("runs")).expect("a file"), "run\n");
    let told = |text: &str| {
        script(text);
        let run = read(&store, home.path(), &[]);
        assert_eq!(run.status.code(), Some(2), "{}", said(&run));
        said(&run)
    };
    let failed = told("echo SECRET; echo 'sign in first' >&2; exit 3");
    assert!(failed.contains("`default`: `/bin/sh` ends with exit status: 3: sign in first"), "{failed}");
    assert!(told("echo SECRET").contains("does not print JSON"));
}

#[test]
fn what_is_not_supported_or_wrong_is_told_before_any_request() {
    let (store, home) = with_trace();
    store.plan(|_| Mishap::Status(500));
    write(home.path(), "credentials", &store, CREDENTIALS);
    let told = |config: &str, profile: &str| {
        write(home.path(), "config", &store, config);
        let run = read(&store, home.path(), &[("AWS_PROFILE", profile)]);
        assert_eq!((run.status.code(), store.log().len()), (Some(2), 0), "{}", said(&run));
        said(&run)
    };
    let export = "hint: put its credentials into the environment: eval \"$(aws configure export-credentials";
    let sso = told("[profile sso]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n", "sso");
    assert!(sso.contains("`sso` signs in by IAM Identity Center") && sso.contains(export), "{sso}");
    let role = told("[profile role]\nrole_arn = r\nsource_profile = default\n", "role");
    assert!(role.contains("`role` assumes a role") && role.contains(export), "{role}");
    let missing = told(CONFIG, "rain");
    for part in
        ["no AWS profile `rain`", ".aws/config has `default`, `train`", ".aws/credentials has `default`"]
    {
        assert!(missing.contains(part), "{missing}");
    }
    let unreadable = told("[default]\nregion = a\n\nSECRET\n", "default");
    assert!(unreadable.contains(".aws/config: line 4: expected `key = value`"), "{unreadable}");
}

#[test]
fn profiles_are_not_read_unless_an_s3_url_is_used() {
    let (store, home) = with_trace();
    write(home.path(), "config", &store, "no section\n");
    let trace = shared::samples().join("gpu_ddp8/rank_0.json.gz");
    let url = format!("{}/a/rank_0.json.gz", store.endpoint());
    for place in [trace.as_os_str(), url.as_ref()] {
        let mut hta = hta(&store, home.path());
        let run =
            hta.env_remove("AWS_CONFIG_FILE").env("HOME", home.path()).arg("breakdown").arg(place).output();
        let run = run.expect("the binary runs");
        assert!(run.status.success(), "{}", said(&run));
    }
}
