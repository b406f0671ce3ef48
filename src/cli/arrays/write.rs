//! Files that the outputs of a program are written to.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use shardwright_checkpoint::{HfWriter, make_writable_folder, write_atomic};
use shardwright_tensor::{HostArray, NpyHeader};

use super::npz;

/// Where outputs are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct OutputFile {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Npz,
    Safetensors,
    Folder,
}

impl OutputFile {
    /// The file or folder at this path, its format told by the end of its name; a folder where that has none.
    pub(in super::super) fn new(path: &Path) -> Result<OutputFile> {
        if path == Path::new("-") {
            bail!(
                "outputs are files, and are not written to stdout; name an .npz file, or ./- for that folder"
            );
        }
        let format = match path.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => Format::Npy,
            Some("npz") => Format::Npz,
            Some("safetensors") => Format::Safetensors,
            None => Format::Folder,
            Some(_) if path.is_dir() => Format::Folder,
            Some(other) => bail!(
                "{}: outputs are written as .npy, .npz, .safetensors or into a folder, not as .{other}",
                path.display()
            ),
        };
        Ok(OutputFile { path: path.to_owned(), format })
    }

    /// The file or folder.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether that many outputs can be written there, as far as can be known before there are any.
    pub(in super::super) fn check(&self, outputs: usize) -> Result<()> {
        let path = self.path.display();
        if self.format == Format::Npy && outputs != 1 {
            bail!("{path}: an .npy file holds one array, and the program gives {outputs}; name an .npz file");
        }
        if self.format != Format::Folder && self.path.is_dir() {
            bail!("{path}: this is a folder");
        }
        let folder = match self.format {
            Format::Folder => self.path.as_path(),
            _ => self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        };
        Ok(make_writable_folder(folder)?)
    }

    /// Writes the outputs. Each file has its name only once it is whole.
    pub(in super::super) fn write(&self, outputs: &[(String, HostArray)]) -> Result<()> {
        let names = distinct(outputs.iter().map(|(name, _)| name.as_str()));
        let arrays = || names.iter().map(String::as_str).zip(outputs.iter().map(|(_, array)| array));
        match self.format {
            Format::Npy => arrays().try_for_each(|(_, array)| write_npy(&self.path, array)),
            Format::Npz => Ok(write_atomic(&self.path, |file| npz::write(file, arrays()))?),
            Format::Safetensors => write_safetensors(&self.path, arrays),
            Format::Folder => {
                fs::create_dir_all(&self.path)?;
                let file = |(idx, (name, array))| write_npy(&self.path.join(file_name(idx, name)), array);
                arrays().enumerate().try_for_each(file)
            }
        }
    }
}

fn write_npy(path: &Path, array: &HostArray) -> Result<()> {
    Ok(write_atomic(path, |mut file| {
        file.write_all(&NpyHeader::write(array.ty()))?;
        file.write_all(array.bytes())
    })?)
}

fn write_safetensors<'a, I: Iterator<Item = (&'a str, &'a HostArray)>>(
    path: &Path,
    arrays: impl Fn() -> I,
) -> Result<()> {
    let mut writer = HfWriter::create(path, arrays().map(|(name, array)| (name, array.ty().clone())))?;
    for (name, array) in arrays() {
        writer.write(name, array)?;
    }
    Ok(writer.finish()?)
}

/// Names of which no two are alike: a repeated one gets the number of its output.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut name = |(idx, name): (usize, &str)| {
        let mut free = name.to_owned();
        while !taken.insert(free.clone()) {
            free = format!("{free}.{idx}");
        }
        free
    };
    names.enumerate().map(&mut name).collect()
}

/// The name of an array's file in a folder. Characters that file systems or shells take amiss are written as `%` and
/// their code, which [`name_in_folder`] undoes. An array whose name is too long is called by its number.
fn file_name(index: usize, name: &str) -> String {
    const MOST: usize = 200;
    let mut safe = String::new();
    for (place, byte) in name.bytes().enumerate() {
        match byte {
            b'.' if place == 0 => safe += "%2E",
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => safe.push(char::from(byte)),
            _ => safe += &format!("%{byte:02X}"),
        }
    }
    if safe.is_empty() || safe.len() > MOST { format!("{index}.npy") } else { format!("{safe}.npy") }
}

/// The name of the array in a file of this name, without its ending.
pub(super) fn name_in_folder(stem: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = stem.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let code = (byte == b'%').then(|| behind.get(..2)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| stem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_an_array_leaves_its_folder() {
        let check = |name: &str, expected: &str| {
            let file = file_name(7, name);
            assert_eq!(file, expected);
            assert_eq!(name_in_folder(file.strip_suffix(".npy").unwrap()), name);
        };
        check("loss", "loss.npy");
        check("params['wq'][0]", "params%5B%27wq%27%5D%5B0%5D.npy");
        check("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd.npy");
        check("50%", "50%25.npy");
        check("über", "%C3%BCber.npy");
        assert_eq!(file_name(7, ""), "7.npy");
        assert_eq!(file_name(7, &"x".repeat(300)), "7.npy");
        assert_eq!(name_in_folder("100%"), "100%");
    }

    #[test]
    fn repeated_names_are_told_apart() {
        assert_eq!(distinct(["a", "b", "a", "a.2"].into_iter()), ["a", "b", "a.2", "a.2.3"]);
    }
}
