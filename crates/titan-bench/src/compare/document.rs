//! A comparison to be read: what differs first.

use std::fmt;

use super::judgements::JudgedTwice;
use super::{Compared, ComparedStep, Comparison};
use crate::report::document::{Cell, Document, Table};
use crate::report::markdown;
use crate::report::units::number;
use crate::report::verdict::{Judgement, MARGIN};

impl Compared {
    fn cells(&self) -> [Cell; 5] {
        let verdict = match self.exceeds_spread {
            Some(true) => "differs",
            Some(false) => "within the spread",
            None => "one round",
        };
        [
            self.what.into(),
            self.a.show(self.show).into(),
            self.b.show(self.show).into(),
            self.ratio.show(number).into(),
            verdict.into(),
        ]
    }
}

impl JudgedTwice {
    fn cells(&self) -> Vec<Cell> {
        let word = |judgement| match judgement {
            Judgement::Loss => "loss",
            Judgement::Win => "win",
            Judgement::Same => "no difference",
        };
        vec![
            format!("{}: {}", self.workload, self.step).into(),
            self.measure.into(),
            Cell::engine(&self.against),
            self.a.show(number).into(),
            self.b.show(number).into(),
            word(self.judged_a).into(),
            word(self.judged_b).into(),
        ]
    }
}

impl ComparedStep {
    fn name(&self) -> String {
        let cut_short = match (self.cut_short_a, self.cut_short_b) {
            (false, false) => "",
            (true, false) => ", cut short in A",
            (false, true) => ", cut short in B",
            (true, true) => ", cut short in both",
        };
        format!("{}: {}{cut_short}", self.workload, self.step)
    }
}

impl Comparison {
    fn document(&self) -> Document {
        let mut document = Document {
            title: "B compared to A".to_owned(),
            ..Document::default()
        };
        document.heading(2, "Conditions", "conditions");
        if self.conditions.is_empty() {
            document.text("They are the same.");
        }
        let mut table = Table::new("What differs", &[":condition", ":A", ":B"]);
        for difference in &self.conditions {
            let cell = |value: &Option<String>| {
                value
                    .as_ref()
                    .map_or_else(Cell::nothing, |value| value.as_str().into())
            };
            let name = difference.what.as_str().into();
            table.row(vec![name, cell(&difference.a), cell(&difference.b)]);
        }
        document.table(table);
        let columns = [":the device", "A", "B", "B / A", ":"];
        let mut table = Table::new("What the device gave", &columns);
        for compared in &self.device {
            table.row(compared.cells().into());
        }
        document.table(table);
        document.heading(2, "Titan against each other engine", "judged");
        self.add_judged(&mut document);
        document.heading(2, "Rankings", "rankings");
        self.add_rankings(&mut document);
        document.heading(2, "Steps", "steps");
        self.add_steps(&mut document);
        for (name, places) in [("A", &self.only_in_a), ("B", &self.only_in_b)] {
            if !places.is_empty() {
                document.heading(
                    2,
                    format!("Measured only in {name}"),
                    &format!("only-{name}"),
                );
                document.list(places.clone());
            }
        }
        document
    }

    fn add_judged(&self, document: &mut Document) {
        let count =
            |which: fn(&JudgedTwice) -> bool| self.judged.iter().filter(|j| which(j)).count();
        document.text(format!(
            "Ratios of Titan's figure to another's, {} in all. In {} both reports say the same: loss, win \
             or no difference; {} are a loss in one and a win in the other; in the others one sees a \
             difference that the other does not. In {} the rounds of both overlap, or their medians differ \
             by no more than {} %.",
            self.judged.len(),
            count(|judged| judged.judged_a == judged.judged_b),
            count(JudgedTwice::contrary),
            count(|judged| judged.agree),
            MARGIN * 100.0
        ));
        let columns = [
            ":step", ":measure", ":against", "A", "B", ":A says", ":B says",
        ];
        let mut contrary = Table::new("Where they contradict each other", &columns);
        let mut apart = Table::new("Where their ratios lie apart", &columns);
        for judged in &self.judged {
            if judged.contrary() {
                contrary.row(judged.cells());
            } else if !judged.agree {
                apart.row(judged.cells());
            }
        }
        document.table(contrary);
        document.table(apart);
    }

    fn add_rankings(&self, document: &mut Document) {
        let changed = self.rankings.iter().filter(|ranking| !ranking.same);
        document.text(format!(
            "By operations/s, engines have the same order in {} of {} steps; in {} of the others two \
             changed places whose rounds have nothing in common in either report.",
            self.rankings.len() - changed.clone().count(),
            self.rankings.len(),
            changed.clone().filter(|ranking| ranking.contrary).count()
        ));
        let columns = [":step", ":A", ":B", ":"];
        let mut table = Table::new("Where the order changed", &columns);
        for ranking in changed {
            table.row(vec![
                format!("{}: {}", ranking.workload, ranking.step).into(),
                ranking.a.join(" > ").into(),
                ranking.b.join(" > ").into(),
                match ranking.contrary {
                    true => "contrary",
                    false => "within the spread",
                }
                .into(),
            ]);
        }
        document.table(table);
    }

    fn add_steps(&self, document: &mut Document) {
        let columns = [":step", ":engine", ":measure", "A", "B", "B / A", ":"];
        let mut table = Table::new("", &columns);
        for step in &self.steps {
            for compared in &step.measures {
                let mut row = vec![step.name().into(), Cell::engine(&step.engine)];
                row.extend(compared.cells());
                table.row(row);
            }
        }
        document.table(table);
    }
}

/// As Markdown.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&markdown::render(&self.document(), ""))
    }
}
