//! Tests of the range cache through its public interface.
//!
//! - `place`: stores on a simulated disk and clock
//! - `failures`: an oracle that stands still, crashes
//! - `known_bugs`: bugs that such caches had elsewhere
//! - `loads`: loads that meet writes, that are abandoned, that do not fit
//! - `locks`: transactions in two phases
//! - `reads`: what is answered from memory, and what is not
//! - `pruning`: old versions that go, and readers that keep them
//! - `hot_set`: the file of what is held
//! - `forks`: children that are forked while a cache is open
//! - `threads`: writers, readers, loads and an auditor at once
//!
//! The failures of a cache of ranges, each with its tests. `models` are those of `cargo xtask
//! loom`, `schedules` the scenario `range cache` of `cargo xtask shuttle`, `ime` the campaign
//! `cargo xtask ime`:
//!
//! - a load races with writes: `loads::writes_that_come_while_a_range_is_loaded_are_not_lost`,
//!   `models`, `schedules`
//! - a load begins while a batch is under way:
//!   `known_bugs::a_load_misses_no_commit_that_is_under_way`, `schedules`
//! - a reader is older than the load: `pruning::a_reader_from_before_a_load_finds_what_it_found`
//! - a batch has keys in ranges that are held and in others: `threads`, `ime`
//! - a range is dropped under readers:
//!   `pruning::a_reader_of_long_life_is_handed_over_to_the_engine`, `models`
//! - it is dropped while it is loaded, and loaded again:
//!   `loads::a_segment_that_is_dropped_ends_its_load`,
//!   `golden_tests::remembered`
//! - it is dropped while the hook writes it:
//!   `hook::tests::a_write_that_meets_a_segment_that_has_ended_goes_to_what_took_its_place`,
//!   `models`
//! - pruning races with admission: `models`, `schedules`
//! - many commits come after a reader, and pruning:
//!   `pruning::an_old_reader_is_served_and_does_not_keep_what_came_later`
//! - what a deletion hid comes back: `versions::tests`, `models`,
//!   `pruning::deleted_rows_leave_nothing`
//! - a version is written again at its timestamp:
//!   `hook::tests::the_last_of_two_versions_with_one_timestamp_is_found`
//! - memory is short in the middle of a load or a batch: `refusals_tests`: at each charge
//! - the limit of memory goes up and down, and the hot spot moves: `golden_tests::memory_limits`
//! - data changes past the operations:
//!   `hook::tests::what_is_no_version_drops_the_segments_that_it_may_change`
//! - a gap is written, read by older readers, in both directions:
//!   `reads::a_gap_of_dead_rows_is_passed_in_one_step_once_a_scan_has_met_it`
//! - segments are split and joined under readers:
//!   `golden_tests::splits_and_joins`, `models`, `schedules`
//! - the engine moves a value that the cache refers to: `ime`: `separated and collected behind the
//!   safe point`
//! - the process or the machine stops:
//!   `failures::the_machine_stops_at_any_point_and_the_store_has_all_that_it_would_have_alone`,
//!   `ime`
//! - the oracle stands still, or the clock jumps:
//!   `failures::an_oracle_that_stands_still_stops_commits_and_nothing_else`, `ime`: `clock jumps`
//! - the hook panics: `hook::tests::a_hook_that_panics_turns_the_cache_off_and_harms_no_commit`
//! - a reader reads for very long, and everything is overwritten:
//!   `pruning::an_old_reader_is_served_and_does_not_keep_what_came_later`
//! - nothing is seen any more of the reads that a range saves:
//!   `golden_tests::hot_ranges`
//! - a program loads what was remembered, or what the cache is loading:
//!   `loads::a_range_is_loaded_at_each_start_whatever_the_cache_has_remembered`,
//!   `loads::a_load_that_the_cache_has_begun_gives_way_to_one_of_the_program`
//! - the hook of the program panics: `chained_hook::tests`
//!
//! Everything random has a seed, which a failure names. `TITAN_IME_TEST_SEEDS=20` runs twenty times
//! as many.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "tests fail by panicking; their helpers are for this binary alone"
)]

mod failures;
mod forks;
mod hot_set;
mod known_bugs;
mod layers;
mod loads;
mod locks;
mod place;
mod pruning;
mod reads;
mod threads;
