//! The binary `catchment`.
fn main() {
    std::process::exit(catchment_cli::run(std::env::args_os()));
}
