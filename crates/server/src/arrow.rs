//! Embeddings as a stream of Apache Arrow.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use weir_inference::Rows;

/// One batch with the columns `id`, the index of the text, and `vector`, lists of 32-bit floats of fixed length.
///
/// # Errors
/// When the rows differ in length, or have more floats than the format allows.
pub(super) fn stream(embeddings: Rows) -> Result<Vec<u8>, ArrowError> {
    let (count, width) = (embeddings.len(), embeddings.width());
    let width =
        i32::try_from(width).map_err(|_| ArrowError::InvalidArgumentError(format!("{width} floats")))?;
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let vector = DataType::FixedSizeList(item.clone(), width);
    let fields = vec![Field::new("id", DataType::Utf8, false), Field::new("vector", vector, false)];
    let schema = Arc::new(Schema::new(fields));
    let ids: ArrayRef = Arc::new(StringArray::from_iter_values((0..count).map(|index| index.to_string())));
    let floats = Arc::new(Float32Array::from(embeddings.into_floats()));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::try_new(item, width, floats, None)?);
    let batch = RecordBatch::try_new(schema.clone(), vec![ids, vectors])?;
    let mut writer = StreamWriter::try_new(Vec::with_capacity(1024 + 4 * count * width as usize), &schema)?;
    writer.write(&batch)?;
    writer.into_inner()
}
