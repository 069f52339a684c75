//! The `titan` command: loads, reads, inspects, checks, repairs and benchmarks Titan databases.
//!
//! One file per command in `commands/`. Every command returns `titan::Result<ExitCode>`; this
//! file turns an error into the one line on standard error that the user sees, and into the
//! [exit status](status).

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic where nobody can read"
)]

mod commands;
mod complaints;
mod config;
mod confirm;
mod entries;
mod global;
mod input;
mod interrupt;
mod keys;
mod levels;
mod open;
mod option_table;
mod output;
mod owner;
mod progress;
mod status;
mod store;
mod target;
mod transfer;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use serde_json::json;

use commands::program::{completions, man};
#[cfg(feature = "serve")]
use commands::serve;
use commands::{
    bench, check, checkpoint, compact, delete, downgrade, dump, families, gc, get, ime, ingest,
    inspect, load, mvcc, options, put, repair, scan, space, stats, top,
};
use global::Global;

/// Load, read, inspect, check, repair and benchmark Titan databases.
#[derive(Parser)]
#[command(name = "titan", version, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  titan load photos.db Pictures                        # store every file under a directory
  titan scan photos.db --keys-only                     # list the keys
  titan get photos.db Pictures/cat.jpg > cat.jpg       # one of them
  titan dump photos.db restored                        # write the files back
  titan load --help                                    # what a command does, with an example

Keys are text, or bytes in hexadecimal after 0x. Sizes are shown in units of 1024.

Exit status: 0 done, 1 failed, 2 wrong usage, 3 repaired and something was lost, 4 no such key,
5 no such database or column family, 6 the database is damaged, 130 interrupted.";

#[derive(Subcommand)]
enum Command {
    Load(load::Args),
    Ingest(ingest::Args),
    Dump(dump::Args),
    Get(get::Args),
    Put(put::Args),
    Delete(delete::Args),
    Scan(scan::Args),
    Families(families::Args),
    Stats(stats::Args),
    Top(top::Args),
    Space(space::Args),
    Check(check::Args),
    Repair(repair::Args),
    Checkpoint(checkpoint::Args),
    Downgrade(downgrade::Args),
    Inspect(inspect::Args),
    Compact(compact::Args),
    Gc(gc::Args),
    Mvcc(mvcc::Args),
    Ime(ime::Args),
    #[cfg(feature = "serve")]
    Serve(Box<serve::Args>),
    Bench(Box<bench::Args>),
    Options(options::Args),
    Completions(completions::Args),
    Man(man::Args),
}

fn main() -> ExitCode {
    titan::vfs::raise_open_files_limit();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let Cli { global, command } = &cli;
    if global.json {
        output::use_json();
    }
    if let (Command::Options(options::Args { db: Some(_) }), Some(_)) = (command, &global.config) {
        let message = "options of a database are printed as it keeps them, without --config";
        return usage(&Cli::command().error(ErrorKind::ArgumentConflict, message));
    }
    let result = match command {
        Command::Load(args) => load::run(args, global),
        Command::Ingest(args) => ingest::run(args, global),
        Command::Dump(args) => dump::run(args, global),
        Command::Get(args) => get::run(args, global),
        Command::Put(args) => put::run(args, global),
        Command::Delete(args) => delete::run(args, global),
        Command::Scan(args) => scan::run(args, global),
        Command::Families(args) => families::run(args, global),
        Command::Stats(args) => stats::run(args, global),
        Command::Top(args) => top::run(args, global),
        Command::Space(args) => space::run(args, global),
        Command::Check(args) => check::run(args, global),
        Command::Repair(args) => repair::run(args, global),
        Command::Checkpoint(args) => checkpoint::run(args, global),
        Command::Downgrade(args) => downgrade::run(args, global),
        Command::Inspect(args) => inspect::run(args, global),
        Command::Compact(args) => compact::run(args, global),
        Command::Gc(args) => gc::run(args, global),
        Command::Mvcc(args) => mvcc::run(args, global),
        Command::Ime(args) => ime::run(args, global),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(args, global),
        Command::Bench(args) => bench::run(args, global),
        Command::Options(args) => options::run(args, global),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Man(args) => man::run(args, Cli::command()),
    };
    match result {
        // The work that the signal found undone has been done meanwhile, or left.
        Ok(_) if interrupt::has_come() => ExitCode::from(status::INTERRUPTED),
        Ok(code) => code,
        // The reader of the output has closed it.
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            if output::led_to_it(&error, titan::ErrorKind::Internal) {
                output::suggest_report();
            } else if error.is_not_found() {
                output::suggest_parts(&error);
            } else if error.message().contains("ColumnFamilyOptions::stated") {
                output::suggest_replacing(&error);
            } else if output::led_to_it(&error, titan::ErrorKind::Corruption)
                && !matches!(command, Command::Check(_))
            {
                match command {
                    Command::Mvcc(args)
                        if error.path().is_some() && error.path() == args.export_file() =>
                    {
                        output::suggest_exporting(&error);
                    }
                    // The database has nothing of the file.
                    Command::Ingest(args) if args.names(error.path()) => {}
                    // No file is damaged.
                    Command::Mvcc(_) if error.path().is_none() => {
                        output::suggest_deleting();
                    }
                    _ => output::suggest_repair(),
                }
            }
            match interrupt::has_come() {
                true => ExitCode::from(status::INTERRUPTED),
                false => status::of(&error),
            }
        }
    }
}

/// Prints help and version as clap formats them, and wrong usage as one line like other errors.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // If the terminal is gone, nothing can be done.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if wants_json() => {
            tell_usage("a subcommand or an argument is missing");
            ExitCode::from(status::USAGE)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(status::USAGE)
        }
        _ => {
            let text = error.to_string();
            let said: Vec<&str> = text
                .lines()
                .map(str::trim)
                .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
                .filter(|line| !line.is_empty())
                .collect();
            let said = said.join(" ").replace(" tip: ", "; ");
            let said = said.strip_prefix("error: ").unwrap_or(&said);
            tell_usage(said);
            ExitCode::from(status::USAGE)
        }
    }
}

/// Whether `--json` is among the arguments, which are not understood.
fn wants_json() -> bool {
    std::env::args_os().any(|argument| argument == "--json")
}

/// Says on standard error that the command was used wrongly, and where its help is.
fn tell_usage(said: &str) {
    let command = command_of(std::env::args_os().skip(1));
    let help = format!("titan {command}--help");
    match wants_json() {
        true => {
            let error = json!({ "kind": "usage", "message": said, "help": help });
            output::tell(json!({ "error": error }));
        }
        false => output::tell(format_args!("titan: usage: {said} (see {help})")),
    }
}

/// The command that the arguments name, with a space after each of its words; empty if they name
/// none.
fn command_of(arguments: impl Iterator<Item = OsString>) -> String {
    let mut command = Cli::command();
    let mut words = String::new();
    for argument in arguments {
        let Some(named) = command.find_subcommand(&argument) else {
            continue;
        };
        words.push_str(named.get_name());
        words.push(' ');
        command = named.clone();
    }
    words
}
