//! Variables that other launchers set: PyTorch/XLA's switches, and what `accelerate launch` writes.
//!
//! What is written on the command line or in a run file counts before them, and they count before the defaults.

use std::ffi::OsString;

use serde_json::Value as Json;
use shardwright_partition::FsdpConfig;

use super::failure::Failure;
use super::settings::{Given, Layer, Origin, Written};

/// What the variables are called together, in errors.
pub(super) const ENVIRONMENT: &str = "environment";

/// A variable that says what a setting says.
struct Switch {
    variable: &'static str,
    setting: &'static str,
    /// What comes of it, after `VARIABLE=VALUE`.
    effect: &'static str,
}

const BF16: &str = "layers compute in bfloat16, as --bf16 says; sums, losses and updates stay float32";

const SWITCHES: [Switch; 4] = [
    Switch { variable: "XLA_USE_BF16", setting: "bf16", effect: BF16 },
    Switch { variable: "XLA_DOWNCAST_BF16", setting: "bf16", effect: BF16 },
    Switch { variable: "ACCELERATE_MIXED_PRECISION", setting: "bf16", effect: BF16 },
    Switch {
        variable: "ACCELERATE_USE_FSDP",
        setting: "fsdp",
        effect: "parameters are sharded, as --fsdp true says",
    },
];

/// What the variables say.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// Settings.
    pub(super) layer: Layer,
    /// What is told of them.
    pub(super) notices: Vec<String>,
    fsdp: Vec<(String, String)>,
}

impl Variables {
    /// Reads the variables of this process that matter beside these layers.
    pub(super) fn of_process(explicit: &[&Layer]) -> Result<Variables, Failure> {
        Self::read(|name| std::env::var_os(name).map(OsString::into_string).and_then(Result::ok), explicit)
    }

    fn read(get: impl Fn(&str) -> Option<String>, explicit: &[&Layer]) -> Result<Variables, Failure> {
        let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        let mut variables = Variables::default();
        if get("XLA_USE_SPMD").is_some_and(|value| value == "1") {
            let text = "XLA_USE_SPMD=1: it is always so here, one process drives all devices";
            variables.notices.push(text.into());
        }
        for switch in &SWITCHES {
            let Some(value) = get(switch.variable) else { continue };
            if explicit.iter().any(|layer| layer.contains_key(switch.setting)) {
                variables
                    .notices
                    .push(format!("{} has no effect: {} is given", switch.variable, switch.setting));
            } else if is_on(switch, &value)? {
                variables.set(switch, &value);
            }
        }
        let named = FsdpConfig::variables().filter_map(|name| get(&name).map(|value| (name, value)));
        variables.fsdp = named.collect();
        Ok(variables)
    }

    /// The variables that stand for keys of `fsdp_config`, with their values.
    pub(super) fn fsdp(&self) -> &[(String, String)] {
        &self.fsdp
    }

    fn set(&mut self, switch: &Switch, value: &str) {
        let notice = format!("{}={value}: {}", switch.variable, switch.effect);
        let given =
            Given { written: Written::Json(Json::from("true")), origin: Origin::Variable(switch.variable) };
        // Of several variables that say the same, one is told.
        if self.layer.insert(switch.setting, given).is_none() {
            self.notices.push(notice);
        }
    }
}

/// Whether a variable's value asks for what the variable stands for.
fn is_on(switch: &Switch, value: &str) -> Result<bool, Failure> {
    match (switch.variable, value.trim().to_ascii_lowercase().as_str()) {
        ("ACCELERATE_MIXED_PRECISION", "bf16") => Ok(true),
        ("ACCELERATE_MIXED_PRECISION", "no" | "fp32") => Ok(false),
        ("ACCELERATE_MIXED_PRECISION", _) => {
            Err(Failure::input(format!("ACCELERATE_MIXED_PRECISION: expected bf16 or no, found {value:?}")))
        }
        (_, "1" | "true" | "yes" | "on" | "y" | "t") => Ok(true),
        (_, "0" | "false" | "no" | "off" | "n" | "f") => Ok(false),
        (variable, _) => Err(Failure::input(format!("{variable}: expected 1 or 0, found {value:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], given: &[&'static str], expect: Expect) {
        let given = given
            .iter()
            .map(|name| (*name, Given { written: Written::Json(Json::from("no")), origin: Origin::Flag }));
        let explicit: Layer = given.collect();
        let get =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        let told = match Variables::read(get, &[&explicit]) {
            Ok(read) => {
                let settings = read.layer.keys().map(|name| format!("{name}\n"));
                let fsdp = read.fsdp().iter().map(|(name, value)| format!("{name}={value}\n"));
                let notices = read.notices.iter().map(|notice| format!("note: {notice}\n"));
                settings.chain(fsdp).chain(notices).collect()
            }
            Err(failure) => format!("{failure:?}\n").split('\n').next().unwrap_or_default().to_owned() + "\n",
        };
        expect.assert_eq(&told);
    }

    #[test]
    fn switches_stand_for_settings_that_are_not_given() {
        check(&[], &[], expect![[""]]);
        check(
            &[("XLA_USE_SPMD", "1"), ("XLA_USE_BF16", "1")],
            &[],
            expect![[r#"
            bf16
            note: XLA_USE_SPMD=1: it is always so here, one process drives all devices
            note: XLA_USE_BF16=1: layers compute in bfloat16, as --bf16 says; sums, losses and updates stay float32
        "#]],
        );
        check(
            &[("XLA_USE_BF16", "1")],
            &["bf16"],
            expect![[r#"
            note: XLA_USE_BF16 has no effect: bf16 is given
        "#]],
        );
        check(&[("XLA_USE_BF16", "0"), ("ACCELERATE_MIXED_PRECISION", "no")], &[], expect![[""]]);
        check(
            &[("ACCELERATE_USE_FSDP", "true"), ("FSDP_MIN_NUM_PARAMS", "5"), ("FSDP_VERSION", "")],
            &[],
            expect![[r#"
                fsdp
                FSDP_MIN_NUM_PARAMS=5
                note: ACCELERATE_USE_FSDP=true: parameters are sharded, as --fsdp true says
            "#]],
        );
    }
}
