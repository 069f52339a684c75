//! A node in this process, for tests.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::io::{Read, Write};
use std::net::TcpStream;

use tempfile::TempDir;
use titan_server::{Node, NodeOptions};

use crate::kv::RemoteUrl;

/// A node in a temporary directory.
pub(in crate::kv) struct TestNode {
    node: Option<Node>,
    options: NodeOptions,
    dir: TempDir,
}

impl TestNode {
    pub(in crate::kv) fn new() -> TestNode {
        TestNode::with(|_| {})
    }

    /// A node with other options.
    pub(in crate::kv) fn with(change: impl Fn(&mut NodeOptions)) -> TestNode {
        let dir = tempfile::tempdir().unwrap();
        let start = |_| {
            // Below those that the system gives out, so that it is free when the node starts again.
            let port = fastrand::u16(10_000..30_000);
            let mut options = NodeOptions::new(([127, 0, 0, 1], port).into());
            options.storage.sync = false;
            change(&mut options);
            let node = Node::start(dir.path().join("node"), &options).ok()?;
            Some((node, options))
        };
        let (node, options) = (0..100).find_map(start).unwrap();
        TestNode {
            node: Some(node),
            options,
            dir,
        }
    }

    /// The address of a volume, with parameters.
    pub(in crate::kv) fn url(&self, parameters: &str) -> RemoteUrl {
        let text = format!("tikv://{}/volume?{parameters}", self.options.listen);
        RemoteUrl::parse(&text).unwrap()
    }

    /// The calls of a kind so far, by the page of metrics.
    pub(in crate::kv) fn calls(&self, kind: &str) -> u64 {
        let address = self.node.as_ref().unwrap().metrics_address().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let name = format!("_count{{call=\"{kind}\"}}");
        let line = page.lines().find(|line| line.contains(&name));
        let count = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        count.unwrap_or(0)
    }

    pub(in crate::kv) fn stop(&mut self) {
        self.node.take().unwrap().stop().unwrap();
    }

    /// Starts it again at its old address.
    pub(in crate::kv) fn restart(&mut self) {
        let node = Node::start(self.dir.path().join("node"), &self.options);
        self.node = Some(node.unwrap());
    }
}

impl Drop for TestNode {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.stop().unwrap();
        }
    }
}
