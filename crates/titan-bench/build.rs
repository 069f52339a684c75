//! Records the commit from which the program is built: the output of `git describe`, or nothing
//! without git.

use std::path::Path;
use std::process::Command;

fn main() {
    for changed in ["build.rs", "src", "../titan/src"] {
        println!("cargo::rerun-if-changed={changed}");
    }
    for file in ["HEAD", "logs/HEAD", "index"] {
        let path = git(&["rev-parse", "--git-path", file]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["describe", "--always", "--dirty"]).unwrap_or_default();
    println!("cargo::rustc-env=TITAN_COMMIT={commit}");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
