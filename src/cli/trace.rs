//! A timeline of a run, in the trace event format that Perfetto and Chrome load.
//!
//! Spans of our crates become slices on the thread that was in them: a `B` event where it begins and an `E` event where
//! it ends, log messages instants between them. A span with the field `in_flight` is work that no thread is in: it lasts
//! from `b` to `e`, for as long as anybody holds it. Each event is written at once and whole, so the file of a process that
//! was killed lacks its closing bracket, which viewers do without, and shows what was under way.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use serde::Serialize;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::console;
use super::failure::{Cause, Failure};
use super::record::{RecordArgs, cannot_write};

/// A timeline that is written until this is dropped.
pub(super) struct Trace(Arc<Timeline>);

/// Opens the file for a timeline, if one is wanted.
pub(super) fn open(records: &RecordArgs) -> Result<Option<Trace>, Failure> {
    let Some(path) = &records.trace else { return Ok(None) };
    let timeline = Timeline::new(path);
    let timeline = timeline.map_err(|error| cannot_write("--trace", path, &error, Cause::Input))?;
    Ok(Some(Trace(Arc::new(timeline))))
}

impl Trace {
    /// What has to see spans and messages for them to be in the timeline.
    pub(super) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        let ours = Targets::new().with_target("shardwright", LevelFilter::DEBUG);
        Slices(Arc::clone(&self.0)).with_filter(ours)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The file.
struct Timeline {
    start: Instant,
    state: Mutex<State>,
}

struct State {
    /// Nothing after the end, or when it could not be written.
    file: Option<File>,
    /// Those that were seen, by their number in the file.
    threads: Vec<ThreadId>,
}

/// An event of the format. Times are in microseconds.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    ph: &'a str,
    ts: f64,
    pid: u32,
    tid: usize,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    args: &'a BTreeMap<&'static str, Value>,
    /// How far an instant reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    /// What the two ends of work in flight have in common.
    #[serde(flatten)]
    flight: Option<Flight>,
}

#[derive(Serialize)]
struct Flight {
    cat: &'static str,
    id: u64,
}

impl Timeline {
    fn new(path: &Path) -> io::Result<Timeline> {
        let mut file = File::create(path)?;
        let name = Fields(BTreeMap::from([("name", "shardwright".into())]));
        let entry = Entry {
            name: "process_name",
            ph: "M",
            ts: 0.0,
            pid: pid(),
            tid: 0,
            args: &name.0,
            s: None,
            flight: None,
        };
        file.write_all(format!("[\n{}", serde_json::to_string(&entry)?).as_bytes())?;
        let state = State { file: Some(file), threads: Vec::new() };
        Ok(Timeline { start: Instant::now(), state: Mutex::new(state) })
    }

    fn write(&self, ph: &str, name: &str, args: &Fields, flight: Option<u64>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Read with the lock held: times of a thread do not go back.
        let ts = self.start.elapsed().as_nanos() as f64 / 1e3;
        let tid = state.thread(ts);
        let s = (ph == "i").then_some("t");
        let flight = flight.map(|id| Flight { cat: "in flight", id });
        state.append(&Entry { name, ph, ts, pid: pid(), tid, args: &args.0, s, flight });
    }

    fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut file) = state.file.take() {
            // Viewers do without it.
            let _ = file.write_all(b"\n]\n");
        }
    }
}

impl State {
    /// The number of this thread; its name is written down when it is new.
    fn thread(&mut self, ts: f64) -> usize {
        let thread = thread::current();
        if let Some(known) = self.threads.iter().position(|id| *id == thread.id()) {
            return known;
        }
        self.threads.push(thread.id());
        let tid = self.threads.len() - 1;
        let name = thread.name().map_or_else(|| format!("thread {tid}"), str::to_owned);
        let args = BTreeMap::from([("name", name.into())]);
        self.append(&Entry {
            name: "thread_name",
            ph: "M",
            ts,
            pid: pid(),
            tid,
            args: &args,
            s: None,
            flight: None,
        });
        tid
    }

    fn append(&mut self, entry: &Entry<'_>) {
        let Some(file) = &mut self.file else { return };
        let written = serde_json::to_string(entry)
            .map_err(io::Error::from)
            .and_then(|entry| file.write_all(format!(",\n{entry}").as_bytes()));
        if let Err(error) = written {
            self.file = None;
            console::note(format!("warning: the timeline ends here, it cannot be written: {error}"));
        }
    }
}

fn pid() -> u32 {
    std::process::id()
}

/// Writes spans and messages to a timeline.
struct Slices(Arc<Timeline>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Slices {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if fields.is_in_flight() {
            self.0.write("b", span.name(), &fields, Some(id.into_u64()));
        }
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions().get::<Fields>() {
            self.0.write("B", span.name(), fields, None);
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        self.0.write("E", span.name(), &Fields::default(), None);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if span.extensions().get::<Fields>().is_some_and(Fields::is_in_flight) {
            self.0.write("e", span.name(), &Fields::default(), Some(id.into_u64()));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message");
        let message = message.as_ref().and_then(Value::as_str).unwrap_or(event.metadata().name());
        self.0.write("i", message, &fields, None);
    }
}

/// The fields of a span or a message.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, Value>);

impl Fields {
    fn is_in_flight(&self) -> bool {
        self.0.get("in_flight") == Some(&Value::Bool(true))
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::expect;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// A line for each event but those of the whole process: thread, phase, name, arguments.
    fn lines(text: &str) -> String {
        let entries: Vec<Value> = serde_json::from_str(text).unwrap();
        let line =
            |entry: &Value| format!("{} {} {} {}\n", entry["tid"], entry["ph"], entry["name"], entry["args"]);
        entries.iter().skip(1).map(line).collect()
    }

    #[test]
    fn spans_are_slices_of_their_threads_and_a_killed_process_leaves_what_it_had() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let trace = Trace(Arc::new(Timeline::new(file.path()).unwrap()));
        let subscriber = tracing_subscriber::registry().with(trace.layer());
        let read = || fs::read_to_string(file.path()).unwrap();
        let work = || {
            let _step = tracing::debug_span!("step", number = 3).entered();
            tracing::warn!(bytes = 2.5, "slow \"disk\"");
            tracing::debug_span!(target: "other", "not ours").in_scope(|| ());
            tracing::trace_span!("too fine").in_scope(|| ());
            let flight = tracing::debug_span!("flight", in_flight = true);
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            let other = thread::Builder::new().name("worker".into());
            let load = move || {
                tracing::dispatcher::with_default(&dispatch, || {
                    tracing::debug_span!("load", file = %"a", whole = true).in_scope(|| ());
                    drop(flight);
                });
            };
            other.spawn(load).unwrap().join().unwrap();
            read()
        };
        let while_running = tracing::subscriber::with_default(subscriber, work);
        drop(trace);

        let so_far = lines(&format!("{while_running}]"));
        let name = thread::current().name().unwrap().to_owned();
        expect![[r#"
            0 "M" "thread_name" {"name":"main"}
            0 "B" "step" {"number":3}
            0 "i" "slow \"disk\"" {"bytes":2.5}
            0 "b" "flight" {"in_flight":true}
            1 "M" "thread_name" {"name":"worker"}
            1 "B" "load" {"file":"a","whole":true}
            1 "E" "load" null
            1 "e" "flight" null
        "#]]
        .assert_eq(&so_far.replace(&name, "main"));
        let rest = lines(&read()).replacen(&so_far, "", 1);
        expect![[r#"
            0 "E" "step" null
        "#]]
        .assert_eq(&rest);
    }
}
