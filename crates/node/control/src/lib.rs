//! A node under control: devices, HTTP API, security, alarms, metrics, logs, the page.
//!
//! ```text
//!  browser, ctl, scripts ── HTTP(S), SSE ──► web (tokio, one thread)
//!                                              │ asks ▲ view
//!                                              ▼      │
//!                                control (conductor.rs: core/run, core/watch)
//!                                  │ orders  ▲ answers        │ looks, twice a second
//!                                  ▼         │                ▼
//!                      devices.rs: control-record, control-emulate ──► node/recorder, node/emulator
//! ```
//!
//! A storage node (`storing.rs`) takes the place of the devices' threads: it takes no orders.
//!
//! The data threads do not depend on this crate: it reads their counters, and starts and stops
//! them. Nothing here waits for a client, and the control thread never blocks.
//!
//! Limits: 512 connections (64 from one address), 100 streams (16), 1,000 tokens and sessions,
//! bodies of 64 KiB (4 MiB for a configuration), 10,000 log lines, five audit files of 8 MiB, 1,000
//! waiting audit lines.

mod actions;
pub mod api;
mod audit;
mod catalog_client;
mod conductor;
mod configuration;
mod devices;
mod front_ends;
mod history;
mod logs;
mod lookout;
mod machine;
mod node;
mod past_runs;
mod problem;
mod properties;
mod queued;
mod security;
mod settings;
mod settings_stored;
mod shared;
mod storing;
mod systemd;
mod watching;
mod web;

pub use audit::audit_command;
pub use catchment_watch::{Condition, Quantity, Rule, Severity};
pub use configuration::{Configuration, ConfigurationFault, Configure};
pub use logs::{Format as LogFormat, Logs};
pub use node::{Ended, Node, NodeError, OpenRun, check_certificate, check_protection, own_folder};
pub use problem::{Details, Problem};
pub use security::roles::Role;
pub use security::tokens::{TokenEntry, TokenError, TokenFile};
pub use settings::{Action, ActionKind, Settings, Start, Tls};
pub use tracing::Level as LogLevel;
pub use watching::quantities::{KnownQuantity, devices_with, known_quantities};
pub use web::{metrics_document, openapi};
