//! `hta mcp`: a server of the Model Context Protocol on standard input and output, with which an assistant
//! asks about results and traces.
//!
//! ```text
//!   client  -JSON-RPC->  server  ->  tools  ->  source: a results folder, or traces that are analysed at first use
//!                                      |
//!                                      +---->  worker: `hta query`, `hta analyze`, `hta overlay` in a process of its own
//! ```
//!
//! Whatever can take long or much memory runs in a worker, which can be ended: a thread that executes SQL
//! cannot. The protocol has standard output for itself, so a worker's output is a pipe. Tools only read, and
//! only below the paths that were given at the start (`confined`). An answer is small: what does not fit
//! follows under a cursor (`answer`).

mod answer;
mod confined;
mod rows;
mod server;
mod source;
mod tools;
mod worker;

pub use source::{Setup, StartError};
pub use worker::end_all as end_workers;

use rmcp::ServiceExt;
use server::McpServer;
use source::AskedSources;
use std::io;

/// Serves until the client closes standard input.
///
/// # Errors
/// When the given paths cannot be used, or the client does not speak the protocol.
pub fn serve(setup: Setup) -> Result<(), StartError> {
    let sources = AskedSources::open(setup)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Runtime)?;
    let served = runtime.block_on(async {
        match McpServer::new(sources).serve(rmcp::transport::stdio()).await {
            Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
            // A client that goes away before it has said anything is no error.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(e) => Err(io::Error::other(e.to_string())),
        }
    });
    // Reading standard input cannot be interrupted; the process ends anyway.
    runtime.shutdown_background();
    served.map_err(StartError::Protocol)
}
