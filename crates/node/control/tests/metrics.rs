//! The page that documents the metrics is what the code says.

mod support;

use std::path::Path;

#[test]
fn the_page_of_metrics_is_made_from_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/metrics.md");
    let page = catchment_control::metrics_document();
    if std::env::var_os("CATCHMENT_WRITE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/metrics.md is old: CATCHMENT_WRITE=1 writes it anew");
}

#[test]
fn every_metric_that_is_served_is_documented_and_well_formed() {
    let test = support::Test::start();
    let client = test.client();
    client.command("1", "start");
    client.until(|state| state["run"]["events"].as_u64() > Some(0));
    let page = catchment_control::metrics_document();
    let text = client.get("/metrics").text;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name: String = line.chars().take_while(|c| !" {".contains(*c)).collect();
        assert!(page.contains(&format!("`{name}`")), "{name} is not documented");
        let value = line.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(text.contains("catchment_source_packets_received_total{source=\"s0\"}"));
    assert!(text.contains("catchment_state{state=\"recording\"} 1"));
}
