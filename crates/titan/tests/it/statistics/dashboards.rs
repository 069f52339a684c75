//! The dashboard in `docs/dashboards` asks for nothing that the page of metrics lacks.

use std::collections::BTreeSet;

use serde_json::Value;
use titan::StatsLevel;
use titan_testkit::sim::SimVfs;

use super::prometheus::parse;
use super::{at_level, filled};

const DASHBOARD: &str = include_str!("../../../../../docs/dashboards/titan.json");

/// The expressions of all panels, and the queries of all variables.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if ["expr", "query"].contains(&&**name) => {
                        found.push(text.clone());
                    }
                    field => expressions(field, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn every_metric_of_the_dashboard_exists() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::All));
    let page = db.metrics().to_prometheus("db");
    let families = parse(&page);
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    let mut asked = BTreeSet::new();
    for expression in &found {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        asked.extend(words.filter(|word| word.starts_with("titan_")));
    }
    assert!(asked.len() > 40, "{asked:?}");
    for name in asked {
        let series = name
            .strip_suffix("_bucket")
            .filter(|series| families.contains_key(*series))
            .unwrap_or(name);
        assert!(families.contains_key(series), "there is no {name}");
    }
}
