//! Object stores: the same results as from files and in files, whatever goes wrong on the way, or an error by name; and no
//! secrets in anything that is shown or written.

mod compared;
mod contents;
mod lists;
mod profiles;
mod reading;
mod redirects;
mod secrets;
mod served;
mod server;
mod writing;

use crate::shared;
use server::Store;
use std::path::Path;
use std::process::{Command, Output};

/// A store with the samples of the repository in the bucket `samples`.
fn with_samples() -> Store {
    let store = Store::start();
    let root = shared::samples();
    for path in shared::files_below(&root) {
        let key = path.strip_prefix(&root).expect("below the samples").display().to_string();
        store.put(&format!("samples/{key}"), &std::fs::read(&path).expect("a sample"));
    }
    store
}

/// hta in a folder, with credentials for the store and no others.
fn hta(store: &Store, folder: &Path) -> Command {
    let mut hta = crate::shared::interruptible();
    for (name, _) in
        std::env::vars().filter(|(n, _)| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|p| n.starts_with(p)))
    {
        hta.env_remove(name);
    }
    for file in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
        hta.env(file, folder.join("no_profiles"));
    }
    hta.current_dir(folder).env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", SECRET);
    hta.env("AWS_ENDPOINT_URL", store.endpoint());
    hta
}

const SECRET: &str = "s3cr3tS1gn1ngK3y";

fn run(store: &Store, folder: &Path, arguments: &[&str]) -> Output {
    hta(store, folder).args(arguments).output().expect("the binary runs")
}

/// Everything that a run prints.
fn said(run: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr))
}
