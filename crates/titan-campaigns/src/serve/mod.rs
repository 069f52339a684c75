//! Transactions over the network on a node that is killed.
//!
//! The `titan serve` command, another process, serves a directory. Threads of clients run
//! transactions of all sorts on a few keys: optimistic and pessimistic, committed in one phase, in
//! two and async. Some clients leave between two calls, and their locks to the others; others see
//! time ahead and give the living up. Regions are split and the safe point moves. Meanwhile the
//! node is killed and started again. The history must be snapshot isolated, with every commit that
//! was acknowledged, and at the end no lock is left. No thread of the node panics.
//!
//! | file | owns |
//! |---|---|
//! | `node` | the process that is killed |
//! | `connection` | calls: regions, repetition, the meaning of a broken connection |
//! | `resolve` | the fates of transactions, and the locks of others |
//! | `client` | random transactions |
//! | `commit` | their commits |
//! | `shared` | the state that the clients of a round share |

mod client;
mod commit;
mod connection;
mod node;
mod resolve;
mod shared;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use titan_testkit::failure::{CheckFailure, Checked};

use self::client::Client;
use self::node::ServedNode;
use self::shared::Shared;
use crate::Run;

/// Clients at the same time.
const CLIENTS: u64 = 8;

/// The work of a round, in a directory of its own.
#[derive(Clone, Copy)]
pub struct Round {
    /// Transactions of all clients together.
    pub transactions: u64,
    /// The mean time between two kills.
    pub between_kills: Duration,
}

/// Runs rounds with the program `titan` until `transactions` have ended, or as long as the time of
/// the run lasts. Each transaction of a correct history counts as passed.
pub fn serve(run: &Run, titan: &Path, transactions: u64, round: Round) {
    let rounds = transactions.div_ceil(round.transactions.max(1));
    let mut kills = 0;
    for seed in run.seeds(rounds) {
        run.phase(format!("round {seed}, {kills} kills"));
        match run_round(run, titan, seed, round) {
            Ok(done) => {
                kills += done.kills;
                run.pass(done.transactions);
            }
            Err(e) => run.fail(format!("seed {seed}: {e}")),
        }
    }
    run.note(format!("{kills} kills of the node"));
}

/// The work that a round has done.
struct Done {
    transactions: u64,
    kills: u64,
}

fn run_round(run: &Run, titan: &Path, seed: u64, round: Round) -> Checked<Done> {
    let place = tempfile::tempdir().map_err(|e| CheckFailure::wrong(e.to_string()))?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let node = ServedNode::start(titan, place.path(), rng.bool())?;
    let shared = Shared::new(&node, round.transactions, CLIENTS);
    let clients = (0..CLIENTS).map(|n| Client::new(&shared, seed.wrapping_mul(CLIENTS) + n, n));
    let clients: Vec<Client<'_>> = clients.collect::<Checked<_>>()?;
    let mut kills = 0;
    let mut restarted = Ok(());
    std::thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || client.run());
        }
        let millis = u64::try_from(round.between_kills.as_millis()).unwrap_or(u64::MAX / 4);
        while run.goes_on() && !shared.is_over() {
            let until = Duration::from_millis(rng.u64(..=2 * millis));
            if shared.wait_for_the_end(until) {
                break;
            }
            restarted = node.kill_and_start();
            if restarted.is_err() {
                break;
            }
            kills += 1;
        }
        shared.stop();
    });
    // They explain the findings of clients.
    restarted?;
    node.check()?;
    shared.failure()?;
    let mut last = Client::new(&shared, seed, 0)?;
    last.end()?;
    node.kill_and_start()?;
    last.read_everything()?;
    let commits = shared.history.check()?;
    let transactions = shared.ended.load(Ordering::Relaxed);
    titan_testkit::ensure!(
        commits as u64 > transactions / 10,
        "{commits} of {transactions} transactions committed"
    );
    node.stop()?;
    Ok(Done {
        transactions,
        kills: kills + 1,
    })
}
