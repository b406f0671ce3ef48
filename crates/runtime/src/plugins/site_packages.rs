//! The folders in which Pythons of this machine keep installed packages, found without running one.

use std::fs;
use std::path::{Path, PathBuf};

use super::environment::{Environment, non_empty};

/// The folders of installed packages, each once, in the order in which they are looked through: those of the active
/// virtual environment, of conda's, of this user, of `SHARDWRIGHT_PYTHON`, and of the Pythons in `PATH`.
pub(super) fn folders(environment: &Environment) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for prefix in prefixes(environment) {
        for folder in packages_below(&prefix) {
            // Through links, several prefixes often lead to one folder.
            let folder = folder.canonicalize().unwrap_or(folder);
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
    }
    folders
}

/// The folders that have a `lib/python3.N` in them.
fn prefixes(environment: &Environment) -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    if let Some(folder) = non_empty(&environment.virtual_env) {
        prefixes.extend(with_base(Path::new(folder)));
    }
    prefixes.extend(non_empty(&environment.conda_prefix).map(PathBuf::from));
    let user_base = non_empty(&environment.python_user_base).map(PathBuf::from);
    prefixes.extend(user_base.or_else(|| Some(environment.home()?.join(".local"))));
    // A mere name is looked for in `PATH`, with the others.
    let python = environment.python();
    if python.is_absolute() {
        prefixes.extend(of_python(&python));
    }
    for folder in
        environment.path.iter().flat_map(std::env::split_paths).filter(|folder| folder.is_absolute())
    {
        for name in ["python3", "python"] {
            prefixes.extend(of_python(&folder.join(name)));
        }
    }
    prefixes
}

/// The prefixes of a Python by the path of its program. A virtual environment's program is a link to that of the Python
/// it was made with, so such an environment is looked for before the link is followed.
fn of_python(program: &Path) -> Vec<PathBuf> {
    let prefix_of = |program: &Path| Some(program.parent()?.parent()?.to_owned());
    let Ok(resolved) = program.canonicalize() else { return Vec::new() };
    match prefix_of(program) {
        Some(prefix) if prefix.join("pyvenv.cfg").is_file() => with_base(&prefix),
        _ => prefix_of(&resolved).into_iter().collect(),
    }
}

/// A virtual environment, and the Python it was made with where it uses that one's packages too.
fn with_base(environment: &Path) -> Vec<PathBuf> {
    let mut prefixes = vec![environment.to_owned()];
    let text = fs::read_to_string(environment.join("pyvenv.cfg")).unwrap_or_default();
    let value = |key: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
    };
    if value("include-system-site-packages").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        // `home` is the folder of the other Python's program.
        prefixes.extend(value("home").and_then(|home| Path::new(home).parent()).map(Path::to_owned));
    }
    prefixes
}

fn packages_below(prefix: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    // `local/lib` is Debian's, for what pip installs for everybody.
    for lib in ["lib", "lib64", "local/lib"] {
        let entries = fs::read_dir(prefix.join(lib)).into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"))
            .map(|entry| entry.path())
            .collect();
        versions.sort();
        for name in ["site-packages", "dist-packages"] {
            folders.extend(versions.iter().map(|version| version.join(name)).filter(|path| path.is_dir()));
        }
    }
    folders
}
