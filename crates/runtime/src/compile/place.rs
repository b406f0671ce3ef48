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
    /// `SHARDWRIGHT_COMPILE_CACHE_LIMIT`: the most that is kept, in gibibytes, such as `0.5`.
    pub compile_cache_limit: Option<OsString>,
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
    #[error(
        "the compile cache is {given:?}, expected on, off, ro, a folder with a separator in it, or such a folder and \
         :ro{}",
        as_folder(given)
    )]
    Unclear {
        /// What was written.
        given: String,
    },
    /// Another user's home folder, which only a shell knows.
    #[error(
        "the compile cache is {given:?}, and which folder ~name is only a shell knows; write the folder in full, or \
         ./{given} for one of that name"
    )]
    OtherHome {
        /// What was written.
        given: String,
    },
    /// A limit that is none.
    #[error(
        "SHARDWRIGHT_COMPILE_CACHE_LIMIT is {given:?}, expected a number of gibibytes above 0, such as 0.5"
    )]
    Limit {
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
            compile_cache_limit: std::env::var_os("SHARDWRIGHT_COMPILE_CACHE_LIMIT"),
        }
    }

    /// The limit in bytes, if there is one.
    fn limit(&self) -> Result<Option<u64>, CachePlaceError> {
        let Some(text) = non_empty(&self.compile_cache_limit) else { return Ok(None) };
        let gib = text.to_str().and_then(|text| text.trim().parse::<f64>().ok());
        // Beyond what an integer holds it is the largest one, which is no limit.
        let bytes =
            gib.filter(|gib| gib.is_finite() && *gib > 0.0).map(|gib| (gib * (1u64 << 30) as f64) as u64);
        bytes.map(Some).ok_or_else(|| CachePlaceError::Limit { given: text.to_string_lossy().into_owned() })
    }
}

/// How to write a mere name that is meant as a folder.
fn as_folder(given: &str) -> String {
    match given.strip_prefix(':').unwrap_or(given) {
        name if name.is_empty() || name.eq_ignore_ascii_case("ro") => String::new(),
        _ => format!("; for a folder of that name write ./{given}"),
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
        let limit = variables.limit()?;
        let cache = CompileCache::place(given, variables, environment)?;
        Ok(match (cache, limit) {
            (Some(cache), Some(bytes)) => Some(cache.with_limit(bytes)),
            (cache, _) => cache,
        })
    }

    fn place(
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
    /// or a folder and `:ro`. The words may be in capitals. A folder has a separator in it: the folder `name` is
    /// written `./name`, so that no misspelled word becomes one.
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
    /// When the text is no such word and no such folder, or needs a home folder and there is none.
    pub fn parse(text: &OsStr, environment: &Environment) -> Result<Option<CompileCache>, CachePlaceError> {
        let given = || text.to_string_lossy().into_owned();
        let default =
            || default_folder(environment).ok_or_else(|| CachePlaceError::NoHome { given: given() });
        match text.to_str().map(str::to_ascii_lowercase).as_deref() {
            Some("off") => return Ok(None),
            Some("on") => return Ok(Some(CompileCache::new(default()?))),
            Some("ro") => return Ok(Some(CompileCache::read_only(default()?))),
            _ => {}
        }
        let (folder, read_only) =
            match text.to_str().and_then(|text| text.split_at_checked(text.len().checked_sub(3)?)) {
                Some((folder, suffix)) if suffix.eq_ignore_ascii_case(":ro") => (Path::new(folder), true),
                _ => (Path::new(text), false),
            };
        let written = folder.as_os_str().as_encoded_bytes();
        if !written.contains(&b'/') && !written.starts_with(b"~") && ![&b"."[..], b".."].contains(&written) {
            return Err(CachePlaceError::Unclear { given: given() });
        }
        let folder = expand(folder, environment)?;
        Ok(Some(if read_only { CompileCache::read_only(folder) } else { CompileCache::new(folder) }))
    }
}

fn default_folder(environment: &Environment) -> Option<PathBuf> {
    Some(environment.cache_folder()?.join(FOLDER))
}

fn expand(folder: &Path, environment: &Environment) -> Result<PathBuf, CachePlaceError> {
    if folder.to_string_lossy().starts_with('~') && !folder.starts_with("~") {
        return Err(CachePlaceError::OtherHome { given: folder.display().to_string() });
    }
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
            compile_cache_limit: value("LIMIT"),
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
        check("GIVEN=OFF OWN=/o", "off");
        check("GIVEN=Ro CACHE=/c", "/c/compiled:ro");
        check("GIVEN=/g:RO", "/g:ro");
        check("GIVEN=~ HOME=/h", "/h");
        check("GIVEN=~/c:ro HOME=/h", "/h/c:ro");
        let here = std::env::current_dir().unwrap();
        check("GIVEN=./Off", &here.join("Off").display().to_string());
        check("GIVEN=.", &here.display().to_string());
        check("GIVEN=a/", &here.join("a/").display().to_string());
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        let check = |words: &str, expected: &str| assert_eq!(find(words).unwrap_err(), expected, "{words}");
        let expected = "expected on, off, ro, a folder with a separator in it, or such a folder and :ro";
        for given in ["", ":ro"] {
            check(&format!("GIVEN={given}"), &format!("the compile cache is {given:?}, {expected}"));
        }
        for given in ["no", "0", "Of", "compiled", "compiled:ro", "é"] {
            let advice = format!("for a folder of that name write ./{given}");
            check(
                &format!("GIVEN={given}"),
                &format!("the compile cache is {given:?}, {expected}; {advice}"),
            );
        }
        check(
            "GIVEN=~joe/c HOME=/h",
            "the compile cache is \"~joe/c\", and which folder ~name is only a shell knows; write the folder in full, \
             or ./~joe/c for one of that name",
        );
        check(
            "OWN=on",
            "the compile cache \"on\" needs a home folder and HOME is not set; set HOME, name a folder, or say off",
        );
        check(
            "OWN=~/c",
            "the compile cache \"~/c\" needs a home folder and HOME is not set; set HOME, name a folder, or say off",
        );
    }

    #[test]
    fn a_limit_is_a_number_of_gibibytes() {
        let limit = |text: &str| {
            CacheVariables { compile_cache_limit: Some(text.into()), ..CacheVariables::default() }.limit()
        };
        assert_eq!(limit(""), Ok(None));
        assert_eq!(limit("2"), Ok(Some(2 << 30)));
        assert_eq!(limit(" 0.5 "), Ok(Some(1 << 29)));
        assert_eq!(limit("1e300"), Ok(Some(u64::MAX)));
        for text in ["0", "-1", "nan", "inf", "4G"] {
            assert_eq!(
                limit(text).unwrap_err().to_string(),
                format!(
                    "SHARDWRIGHT_COMPILE_CACHE_LIMIT is {text:?}, expected a number of gibibytes above 0, such as 0.5"
                )
            );
        }
        assert!(find("GIVEN=off LIMIT=much").unwrap_err().contains("\"much\""));
    }
}
