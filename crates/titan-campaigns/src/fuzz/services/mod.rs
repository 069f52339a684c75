//! Fuzz targets of a node that speaks TiKV's protocol.
//!
//! | file | owns |
//! |---|---|
//! | `methods` | the calls, and the messages of their requests |
//! | `place` | a node on a simulated disk, and the checks after its calls |
//! | `seeds` | inputs to start from |

mod methods;
mod place;
mod seeds;

pub use seeds::seeds;

use super::input::Input;
use methods::{CALLS, ETCD, Method, PLACEMENT, STREAMS};
use place::Place;

/// Decodes an input as the request of every call, and panics unless the decoded message, encoded
/// and decoded again, is the same.
pub fn requests(input: &[u8]) {
    for methods in [CALLS, PLACEMENT, ETCD, STREAMS] {
        methods.iter().for_each(|method| (method.decode)(input));
    }
}

/// Makes the calls of an input to the key-value service of a new node, one after the other or in
/// batches. Panics if one fails by a panic, or unless the node is sound then, and the same after a
/// crash.
pub fn calls(input: &[u8]) {
    let [batches, _] = STREAMS;
    perform(input, &CALLS.iter().chain([batches]).collect::<Vec<_>>());
}

/// The same for the placement driver and the keys that clients save, beside some calls that write.
pub fn placement(input: &[u8]) {
    let [_, timestamps] = STREAMS;
    let methods = PLACEMENT.iter().chain([timestamps]).chain(ETCD);
    perform(input, &methods.collect::<Vec<_>>());
}

/// The input has for each call its number, a length and so many bytes of a request. Above half of
/// the numbers, the request goes to the first region or the right cluster.
fn perform(input: &[u8], methods: &[&Method]) {
    let place = Place::new();
    let mut input = Input::new(input);
    while !input.is_empty() {
        let number = input.byte();
        let (number, is_addressed) = (usize::from(number & 127), number & 128 != 0);
        let length = usize::from(input.byte());
        let request = input.take(length);
        if let Some(method) = methods.get(number % methods.len()) {
            place.call(method, request, is_addressed);
        }
    }
    place.check();
}
