//! Spans and events for the crate `tracing`.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use titan::StatsLevel;
use titan_testkit::sim::SimVfs;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{at_level, filled};

/// Lines of the events recorded on one thread.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Recorded {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "titan"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields("event".to_owned());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn recovery_and_a_compaction_of_this_thread_are_told() {
    let recorded = Recorded::default();
    // Beside another dispatcher: with one alone, a span that a thread without a subscriber meets
    // first is switched off for all threads.
    let _other = tracing::Dispatch::new(Recorded::default());
    let vfs = SimVfs::new();
    tracing::subscriber::with_default(recorded.clone(), || {
        filled(&at_level(&vfs, StatsLevel::Off));
    });
    let lines = recorded.0.lock().unwrap();
    let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
    assert!(has("recovery dir=/db"), "{lines:?}");
    assert!(has("job doing=compacting family=default"), "{lines:?}");
    assert!(
        has("event message=compaction begun family=0 inputs=1"),
        "{lines:?}"
    );
}
