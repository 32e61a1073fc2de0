//! The page that documents the metrics matches the code.

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
fn losses_are_counted_from_the_first_moment_with_nothing_lost() {
    let test = support::Test::start();
    let client = test.client();
    client.until(|state| state["sources"]["count"] == 3);
    let before = client.get("/metrics").text;
    let value = |line: &str| before.lines().any(|one| one == format!("{line} 0"));
    for reason in ["fragments_missing", "fragments_missing_unrecorded", "packets_malformed_short"] {
        let line = format!("catchment_lost_fragments_total{{reason=\"{reason}\"}}");
        assert!(value(&line), "{line} in {before}");
    }
    assert!(!before.contains("reason=\"fragments_duplicate\""));
    for source in ["s0", "s1", "s2"] {
        for name in ["lost_fragments", "packets_received", "fragments_missing_unrecorded"] {
            let line = format!("catchment_source_{name}_total{{source=\"{source}\"}}");
            assert!(value(&line), "{line} in {before}");
        }
    }
    assert!(value("catchment_loss_ratio"));
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are_over_intervals_that_fit_the_scrapes() {
    let board = include_str!("../../../../examples/grafana-dashboard.json");
    let page = catchment_control::metrics_document();
    for part in board.split("catchment_").skip(1) {
        let name: String = part.chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect();
        assert!(page.contains(&format!("`catchment_{name}`")), "{name} is not documented");
    }
    assert!(board.contains("sum by (reason) (rate(catchment_lost_fragments_total"));
    for part in board.split("rate(").skip(1) {
        let end = part.find(']').expect("a window");
        assert!(part[..end].ends_with("[$__rate_interval"), "{}", &part[..end]);
    }
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
