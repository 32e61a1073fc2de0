//! Runs arbitrary bytes through everything that reads files.

use crate::gwf::reader::{GwfFile, OpenOptions};

/// Opens arbitrary bytes as a file, by FrTOC and by walking, and reads everything that they claim
/// to contain. Errors are allowed; panics, endless loops, and more memory than the bytes can expand
/// to are not.
pub fn fuzz_file(data: &[u8]) {
    for ignore_toc in [false, true] {
        let Ok(file) = GwfFile::open_with(data, OpenOptions { ignore_toc }) else { continue };
        let mut samples = Vec::new();
        let _ = file.verify();
        for frame in 0..file.frames().len().min(FRAMES_MAX) {
            for channel in 0..file.channels().len().min(CHANNELS_MAX) {
                let info = file.info(channel, frame);
                let Ok(Some(read)) = file.read(channel, frame, &mut samples) else { continue };
                assert_eq!(samples.len() as u64, read.samples * read.kind.bytes() as u64);
                if let Ok(auxiliary) = file.auxiliary(channel, frame) {
                    assert!(auxiliary.samples_invalid <= read.samples);
                    let any = auxiliary.samples_invalid > 0 || auxiliary.others > 0;
                    assert!(read.auxiliary || !any);
                }
                assert!(file.find(&file.channels()[channel].name).is_some());
                // The information read without the samples equals that read with them. NaN is not
                // equal to itself.
                let info = info.expect("what can be read has its facts").expect("and is there");
                assert_eq!(format!("{info:?}"), format!("{read:?}"));
            }
        }
    }
}

const FRAMES_MAX: usize = 16;
const CHANNELS_MAX: usize = 64;
