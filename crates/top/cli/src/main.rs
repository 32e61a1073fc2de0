//! The binary `catchment`.
fn main() {}
