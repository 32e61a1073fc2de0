//! Watching what runs.
