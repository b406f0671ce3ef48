//! The folder of a run's log: `log.jsonl`, and on request an event file for TensorBoard, both written as the run goes on;
//! `loss.svg` at its end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use shardwright_checkpoint::write_bytes_atomic;

use super::LogRecord;
use super::figure::{Line, figure};
use super::tensorboard::EventWriter;
use crate::TrainError;

/// The folder; it is made with its first record, so a run without records leaves none.
pub(crate) struct LogFolder {
    path: PathBuf,
    wants_events: bool,
    open: Option<Open>,
}

struct Open {
    lines: File,
    events: Option<EventWriter<File>>,
}

impl LogFolder {
    /// A folder that need not be there yet.
    pub(crate) fn new(path: PathBuf, wants_events: bool) -> LogFolder {
        LogFolder { path, wants_events, open: None }
    }

    pub(super) fn write(&mut self, record: &LogRecord) -> Result<(), TrainError> {
        let LogFolder { path, wants_events, open } = self;
        let mut write = || {
            if open.is_none() {
                *open = Some(Open::new(path, *wants_events)?);
            }
            open.as_mut().expect("it was just opened").write(record)
        };
        write().map_err(|source| TrainError::Io { action: "write the log in", path: path.clone(), source })
    }

    /// Draws the losses of these records; without any, there is no picture.
    pub(super) fn draw(&self, records: &[LogRecord]) -> Result<(), TrainError> {
        let (mut train, mut eval) = (Vec::new(), Vec::new());
        for record in records {
            match record {
                LogRecord::Train(record) => train.push((record.step, record.loss)),
                LogRecord::Evaluation(record) => eval.push((record.step, record.eval_loss)),
                LogRecord::End(_) => {}
            }
        }
        let lines = [Line { name: "train", points: &train }, Line { name: "eval", points: &eval }];
        let drawn = lines.into_iter().filter(|line| !line.points.is_empty());
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        match figure(&format!("loss, {name}"), &drawn.collect::<Vec<_>>()) {
            Some(svg) => Ok(write_bytes_atomic(self.path.join("loss.svg"), svg.as_bytes())?),
            None => Ok(()),
        }
    }
}

impl Open {
    fn new(folder: &Path, wants_events: bool) -> io::Result<Open> {
        fs::create_dir_all(folder)?;
        let lines = File::create(folder.join("log.jsonl"))?;
        let events = || {
            let now = since_1970();
            let name = format!("events.out.tfevents.{:010}.{}.shardwright", now as u64, process::id());
            let file = OpenOptions::new().write(true).create_new(true).open(folder.join(name))?;
            EventWriter::new(file, now)
        };
        Ok(Open { lines, events: wants_events.then(events).transpose()? })
    }

    fn write(&mut self, record: &LogRecord) -> io::Result<()> {
        let json = serde_json::to_value(record)?;
        self.lines.write_all(format!("{json}\n").as_bytes())?;
        match &mut self.events {
            Some(events) => events.scalars(since_1970(), record.step(), &scalars(&json)),
            None => Ok(()),
        }
    }
}

/// The numbers of a record under the tags that the Trainer gives them: `eval_loss` is `eval/loss`, all that is not of an
/// evaluation is under `train/`.
fn scalars(record: &Value) -> Vec<(String, f64)> {
    let tag = |name: &str| match name.strip_prefix("eval_") {
        Some(name) => format!("eval/{name}"),
        None => format!("train/{name}"),
    };
    // Text stands for numbers that JSON has no word for.
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let fields = record.as_object().into_iter().flatten().filter(|(name, _)| *name != "step");
    fields.filter_map(|(name, value)| Some((tag(name), number(value)?))).collect()
}

fn since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// What the folder of a run that begins now is called, so that runs beside each other are told apart and sorted:
/// `2026-12-02T04-20-11Z`.
pub(crate) fn run_folder_name() -> String {
    utc(since_1970() as u64)
}

fn utc(seconds: u64) -> String {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}Z")
}

/// Year, month and day of the day that is so many after 1 January 1970. Years begin with March here, so that a leap day
/// is the last of its year; 400 of them are an era.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (400 * era + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_dates() {
        for (seconds, name) in [
            (0, "1970-01-01T00-00-00Z"),
            (951_782_399, "2000-02-28T23-59-59Z"),
            (951_782_400, "2000-02-29T00-00-00Z"),
            (951_868_800, "2000-03-01T00-00-00Z"),
            (1_735_689_599, "2024-12-31T23-59-59Z"),
            (4_107_542_400, "2100-03-01T00-00-00Z"),
        ] {
            assert_eq!(utc(seconds), name);
        }
    }

    #[test]
    fn tags_are_the_trainers() {
        let record =
            serde_json::json!({"epoch": 0.5, "eval_loss": "inf", "eval_samples_per_second": 3, "step": 7});
        let expected = [("train/epoch", 0.5), ("eval/loss", f64::INFINITY), ("eval/samples_per_second", 3.0)];
        assert_eq!(scalars(&record), expected.map(|(tag, number)| (tag.to_owned(), number)));
    }
}
