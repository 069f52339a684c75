//! A comparison as text: differences first.

use std::fmt;

use super::judgements::{Agreement, JudgedTwice};
use super::rankings::Order;
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
        if self.judged.is_empty() {
            return document.text("Titan and another engine are not in both reports.");
        }
        let rounds = self.judged.iter().map(|j| j.a.rounds.min(j.b.rounds));
        if rounds.min() == Some(1) {
            document.text("With one round in a report, a loss or a win may be chance.");
        }
        let of = |agreement| (self.judged.iter()).filter(move |j| j.agreement() == agreement);
        document.text(format!(
            "Of {} ratios of Titan's figure to another's that both reports judge, {} are a loss, a win \
             or no difference in both, {} are a difference in one report alone, and {} a loss in one \
             and a win in the other. {} lie apart: no round of one within the rounds of the other, and \
             medians more than {} % apart.",
            self.judged.len(),
            of(Agreement::Same).count(),
            of(Agreement::OneSided).count(),
            of(Agreement::Contrary).count(),
            self.judged.iter().filter(|judged| judged.apart).count(),
            MARGIN * 100.0
        ));
        let columns = [
            ":step", ":measure", ":against", "A", "B", ":A says", ":B says",
        ];
        let mut contrary = Table::new("Where they contradict each other", &columns);
        let mut apart = Table::new("Others that lie apart", &columns);
        for judged in &self.judged {
            if judged.agreement() == Agreement::Contrary {
                contrary.row(judged.cells());
            } else if judged.apart {
                apart.row(judged.cells());
            }
        }
        document.table(contrary);
        document.table(apart);
    }

    fn add_rankings(&self, document: &mut Document) {
        let count = |order| self.rankings.iter().filter(|r| r.order == order).count();
        document.text(format!(
            "By operations/s, engines have the same order in {} of {} steps; in {} of the others two \
             changed places that both reports tell apart.",
            count(Order::Same),
            self.rankings.len(),
            count(Order::Contrary)
        ));
        let columns = [":step", ":A", ":B", ":"];
        let mut table = Table::new("Where the order changed", &columns);
        for ranking in &self.rankings {
            let says = match ranking.order {
                Order::Same => continue,
                Order::Changed => "not told apart",
                Order::Contrary => "contrary",
            };
            table.row(vec![
                format!("{}: {}", ranking.workload, ranking.step).into(),
                ranking.a.join(" > ").into(),
                ranking.b.join(" > ").into(),
                says.into(),
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
