//! The recorded calls of `tests/calls`: each with the answer that the protocol demands.
//!
//! Each file is one node, in the form of [`titan_testkit::golden`]. These are the commands:
//!
//! - `ts NAME...` takes timestamps. `$NAME` is the first one's number in later lines, `$NAME+5s` a
//!   later one's, `$NAME+1` the next one.
//! - `call` makes calls, one a line: a name and a request in protobuf's text format. The context is
//!   that of the region in use, unless the request has one. The answer is in the same format.
//! - `region KEY` uses the region of a key of transactions, `raw-region KEY` that of a raw key.
//! - `restart` stops the node and starts it again.
//!
//! In answers, numbers of known timestamps have their names. An unknown one gets the next number as
//! its name: `$1`, `$2`. Regions and members have numbers that depend on nothing but the calls.

use std::collections::BTreeMap;
use std::fmt::Write;

use titan_mvcc::codec::encode_key;
use titan_testkit::golden;

use crate::cluster::Cluster;
use crate::dynamic;
use crate::place::Place;
use titan_server::{NodeOptions, RegionSizes};

/// Numbers from here on are timestamps.
const FIRST_TIMESTAMP: u64 = 1 << 50;

/// The node of one file.
struct Machine {
    cluster: Cluster,
    names: BTreeMap<u64, String>,
    unnamed: usize,
    region: Vec<u8>,
}

impl Default for Machine {
    fn default() -> Self {
        // Times depend on nothing but the calls, and the safe point moves by calls alone.
        let place = Place::new();
        let sizes = RegionSizes {
            bytes: 1 << 20,
            keys: 10_000,
        };
        Machine {
            cluster: place.start_with(NodeOptions {
                regions: sizes,
                ..place.options()
            }),
            names: BTreeMap::new(),
            unnamed: 0,
            region: Vec::new(),
        }
    }
}

impl golden::Machine for Machine {
    fn perform(&mut self, command: &str, input: &[&str]) -> Vec<String> {
        let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
        match name {
            "ts" => {
                for name in rest.split(' ') {
                    // Apart from each other: a later number is none of these by accident.
                    let ts = self.cluster.timestamps(8);
                    self.names.insert(ts, name.to_owned());
                }
                Vec::new()
            }
            "region" => {
                self.region = encode_key(rest.as_bytes());
                Vec::new()
            }
            "raw-region" => {
                self.region = rest.as_bytes().to_vec();
                Vec::new()
            }
            "restart" => {
                self.cluster.restart();
                Vec::new()
            }
            "call" => {
                let calls = input.iter();
                calls
                    .map(|line| format!("{line} -> {}", self.call(line)))
                    .collect()
            }
            _ => panic!("unknown command: {command}"),
        }
    }
}

impl Machine {
    fn call(&mut self, line: &str) -> String {
        let (name, request) = line.split_once(' ').unwrap_or((line, ""));
        let method = dynamic::method(name);
        let mut text = self.numbers(request);
        let has = |field: &str| method.input().get_field_by_name(field).is_some();
        if has("context") && !text.contains("context") {
            let context = self.cluster.context_at(&self.region);
            let epoch = context.region_epoch.unwrap();
            let peer = context.peer.unwrap();
            let _ = write!(
                text,
                " context {{ region_id: {} region_epoch {{ conf_ver: {} version: {} }} \
                 peer {{ id: {} store_id: {} }} }}",
                context.region_id, epoch.conf_ver, epoch.version, peer.id, peer.store_id
            );
        }
        if has("header") && !text.contains("header") {
            let _ = write!(text, " header {{ cluster_id: {} }}", self.cluster.id);
        }
        let request = dynamic::request(&method, &text);
        let call = dynamic::call(&self.cluster.channel, &method, request);
        match self.cluster.runtime.block_on(call) {
            Ok(bytes) => {
                let text = dynamic::answer(&method, bytes);
                let header = format!("header{{cluster_id:{}}}", self.cluster.id);
                let text = text.replace(&header, "");
                let text = text.trim_start_matches(',');
                self.named(if text.is_empty() { "{}" } else { text })
            }
            Err(status) => self.named(&format!("{:?}: {}", status.code(), status.message())),
        }
    }

    /// The text with numbers in place of names.
    fn numbers(&self, text: &str) -> String {
        let mut out = String::new();
        let mut parts = text.split('$');
        out.push_str(parts.next().unwrap());
        for part in parts {
            let is_word = |c: char| c.is_ascii_alphanumeric();
            let end = part.find(|c| !is_word(c)).unwrap_or(part.len());
            let (name, mut rest) = part.split_at(end);
            let known = self.names.iter().find(|(_, known)| *known == name);
            let mut number = *known.unwrap_or_else(|| panic!("no timestamp {name}")).0;
            if let Some(more) = rest.strip_prefix('+') {
                let end = more.find(|c| !is_word(c)).unwrap_or(more.len());
                let (count, after) = more.split_at(end);
                number += match count.strip_suffix('s') {
                    Some(seconds) => (seconds.parse::<u64>().unwrap() * 1000) << 18,
                    None => count.parse::<u64>().unwrap(),
                };
                rest = after;
            }
            let _ = write!(out, "{number}{rest}");
        }
        out
    }

    /// The text with names in place of numbers of timestamps.
    fn named(&mut self, text: &str) -> String {
        let text = text.replace(&self.cluster.id.to_string(), "$cluster");
        let mut text = text.replace(&self.cluster.address(), "$address");
        // The present depends on the clock.
        if let Some((before, present)) = text.split_once(": it is ") {
            let end = present.find(" now").unwrap();
            text = format!("{before}: it is later{}", &present[end + 4..]);
        }
        let (mut out, mut digits) = (String::new(), String::new());
        for c in text.chars().chain(['\0']) {
            if c.is_ascii_digit() {
                digits.push(c);
                continue;
            }
            if !digits.is_empty() {
                out.push_str(&self.name_of(&digits));
                digits.clear();
            }
            out.push(c);
        }
        out.trim_end_matches('\0').to_owned()
    }

    fn name_of(&mut self, digits: &str) -> String {
        let Ok(number) = digits.parse::<u64>() else {
            return digits.to_owned();
        };
        if number < FIRST_TIMESTAMP || number == u64::MAX {
            return digits.to_owned();
        }
        if let Some(name) = self.names.get(&number) {
            return format!("${name}");
        }
        if let Some(name) = self.names.get(&(number - 1)) {
            return format!("${name}+1");
        }
        self.unnamed += 1;
        let name = self.unnamed.to_string();
        let text = format!("${name}");
        self.names.insert(number, name);
        text
    }
}

titan_testkit::golden_tests! {
    Machine,
    "tests/calls",
    async_commits,
    heartbeats,
    isolation,
    locks,
    members,
    one_phase,
    pessimistic,
    prewrites,
    ranges,
    raw,
    raw_scans,
    reads,
    regions,
    resolving,
    rollbacks,
    safe_points,
    saved_keys,
    scans,
    statuses,
}
