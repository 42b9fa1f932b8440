//! HTTP connections: time limits, and which redirects are followed.
//!
//! A redirect is the server's choice, not the user's. Requests to stores carry credentials and follow none. A
//! URL of a public host may not lead into the private network of the machine that reads it (its metadata
//! service, a router): not by address, and not by a name that resolves to one.

use super::fault::Fault;
use super::lists::{Lists, UnreadableKeys};
use object_store::ClientOptions;
use object_store::client::{ClientConfigKey, HttpClient, HttpConnector};
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Action, Attempt, Policy};
use std::io::ErrorKind::InvalidInput;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Time for connecting, where the store's own options do not say otherwise.
const CONNECT: Duration = Duration::from_secs(5);
/// The same for services of the machine itself, which answer at once or are not there.
const CONNECT_NEAR: Duration = Duration::from_secs(1);

/// Number of redirects that are followed.
const MOST_REDIRECTS: usize = 5;

/// Makes the HTTP client of a store.
#[derive(Debug)]
pub(super) struct Connector {
    /// Longest time between two pieces of an answer.
    pub(crate) stall: Duration,
    /// The host of a URL, whose redirects are followed; `None` for stores.
    pub(crate) host: Option<String>,
    /// The store, as `s3://bucket`.
    pub(crate) root: String,
    pub(crate) unreadable: UnreadableKeys,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let given = |key: ClientConfigKey| options.get_config_value(&key);
        let is_near = given(ClientConfigKey::ConnectTimeout).is_some_and(|t| t == "1s");
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("hta/", env!("CARGO_PKG_VERSION")))
            .https_only(given(ClientConfigKey::AllowHttp).is_none_or(|allow| allow != "true"))
            .connect_timeout(if is_near { CONNECT_NEAR } else { CONNECT })
            .read_timeout(self.stall)
            .redirect(Policy::none());
        if let Some(host) = &self.host {
            let is_private = leads_inside(host);
            builder = builder.redirect(Policy::custom(move |attempt| follow(attempt, is_private)));
            if !is_private {
                builder = builder.dns_resolver(Arc::new(PublicNames { named: named(host) }));
            }
        }
        let client = builder.build().map_err(|e: reqwest::Error| {
            let fault = Fault::new(InvalidInput, e.without_url().to_string(), None);
            object_store::Error::Generic { store: "HTTP", source: Box::new(fault) }
        })?;
        Ok(HttpClient::new(Lists::new(client, self.root.clone(), self.unreadable.clone())))
    }
}

/// The host without its port.
fn bare(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Names that the user gave: that of the URL, and those of proxies in the environment.
fn named(host: &str) -> Vec<String> {
    let variables = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let proxies = variables.into_iter().filter_map(|v| Url::parse(&std::env::var(v).ok()?).ok());
    let proxies = proxies.filter_map(|url| url.host_str().map(str::to_lowercase));
    proxies.chain([bare(host).to_lowercase()]).collect()
}

/// Whether a host is in the machine's own network, so that it may lead to others there.
fn leads_inside(host: &str) -> bool {
    let name = bare(host).trim_matches(['[', ']']);
    match name.parse::<IpAddr>() {
        Ok(ip) => is_private(ip),
        Err(_) => (name, 0).to_socket_addrs().is_ok_and(|mut found| found.any(|a| is_private(a.ip()))),
    }
}

fn follow(attempt: Attempt, from_private: bool) -> Action {
    match refusal(attempt.url(), attempt.previous(), from_private) {
        Some(reason) => attempt.error(Fault::new(InvalidInput, reason, None)),
        None => attempt.follow(),
    }
}

/// Why a redirect is not followed.
fn refusal(to: &Url, before: &[Url], from_private: bool) -> Option<&'static str> {
    let is_secure = |url: &Url| url.scheme() == "https";
    let ip = to.host_str().and_then(|host| host.trim_matches(['[', ']']).parse().ok());
    if before.len() > MOST_REDIRECTS {
        Some("too many redirects")
    } else if !is_secure(to) && (to.scheme() != "http" || before.last().is_some_and(is_secure)) {
        Some("a redirect away from https is refused")
    } else if ip.is_some_and(is_private) && !from_private {
        Some(INTO_PRIVATE)
    } else {
        None
    }
}

const INTO_PRIVATE: &str = "a redirect to a private address is refused";

/// Resolves names to public addresses, except for names that the user gave.
struct PublicNames {
    named: Vec<String>,
}

impl Resolve for PublicNames {
    fn resolve(&self, name: Name) -> Resolving {
        let is_named = self.named.iter().any(|n| n == &name.as_str().to_lowercase());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let kept: Vec<SocketAddr> = found.filter(|a| is_named || !is_private(a.ip())).collect();
            if kept.is_empty() {
                return Err(Fault::new(InvalidInput, INTO_PRIVATE, None).into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is not one of the public internet.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_private_v4(ip),
        IpAddr::V6(ip) => {
            let [first, ..] = ip.segments();
            // The last four bytes of a mapped (::ffff:0:0/96) or translated (64:ff9b::/96) address are one of
            // version 4.
            let inner = match ip.segments() {
                [0, 0, 0, 0, 0, 0 | 0xffff, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => {
                    let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
                    is_private_v4(Ipv4Addr::new(a, b, c, d))
                }
                _ => false,
            };
            inner
                || ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                || matches!(first & 0xffc0, 0xfe80 | 0xfec0)
                || first & 0xfe00 == 0xfc00
        }
    }
}

fn is_private_v4(ip: Ipv4Addr) -> bool {
    let [a, b, ..] = ip.octets();
    let is_shared = a == 100 && b & 0xc0 == 64;
    ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || a == 0
        || is_shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_private_networks_are_told_from_public_ones() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for public in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8"] {
            assert!(!is_private(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn redirects_lead_neither_inside_nor_away_from_encryption_nor_on_for_ever() {
        let url = |text: &str| Url::parse(text).unwrap();
        let from = |text: &str, to: &str, private| refusal(&url(to), &[url(text)], private);
        assert_eq!(from("https://a.example/x", "https://b.example/x", false), None);
        assert_eq!(from("http://a.example/x", "http://127.0.0.1/x", false), Some(INTO_PRIVATE));
        // Other spellings of the same addresses.
        for inside in
            ["http://2130706433/", "http://0x7f.1/", "http://[::ffff:169.254.169.254]/latest/meta-data"]
        {
            assert_eq!(from("http://a.example/x", inside, false), Some(INTO_PRIVATE), "{inside}");
        }
        assert_eq!(from("http://10.0.0.1/x", "http://10.0.0.2/x", true), None);
        assert!(from("https://a.example/x", "http://a.example/x", true).is_some());
        assert!(from("http://a.example/x", "ftp://a.example/x", true).is_some());
        let six = vec![url("http://a.example/x"); MOST_REDIRECTS + 1];
        assert_eq!(refusal(&url("http://a.example/x"), &six, true), Some("too many redirects"));
    }

    #[test]
    fn a_host_is_compared_without_its_port() {
        assert_eq!(
            (bare("host:8443"), bare("host"), bare("[::1]:80"), bare("[::1]")),
            ("host", "host", "[::1]", "[::1]")
        );
        assert!(leads_inside("127.0.0.1:9000") && leads_inside("[::1]:9000") && !leads_inside("8.8.8.8:443"));
    }
}
