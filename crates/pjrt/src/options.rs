use std::collections::HashSet;

use prost::Message;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::named_value::NamedValue;

/// Options for the creation of a [`Client`](crate::Client) or a [`Topology`](crate::Topology), in order.
///
/// Which names mean something is the plugin's matter; the CPU plugin knows `cpu_device_count`, an integer from 1 to
/// [`ClientOptions::MOST_CPU_DEVICES`]. A name that is given twice is refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientOptions {
    pub(crate) values: Vec<(String, NamedValue)>,
}

impl ClientOptions {
    /// The most devices that the option `cpu_device_count` may ask for; more take the CPU plugin hours, or end the
    /// process.
    pub const MOST_CPU_DEVICES: usize = 1024;

    /// The options with one more.
    ///
    /// ```
    /// use shardwright_pjrt::ClientOptions;
    ///
    /// let options = ClientOptions::default().with("cpu_device_count", 8).with("asynchronous", true);
    /// ```
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<NamedValue>) -> ClientOptions {
        self.values.push((name.into(), value.into()));
        self
    }

    /// Refuses what plugins are known to take badly, whatever it is that is to be made.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut seen = HashSet::new();
        for (name, value) in &self.values {
            if !seen.insert(name) {
                return Err(format!("the option {name} is given twice"));
            }
            let NamedValue::I64(count) = *value else { continue };
            let allowed = 1..=Self::MOST_CPU_DEVICES as i64;
            if name == "cpu_device_count" && !allowed.contains(&count) {
                return Err(format!(
                    "the option cpu_device_count is {count}, expected {} to {}",
                    allowed.start(),
                    allowed.end()
                ));
            }
        }
        Ok(())
    }
}

/// How a program is to be compiled: for how many devices, which ones, and by which partitioner.
///
/// The program runs on `num_replicas × num_partitions` devices. Sharding is the business of partitions: one
/// partitioned program is one replica. What cannot be right (no partitions at all, too few devices, a device
/// twice) is refused before the plugin, which might abort, sees it.
///
/// ```
/// use shardwright_pjrt::CompileOptions;
///
/// let on_two_devices =
///     CompileOptions { num_partitions: 2, device_assignment: vec![5, 7], ..CompileOptions::default() };
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileOptions {
    /// How many copies of the program run side by side.
    pub num_replicas: usize,
    /// Into how many partitions, one a device, the program is cut.
    pub num_partitions: usize,
    /// Whether XLA cuts the program by its shardings.
    pub use_spmd_partitioning: bool,
    /// Whether Shardy does that; it reads `sdy` shardings. GSPMD, the older one, reads `mhlo.sharding`. The
    /// choice has to match the program.
    pub use_shardy_partitioner: bool,
    /// Ids of the devices, those of the first replica first, each in the order of its partitions. Empty leaves
    /// the choice to the plugin.
    pub device_assignment: Vec<i64>,
    /// Whether the partitioner may give parameters shardings that the program leaves open: one answer for all,
    /// or one per parameter; empty is no.
    pub allow_spmd_sharding_propagation_to_parameters: Vec<bool>,
    /// The same for results.
    pub allow_spmd_sharding_propagation_to_output: Vec<bool>,
    /// How much the compiler is to do for a fast program, and for one that takes little memory.
    pub effort: Effort,
    /// Flags of the compiler, without the leading dashes. A flag that the compiler does not know is an error.
    pub env_option_overrides: Vec<(String, OptionValue)>,
}

/// How much the compiler is to do. What a level changes, and whether it changes anything, is the plugin's matter; a
/// plugin that does not know one of these takes no notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// For a fast program, as a level.
    pub optimization_level: Option<EffortLevel>,
    /// For a program that fits into memory, as a level.
    pub memory_fitting_level: Option<EffortLevel>,
    /// For a fast program, from -1 to 1; 0 is the compiler's usual way.
    pub exec_time_optimization_effort: f32,
    /// For a program that fits into memory, from -1 to 1; 0 is the compiler's usual way.
    pub memory_fitting_effort: f32,
}

/// A level of [`Effort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EffortLevel {
    /// As little as possible.
    O0,
    /// Little: for a short time of compilation.
    O1,
    /// Much: for what will run for long.
    O2,
    /// Also what takes long and seldom pays.
    O3,
}

/// The value of a compiler flag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OptionValue {
    /// A text, which the compiler parses as the flag's own type. Truth values have to be spelled `True` or `False`.
    String(String),
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
}

impl Default for CompileOptions {
    /// One device of the plugin's choice.
    fn default() -> CompileOptions {
        CompileOptions {
            num_replicas: 1,
            num_partitions: 1,
            use_spmd_partitioning: true,
            use_shardy_partitioner: true,
            device_assignment: Vec::new(),
            allow_spmd_sharding_propagation_to_parameters: Vec::new(),
            allow_spmd_sharding_propagation_to_output: Vec::new(),
            effort: Effort::default(),
            env_option_overrides: Vec::new(),
        }
    }
}

impl CompileOptions {
    /// The serialized `CompileOptionsProto`, provided that the options make sense where these devices exist.
    pub(crate) fn encode(&self, device_ids: &[i64]) -> Result<Vec<u8>, Error> {
        self.check(device_ids).map_err(|message| Error::refused("compile", message))?;
        Ok(proto::CompileOptions::from(self).encode_to_vec())
    }

    fn check(&self, device_ids: &[i64]) -> Result<(), String> {
        let (replicas, partitions, assigned) =
            (self.num_replicas, self.num_partitions, &self.device_assignment);
        if replicas == 0 || partitions == 0 {
            return Err(format!("{replicas} replicas of {partitions} partitions were asked for"));
        }
        let needed = replicas.saturating_mul(partitions);
        if needed > device_ids.len() {
            return Err(format!(
                "{replicas} replicas × {partitions} partitions need {needed} devices, there are {}",
                device_ids.len()
            ));
        }
        if !assigned.is_empty() && assigned.len() != needed {
            return Err(format!(
                "{replicas} replicas × {partitions} partitions need {needed} devices, {} are assigned",
                assigned.len()
            ));
        }
        let known: HashSet<i64> = device_ids.iter().copied().collect();
        let mut seen = HashSet::new();
        for &id in assigned {
            if !known.contains(&id) {
                return Err(format!("device {id} is assigned and does not exist"));
            }
            if !seen.insert(id) {
                return Err(format!("device {id} is assigned twice"));
            }
        }
        let Effort { exec_time_optimization_effort, memory_fitting_effort, .. } = self.effort;
        if let Some(found) =
            [exec_time_optimization_effort, memory_fitting_effort].iter().find(|e| !(-1.0..=1.0).contains(*e))
        {
            return Err(format!("an effort is a number from -1 to 1, not {found}"));
        }
        let mut seen = HashSet::new();
        match self.env_option_overrides.iter().find(|(name, _)| !seen.insert(name)) {
            Some((name, _)) => Err(format!("the compiler flag {name} is given twice")),
            None => Ok(()),
        }
    }
}

/// The devices in a serialized `DeviceAssignmentProto`, those of the first replica first, each in the order of its
/// partitions.
pub(crate) fn read_assignment(bytes: &[u8]) -> Result<Vec<i64>, String> {
    let assignment = proto::DeviceAssignment::decode(bytes).map_err(|e| e.to_string())?;
    let partitions = &assignment.computation_devices;
    let replicas = partitions.first().map_or(0, |partition| partition.replica_device_ids.len());
    let of_replica =
        |replica: usize| partitions.iter().map(move |partition| partition.replica_device_ids.get(replica));
    let ids: Option<Vec<i64>> = (0..replicas).flat_map(of_replica).map(|id| id.copied()).collect();
    ids.ok_or_else(|| "gave partitions with different numbers of replicas".to_owned())
}

/// The parts that are used of XLA's `compile_options.proto` and `xla_data.proto`, under the names used there.
mod proto {
    use std::collections::BTreeMap;

    use super::OptionValue;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct CompileOptions {
        #[prost(message, optional, tag = "3")]
        pub(super) executable_build_options: Option<ExecutableBuildOptions>,
        #[prost(btree_map = "string, message", tag = "7")]
        pub(super) env_option_overrides: BTreeMap<String, OptionOverride>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ExecutableBuildOptions {
        #[prost(int64, tag = "1")]
        pub(super) device_ordinal: i64,
        #[prost(int64, tag = "4")]
        pub(super) num_replicas: i64,
        #[prost(int64, tag = "5")]
        pub(super) num_partitions: i64,
        #[prost(bool, tag = "6")]
        pub(super) use_spmd_partitioning: bool,
        #[prost(message, optional, tag = "9")]
        pub(super) device_assignment: Option<DeviceAssignment>,
        #[prost(bool, repeated, tag = "12")]
        pub(super) allow_spmd_sharding_propagation_to_output: Vec<bool>,
        #[prost(bool, repeated, tag = "18")]
        pub(super) allow_spmd_sharding_propagation_to_parameters: Vec<bool>,
        #[prost(bool, tag = "19")]
        pub(super) use_shardy_partitioner: bool,
        #[prost(float, tag = "20")]
        pub(super) exec_time_optimization_effort: f32,
        #[prost(float, tag = "21")]
        pub(super) memory_fitting_effort: f32,
        #[prost(int32, tag = "24")]
        pub(super) optimization_level: i32,
        #[prost(int32, tag = "25")]
        pub(super) memory_fitting_level: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct DeviceAssignment {
        #[prost(int32, tag = "1")]
        pub(super) replica_count: i32,
        #[prost(int32, tag = "2")]
        pub(super) computation_count: i32,
        #[prost(message, repeated, tag = "3")]
        pub(super) computation_devices: Vec<ComputationDevice>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ComputationDevice {
        #[prost(int64, repeated, tag = "1")]
        pub(super) replica_device_ids: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct OptionOverride {
        #[prost(oneof = "Value", tags = "1, 2, 3, 4")]
        pub(super) value: Option<Value>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum Value {
        #[prost(string, tag = "1")]
        String(String),
        #[prost(bool, tag = "2")]
        Bool(bool),
        #[prost(int64, tag = "3")]
        Int(i64),
        #[prost(double, tag = "4")]
        Float(f64),
    }

    impl From<&super::CompileOptions> for CompileOptions {
        fn from(options: &super::CompileOptions) -> CompileOptions {
            let overrides = options.env_option_overrides.iter();
            let build = ExecutableBuildOptions {
                // Unset: the device assignment says where the program runs.
                device_ordinal: -1,
                num_replicas: options.num_replicas as i64,
                num_partitions: options.num_partitions as i64,
                use_spmd_partitioning: options.use_spmd_partitioning,
                device_assignment: device_assignment(options),
                allow_spmd_sharding_propagation_to_output: options
                    .allow_spmd_sharding_propagation_to_output
                    .clone(),
                allow_spmd_sharding_propagation_to_parameters: options
                    .allow_spmd_sharding_propagation_to_parameters
                    .clone(),
                use_shardy_partitioner: options.use_shardy_partitioner,
                exec_time_optimization_effort: options.effort.exec_time_optimization_effort,
                memory_fitting_effort: options.effort.memory_fitting_effort,
                optimization_level: level(options.effort.optimization_level),
                memory_fitting_level: level(options.effort.memory_fitting_level),
            };
            CompileOptions {
                executable_build_options: Some(build),
                env_option_overrides: overrides.map(|(name, value)| (name.clone(), value.into())).collect(),
            }
        }
    }

    /// The number of a level in XLA's `EffortLevel`, where 0 leaves the choice to the compiler.
    fn level(level: Option<super::EffortLevel>) -> i32 {
        use super::EffortLevel::{O0, O1, O2, O3};
        match level {
            None => 0,
            Some(O0) => 9,
            Some(O1) => 19,
            Some(O2) => 29,
            Some(O3) => 39,
        }
    }

    /// The ids are listed per partition here, and per replica in the options.
    fn device_assignment(options: &super::CompileOptions) -> Option<DeviceAssignment> {
        let ids = &options.device_assignment;
        let of_partition = |partition| ComputationDevice {
            replica_device_ids: ids.iter().skip(partition).step_by(options.num_partitions).copied().collect(),
        };
        (!ids.is_empty()).then(|| DeviceAssignment {
            replica_count: options.num_replicas as i32,
            computation_count: options.num_partitions as i32,
            computation_devices: (0..options.num_partitions).map(of_partition).collect(),
        })
    }

    impl From<&OptionValue> for OptionOverride {
        fn from(value: &OptionValue) -> OptionOverride {
            let value = match value {
                OptionValue::String(value) => Value::String(value.clone()),
                OptionValue::Bool(value) => Value::Bool(*value),
                OptionValue::Int(value) => Value::Int(*value),
                OptionValue::Float(value) => Value::Float(*value),
            };
            OptionOverride { value: Some(value) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: CompileOptions) -> String {
        options.encode(&[0, 1, 2, 3]).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        let options = CompileOptions::default();
        let cases = [
            (
                CompileOptions { num_partitions: 0, ..options.clone() },
                "refused: compile: 1 replicas of 0 partitions were asked for",
            ),
            (
                CompileOptions { num_partitions: 8, ..options.clone() },
                "refused: compile: 1 replicas × 8 partitions need 8 devices, there are 4",
            ),
            (
                CompileOptions { num_partitions: 2, device_assignment: vec![1], ..options.clone() },
                "refused: compile: 1 replicas × 2 partitions need 2 devices, 1 are assigned",
            ),
            (
                CompileOptions { device_assignment: vec![4], ..options.clone() },
                "refused: compile: device 4 is assigned and does not exist",
            ),
            (
                CompileOptions { num_replicas: 2, device_assignment: vec![3, 3], ..options.clone() },
                "refused: compile: device 3 is assigned twice",
            ),
            (
                CompileOptions {
                    effort: Effort { memory_fitting_effort: 1.5, ..Effort::default() },
                    ..options.clone()
                },
                "refused: compile: an effort is a number from -1 to 1, not 1.5",
            ),
            (
                CompileOptions {
                    effort: Effort { exec_time_optimization_effort: f32::NAN, ..Effort::default() },
                    ..options.clone()
                },
                "refused: compile: an effort is a number from -1 to 1, not NaN",
            ),
            (
                CompileOptions {
                    env_option_overrides: vec![
                        ("xla_dump_to".into(), OptionValue::String("a".into())),
                        ("xla_dump_to".into(), OptionValue::String("b".into())),
                    ],
                    ..options
                },
                "refused: compile: the compiler flag xla_dump_to is given twice",
            ),
        ];
        for (options, expected) in cases {
            assert_eq!(refusal(options), expected);
        }
    }

    #[test]
    fn bytes_are_those_of_the_proto() {
        let options = CompileOptions {
            num_replicas: 2,
            num_partitions: 2,
            use_spmd_partitioning: false,
            device_assignment: vec![3, 1, 2, 0],
            allow_spmd_sharding_propagation_to_output: vec![true],
            effort: Effort {
                optimization_level: Some(EffortLevel::O1),
                memory_fitting_level: Some(EffortLevel::O3),
                exec_time_optimization_effort: 0.5,
                memory_fitting_effort: -1.0,
            },
            env_option_overrides: vec![("f".into(), OptionValue::Int(5))],
            ..CompileOptions::default()
        };
        let minus_one = [0xff; 9];
        let mut build = vec![1 << 3];
        build.extend(minus_one);
        build.extend([1, 4 << 3, 2, 5 << 3, 2]);
        // Replicas are the inner lists: partition 0 runs on devices 3 and 2, partition 1 on 1 and 0.
        let assignment = [1 << 3, 2, 2 << 3, 2, 26, 4, 10, 2, 3, 2, 26, 4, 10, 2, 1, 0];
        build.extend([9 << 3 | 2, assignment.len() as u8]);
        build.extend(assignment);
        build.extend([12 << 3 | 2, 1, 1]);
        build.extend([0x98, 1, 1]);
        build.extend([0xa5, 1, 0, 0, 0, 0x3f, 0xad, 1, 0, 0, 0x80, 0xbf]);
        build.extend([0xc0, 1, 19, 0xc8, 1, 39]);
        let mut expected = vec![3 << 3 | 2, build.len() as u8];
        expected.extend(build);
        expected.extend([7 << 3 | 2, 7, 10, 1, b'f', 18, 2, 3 << 3, 5]);
        assert_eq!(options.encode(&[0, 1, 2, 3]).unwrap(), expected);
    }
}
