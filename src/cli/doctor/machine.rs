//! The machine: processors, limits of the system, TPUs and their lock.

use std::path::Path;

use rustix::process::{Resource, getrlimit};
use shardwright_runtime::plugins::Environment;

use super::check::Check;
use super::lock::{Holder, holder, lock_file};

const MACHINE: &str = "machine";

/// Virtual devices on each processor from which on there is a warning: each has threads of its own.
const MANY_PER_CORE: usize = 8;

/// Fewer open files than this can stop a run, whose plugin, data and output take some each.
const FEW_FILES: u64 = 256;

/// What is said of the machine; `cpu_devices` are the virtual devices of a plugin that has been opened.
pub(super) fn checks(environment: &Environment, is_tpu: bool, cpu_devices: Option<usize>) -> Vec<Check> {
    let mut checks = vec![cores(if is_tpu { None } else { cpu_devices }), open_files(), tpus(environment)];
    checks.extend(lock(holder(&lock_file(), Path::new("/proc")), is_tpu));
    checks
}

fn cores(devices: Option<usize>) -> Check {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match devices {
        Some(devices) if devices > MANY_PER_CORE * cores => Check::warning(
            MACHINE,
            "processors",
            &format!("{cores}, for {devices} virtual devices"),
            "devices take turns on them: fewer with --cpu_devices do the same work in less time",
        ),
        Some(devices) => Check::ok(MACHINE, "processors", format!("{cores}, for {devices} virtual devices")),
        None => Check::ok(MACHINE, "processors", cores),
    }
}

fn open_files() -> Check {
    match getrlimit(Resource::Nofile).current {
        None => Check::ok(MACHINE, "open files", "no limit"),
        Some(limit) if limit < FEW_FILES => Check::warning(
            MACHINE,
            "open files",
            &format!("at most {limit}"),
            "raise the limit, with `ulimit -n 1024` in the shell",
        ),
        Some(limit) => Check::ok(MACHINE, "open files", format!("at most {limit}")),
    }
}

fn tpus(environment: &Environment) -> Check {
    let files: Vec<String> = environment.tpu_devices.iter().map(|file| file.display().to_string()).collect();
    Check::ok(MACHINE, "tpu", if files.is_empty() { "none".to_owned() } else { files.join(", ") })
}

/// Nothing where nobody holds the lock.
fn lock(holder: Option<Holder>, is_tpu: bool) -> Option<Check> {
    let Holder { pid, name } = holder?;
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    let text = format!("{} is held by process {pid}{name}", lock_file().display());
    Some(match is_tpu {
        true => Check::warning(
            MACHINE,
            "tpu lock",
            &text,
            "wait for that process, or end it, and leave the file where it is: it keeps two processes from using the \
             chips at once; only to compile, ALLOW_MULTIPLE_LIBTPU_LOAD=1 gets past it",
        ),
        false => Check::ok(MACHINE, "tpu lock", text),
    })
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    #[test]
    fn a_held_lock_matters_to_the_plugin_of_tpus() {
        let holder = |name: Option<&str>| Some(Holder { pid: 7, name: name.map(str::to_owned) });
        let check = lock(holder(Some("python3")), true).unwrap();
        assert_eq!(check.status, Status::Warning);
        assert!(check.text.ends_with("libtpu_lockfile is held by process 7 (python3)"), "{}", check.text);
        assert_eq!(lock(holder(None), false).unwrap().status, Status::Ok);
        assert_eq!(lock(None, true), None);
    }

    #[test]
    fn many_virtual_devices_on_few_processors_are_warned_of() {
        assert_eq!(cores(Some(1)).status, Status::Ok);
        assert_eq!(cores(Some(1_000_000)).status, Status::Warning);
    }
}
