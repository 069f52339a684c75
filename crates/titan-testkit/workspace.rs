//! The build script of the packages whose unit tests use crates and files that only the workspace
//! has: it sets `cfg(workspace)`. A package from a registry has neither those nor this script, and
//! its tests are the others.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cfg=workspace");
}
