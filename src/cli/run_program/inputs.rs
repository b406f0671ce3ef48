//! The inputs of a program: which files they are in, and which are drawn.

use std::path::PathBuf;

use clap::Args;
use shardwright_hlo::ArgumentInfo;
use shardwright_partition::Bytes;
use shardwright_tensor::HostArray;

use super::super::arrays::{Draw, Range, StoredArrays, assign};
use super::super::failure::{Cause, Failure};

/// Flags that say what a program is given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Inputs")]
pub(in super::super) struct InputArgs {
    /// A file with inputs: .npy, .npz, .safetensors, or a folder of .npy files; may be given again
    #[arg(id = "inputs", long = "input", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Draw the inputs that are in no file from this seed [default: 0 without --input]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// From where to where drawn elements go, the end left out: 0..256 for all integers, or 'x*=-1..1' for the arguments
    /// with such names; may be given again [default: 0..8 for integers, -0.1..0.1 for floats, 0..0.1 for what an
    /// optimizer keeps]
    #[arg(long, value_name = "[NAME=]LOW..HIGH", allow_hyphen_values = true)]
    range: Vec<String>,
}

/// Inputs that were opened, and how the others are drawn.
pub(super) struct Inputs {
    stored: StoredArrays,
    draw: Draw,
    may_draw: bool,
}

impl InputArgs {
    /// Opens the files.
    pub(super) fn open(&self) -> Result<Inputs, Failure> {
        let range =
            |text: &String| Range::parse(text).map_err(|why| Failure::input(format!("--range: {why}")));
        let ranges = self.range.iter().map(range).collect::<Result<_, _>>()?;
        let stored = StoredArrays::open(&self.files)
            .map_err(|error| Failure::new(Cause::Input, error.context("--input")))?;
        let may_draw = self.seed.is_some() || self.files.is_empty();
        Ok(Inputs { stored, draw: Draw { seed: self.seed.unwrap_or(0), ranges }, may_draw })
    }
}

impl Inputs {
    /// The array of each argument.
    ///
    /// # Errors
    /// Everything that does not fit, or the first range that does not, before any data is read.
    pub(super) fn arrays(&mut self, arguments: &[ArgumentInfo]) -> Result<Vec<HostArray>, Failure> {
        if let Some((range, pattern)) =
            self.draw.ranges.iter().find_map(|range| Some((range, range.idle_pattern(arguments)?)))
        {
            let message = format!("--range {range}: no argument of the program is called {pattern}");
            return Err(Failure::input(message).with_hint(names(arguments)));
        }
        check_memory(arguments)?;
        let assigned = assign(arguments, self.stored.arrays(), self.may_draw).map_err(|problems| {
            const SHOWN: usize = 20;
            let lines = problems.iter().take(SHOWN).map(|problem| format!("\n  {problem}"));
            let mut message =
                format!("the inputs are not those of the program:{}", lines.collect::<String>());
            if let Some(more @ 1..) = problems.len().checked_sub(SHOWN) {
                message += &format!("\n  and {more} more");
            }
            let failure = Failure::input(message);
            match problems.iter().any(|problem| problem.ends_with("nothing given")) {
                true => failure.with_hint("--seed 0 draws what is in no file"),
                false => failure,
            }
        })?;
        let mut drawn = arguments.iter().zip(&assigned).filter(|(_, stored)| stored.is_none());
        drawn.try_for_each(|(argument, _)| self.draw.check(argument)).map_err(Failure::input)?;
        let array = |(argument, stored): (&ArgumentInfo, Option<usize>)| match stored {
            Some(index) => self.stored.read(index),
            None => Ok(self.draw.array(argument)),
        };
        let arrays = arguments.iter().zip(assigned).map(array).collect::<anyhow::Result<_>>();
        arrays.map_err(|error| Failure::new(Cause::Input, error))
    }
}

/// Whether there can be memory for all arguments of a program.
///
/// # Errors
/// When there cannot; the largest is named.
fn check_memory(arguments: &[ArgumentInfo]) -> Result<(), Failure> {
    let bytes = |argument: &ArgumentInfo| argument.ty.byte_count();
    let all = arguments.iter().map(bytes).fold(0, usize::saturating_add);
    let Some(largest) = arguments.iter().max_by_key(|argument| bytes(argument)) else { return Ok(()) };
    Vec::<u8>::new().try_reserve_exact(all).map_err(|_| {
        Failure::input(format!(
            "the inputs take {}, and there is no memory for them; the largest is argument {}, {} of {}",
            Bytes(all as u64),
            largest.name,
            Bytes(bytes(largest) as u64),
            largest.ty
        ))
    })
}

/// What the arguments are called, as far as a line takes.
fn names(arguments: &[ArgumentInfo]) -> String {
    const MOST: usize = 8;
    let names: Vec<&str> = arguments.iter().take(MOST).map(|argument| argument.name.as_str()).collect();
    let more = arguments.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("its arguments are {}{more}", names.join(", "))
}
