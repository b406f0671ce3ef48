use std::sync::Arc;

use shardwright_pjrt::{Arg, Buffer, Device, Execution, LoadedExecutable};
use shardwright_tensor::TensorType;

use crate::RuntimeError;
use crate::compile::Compilation;
use crate::error::{Misfit, Problem};

/// A compiled program of another framework: see [`Runtime::compile_foreign`](crate::Runtime::compile_foreign).
///
/// It knows nothing of meshes. Its arguments are buffers, one for each of its devices, and have no names but their
/// numbers, from 0.
#[derive(Debug)]
pub struct ForeignExecutable {
    name: String,
    loaded: LoadedExecutable,
    compilation: Compilation,
}

impl ForeignExecutable {
    pub(crate) fn new(name: String, loaded: LoadedExecutable, compilation: Compilation) -> ForeignExecutable {
        ForeignExecutable { name, loaded, compilation }
    }

    /// What the program calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it was made: from the cache or anew, where, and in what time.
    pub fn compilation(&self) -> &Compilation {
        &self.compilation
    }

    /// The plugin's executable, for what this crate has no words for.
    pub fn loaded(&self) -> &LoadedExecutable {
        &self.loaded
    }

    /// The same, given away.
    pub fn into_loaded(self) -> LoadedExecutable {
        self.loaded
    }

    /// The devices of this process that it runs on: those of the first replica first, each in the order of its
    /// partitions. Arguments and results come in this order.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = &Device> {
        self.loaded.addressable_devices()
    }

    /// What each device takes.
    pub fn argument_types(&self) -> &[Arc<TensorType>] {
        self.loaded.parameter_types()
    }

    /// What each device gives.
    pub fn output_types(&self) -> &[Arc<TensorType>] {
        self.loaded.output_types()
    }

    /// Starts the program and does not wait for it.
    ///
    /// # Errors
    /// When [`ForeignExecutable::check`] or the plugin refuses the arguments. Donated ones are gone even then.
    ///
    /// A program that fails later gives buffers whose use is an error.
    pub fn execute<'a>(
        &self,
        arguments: impl IntoIterator<Item = Arg<'a>>,
    ) -> Result<Execution, RuntimeError> {
        let arguments: Vec<Arg<'_>> = arguments.into_iter().collect();
        let _span = tracing::debug_span!("execute", program = self.name).entered();
        self.check(&arguments)?;
        Ok(self.loaded.execute(arguments)?)
    }

    /// Whether the program takes these arguments. [`ForeignExecutable::execute`] finds out by itself; who asks first
    /// still has what was to be donated if the answer is no.
    ///
    /// # Errors
    /// When arguments are of other types than the program's, on other devices or of another client, all of which the
    /// error names.
    pub fn check(&self, arguments: &[Arg<'_>]) -> Result<(), RuntimeError> {
        let (expected, found) = (self.argument_types().len(), arguments.len());
        if expected != found {
            return Err(Problem::ArgumentCount { program: self.name.clone(), expected, found }.into());
        }
        let misfit = |(index, (argument, ty)): (usize, (&Arg<'_>, &Arc<TensorType>))| {
            let (expected, found) = self.misfit(buffers(argument), ty)?;
            Some(Misfit { argument: index.to_string(), expected, found })
        };
        let misfits: Vec<Misfit> =
            arguments.iter().zip(self.argument_types()).enumerate().filter_map(misfit).collect();
        if misfits.is_empty() {
            return Ok(());
        }
        Err(Problem::Arguments { program: self.name.clone(), misfits }.into())
    }

    /// What is expected of an argument and what it is, where these differ.
    fn misfit(&self, buffers: &[Buffer], ty: &TensorType) -> Option<(String, String)> {
        let n_devices = self.devices().len();
        if buffers.len() != n_devices {
            return Some((format!("{n_devices} buffers of {ty}"), buffers.len().to_string()));
        }
        for (buffer, device) in buffers.iter().zip(self.devices()) {
            if !buffer.client().is_same(self.loaded.client()) {
                return Some((format!("{ty} on {device}"), "a buffer of another client".to_owned()));
            }
            if buffer.device().id() != device.id() || buffer.ty() != ty {
                return Some((
                    format!("{ty} on {device}"),
                    format!("{} on {}", buffer.ty(), buffer.device()),
                ));
            }
        }
        None
    }
}

fn buffers<'a>(argument: &'a Arg<'_>) -> &'a [Buffer] {
    match argument {
        Arg::Borrow(buffers) => buffers,
        Arg::Donate(buffers) => buffers,
    }
}
