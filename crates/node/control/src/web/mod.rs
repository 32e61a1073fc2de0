//! The HTTP server: `server.rs` accepts connections, `table.rs` has the routes, `routes.rs` and its
//! neighbours handle requests.

mod document;
mod document_page;
mod extract;
mod files;
mod metrics;
mod routes;
mod routes_runs;
mod routes_tokens;
pub(crate) mod sample;
mod sample_channels;
mod server;
pub(crate) mod stored;
mod stream;
mod table;
mod timely;

pub use document::openapi;
pub use metrics::document as metrics_document;
pub(crate) use server::{Server, bind};
pub(crate) use table::access;
