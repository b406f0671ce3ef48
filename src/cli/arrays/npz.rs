//! NumPy's archives: zip files with an `.npy` file for each array.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use shardwright_tensor::{HostArray, NpyHeader};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::read::read_data;

/// An archive that was opened.
pub(super) struct Npz(ZipArchive<BufReader<File>>);

impl Npz {
    pub(super) fn open(path: &Path) -> Result<Npz> {
        let archive = ZipArchive::new(BufReader::new(File::open(path)?));
        Ok(Npz(archive.context("this is no whole .npz file, which is a zip archive of .npy files")?))
    }

    /// How many files are in it.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The name of an array, and what it is.
    pub(super) fn header(&mut self, entry: usize) -> Result<(String, NpyHeader)> {
        let file = self.0.by_index(entry)?;
        let name = file.name()?.into_owned();
        let Some(name) = name.strip_suffix(".npy").map(str::to_owned) else {
            bail!("{name} is in the archive, which has .npy files only if it is NumPy's");
        };
        let mut start = Vec::new();
        file.take(NpyHeader::MOST_BYTES as u64).read_to_end(&mut start)?;
        let header = NpyHeader::parse(&start).with_context(|| format!("array {name}"))?;
        Ok((name, header))
    }

    /// Reads the array that has this header.
    pub(super) fn read(&mut self, entry: usize, header: &NpyHeader) -> Result<HostArray> {
        let mut file = self.0.by_index(entry)?;
        io::copy(&mut file.by_ref().take(header.len() as u64), &mut io::sink())?;
        read_data(file, header)
    }
}

/// Writes an archive of these arrays, not compressed, as NumPy does.
pub(super) fn write<'a>(
    file: &File,
    arrays: impl IntoIterator<Item = (&'a str, &'a HostArray)>,
) -> io::Result<()> {
    let mut archive = ZipWriter::new(BufWriter::new(file));
    for (name, array) in arrays {
        // The flag is for arrays of 4 GiB and more; readers of any age take it.
        let options =
            SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
        archive.start_file(format!("{name}.npy"), options)?;
        archive.write_all(&NpyHeader::write(array.ty()))?;
        archive.write_all(array.bytes())?;
    }
    archive.finish()?.flush()
}
