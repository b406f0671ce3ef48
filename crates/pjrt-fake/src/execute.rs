//! Running programs.

use std::ptr;
use std::sync::Arc;

use shardwright_pjrt_sys as sys;

use crate::buffer::{self, Buffer, Cell};
use crate::call::{functions, list};
use crate::client::Client;
use crate::event::{Signal, event};
use crate::executable::Loaded;
use crate::failure::Failure;
use crate::program::{Op, Program};
use crate::registry;
use crate::work;

/// What a program does on one device, once it is its turn.
struct Run {
    op: Op,
    inputs: Vec<Arc<Cell>>,
    outputs: Vec<Arc<Cell>>,
    done: Arc<Signal>,
}

impl Run {
    fn run(self) {
        let results = self.results();
        let outcome = results.as_ref().map(drop).map_err(Failure::clone);
        for (index, output) in self.outputs.iter().enumerate() {
            output.fill(results.as_ref().map(|results| results[index].clone()).map_err(Failure::clone));
        }
        self.done.set(outcome);
    }

    /// The contents of each result.
    fn results(&self) -> Result<Vec<Vec<u8>>, Failure> {
        let inputs = self.inputs.iter().map(|input| input.bytes()).collect::<Result<Vec<_>, _>>()?;
        Ok(match &self.op {
            Op::Nothing | Op::NullOutput => Vec::new(),
            Op::Fail(failure) => return Err(failure.clone()),
            Op::Identity => inputs.iter().map(|input| input.to_vec()).collect(),
            Op::AddF32 => vec![add(inputs[0], inputs[1], |a, b| {
                (f32::from_ne_bytes(a) + f32::from_ne_bytes(b)).to_ne_bytes()
            })],
            Op::AddS32 => vec![add(inputs[0], inputs[1], |a, b| {
                i32::from_ne_bytes(a).wrapping_add(i32::from_ne_bytes(b)).to_ne_bytes()
            })],
            Op::SumF32 => vec![words(inputs[0]).map(f32::from_ne_bytes).sum::<f32>().to_ne_bytes().to_vec()],
            Op::SumS32 => vec![
                words(inputs[0]).map(i32::from_ne_bytes).fold(0, i32::wrapping_add).to_ne_bytes().to_vec(),
            ],
        })
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    bytes.chunks_exact(4).map(|word| word.try_into().expect("each chunk has this size"))
}

fn add(a: &[u8], b: &[u8], add: fn([u8; 4], [u8; 4]) -> [u8; 4]) -> Vec<u8> {
    words(a).zip(words(b)).flat_map(|(a, b)| add(a, b)).collect()
}

/// The inputs of one device, taken from their buffers where they are given up.
fn inputs(
    program: &Program,
    device: *mut sys::PJRT_Device,
    row: &[*mut sys::PJRT_Buffer],
    kept: &[i64],
) -> Result<Vec<Arc<Cell>>, Failure> {
    let memory = buffer::default_memory(device)?;
    let buffers = row.iter().map(|&buffer| registry::get::<Buffer>(buffer)).collect::<Result<Vec<_>, _>>()?;
    for (index, (buffer, ty)) in buffers.iter().zip(&program.parameters).enumerate() {
        if buffer.ty != *ty || buffer.memory() != memory {
            return Err(Failure::invalid(format!(
                "argument {index} has another type or place than the parameter"
            )));
        }
        // All have to be there before any is taken.
        buffer.cell()?;
    }
    let donates = |index: usize| program.donates && index == 0 && !kept.contains(&0);
    let cells = buffers.iter().enumerate();
    cells.map(|(index, buffer)| if donates(index) { buffer.take() } else { buffer.cell() }).collect()
}

functions! {
    fn PJRT_LoadedExecutable_Execute(args: PJRT_LoadedExecutable_Execute_Args) {
        let loaded = registry::get::<Loaded>(args.executable)?;
        let (program, devices) = (&loaded.compiled.program, &loaded.devices.0);
        let when = registry::get::<Client>(loaded.client.0)?.when;
        if (args.num_devices, args.num_args) != (devices.len(), program.parameters.len()) {
            let (expected, given) = ((devices.len(), program.parameters.len()), (args.num_devices, args.num_args));
            return Err(Failure::invalid(format!("devices and arguments: {given:?}, {expected:?} expected")));
        }
        // SAFETY: the caller passes live options, and a row of arguments and of room for results for each device.
        let (kept, rows, output_rows) = unsafe {
            let options = args.options.as_ref().ok_or_else(|| Failure::invalid("the options are null"))?;
            (
                list(options.non_donatable_input_indices, options.num_non_donatable_input_indices),
                list(args.argument_lists, args.num_devices),
                list(args.output_lists, args.num_devices),
            )
        };
        let mut runs = Vec::new();
        for (index, &device) in devices.iter().enumerate() {
            // SAFETY: as above.
            let row = unsafe { list(rows[index], args.num_args) };
            let inputs = inputs(program, device, row, kept)?;
            runs.push((index, Run { op: program.op.clone(), inputs, outputs: Vec::new(), done: Arc::default() }));
        }
        for (index, mut run) in runs {
            let memory = buffer::default_memory(devices[index])?;
            for (place, ty) in program.outputs.iter().enumerate() {
                let output = match program.op {
                    Op::NullOutput => ptr::null_mut(),
                    _ => {
                        let (output, cell) = buffer::create(ty.clone(), memory)?;
                        run.outputs.push(cell);
                        output
                    }
                };
                // SAFETY: as above.
                unsafe { output_rows[index].add(place).write(output) };
            }
            if !args.device_complete_events.is_null() {
                // SAFETY: the caller passes null or room for an event for each device.
                unsafe { args.device_complete_events.add(index).write(event(&run.done)) };
            }
            work::submit(when, move || run.run());
        }
        Ok(())
    }
}
