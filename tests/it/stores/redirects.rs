//! Redirects of a server with a public address. A proxy plays it, because tests reach none.

use super::server::{Mishap, Store};
use super::{hta, said};
use crate::shared;
use std::path::Path;
use std::process::Output;

/// Reads a URL through the proxy; addresses of this machine are reached directly.
fn read(proxy: &Store, folder: &Path, url: &str) -> Output {
    let mut command = hta(proxy, folder);
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "all_proxy"].iter().for_each(|v| {
        command.env_remove(v);
    });
    for variable in ["NO_PROXY", "no_proxy"] {
        command.env(variable, "127.0.0.1,localhost");
    }
    command.env("http_proxy", proxy.endpoint()).args(["breakdown", "--format", "csv", url]);
    command.output().expect("the binary runs")
}

#[test]
fn a_public_server_leads_to_other_public_ones_and_not_to_this_machine() {
    let (proxy, inner, dir) = (Store::start(), Store::start(), tempfile::tempdir().expect("a folder"));
    let trace = std::fs::read(shared::samples().join("gpu_single/rank_0.json.gz")).expect("a sample");
    inner.put("secret/rank_0.json.gz", &trace);
    proxy.put("http://9.9.9.9/rank_0.json.gz", &trace);
    let redirected = |to: &str| {
        let to = to.to_string();
        proxy.plan(move |asked| match asked.target.starts_with("http://8.8.8.8/") {
            true => Mishap::Redirect(to.clone()),
            false => Mishap::None,
        });
        read(&proxy, dir.path(), "http://8.8.8.8/rank_0.json.gz")
    };
    let followed = redirected("http://9.9.9.9/rank_0.json.gz");
    assert!(followed.status.success(), "{}", said(&followed));
    assert!(proxy.log().iter().any(|line| line.contains("8.8.8.8")) && inner.log().is_empty());
    let inside = format!("{}/secret/rank_0.json.gz", inner.endpoint());
    for url in
        [inside.clone(), inside.replace("127.0.0.1", "localhost"), inside.replace("127.0.0.1", "2130706433")]
    {
        let refused = redirected(&url);
        assert_eq!(refused.status.code(), Some(2), "{url}: {}", said(&refused));
        let reason = "a redirect to a private address is refused";
        assert!(said(&refused).contains(reason), "{url}: {}", said(&refused));
        assert!(inner.log().is_empty(), "{url}: {:?}", inner.log());
    }
    // The user's own URL reaches it, so the redirect would have.
    let named = read(&proxy, dir.path(), &inside);
    assert!(named.stdout == followed.stdout, "{}", said(&named));
    assert!(!inner.log().is_empty());
}
