//! Faults as text, for command lines and for files of failing cases.
//!
//! ```text
//! KINDS [on PATTERN] [nth N] [times N | forever] [after [N] KINDS [on PATTERN]]
//!       [EFFECT] [error NAME]
//! ```
//!
//! Words are separated by spaces and have this order; what is omitted has the default of
//! [`Fault::on`]. KINDS are names of [`OpKind`], separated by commas, or `any`. EFFECT is `writing
//! N`, `short N`, `losing-pages` or `after-the-fact`. NAME is that of an error, such as ENOSPC, or
//! its number. A PATTERN has no spaces.

use std::fmt;
use std::iter::Peekable;
use std::str::{FromStr, SplitWhitespace};

use titan::{Error, Result};

use super::fault::{Effect, Errno, Fault, Operations};
use super::op::OpKind;

/// Errors that have names here.
const ERRORS: [(&str, Errno); 4] = [
    ("EIO", Errno::IO),
    ("EXDEV", Errno::CROSS_DEVICE),
    ("EMFILE", Errno::TOO_MANY_FILES),
    ("ENOSPC", Errno::NO_SPACE),
];

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ERRORS.iter().find(|(_, errno)| errno == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kinds == OpKind::ALL {
            f.write_str("any")?;
        } else {
            let names: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
            f.write_str(&names.join(","))?;
        }
        match &self.pattern {
            Some(pattern) => write!(f, " on {pattern}"),
            None => Ok(()),
        }
    }
}

/// The text that [`Fault::parse`] reads. A condition in code ([`Fault::when`]) prints as `when
/// ..`, which cannot be parsed.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.which)?;
        if self.predicate.is_some() {
            f.write_str(" when ..")?;
        }
        if self.skip > 0 {
            write!(f, " nth {}", self.skip + 1)?;
        }
        match self.times {
            Some(1) => {}
            Some(times) => write!(f, " times {times}")?,
            None => f.write_str(" forever")?,
        }
        match &self.after {
            Some((1, operations)) => write!(f, " after {operations}")?,
            Some((n, operations)) => write!(f, " after {n} {operations}")?,
            None => {}
        }
        match self.effect {
            Effect::Nothing => {}
            Effect::Prefix(len) => write!(f, " writing {len}")?,
            Effect::Short(len) => write!(f, " short {len}")?,
            Effect::LosesPages => f.write_str(" losing-pages")?,
            Effect::Everything => f.write_str(" after-the-fact")?,
        }
        match self.errno {
            Errno::IO => Ok(()),
            errno => write!(f, " error {errno}"),
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Fault {
    /// Parses the output of `Display`.
    ///
    /// # Errors
    /// `InvalidArgument`, saying which word is wrong.
    pub fn parse(text: &str) -> Result<Fault> {
        let mut words = Words(text.split_whitespace().peekable());
        let mut fault = Fault::on([]);
        fault.which = words.operations()?;
        if words.skip("nth") {
            let nth: u64 = words.number("nth")?;
            let counts_from_one = || wrong("the first one is nth 1".into());
            fault.skip = nth.checked_sub(1).ok_or_else(counts_from_one)?;
        }
        if words.skip("times") {
            fault = fault.times(words.number("times")?);
        } else if words.skip("forever") {
            fault = fault.forever();
        }
        if words.skip("after") {
            let n = words.0.next_if(|word| word.parse::<u64>().is_ok());
            let n = n.and_then(|word| word.parse().ok()).unwrap_or(1);
            fault.after = Some((n, words.operations()?));
        }
        if words.skip("writing") {
            fault = fault.after_writing(words.number("writing")?);
        } else if words.skip("short") {
            fault = fault.short(words.number("short")?);
        } else if words.skip("losing-pages") {
            fault = fault.losing_pages();
        } else if words.skip("after-the-fact") {
            fault = fault.after_the_fact();
        }
        if words.skip("error") {
            let name = words.next("the name of an error")?;
            let named = ERRORS.iter().find(|(known, _)| *known == name);
            fault.errno = match named {
                Some((_, errno)) => *errno,
                None => Errno(
                    name.parse()
                        .map_err(|_| wrong(format!("no error: {name}")))?,
                ),
            };
        }
        match words.0.next() {
            Some(word) => Err(wrong(format!("not expected here: {word}"))),
            None => Ok(fault),
        }
    }

    /// Parses a script: one fault per line. Ignores empty lines and those that start with `#`.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the line.
    pub fn parse_script(text: &str) -> Result<Vec<Fault>> {
        let lines = text.lines().map(str::trim).enumerate();
        lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .map(|(n, line)| {
                let at_line = |e: Error| e.context(format!("line {}: {line}", n + 1));
                Fault::parse(line).map_err(at_line)
            })
            .collect()
    }
}

impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Fault> {
        Fault::parse(text)
    }
}

fn wrong(message: String) -> Error {
    Error::invalid_argument(message)
}

struct Words<'a>(Peekable<SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str> {
        let missing = || wrong(format!("{what} is missing"));
        self.0.next().ok_or_else(missing)
    }

    /// Skips `word` if it comes next.
    fn skip(&mut self, word: &str) -> bool {
        self.0.next_if(|next| *next == word).is_some()
    }

    fn number<T: FromStr>(&mut self, of: &str) -> Result<T> {
        let word = self.next(&format!("the number of \"{of}\""))?;
        let no_number = |_| wrong(format!("no number of \"{of}\": {word}"));
        word.parse().map_err(no_number)
    }

    fn operations(&mut self) -> Result<Operations> {
        let kinds = match self.next("a kind of operation")? {
            "any" => OpKind::ALL.to_vec(),
            names => names.split(',').map(kind).collect::<Result<_>>()?,
        };
        let mut operations = Operations::of(kinds);
        if self.skip("on") {
            operations.pattern = Some(self.next("a pattern")?.to_owned());
        }
        Ok(operations)
    }
}

fn kind(name: &str) -> Result<OpKind> {
    let known = OpKind::ALL.iter().find(|kind| kind.name() == name);
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = OpKind::ALL.iter().map(|kind| kind.name()).collect();
        wrong(format!("{name} is none of any, {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let built = [
            (Fault::on([OpKind::Append]), "append"),
            (
                Fault::on(OpKind::ALL.iter().copied()).forever(),
                "any forever",
            ),
            (
                Fault::on([OpKind::Create, OpKind::Open])
                    .path("*.sst")
                    .skip(2)
                    .times(0)
                    .error(Errno::TOO_MANY_FILES),
                "create,open on *.sst nth 3 times 0 error EMFILE",
            ),
            (
                Fault::on([OpKind::Append])
                    .path("*.blob")
                    .skip(2)
                    .after(1, [OpKind::Sync], "*.sst")
                    .after_writing(7)
                    .error(Errno::NO_SPACE),
                "append on *.blob nth 3 after sync on *.sst writing 7 error ENOSPC",
            ),
            (
                Fault::on([OpKind::Sync])
                    .after(3, [OpKind::SyncDir], "/db")
                    .losing_pages(),
                "sync after 3 sync-dir on /db losing-pages",
            ),
            (Fault::on([OpKind::Read]).short(9), "read short 9"),
            (
                Fault::on([OpKind::Rename])
                    .path("CURRENT")
                    .after_the_fact()
                    .error(Errno(30)),
                "rename on CURRENT after-the-fact error 30",
            ),
            (
                Fault::on([OpKind::Link]).error(Errno::CROSS_DEVICE),
                "link error EXDEV",
            ),
        ];
        for (fault, text) in &built {
            assert_eq!(fault.to_string(), *text);
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), *text);
        }
        let script = built
            .map(|(_, text)| format!("  {text}\n\n# why\n"))
            .concat();
        assert_eq!(Fault::parse_script(&script).unwrap().len(), 8);
        let code = Fault::on([OpKind::Read]).when(|_| true).to_string();
        assert_eq!(code, "read when ..");
        Fault::parse(&code).unwrap_err();
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("", "a kind of operation is missing"),
            ("append,write", "write is none of any, create, append"),
            ("append on", "a pattern is missing"),
            ("append nth", "the number of \"nth\" is missing"),
            ("append nth 0", "the first one is nth 1"),
            ("append nth x", "no number of \"nth\": x"),
            ("append *.blob", "not expected here: *.blob"),
            ("append error ENOTHING", "no error: ENOTHING"),
            ("append forever times 2", "not expected here: times"),
            ("append after 2", "a kind of operation is missing"),
        ] {
            let e = Fault::parse(text).unwrap_err().to_string();
            assert!(e.contains(why), "{text}: {e}");
        }
        let e = Fault::parse_script("sync\n\n# so\nsink\n").unwrap_err();
        assert!(e.to_string().contains("line 4: sink: sink is none"), "{e}");
    }
}
