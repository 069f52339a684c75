//! All orders of the steps of several actors.
//!
//! The input has lines `first: STEPS`, one line `NAME: STEPS` for each actor, and `last: STEPS`.
//! Steps are separated by `;`. Each order of the actors' steps runs on a new store, between the
//! first and the last steps. Orders with the same results are one outcome: its number of orders,
//! the earliest of them, and the results of each actor and of the last steps.

use super::steps::World;

struct Actor<'a> {
    name: &'a str,
    steps: Vec<&'a str>,
}

pub(super) fn outcomes(settings: &str, input: &[&str]) -> Vec<String> {
    let actor = |line: &&'_ str| -> (String, Vec<String>) {
        let (name, steps) = line.split_once(": ").unwrap();
        let steps = steps.split(';').map(|step| step.trim().to_owned());
        (name.to_owned(), steps.collect())
    };
    let parsed: Vec<_> = input.iter().map(actor).collect();
    let actors: Vec<Actor<'_>> = parsed
        .iter()
        .map(|(name, steps)| Actor {
            name,
            steps: steps.iter().map(String::as_str).collect(),
        })
        .collect();
    let (first, actors): (Vec<_>, Vec<_>) = actors.into_iter().partition(|it| it.name == "first");
    let (last, actors): (Vec<_>, Vec<_>) = actors.into_iter().partition(|it| it.name == "last");
    let mut orders = Vec::new();
    extend(&actors, &mut Vec::new(), &mut orders);
    // The results of each outcome, and its orders.
    let mut found: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for order in &orders {
        let results = results(settings, &first, &actors, &last, order);
        let names: Vec<&str> = order.iter().map(|actor| actors[*actor].name).collect();
        let order = names.join(" ");
        match found.iter_mut().find(|(known, _)| *known == results) {
            Some((_, orders)) => orders.push(order),
            None => found.push((results, vec![order])),
        }
    }
    let mut out = vec![format!("{} orders", orders.len())];
    for (results, orders) in found {
        out.push(format!("{} as {}:", orders.len(), orders[0]));
        out.extend(results.iter().map(|result| format!("  {result}")));
    }
    out
}

/// Adds all orders that begin with `begun` to `orders`.
fn extend(actors: &[Actor<'_>], begun: &mut Vec<usize>, orders: &mut Vec<Vec<usize>>) {
    let mut is_whole = true;
    for (n, actor) in actors.iter().enumerate() {
        if begun.iter().filter(|other| **other == n).count() < actor.steps.len() {
            is_whole = false;
            begun.push(n);
            extend(actors, begun, orders);
            begun.pop();
        }
    }
    if is_whole {
        orders.push(begun.clone());
    }
}

fn results(
    settings: &str,
    first: &[Actor<'_>],
    actors: &[Actor<'_>],
    last: &[Actor<'_>],
    order: &[usize],
) -> Vec<String> {
    let mut world = World::new(settings);
    world.names.is_vague = true;
    for step in first.iter().flat_map(|actor| &actor.steps) {
        world.step(step);
    }
    let mut results: Vec<Vec<String>> = actors.iter().map(|_| Vec::new()).collect();
    for actor in order {
        let step = actors[*actor].steps[results[*actor].len()];
        let result = world.step(step);
        results[*actor].push(result);
    }
    world.check();
    let mut lines: Vec<String> = actors
        .iter()
        .zip(results)
        .map(|(actor, results)| format!("{}: {}", actor.name, results.join(" | ")))
        .collect();
    for step in last.iter().flat_map(|actor| &actor.steps) {
        lines.push(format!("{step} -> {}", world.step(step)));
    }
    world.check();
    lines
}
