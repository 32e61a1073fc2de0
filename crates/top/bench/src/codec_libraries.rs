//! The second part of `bench codecs`: bitshuffle+lz4 beside the libraries that HDF5 and Zarr use.

use catchment_codec::{Coding, Element};
use serde::{Deserialize, Serialize};

use crate::Bench;
use crate::codecs::{COLUMN_BYTES, Kind, coded};
use crate::ligo_data::Scratch;
use crate::python::Python;
use crate::report::{Section, table};
use crate::search::median;

/// How often Catchment and the libraries take turns: a CPU's clock may change in between.
const TURNS: usize = 5;
const TURNS_QUICK: usize = 1;

/// The comparison, or why there is none.
pub(super) struct Comparison {
    pub(super) figures: Vec<Figure>,
    missing: Option<String>,
}

/// One program on one kind of data: medians of all turns.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    data: &'static str,
    library: String,
    ratio: f64,
    encode_bytes_per_second: f64,
    decode_bytes_per_second: f64,
}

/// What the script answers for one library.
#[derive(Debug, Deserialize)]
struct Answer {
    library: String,
    ratio: f64,
    encode_s: f64,
    decode_s: f64,
}

/// Measures the kinds of data that bit shuffling is made for, where Python and a library are.
pub(super) fn compare(bench: &mut Bench<'_>, kinds: &[Kind]) -> anyhow::Result<Comparison> {
    let python = match Python::locate() {
        Ok(python) => python,
        Err(why) => return Ok(Comparison { figures: Vec::new(), missing: Some(why) }),
    };
    let scratch = Scratch::new(&bench.scratch, "codecs")?;
    let mut figures = Vec::new();
    for kind in kinds {
        let dtype = match kind.element {
            Element::U16 => "<u2",
            Element::F32 => "<f4",
            _ => continue,
        };
        bench.now(format!("{}: other libraries", kind.name))?;
        let path = scratch.folder.join("raw");
        std::fs::write(&path, &kind.raw)?;
        let job = serde_json::json!({
            "path": path,
            "dtype": dtype,
            "column_bytes": COLUMN_BYTES,
            "repeats": bench.repeats(),
        });
        let mut turns: Vec<Vec<Answer>> = Vec::new();
        for _ in 0..if bench.quick { TURNS_QUICK } else { TURNS } {
            let ours = coded(bench, kind, Coding::BitshuffleLz4)?;
            let bytes = kind.raw.len() as f64;
            let mut answers = vec![Answer {
                library: "Catchment".into(),
                ratio: ours.ratio,
                encode_s: bytes / ours.encode_bytes_per_second,
                decode_s: bytes / ours.decode_bytes_per_second,
            }];
            let others = match python.ask("codecs/encode_others.py", &job) {
                Ok(answer) => serde_json::from_value::<Vec<Answer>>(answer)?,
                Err(error) => {
                    let missing = Some(format!("not measured: {error:#}"));
                    return Ok(Comparison { figures: Vec::new(), missing });
                }
            };
            answers.extend(others);
            turns.push(answers);
        }
        figures.extend(medians(kind, &turns));
    }
    let alone = figures.iter().all(|figure: &Figure| figure.library == "Catchment");
    let missing = alone.then(|| "not measured: Python has neither blosc2 nor bitshuffle".into());
    Ok(Comparison { figures, missing })
}

fn medians(kind: &Kind, turns: &[Vec<Answer>]) -> Vec<Figure> {
    let first = turns.first().map_or(&[][..], Vec::as_slice);
    let bytes = kind.raw.len() as f64;
    let figure = |(index, answer): (usize, &Answer)| {
        let of = |seconds: fn(&Answer) -> f64| {
            bytes / median(turns.iter().map(|answers| seconds(&answers[index])))
        };
        Figure {
            data: kind.name,
            library: answer.library.clone(),
            ratio: answer.ratio,
            encode_bytes_per_second: of(|answer| answer.encode_s),
            decode_bytes_per_second: of(|answer| answer.decode_s),
        }
    };
    first.iter().enumerate().map(figure).collect()
}

pub(super) fn section(bench: &Bench<'_>, compared: &Comparison) -> Section {
    let table = table(
        &compared.figures,
        &[
            ("data", &|figure| figure.data.to_owned()),
            ("bitshuffle+lz4 by", &|figure| figure.library.clone()),
            ("ratio", &|figure| format!("{:.2}", figure.ratio)),
            ("encode GB/s", &|figure| format!("{:.2}", figure.encode_bytes_per_second / 1e9)),
            ("decode GB/s", &|figure| format!("{:.2}", figure.decode_bytes_per_second / 1e9)),
        ],
    );
    let turns = if bench.quick { TURNS_QUICK } else { TURNS };
    let section = Section::new("bitshuffle+lz4 beside other libraries", table).note(format!(
        "The same columns, encoded on one thread by Catchment and, through Python, by blosc2 (LZ4, \
         level 5) and bitshuffle, in turn; medians of {turns} turns of {} rounds each.",
        bench.repeats()
    ));
    compared.missing.iter().fold(section, Section::note)
}
