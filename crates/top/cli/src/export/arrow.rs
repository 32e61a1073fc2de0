//! Record batches into Parquet or Arrow IPC files, and columns' bytes as Arrow arrays.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, FixedSizeListArray, PrimitiveArray, RecordBatch};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use catchment_frame::Dtype;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

/// A file of record batches that is being written.
pub(crate) struct ArrowFile {
    writer: Writer,
    path: PathBuf,
    schema: SchemaRef,
}

enum Writer {
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    Ipc(Box<arrow_ipc::writer::FileWriter<BufWriter<File>>>),
}

/// Which of Arrow's formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Parquet,
    Ipc,
}

impl ArrowFile {
    /// A new file of a table with these columns.
    pub(crate) fn create(path: &Path, kind: Kind, fields: Vec<Field>) -> anyhow::Result<Self> {
        let (file, schema) = (super::create(path)?, Arc::new(Schema::new(fields)));
        let writer = match kind {
            Kind::Parquet => {
                let snappy = WriterProperties::builder().set_compression(Compression::SNAPPY);
                let schema = Arc::clone(&schema);
                let writer = ArrowWriter::try_new(file, schema, Some(snappy.build()))?;
                Writer::Parquet(Box::new(writer))
            }
            Kind::Ipc => {
                let writer = arrow_ipc::writer::FileWriter::try_new(file, &schema)?;
                Writer::Ipc(Box::new(writer))
            }
        };
        Ok(Self { writer, path: path.to_owned(), schema })
    }

    /// Appends rows: the columns' values.
    pub(crate) fn write(&mut self, columns: Vec<ArrayRef>) -> anyhow::Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        match &mut self.writer {
            Writer::Parquet(writer) => writer.write(&batch)?,
            Writer::Ipc(writer) => writer.write(&batch)?,
        }
        Ok(())
    }

    /// The types of the columns.
    pub(crate) fn data_types(&self) -> impl Iterator<Item = DataType> + use<> {
        let fields = self.schema.fields().iter().map(|field| field.data_type().clone());
        fields.collect::<Vec<_>>().into_iter()
    }

    /// Closes the file; returns its path.
    pub(crate) fn finish(self) -> anyhow::Result<PathBuf> {
        match self.writer {
            Writer::Parquet(writer) => writer.into_inner()?.flush()?,
            Writer::Ipc(mut writer) => {
                writer.finish()?;
                writer.into_inner()?.flush()?;
            }
        }
        Ok(self.path)
    }
}

/// The Arrow type of elements of that type and shape; none where Arrow has no such thing. Complex
/// numbers are pairs.
pub(crate) fn data_type(dtype: Dtype, shape: &[u64]) -> Option<DataType> {
    let of = |inner: DataType, length: i32| {
        DataType::FixedSizeList(Arc::new(Field::new_list_field(inner, false)), length)
    };
    let element = match dtype {
        Dtype::U8 => DataType::UInt8,
        Dtype::U16 => DataType::UInt16,
        Dtype::U32 => DataType::UInt32,
        Dtype::U64 => DataType::UInt64,
        Dtype::I8 => DataType::Int8,
        Dtype::I16 => DataType::Int16,
        Dtype::I32 => DataType::Int32,
        Dtype::I64 => DataType::Int64,
        Dtype::F32 => DataType::Float32,
        Dtype::F64 => DataType::Float64,
        Dtype::C64 => of(DataType::Float32, 2),
        Dtype::C128 => of(DataType::Float64, 2),
        _ => return None,
    };
    shape.iter().rev().try_fold(element, |inner, &length| Some(of(inner, length.try_into().ok()?)))
}

/// Little-endian bytes as an array of that type, which [`data_type`] made.
pub(crate) fn array(data_type: &DataType, bytes: Vec<u8>) -> anyhow::Result<ArrayRef> {
    Ok(match data_type {
        DataType::FixedSizeList(field, length) => {
            let inner = array(field.data_type(), bytes)?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *length, inner, None)?)
        }
        DataType::UInt8 => numbers::<UInt8Type>(bytes),
        DataType::UInt16 => numbers::<UInt16Type>(bytes),
        DataType::UInt32 => numbers::<UInt32Type>(bytes),
        DataType::UInt64 => numbers::<UInt64Type>(bytes),
        DataType::Int8 => numbers::<Int8Type>(bytes),
        DataType::Int16 => numbers::<Int16Type>(bytes),
        DataType::Int32 => numbers::<Int32Type>(bytes),
        DataType::Int64 => numbers::<Int64Type>(bytes),
        DataType::Float32 => numbers::<Float32Type>(bytes),
        DataType::Float64 => numbers::<Float64Type>(bytes),
        other => anyhow::bail!("no column of {other}"),
    })
}

/// The column of [`times`].
pub(crate) fn time_field() -> Field {
    Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), false)
}

/// Nanoseconds since 1970 as timestamps without a zone; what passes 2262 is cut there.
pub(crate) fn times(times_ns: impl Iterator<Item = u64>) -> ArrayRef {
    let times = times_ns.map(|time| i64::try_from(time).unwrap_or(i64::MAX));
    Arc::new(PrimitiveArray::<TimestampNanosecondType>::from_iter_values(times))
}

fn numbers<T: ArrowPrimitiveType>(bytes: Vec<u8>) -> ArrayRef {
    let count = bytes.len() / size_of::<T::Native>();
    let values = if (bytes.as_ptr() as usize).is_multiple_of(align_of::<T::Native>()) {
        Buffer::from_vec(bytes)
    } else {
        // Arrow's own memory is aligned for every type.
        Buffer::from_slice_ref(&bytes)
    };
    Arc::new(PrimitiveArray::<T>::new(arrow_buffer::ScalarBuffer::new(values, 0, count), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_become_lists_of_fixed_length() {
        let kind = data_type(Dtype::I16, &[2, 3]).expect("a type");
        let bytes: Vec<u8> = (0..12i16).flat_map(i16::to_le_bytes).collect();
        assert_eq!(array(&kind, bytes).expect("an array").len(), 2);
        let complex = data_type(Dtype::C64, &[]).expect("a type");
        assert_eq!(array(&complex, vec![0; 24]).expect("an array").len(), 3);
        assert!(data_type(Dtype::Record, &[]).is_none());
    }
}
