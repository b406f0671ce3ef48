//! From the rows of a corpus to their ids, on several threads: one reads, all processors tokenize, and the caller takes
//! what is done. Queues between them are short, so memory does not grow with the text.

use crate::corpus::Documents;
use crate::{Corpus, DataError, Prefetcher, Tokenizer};

/// Rows are tokenized together up to this much text and this many rows: enough to keep all processors busy, and little
/// beside a process.
const CHUNK_BYTES: usize = 1 << 19;
const CHUNK_ROWS: usize = 1 << 14;

/// Rows that follow one another.
struct Chunk {
    rows: Vec<String>,
    first_row: u64,
    bytes_read: u64,
}

/// The ids of rows that follow one another.
pub(crate) struct Encoded {
    pub(crate) rows: Vec<Vec<i32>>,
    /// How many bytes of the corpus were read, up to these rows.
    pub(crate) bytes_read: u64,
}

/// The ids of all rows, in order.
pub(crate) fn encode(corpus: &Corpus, tokenizer: &Tokenizer) -> Result<Prefetcher<Encoded>, DataError> {
    let chunks = Prefetcher::spawn(Chunks { documents: corpus.documents(), next_row: 0 })?;
    let tokenizer = tokenizer.clone();
    Prefetcher::spawn(chunks.map(move |chunk| {
        let Chunk { rows, first_row, bytes_read } = chunk?;
        Ok(Encoded { rows: tokenizer.encode_rows(rows, first_row)?, bytes_read })
    }))
}

struct Chunks {
    documents: Documents,
    next_row: u64,
}

impl Chunks {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, DataError> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while bytes < CHUNK_BYTES && rows.len() < CHUNK_ROWS {
            let Some(row) = self.documents.next().transpose()? else { break };
            bytes += row.len();
            rows.push(row);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let first_row = self.next_row;
        self.next_row += rows.len() as u64;
        Ok(Some(Chunk { rows, first_row, bytes_read: self.documents.bytes_read() }))
    }
}

impl Iterator for Chunks {
    type Item = Result<Chunk, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_chunk().transpose()
    }
}
