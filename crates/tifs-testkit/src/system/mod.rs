//! Operations as system calls, and two file systems that do them in step: everything that can be
//! seen must be equal.
//!
//! | module | owns |
//! |---|---|
//! | `mapping` | a file in memory |
//! | `parts` | parts of system calls, and operations that are several |
//! | `calls` | operations as system calls |
//! | `outcome` | their results |
//! | `tree` | all that a file system has |
//! | `side` | one of the two file systems |
//! | `pair` | both, in step |

mod calls;
mod mapping;
mod outcome;
mod pair;
mod parts;
mod side;
mod tree;

pub use self::calls::Performer;
pub use self::mapping::Mapping;
pub use self::outcome::{Answer, Outcome};
pub use self::pair::{Counts, Difference, Pair};
pub use self::side::Side;
