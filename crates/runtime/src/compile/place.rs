//! Where compiled programs are kept, as users write it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::CompileCache;
use crate::plugins::Environment;

/// The folder beside the plugins.
const FOLDER: &str = "compiled";

/// The variables that decide about the cache of compiled programs.
///
/// Nothing else here reads them, so a caller can set any of them. A variable that is set but empty counts as not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheVariables {
    /// `SHARDWRIGHT_COMPILE_CACHE`: as [`CompileCache::parse`] reads it.
    pub compile_cache: Option<OsString>,
    /// `XLA_PERSISTENT_CACHE_PATH`: PyTorch/XLA's folder; ours is the folder `shardwright` in it. Used when the
    /// variable above is not set.
    pub xla_persistent_cache_path: Option<OsString>,
    /// `XLA_PERSISTENT_CACHE_READ_ONLY`: whether that one is only read: `1` or `true`.
    pub xla_persistent_cache_read_only: Option<OsString>,
}

/// A cache that is not to be had as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CachePlaceError {
    /// The cache folder lies in the home folder, and there is none.
    #[error(
        "the compile cache {given:?} needs a home folder and HOME is not set; set HOME, name a folder, or say off"
    )]
    NoHome {
        /// What was written.
        given: String,
    },
    /// Something that is neither a folder nor one of the words.
    #[error("the compile cache is {given:?}, expected on, off, ro, a folder, or a folder and :ro")]
    Unclear {
        /// What was written.
        given: String,
    },
}

impl CacheVariables {
    /// What this process was started with.
    pub fn from_process() -> CacheVariables {
        CacheVariables {
            compile_cache: std::env::var_os("SHARDWRIGHT_COMPILE_CACHE"),
            xla_persistent_cache_path: std::env::var_os("XLA_PERSISTENT_CACHE_PATH"),
            xla_persistent_cache_read_only: std::env::var_os("XLA_PERSISTENT_CACHE_READ_ONLY"),
        }
    }
}

impl CompileCache {
    /// The cache that was asked for: by `given`, else by the variables, else the one in the cache folder of
    /// `environment`. `None` is no cache.
    ///
    /// # Errors
    /// When what was written makes no sense, or needs a home folder and there is none.
    pub fn find(
        given: Option<&OsStr>,
        variables: &CacheVariables,
        environment: &Environment,
    ) -> Result<Option<CompileCache>, CachePlaceError> {
        if let Some(text) = given.or(non_empty(&variables.compile_cache)) {
            return CompileCache::parse(text, environment);
        }
        let Some(folder) = non_empty(&variables.xla_persistent_cache_path) else {
            // Nobody has asked for a cache, so having none is no error.
            return Ok(default_folder(environment).map(CompileCache::new));
        };
        let folder = expand(Path::new(folder), environment)?.join("shardwright");
        let read_only = non_empty(&variables.xla_persistent_cache_read_only);
        let read_only = read_only.is_some_and(|word| word == "1" || word.eq_ignore_ascii_case("true"));
        Ok(Some(if read_only { CompileCache::read_only(folder) } else { CompileCache::new(folder) }))
    }

    /// Reads `off` (`None`), `on` (the folder `compiled` in the cache folder), `ro` (the same, only read), a folder,
    /// or a folder and `:ro`. A folder named like one of the words is written `./on`.
    ///
    /// ```
    /// use shardwright_runtime::compile::CompileCache;
    /// use shardwright_runtime::plugins::Environment;
    ///
    /// let cache = CompileCache::parse("/srv/compiled:ro".as_ref(), &Environment::default())?;
    /// assert_eq!(cache, Some(CompileCache::read_only("/srv/compiled")));
    /// assert_eq!(CompileCache::parse("off".as_ref(), &Environment::default())?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the text is empty, or needs a home folder and there is none.
    pub fn parse(text: &OsStr, environment: &Environment) -> Result<Option<CompileCache>, CachePlaceError> {
        let given = || text.to_string_lossy().into_owned();
        let default =
            || default_folder(environment).ok_or_else(|| CachePlaceError::NoHome { given: given() });
        match text.to_str() {
            Some("off") => return Ok(None),
            Some("on") => return Ok(Some(CompileCache::new(default()?))),
            Some("ro") => return Ok(Some(CompileCache::read_only(default()?))),
            Some("" | ":ro") => return Err(CachePlaceError::Unclear { given: given() }),
            _ => {}
        }
        Ok(Some(match text.to_str().and_then(|text| text.strip_suffix(":ro")) {
            Some(folder) => CompileCache::read_only(expand(Path::new(folder), environment)?),
            None => CompileCache::new(expand(Path::new(text), environment)?),
        }))
    }
}

fn default_folder(environment: &Environment) -> Option<PathBuf> {
    Some(environment.cache_folder()?.join(FOLDER))
}

fn expand(folder: &Path, environment: &Environment) -> Result<PathBuf, CachePlaceError> {
    let expanded = environment.expand_home(folder);
    let expanded = expanded.ok_or_else(|| CachePlaceError::NoHome { given: folder.display().to_string() })?;
    Ok(std::path::absolute(&expanded).unwrap_or(expanded))
}

fn non_empty(variable: &Option<OsString>) -> Option<&OsStr> {
    variable.as_deref().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `words` are `given`, `NAME=value` and so on; the answer is the folder, with `:ro` where it is only read.
    fn find(words: &str) -> Result<String, String> {
        let value = |name: &str| {
            words.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(OsString::from)
        };
        let variables = CacheVariables {
            compile_cache: value("OWN"),
            xla_persistent_cache_path: value("XLA"),
            xla_persistent_cache_read_only: value("XLA_RO"),
        };
        let environment =
            Environment { home: value("HOME"), cache_dir: value("CACHE"), ..Environment::default() };
        let cache = CompileCache::find(value("GIVEN").as_deref(), &variables, &environment);
        let cache = cache.map_err(|error| error.to_string())?;
        Ok(cache.map_or("off".to_owned(), |cache| {
            format!("{}{}", cache.folder().display(), if cache.is_read_only() { ":ro" } else { "" })
        }))
    }

    #[test]
    fn the_first_that_is_set_decides() {
        let check = |words: &str, expected: &str| assert_eq!(find(words).unwrap(), expected, "{words}");
        check("HOME=/h", "/h/.cache/shardwright/compiled");
        check("CACHE=/c HOME=/h", "/c/compiled");
        check("", "off");
        check("OWN=/o XLA=/x HOME=/h", "/o");
        check("OWN= XLA=/x HOME=/h", "/x/shardwright");
        check("XLA=~/x XLA_RO=1 HOME=/h", "/h/x/shardwright:ro");
        check("XLA=/x XLA_RO=TRUE", "/x/shardwright:ro");
        check("XLA=/x XLA_RO=0", "/x/shardwright");
        check("GIVEN=/g:ro OWN=off", "/g:ro");
        check("GIVEN=off OWN=/o", "off");
        check("GIVEN=ro CACHE=/c", "/c/compiled:ro");
        check("OWN=on XLA=/x CACHE=/c", "/c/compiled");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let check = |words: &str, expected: &str| assert_eq!(find(words).unwrap_err(), expected, "{words}");
        check("GIVEN=", "the compile cache is \"\", expected on, off, ro, a folder, or a folder and :ro");
        check(
            "OWN=on",
            "the compile cache \"on\" needs a home folder and HOME is not set; set HOME, name a folder, or say off",
        );
        check(
            "OWN=~/c",
            "the compile cache \"~/c\" needs a home folder and HOME is not set; set HOME, name a folder, or say off",
        );
    }
}
