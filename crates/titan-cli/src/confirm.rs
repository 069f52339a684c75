//! The question before much is destroyed.

use std::io::{self, BufRead, IsTerminal, Write};

use titan::{Error, Result};

/// The consent to what a command destroys.
#[derive(clap::Args)]
pub(crate) struct Consent {
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Consent {
    /// Asks on the terminal whether `what` is to be done, unless that is given.
    ///
    /// # Errors
    /// `InvalidArgument` without consent, or without a terminal on which to ask.
    pub(crate) fn ask(&self, what: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Error::invalid_argument(format!(
                "nothing is done: --yes confirms to {what}"
            )));
        }
        let mut answer = String::new();
        let asked = write!(io::stderr(), "titan: {what}? [y/N] ")
            .and_then(|()| io::stdin().lock().read_line(&mut answer));
        match asked {
            Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
            _ => Err(Error::invalid_argument("nothing is done: not confirmed")),
        }
    }
}
