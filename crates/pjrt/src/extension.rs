use std::fmt;

/// A kind of extension of the PJRT C API, by its number there.
///
/// Plugins list those that they offer: see [`Plugin::extensions`](crate::Plugin::extensions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extension(u32);

macro_rules! extensions {
    ($($(#[$doc:meta])* $constant:ident = $number:literal, $name:literal;)*) => {
        impl Extension {
            $($(#[$doc])* pub const $constant: Extension = Extension($number);)*

            /// The name that the C API has for it; `None` for a number that this library does not know.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

// The header of the bindings ends at 15; the numbers after that are those of later headers.
extensions! {
    /// Custom calls on GPUs.
    GPU_CUSTOM_CALL = 0, "GpuCustomCall";
    /// Profiles of what devices do.
    PROFILER = 1, "Profiler";
    /// Partitioners for custom calls.
    CUSTOM_PARTITIONER = 2, "CustomPartitioner";
    /// Streams of a device.
    STREAM = 3, "Stream";
    /// Layouts of buffers and programs.
    LAYOUTS = 4, "Layouts";
    /// Foreign functions called by programs.
    FFI = 5, "FFI";
    /// Memories of devices that are described only.
    MEMORY_DESCRIPTIONS = 6, "MemoryDescriptions";
    /// Triton kernels.
    TRITON = 7, "Triton";
    /// Buffers without a shape.
    RAW_BUFFER = 8, "RawBuffer";
    /// Compilation in phases.
    PHASE_COMPILE = 9, "PhaseCompile";
    /// An example.
    EXAMPLE = 10, "Example";
    /// Of unknown purpose.
    UNKNOWN = 11, "Unknown";
    /// Transfers between hosts.
    CROSS_HOST_TRANSFERS = 12, "CrossHostTransfers";
    /// Metadata of executables.
    EXECUTABLE_METADATA = 13, "ExecutableMetadata";
    /// Callbacks from the plugin.
    CALLBACK = 14, "Callback";
    /// Host memory from the plugin.
    HOST_ALLOCATOR = 15, "HostAllocator";
    /// More about TPU topologies.
    TPU_TOPOLOGY = 16, "TpuTopology";
    /// More about TPU executables.
    TPU_EXECUTABLE = 17, "TpuExecutable";
    /// Several slices of TPUs.
    MEGASCALE = 18, "Megascale";
    /// The shardings of a compiled program's parameters and results.
    SHARDINGS = 19, "Shardings";
    /// Which executables run on which runtimes.
    ABI_VERSION = 20, "AbiVersion";
    /// Collectives called from the host.
    COLLECTIVES = 21, "Collectives";
    /// Several slices of devices.
    MULTI_SLICE = 22, "MultiSlice";
    /// Host memory from the plugin, by a later interface.
    HOST_MEMORY_ALLOCATOR = 23, "HostMemoryAllocator";
    /// Passes of the compiler that callers bring.
    XLA_TRANSFORM = 24, "XlaTransform";
}

impl Extension {
    /// The extension with this number; any number is one.
    pub fn from_number(number: u32) -> Extension {
        Extension(number)
    }

    /// Its number in the C API.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "extension {}", self.0),
        }
    }
}
