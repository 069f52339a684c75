//! `titan completions`: prints the completions of a shell.

use std::process::ExitCode;

use clap_complete::Shell;
use titan::Result;

use crate::output::Out;

/// Print the completions of a shell
///
/// The shell reads them from a file that it looks for, or at its start.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

const EXAMPLES: &str = "Examples:
  source <(titan completions bash)
  titan completions zsh > _titan             # in a directory of $fpath
  titan completions fish > titan.fish        # in ~/.config/fish/completions";

/// Prints the completions of the whole `command`.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "titan", &mut text);
    let mut out = Out::new();
    out.bytes(&text)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
