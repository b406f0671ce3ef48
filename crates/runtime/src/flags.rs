//! Flags of XLA's compiler: read as XLA reads them, and checked before a plugin, which would end the process, sees
//! them.
//!
//! A plugin reads `XLA_FLAGS` by itself when its first client is made, and a TPU plugin `LIBTPU_INIT_ARGS` when it is
//! loaded. Either calls `exit` if there is a flag that it does not know. So [`Runtime::new`](crate::Runtime::new)
//! looks whether each flag of these variables is among the names in the plugin's file, and refuses to load it
//! otherwise. Of values it can tell nothing: a wrong one in a variable still ends the process.
//!
//! Flags that come as [`CompilerFlags`] go to the compiler beside each program, which answers a wrong name or value
//! with an error. They are tried once, when the plugin is opened, on a program that does nothing.

mod environment;
mod names;
mod resolve;

use std::fmt::{self, Display};
use std::io;
use std::path::Path;

use crate::RuntimeError;
use crate::error::Problem;
use crate::ordinary_file;
pub(crate) use environment::{EnvironmentFlags, check_environment};
pub(crate) use resolve::EMPTY_PROGRAM;

/// The flag by which users of other frameworks say how many virtual CPU devices they want; plugins do not heed it.
const HOST_DEVICES: &str = "xla_force_host_platform_device_count";

/// Flags of the compiler in the order in which they were given. Of a flag that is given twice the last one counts.
///
/// ```
/// use shardwright_runtime::CompilerFlags;
///
/// let mut flags = CompilerFlags::parse("--xla_flags", "--xla_dump_to='a folder' --xla_dump_hlo_as_text")?;
/// flags.extend(CompilerFlags::parse("--xla_flags", "--xla_dump_hlo_as_text=false")?);
/// assert_eq!(flags.to_string(), "--xla_dump_to='a folder' --xla_dump_hlo_as_text=false");
/// # Ok::<(), shardwright_runtime::RuntimeError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompilerFlags {
    flags: Vec<Flag>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Flag {
    name: String,
    /// Nothing where only the name stands, which means true.
    value: Option<String>,
    /// The variable or the option that it was in.
    source: String,
}

impl CompilerFlags {
    /// Reads flags as XLA reads them from the variable `XLA_FLAGS`: `--name` or `--name=value`, apart at blanks, the
    /// value perhaps in quotes. A text that does not begin with a dash is the name of a file with such a text.
    /// `source` is where the text was, for errors.
    ///
    /// # Errors
    /// When the file cannot be read, or the text is anything else than flags. What XLA reads no further than, and
    /// ignores, is an error here.
    pub fn parse(source: &str, text: &str) -> Result<CompilerFlags, RuntimeError> {
        Ok(CompilerFlags::parse_and_keep(source, text)?.0)
    }

    /// The flags, and the text that they stand in: that of the file, where `text` names one. Of some flags that are
    /// given twice XLA makes a list, so for it the text says more.
    fn parse_and_keep(source: &str, text: &str) -> Result<(CompilerFlags, String), RuntimeError> {
        let text = text.trim();
        let wrong = |reason| Problem::FlagSyntax { origin: source.to_owned(), reason };
        if text.is_empty() || text.starts_with('-') {
            return Ok((parse(source, text).map_err(wrong)?, text.to_owned()));
        }
        let content = ordinary_file::open(Path::new(text)).and_then(io::read_to_string).map_err(|error| {
            wrong(format!("cannot read {text:?}: {error}; a text without a leading -- names a file"))
        })?;
        let flags = parse(source, content.trim());
        Ok((flags.map_err(|reason| wrong(format!("file {text:?}: {reason}")))?, content.trim().to_owned()))
    }

    /// Adds flags, which win over those that there are.
    pub fn extend(&mut self, later: CompilerFlags) {
        for flag in later.flags {
            self.flags.retain(|earlier| earlier.name != flag.name);
            self.flags.push(flag);
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flags.is_empty()
    }

    /// The number of virtual CPU devices that is asked for by `--xla_force_host_platform_device_count`. The flag does
    /// nothing in a plugin; [`Runtime::new`](crate::Runtime::new) makes so many devices if its options do not say
    /// otherwise.
    ///
    /// # Errors
    /// When its value is no number.
    pub fn host_devices(&self) -> Result<Option<usize>, RuntimeError> {
        let Some(flag) = self.flags.iter().find(|flag| flag.name == HOST_DEVICES) else { return Ok(None) };
        match flag.value.as_deref().unwrap_or_default().parse() {
            Ok(count) => Ok(Some(count)),
            Err(_) => {
                let reason = format!("{flag} is not followed by a number of devices");
                Err(Problem::FlagSyntax { origin: flag.source.clone(), reason }.into())
            }
        }
    }
}

/// Flags in XLA's syntax.
fn parse(source: &str, text: &str) -> Result<CompilerFlags, String> {
    let mut flags = CompilerFlags::default();
    let mut rest = text;
    while !rest.is_empty() {
        let word = || rest.split_whitespace().next().unwrap_or_default();
        let after_dashes =
            rest.strip_prefix("--").ok_or_else(|| format!("a flag begins with --, found {:?}", word()))?;
        let end = after_dashes.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(after_dashes.len());
        let (name, after_name) = after_dashes.split_at(end);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("{:?} is no name of a flag", word()));
        }
        let (value, after) = match after_name.strip_prefix('=') {
            None => (None, after_name),
            Some(text) => {
                let (value, after) =
                    value(text).ok_or_else(|| format!("the quote in {:?} does not end", word()))?;
                (Some(value), after)
            }
        };
        let flag = Flag { name: name.to_owned(), value, source: source.to_owned() };
        flags.extend(CompilerFlags { flags: vec![flag] });
        rest = after.trim_start();
    }
    Ok(flags)
}

/// The value at the start of a text, and what follows it; nothing if its quote does not end.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quote) = text.chars().next().filter(|&c| c == '"' || c == '\'') else {
        let (value, after) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        return Some((value.to_owned(), after));
    };
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => return Some((value, &text[at + 1..])),
            // In double quotes only, as in a shell.
            '\\' if quote == '"' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

/// As it can be written in `XLA_FLAGS`.
impl Display for CompilerFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags: Vec<String> = self.flags.iter().map(Flag::to_string).collect();
        f.write_str(&flags.join(" "))
    }
}

impl Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}", self.name)?;
        let Some(value) = &self.value else { return Ok(()) };
        let is_plain = !value.contains(char::is_whitespace) && !value.starts_with(['"', '\'']);
        match (is_plain, value.contains('\'')) {
            (true, _) => write!(f, "={value}"),
            (false, false) => write!(f, "='{value}'"),
            (false, true) => write!(f, "=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use expect_test::{Expect, expect};

    use super::*;

    /// Each text, and the flags in it.
    fn check(texts: &[&str], expect: Expect) {
        let read = |text: &&str| match CompilerFlags::parse("XLA_FLAGS", text) {
            Ok(flags) => {
                assert_eq!(CompilerFlags::parse("XLA_FLAGS", &flags.to_string()).unwrap(), flags, "{text}");
                let flags = flags.flags.iter().map(|flag| format!("  {} {:?}\n", flag.name, flag.value));
                format!("{text}\n{}", flags.collect::<String>())
            }
            Err(error) => format!("{text}\n  error: {error}\n"),
        };
        expect.assert_eq(&texts.iter().map(read).collect::<String>());
    }

    #[test]
    fn flags_are_read_as_xla_reads_them() {
        check(
            &[
                "",
                "  --a\t--b=1\n --c= ",
                "--a=x=y --b=--c",
                "--a='two words' --b=\"a \\\"quoted\\\" \\\\ word\" --c='a \\ in single quotes'",
                "--a=\"it's\"",
                "--a=1 --b=2 --a=3",
                "--a='x'--b=1",
            ],
            expect![[r#"

                  --a	--b=1
                 --c= 
                  a None
                  b Some("1")
                  c Some("")
                --a=x=y --b=--c
                  a Some("x=y")
                  b Some("--c")
                --a='two words' --b="a \"quoted\" \\ word" --c='a \ in single quotes'
                  a Some("two words")
                  b Some("a \"quoted\" \\ word")
                  c Some("a \\ in single quotes")
                --a="it's"
                  a Some("it's")
                --a=1 --b=2 --a=3
                  b Some("2")
                  a Some("3")
                --a='x'--b=1
                  a Some("x")
                  b Some("1")
            "#]],
        );
    }

    #[test]
    fn what_is_no_flag_is_named() {
        check(
            &[
                "--a b --c",
                "-a",
                "--",
                "--=1",
                "--a+b",
                "--a='b c",
                "--a=\"b\\",
                "no-such-file",
                "/dev/zero",
                "--ä=1",
            ],
            expect![[r#"
                --a b --c
                  error: XLA_FLAGS: a flag begins with --, found "b"
                -a
                  error: XLA_FLAGS: a flag begins with --, found "-a"
                --
                  error: XLA_FLAGS: "--" is no name of a flag
                --=1
                  error: XLA_FLAGS: "--=1" is no name of a flag
                --a+b
                  error: XLA_FLAGS: "--a+b" is no name of a flag
                --a='b c
                  error: XLA_FLAGS: the quote in "--a='b" does not end
                --a="b\
                  error: XLA_FLAGS: the quote in "--a=\"b\\" does not end
                no-such-file
                  error: XLA_FLAGS: cannot read "no-such-file": No such file or directory (os error 2); a text without a leading -- names a file
                /dev/zero
                  error: XLA_FLAGS: cannot read "/dev/zero": it is no ordinary file; a text without a leading -- names a file
                --ä=1
                  error: XLA_FLAGS: "--ä=1" is no name of a flag
            "#]],
        );
    }

    #[test]
    fn a_text_without_dashes_is_a_file_of_flags() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "\n--a=1\n--b\n").unwrap();
        let name = file.path().to_str().unwrap();
        assert_eq!(CompilerFlags::parse("XLA_FLAGS", name).unwrap().to_string(), "--a=1 --b");
        fs::write(file.path(), "# flags").unwrap();
        let error = CompilerFlags::parse("XLA_FLAGS", name).unwrap_err().to_string();
        assert_eq!(error, format!("XLA_FLAGS: file {name:?}: a flag begins with --, found \"#\""));
    }

    #[test]
    fn host_devices_are_a_number() {
        let devices = |text| CompilerFlags::parse("XLA_FLAGS", text).unwrap().host_devices();
        assert_eq!(devices("--xla_dump_to=x").unwrap(), None);
        assert_eq!(devices("--xla_force_host_platform_device_count=16").unwrap(), Some(16));
        assert_eq!(
            devices("--xla_force_host_platform_device_count=x").unwrap_err().to_string(),
            "XLA_FLAGS: --xla_force_host_platform_device_count=x is not followed by a number of devices"
        );
    }
}
