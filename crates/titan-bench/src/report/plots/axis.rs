//! Axes: how values become lengths, and which values are written next to the axis.
//!
//! A length here is the result of the scale, before it becomes pixels.

/// The meaning of lengths.
pub(crate) enum Scale {
    /// Begins at zero.
    Linear,
    /// Every power of ten has the same length.
    Log,
    /// Percentiles, 0 to below 100: every further nine has the same length.
    Nines,
    /// The value is the number of a step plus the fraction of it that is done.
    Steps(Vec<String>),
}

/// One axis of a plot.
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) scale: Scale,
    pub(crate) show: fn(f64) -> String,
}

/// The percentiles written next to an axis of nines.
const NINES: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

impl Axis {
    /// `None` if the value is not representable on this axis.
    pub(super) fn length(&self, value: f64) -> Option<f64> {
        let length = match self.scale {
            Scale::Linear | Scale::Steps(_) => value,
            Scale::Log => value.log10(),
            Scale::Nines => -(1.0 - value / 100.0).log10(),
        };
        length.is_finite().then_some(length)
    }

    /// The ends of the axis for these lengths; they differ.
    pub(super) fn range(&self, lengths: impl Iterator<Item = f64>) -> (f64, f64) {
        let ends = lengths.fold(None, |ends: Option<(f64, f64)>, length| {
            let (least, most) = ends.unwrap_or((length, length));
            Some((least.min(length), most.max(length)))
        });
        let (least, most) = ends.unwrap_or((0.0, 1.0));
        match &self.scale {
            Scale::Linear => (0.0, if most > 0.0 { most * 1.05 } else { 1.0 }),
            // Extending to the next power of ten would leave half of many plots empty.
            Scale::Log => (least - 0.08, (most + 0.08).max(least + 0.5)),
            Scale::Nines => (0.0, most.max(2.0)),
            Scale::Steps(names) => (0.0, names.len().max(1) as f64),
        }
    }

    /// Lengths with labels, and the labels.
    pub(super) fn ticks(&self, (from, to): (f64, f64)) -> Vec<(f64, String)> {
        let values: Vec<f64> = match &self.scale {
            Scale::Linear => linear_ticks(to),
            Scale::Log => log_ticks(from, to),
            Scale::Nines => NINES.to_vec(),
            Scale::Steps(names) => {
                let names = names.iter().enumerate();
                return names
                    .map(|(at, name)| (at as f64 + 0.5, name.clone()))
                    .collect();
            }
        };
        let ticks = values
            .into_iter()
            .filter_map(|value| Some((self.length(value)?, value)));
        let inside = ticks.filter(|(length, _)| (from - 1e-9..=to + 1e-9).contains(length));
        inside
            .map(|(length, value)| (length, (self.show)(value)))
            .collect()
    }
}

/// Four to nine round values up to this one.
fn linear_ticks(to: f64) -> Vec<f64> {
    let power = 10_f64.powf((to / 4.0).log10().floor());
    let step = [5.0, 2.0, 1.0].map(|factor| factor * power);
    let step = step
        .into_iter()
        .find(|step| to / step >= 4.0)
        .unwrap_or(power);
    (0..=(to / step) as u32)
        .map(|n| f64::from(n) * step)
        .collect()
}

/// Round values of every power of ten: the more powers, the fewer values of each.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let factors: &[f64] = match to - from {
        powers if powers > 3.0 => &[1.0],
        powers if powers > 1.0 => &[1.0, 2.0, 5.0],
        _ => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
    };
    let powers = from.floor() as i32..=to.ceil() as i32;
    let ticks = powers.flat_map(|power| factors.iter().map(move |f| f * 10_f64.powi(power)));
    ticks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = Axis {
            name: String::new(),
            scale,
            show: |value| format!("{value}"),
        };
        let lengths = values.iter().filter_map(|value| axis.length(*value));
        let range = axis.range(lengths);
        axis.ticks(range)
            .into_iter()
            .map(|(_, text)| text)
            .collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            ticks(Scale::Linear, &[3.0, 80.0]),
            ["0", "20", "40", "60", "80"]
        );
        assert_eq!(
            ticks(Scale::Linear, &[0.0]),
            ["0", "0.2", "0.4", "0.6000000000000001", "0.8", "1"]
        );
        assert_eq!(
            ticks(Scale::Log, &[0.0, 10.0, 300.0]),
            ["10", "20", "50", "100", "200"]
        );
        assert_eq!(ticks(Scale::Log, &[1.0, 1e5]).len(), 6);
        assert_eq!(
            ticks(Scale::Nines, &[50.0, 99.95, 100.0]),
            ["0", "50", "90", "99", "99.9"]
        );
        assert_eq!(ticks(Scale::Steps(vec!["a".to_owned()]), &[0.3]), ["a"]);
    }

    #[test]
    fn an_axis_without_values_has_a_length() {
        for scale in [
            Scale::Linear,
            Scale::Log,
            Scale::Nines,
            Scale::Steps(Vec::new()),
        ] {
            let axis = Axis {
                name: String::new(),
                scale,
                show: |value| format!("{value}"),
            };
            let (from, to) = axis.range(std::iter::empty());
            assert!(from < to);
        }
    }
}
