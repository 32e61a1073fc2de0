//! Encoded columns decode, for every coding, element type and length.

use crate::common::{CODINGS, ELEMENTS, wave};
use catchment_codec::{
    Codec, Coding, ColumnEncoder, Element, Progress, check_sizes, decode_ahead, decode_column,
    decode_part, decode_rest, made_by, raw_bytes_of,
};
use catchment_fixtures::Random;
use proptest::prelude::*;

fn holds(encoder: &mut ColumnEncoder, coding: Coding, element: Element, raw: &[u8]) -> Codec {
    let encoded = encoder.encode(coding, element, raw);
    let (codec, stored) = (encoded.codec, encoded.stored);
    if codec == Codec::None {
        assert!(std::ptr::eq(stored, raw), "left where it is");
    } else {
        assert!(stored.len() <= raw.len() - raw.len() / 20, "{coding} of {element} saves 5 %");
    }
    check_sizes(codec, stored.len() as u64, raw.len() as u64).expect("sizes that can be");
    let mut out = vec![1; 10];
    decode_column(codec, stored, raw.len() as u64, &mut out)
        .unwrap_or_else(|error| panic!("{coding} of {} {element}: {error}", raw.len()));
    assert!(out == raw, "{coding} of {} bytes of {element}", raw.len());
    if codec != Codec::Pcodec {
        assert_eq!(raw_bytes_of(codec, stored), Ok(raw.len() as u64));
    }
    codec
}

#[test]
fn what_is_encoded_is_decoded_whatever_the_length() {
    let mut encoder = ColumnEncoder::new();
    for element in ELEMENTS {
        for count in [0, 1, 2, 7, 8, 63, 64, 100, 1_023, 1_024, 1_025, 5_000, 100_000] {
            for seed in 0..2 {
                let raw = wave(element, count, seed);
                for coding in CODINGS {
                    let codec = holds(&mut encoder, coding, element, &raw);
                    // Data this smooth must be worth encoding.
                    if count == 100_000 && coding != Coding::Lz4 {
                        assert_eq!(
                            codec,
                            coding.for_element(element).codec(),
                            "{coding} {element}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn columns_that_are_decoded_while_they_come_are_the_same() {
    let mut encoder = ColumnEncoder::new();
    for coding in CODINGS {
        let raw = wave(Element::F32, 100_000, 3);
        let encoded = encoder.encode_always(coding, Element::F32, &raw).map(<[u8]>::to_vec);
        let Some(encoded) = encoded else { continue };
        let codec = coding.for_element(Element::F32).codec();
        for piece in [1, 1_000, 65_536] {
            let (mut stored, mut out) = (vec![0xff; encoded.len()], vec![1; raw.len()]);
            let (mut progress, mut there) = (Progress::default(), 0);
            for bytes in encoded.chunks(piece) {
                stored[there..there + bytes.len()].copy_from_slice(bytes);
                there += bytes.len();
                decode_ahead(codec, &stored, there, &mut out, &mut progress);
                // If blocks are known, the first is decoded before the last has arrived.
                let late = encoded.len() * 3 / 4..encoded.len();
                let early = codec == Codec::Blosc && late.contains(&there);
                assert!(!early || out[..10_000] == raw[..10_000], "{coding} {there}");
            }
            decode_rest(codec, &stored, &mut out, progress).expect("decodes");
            assert!(out == raw, "{coding} by {piece}");
        }
    }
}

#[test]
fn a_part_of_a_column_is_decoded_alone() {
    let mut encoder = ColumnEncoder::new();
    for coding in CODINGS {
        let raw = wave(Element::F32, 100_000, 3);
        let encoded = encoder.encode_always(coding, Element::F32, &raw).map(<[u8]>::to_vec);
        let Some(mut encoded) = encoded else { continue };
        let codec = coding.for_element(Element::F32).codec();
        let mut out = vec![1; raw.len()];
        for (from, to) in [(0, 0), (0, 1), (65_000, 66_000), (1, 400_000), (399_999, 400_000)] {
            out.fill(1);
            decode_part(codec, &encoded, from..to, &mut out).expect("decodes");
            assert!(out[from..to] == raw[from..to], "{coding} {from}..{to}");
            // If there are blocks, the other end is not touched.
            let far = if from < 200_000 { 399_999 } else { 0 };
            assert!(codec != Codec::Blosc || (from, to) == (1, 400_000) || out[far] == 1, "{from}");
        }
        if codec == Codec::Blosc {
            // An invalid position of the first block.
            encoded[16..20].fill(0xff);
            decode_part(codec, &encoded, 399_000..400_000, &mut out).expect("decodes");
            decode_part(codec, &encoded, 10..20, &mut out).expect_err("no such range");
        }
    }
}

#[test]
fn bytes_behind_the_last_whole_element_are_kept() {
    let mut encoder = ColumnEncoder::new();
    for element in ELEMENTS {
        for extra in 1..element.size() {
            let mut raw = wave(element, 3_000, 5);
            raw.extend(Random::new(1).noise(extra));
            for coding in CODINGS {
                holds(&mut encoder, coding, element, &raw);
            }
        }
    }
}

#[test]
fn pcodec_cannot_store_a_rest_and_leaves_such_columns_raw() {
    let mut encoder = ColumnEncoder::new();
    let mut raw = wave(Element::I32, 3_000, 5);
    raw.extend(Random::new(1).noise(3));
    let pcodec = Coding::Pcodec { level: 4 };
    assert!(encoder.encode_always(pcodec, Element::I32, &raw).is_none());
    assert_eq!(holds(&mut encoder, pcodec, Element::I32, &raw), Codec::None);
    assert_eq!(holds(&mut encoder, Coding::For, Element::I32, &raw), Codec::For);

    let whole = raw.len() - 3;
    let stored = encoder.encode_always(pcodec, Element::I32, &raw[..whole]).expect("whole");
    let mut out = Vec::new();
    decode_column(Codec::Pcodec, stored, raw.len() as u64, &mut out).expect_err("a rest");
}

#[test]
fn columns_that_do_not_shrink_are_left_raw() {
    let mut encoder = ColumnEncoder::new();
    for bytes in [10, 5_000, 2_000_000] {
        let raw = Random::new(1).noise(bytes);
        for element in ELEMENTS {
            for coding in CODINGS {
                let slow = matches!(coding, Coding::Pcodec { .. }) && bytes > 5_000;
                if !slow {
                    assert_eq!(holds(&mut encoder, coding, element, &raw), Codec::None);
                }
            }
        }
    }
}

#[test]
fn slow_codings_can_be_given_up_and_leave_nothing_behind() {
    let mut encoder = ColumnEncoder::new();
    let raw = wave(Element::I16, 1_000_000, 1);
    for coding in [Coding::Zstd { level: 12 }, Coding::BitshuffleZstd { level: 12 }] {
        let asked = std::cell::Cell::new(0);
        let until = |times: u32| {
            let asked = &asked;
            asked.set(0);
            move || {
                asked.set(asked.get() + 1);
                asked.get() < times
            }
        };
        assert!(encoder.encode_while(&until(4), coding, Element::I16, &raw).is_none());
        assert_eq!(asked.get(), 4, "it is given up at once");
        // The next one is whole, and so is one that is not abandoned.
        holds(&mut encoder, coding, Element::I16, &raw[..raw.len() / 2]);
        let encoded = encoder.encode_while(&until(1_000), coding, Element::I16, &raw);
        let stored = encoded.expect("it is never given up").stored.to_vec();
        assert!(asked.get() > 4);
        let mut out = Vec::new();
        decode_column(coding.codec(), &stored, raw.len() as u64, &mut out).expect("decodes");
        assert!(out == raw);
    }
}

#[test]
fn a_frame_that_did_not_fit_does_not_spoil_the_next_one() {
    let mut encoder = ColumnEncoder::new();
    let noise = Random::new(1).noise(400_000);
    let raw = wave(Element::I16, 200_000, 1);
    // Blocks of noise grow when they are compressed, and are stored raw.
    holds(&mut encoder, Coding::ShuffleZstd { level: 9 }, Element::I16, &noise);
    let coding = Coding::Zstd { level: 9 };
    assert_eq!(holds(&mut encoder, coding, Element::I16, &raw), coding.codec());
}

#[test]
fn memory_is_kept_and_not_asked_for_again() {
    let mut encoder = ColumnEncoder::new();
    let raw = wave(Element::I16, 1_000_000, 1);
    for coding in CODINGS {
        encoder.encode(coding, Element::I16, &raw);
    }
    let before = encoder.memory_bytes();
    for coding in CODINGS {
        encoder.encode(coding, Element::I16, &raw);
    }
    assert_eq!(encoder.memory_bytes(), before);
}

#[test]
fn equal_elements_of_any_count_pass_the_check_of_sizes() {
    let mut encoder = ColumnEncoder::new();
    for element in ELEMENTS {
        let raw = vec![7; 3_000_000 / element.size() * element.size()];
        for coding in CODINGS {
            let codec = holds(&mut encoder, coding, element, &raw);
            assert_eq!(codec, coding.for_element(element).codec());
        }
    }
}

#[test]
fn codings_are_written_as_they_are_read() {
    for coding in CODINGS {
        assert_eq!(coding.to_string().parse(), Ok(coding));
    }
    for element in ELEMENTS {
        assert_eq!(element.to_string().parse(), Ok(element));
        for coding in CODINGS {
            let mut step = coding;
            for _ in 0..8 {
                step = step.cheaper(element);
                assert_eq!(step, step.for_element(element));
                assert_ne!(step, Coding::For, "{coding} of {element} stays portable");
            }
            assert_eq!(step, Coding::None, "{coding} of {element} ends at none");
        }
    }
    for wrong in ["", "lz5", "lz4:1", "zstd:0", "zstd:20", "zstd:", "pcodec:13", "for:1"] {
        assert!(wrong.parse::<Coding>().is_err(), "{wrong}");
    }
    assert_eq!("zstd".parse(), Ok(Coding::Zstd { level: 1 }));
    assert_eq!("pcodec".parse(), Ok(Coding::Pcodec { level: 8 }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_mixture_comes_back(
        seed in any::<u64>(),
        which in 0..ELEMENTS.len(),
        count in 0usize..6_000,
        spikes in 0usize..200,
        extra in 0usize..8,
    ) {
        let element = ELEMENTS[which];
        let mut random = Random::new(seed);
        let mut raw = wave(element, count, seed % 7);
        for _ in 0..if raw.is_empty() { 0 } else { spikes } {
            let at = random.index(raw.len());
            raw[at] = random.next_u64() as u8;
        }
        raw.extend(Random::new(1).noise(extra));
        let mut encoder = ColumnEncoder::new();
        for coding in CODINGS {
            holds(&mut encoder, coding, element, &raw);
        }
    }
}

#[test]
fn stored_bytes_say_what_made_them() {
    let mut encoder = ColumnEncoder::new();
    for element in [Element::I16, Element::F64, Element::U8] {
        let raw = wave(element, 20_000, 2);
        for coding in CODINGS.into_iter().map(|coding| coding.for_element(element)) {
            let Some(stored) = encoder.encode_always(coding, element, &raw) else { continue };
            let made = made_by(coding.codec(), &stored[..4]);
            let name = coding.to_string();
            assert_eq!(Some(&*made), name.split(':').next(), "{coding} of {element}");
        }
    }
    assert_eq!(made_by(Codec::Blosc, &[]), "blosc");
}

#[test]
fn the_portable_coding_of_every_element_is_decoded_by_others() {
    let mut encoder = ColumnEncoder::new();
    for element in ELEMENTS {
        let coding = Coding::portable(element);
        let expected = match element {
            _ if element.is_integer() => "bitshuffle+lz4",
            _ if element.size() > 1 => "shuffle+zstd:1",
            _ => "zstd:1",
        };
        assert_eq!(coding.to_string(), expected, "{element}");
        assert_eq!(coding, coding.for_element(element));
        holds(&mut encoder, coding, element, &wave(element, 5_000, 3));
    }
}
