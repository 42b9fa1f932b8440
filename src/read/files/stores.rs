//! The stores that URLs lead to: one client for each bucket, made when it is first used, and what was seen of
//! their objects.
//!
//! Requests run on two threads of their own, which are started with the first URL. The rest of the program
//! waits for them like for a disk. These threads are all that the process shares: they keep nothing of a run.

use super::address::Address;
use super::aws_profile::AwsEnvironment;
use super::aws_settings::AwsSettings;
use super::fault::{Fault, RETRIES};
use super::known::KnownObjects;
use super::lists::UnreadableKeys;
use super::net::Connector;
use super::scheme::Service;
use super::secrets::Queries;
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::collections::BTreeMap;
use std::io::ErrorKind::{InvalidInput, Other};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How stores are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// URL of the server, instead of the cloud's own.
    pub endpoint: Option<String>,
    /// Longest time between two pieces of an answer.
    pub stall: Duration,
}

/// Default of [`StoreOptions::stall`].
pub const STALL: Duration = Duration::from_secs(30);

impl Default for StoreOptions {
    fn default() -> Self {
        Self { endpoint: None, stall: STALL }
    }
}

/// How stores are reached, and what was seen of their objects. Clones share both.
///
/// An object is always the version that was seen first, so that a result never mixes two. Who asks again
/// later begins [`anew`](Stores::anew).
#[derive(Clone, Default)]
pub struct Stores {
    connections: Arc<Connections>,
    known: Arc<Mutex<KnownObjects>>,
}

#[derive(Default)]
struct Connections {
    options: StoreOptions,
    queries: Queries,
    open: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>,
    /// How S3 is reached, which is looked up with the first bucket.
    aws: Mutex<Option<Arc<AwsSettings>>>,
    unreadable: UnreadableKeys,
}

impl Connections {
    fn aws(&self) -> Result<Arc<AwsSettings>, Fault> {
        let mut aws = self.aws.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*aws {
            return Ok(Arc::clone(known));
        }
        Ok(Arc::clone(aws.insert(Arc::new(AwsSettings::of(&AwsEnvironment::of_process())?))))
    }
}

impl Stores {
    /// # Errors
    /// When the endpoint is not a URL of a server.
    pub fn new(options: StoreOptions, queries: Queries) -> Result<Self, Fault> {
        if let Some(endpoint) = &options.endpoint {
            let bad = |reason: &str| Fault::new(InvalidInput, reason, None);
            let url = reqwest::Url::parse(endpoint).ok().filter(|u| matches!(u.scheme(), "http" | "https"));
            let url = url.ok_or_else(|| bad("expected the URL of a server, as http://127.0.0.1:9000"))?;
            if !url.username().is_empty() || url.password().is_some() {
                return Err(bad("expected a URL without user and password"));
            }
        }
        let connections = Connections { options, queries, ..Connections::default() };
        Ok(Self { connections: Arc::new(connections), known: Arc::default() })
    }

    /// The same stores, of whose objects nothing was seen yet.
    pub(crate) fn anew(&self) -> Self {
        Self { connections: Arc::clone(&self.connections), known: Arc::default() }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, KnownObjects> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn unreadable(&self) -> &UnreadableKeys {
        &self.connections.unreadable
    }

    pub(super) fn address(&self, path: &Path) -> Result<Address, Fault> {
        Address::of(path, &self.connections.queries)
    }

    /// The store of an address.
    pub(super) fn store_of(&self, address: &Address) -> Result<Arc<dyn ObjectStore>, Fault> {
        // The query is part of what is asked, so a signed URL has a store of its own.
        let name = match &address.query {
            Some(query) => format!("{}?{query}", address.root),
            None => address.root.clone(),
        };
        let mut open = self.connections.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = open.get(&name) {
            return Ok(Arc::clone(store));
        }
        let _guard = runtime()?.enter();
        // What is wrong before the first request is in the environment or its files.
        let store = build(address, &self.connections).map_err(|fault| fault.of_credentials())?;
        open.insert(name, Arc::clone(&store));
        Ok(store)
    }
}

/// The threads on which requests run.
pub(super) fn runtime() -> Result<&'static Runtime, Fault> {
    static RUNTIME: LazyLock<Result<Runtime, String>> = LazyLock::new(|| {
        // It is set only once; a second one is not needed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).max_blocking_threads(4).thread_name("hta-store").enable_io().enable_time();
        builder.build().map_err(|e| e.to_string())
    });
    RUNTIME
        .as_ref()
        .map_err(|e| Fault::new(Other, format!("threads for requests cannot be started: {e}"), None))
}

/// Tries for a request, and the time between them: 0.1 s at first, 5 s at most.
fn retry() -> RetryConfig {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(5),
        base: 2.,
    };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: Duration::from_secs(180) }
}

fn build(address: &Address, connections: &Connections) -> Result<Arc<dyn ObjectStore>, Fault> {
    let Connections { options, unreadable, .. } = connections;
    let (root, unreadable) = (address.root.clone(), unreadable.clone());
    let connector = Connector { stall: options.stall, host: None, root, unreadable };
    let container = address.container.as_str();
    // Without encryption only if the user's own endpoint says so.
    let plain = |endpoint: Option<&String>| endpoint.is_some_and(|e| e.starts_with("http://"));
    Ok(match address.service {
        Service::S3 => {
            let builder = connections.aws()?.builder(container, options.endpoint.as_ref());
            Arc::new(builder.with_retry(retry()).with_http_connector(connector).build()?)
        }
        Service::Google => {
            let mut builder = GoogleCloudStorageBuilder::from_env();
            if let Some(endpoint) = &options.endpoint {
                builder = builder.with_base_url(endpoint);
            }
            let endpoint =
                options.endpoint.clone().or_else(|| builder.get_config_value(&GoogleConfigKey::BaseUrl));
            builder =
                builder.with_client_options(ClientOptions::new().with_allow_http(plain(endpoint.as_ref())));
            Arc::new(
                builder
                    .with_bucket_name(container)
                    .with_retry(retry())
                    .with_http_connector(connector)
                    .build()?,
            )
        }
        Service::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env();
            if let Some(endpoint) = &options.endpoint {
                builder = builder.with_endpoint(endpoint.clone());
            }
            let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
            if plain(endpoint.as_ref()) {
                builder = builder.with_allow_http(true);
            }
            Arc::new(
                builder
                    .with_container_name(container)
                    .with_retry(retry())
                    .with_http_connector(connector)
                    .build()?,
            )
        }
        Service::Http => {
            let query = address.query.as_ref().map_or(String::new(), |q| format!("?{q}"));
            let connector = Connector { host: Some(container.to_string()), ..connector };
            let allowed = ClientOptions::new().with_allow_http(address.root.starts_with("http://"));
            let builder =
                HttpBuilder::new().with_url(format!("{}/{query}", address.root)).with_client_options(allowed);
            Arc::new(builder.with_retry(retry()).with_http_connector(connector).build()?)
        }
    })
}
