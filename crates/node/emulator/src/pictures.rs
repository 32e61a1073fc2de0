//! What emulated trains show: noise, rings, Bragg spots, or images of a file or of a recorded run.
//!
//! A train's images are cut out of a block that repeats, so that they cost one copy each. Of noise
//! every pixel may begin a train; of pictures every image; given trains follow each other.

use std::sync::Arc;

use crate::content::mix;
use crate::trains::Images;

/// What the images of trains show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pictures {
    /// Noise of 14 bits.
    #[default]
    Noise,
    /// Rings of powder around the middle, on weak noise.
    Rings,
    /// Peaks of a crystal, on weak noise.
    Spots,
    /// These images, of which any begins a train: 16 bits, little-endian.
    Given(Arc<[u8]>),
    /// The images of these trains, one train after another: 16 bits, little-endian.
    Trains(Arc<[u8]>),
}

/// Images of a .npy file or of a recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenImages {
    /// Images of a train, if trains are given and not images alone.
    pub pulses: Option<u32>,
    /// Rows of an image.
    pub rows: u32,
    /// Its columns.
    pub columns: u32,
    /// Their pixels.
    pub pictures: Pictures,
}

impl GivenImages {
    /// Reads the bytes of a .npy file (version 1.0) of 16-bit unsigned numbers, of shape (image, y,
    /// x) or (train, pulse, y, x).
    ///
    /// # Errors
    /// What was expected, in words.
    pub fn parse(file: &[u8]) -> Result<Self, String> {
        let wrong = || {
            let expected = "a .npy file of '<u2' in C order, of shape (images, rows, columns) or \
                            (trains, pulses, rows, columns)";
            format!("expected {expected}")
        };
        let rest = file.strip_prefix(b"\x93NUMPY\x01\x00").ok_or_else(wrong)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(wrong)?;
        let length = usize::from(u16::from_le_bytes(*length));
        let (head, pixels) = rest.split_at_checked(length).ok_or_else(wrong)?;
        let head = std::str::from_utf8(head).map_err(|_| wrong())?;
        let is_plain = head.contains("'<u2'") && head.contains("'fortran_order': False");
        let shape = head.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')'));
        let sizes = shape.map_or("", |(shape, _)| shape).split(',').map(|size| size.trim().parse());
        let sizes: Vec<u32> = sizes.collect::<Result<_, _>>().map_err(|_| wrong())?;
        let bytes = sizes.iter().try_fold(2_u64, |all, &one| all.checked_mul(one.into()));
        if !is_plain || bytes != Some(pixels.len() as u64) || pixels.is_empty() {
            return Err(wrong());
        }
        match sizes[..] {
            [_, rows, columns] => {
                let pictures = Pictures::Given(pixels.into());
                Ok(Self { pulses: None, rows, columns, pictures })
            }
            [_, pulses, rows, columns] => {
                let pictures = Pictures::Trains(pixels.into());
                Ok(Self { pulses: Some(pulses), rows, columns, pictures })
            }
            _ => Err(wrong()),
        }
    }
}

/// The block that images are cut out of.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    period: u64,
    /// A train's images begin at a multiple of so many bytes.
    step: u64,
    /// They begin where those of the train before end, and not at random.
    in_order: bool,
}

impl Block {
    pub(crate) fn new(pictures: &Pictures, seed: u64, images: Images) -> Self {
        let image = 2 * u64::from(images.y) * u64::from(images.x);
        let picture = |peaks: fn(&Images, u64) -> Vec<Peak>| -> Vec<u8> {
            let numbers = 0..PICTURES;
            numbers
                .flat_map(|number| draw(&images, seed ^ number, &peaks(&images, seed ^ number)))
                .collect()
        };
        let (mut bytes, step) = match pictures {
            Pictures::Noise => {
                let word = |index: u64| mix(seed.wrapping_add(index)) & PIXELS_MASK;
                ((0..NOISE_BYTES / 8).flat_map(|index| word(index).to_le_bytes()).collect(), 2)
            }
            Pictures::Rings => (picture(rings), image),
            Pictures::Spots => (picture(spots), image),
            Pictures::Given(bytes) => (bytes.to_vec(), image),
            Pictures::Trains(bytes) => (bytes.to_vec(), images.bytes()),
        };
        // What follows the period is its beginning again: no packet goes around its end.
        let period = bytes.len();
        (0..BEYOND_BYTES).for_each(|at| bytes.push(bytes[at % period]));
        let in_order = matches!(pictures, Pictures::Trains(_));
        Self { bytes, period: period as u64, step, in_order }
    }

    /// Where the images of a train begin.
    pub(crate) fn shift(&self, train: u64, random: u64) -> u64 {
        let number = if self.in_order { train } else { random };
        number % (self.period / self.step).max(1) * self.step
    }

    /// What stands there, at least as much as a packet holds.
    pub(crate) fn from(&self, at: u64) -> &[u8] {
        &self.bytes[(at % self.period) as usize..]
    }
}

/// A ring around a point, or with radius 0 a peak there.
struct Peak {
    at: (f64, f64),
    radius: f64,
    width: f64,
    height: f64,
}

/// Peaks and weak noise, one row after another.
fn draw(images: &Images, seed: u64, peaks: &[Peak]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(images.y as usize * images.x as usize * 2);
    for y in 0..images.y {
        for x in 0..images.x {
            let index = u64::from(y) << 32 | u64::from(x);
            let mut value = (mix(seed ^ index) % NOISE_WEAK) as f64;
            for peak in peaks {
                let distance = (f64::from(y) - peak.at.0).hypot(f64::from(x) - peak.at.1);
                let off = (distance - peak.radius) / peak.width;
                if off.abs() < 4.0 {
                    value += peak.height * (-off * off / 2.0).exp();
                }
            }
            bytes.extend((value as u16).min(PIXEL_MOST).to_le_bytes());
        }
    }
    bytes
}

fn rings(images: &Images, seed: u64) -> Vec<Peak> {
    let (y, x) = (f64::from(images.y), f64::from(images.x));
    let ring = |number: u64| Peak {
        at: (y / 2.0, x / 2.0),
        radius: y.min(x) / 2.0 * share(seed, number),
        width: 1.5,
        height: 500.0 + 1_500.0 * share(seed, number + RINGS),
    };
    (0..RINGS).map(ring).collect()
}

fn spots(images: &Images, seed: u64) -> Vec<Peak> {
    let spot = |number: u64| Peak {
        at: (
            f64::from(images.y) * share(seed, 3 * number),
            f64::from(images.x) * share(seed, 3 * number + 1),
        ),
        radius: 0.0,
        width: 1.2,
        height: 1_000.0 + 12_000.0 * share(seed, 3 * number + 2),
    };
    (0..SPOTS).map(spot).collect()
}

/// A random number of 0 to 1.
fn share(seed: u64, number: u64) -> f64 {
    mix(seed.rotate_left(17).wrapping_add(number)) as f64 / 2_f64.powi(64)
}

/// The noise that images are cut from, which repeats.
const NOISE_BYTES: u64 = 4 << 20;
const BEYOND_BYTES: usize = 64 << 10;
/// Pixels have 14 bits.
const PIXELS_MASK: u64 = 0x3fff_3fff_3fff_3fff;
const PIXEL_MOST: u16 = 0x3fff;
const NOISE_WEAK: u64 = 64;
/// Different pictures.
const PICTURES: u64 = 4;
const RINGS: u64 = 8;
const SPOTS: u64 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGES: Images = Images { pulses: 2, y: 60, x: 80 };

    fn pixels(pictures: &Pictures) -> Vec<u16> {
        let block = Block::new(pictures, 3, IMAGES);
        let of =
            block.from(block.shift(0, 7)).as_chunks().0.iter().map(|one| u16::from_le_bytes(*one));
        of.take(60 * 80).collect()
    }

    #[test]
    fn rings_and_spots_stand_out_of_weak_noise() {
        let bright = |pixels: &[u16]| pixels.iter().filter(|&&one| one > 300).count();
        let [rings, spots] = [pixels(&Pictures::Rings), pixels(&Pictures::Spots)];
        assert!((100..3_000).contains(&bright(&rings)) && (60..2_000).contains(&bright(&spots)));
        assert!(rings.iter().chain(&spots).all(|&one| one <= PIXEL_MOST));
        // A ring is as far from the middle on every side.
        let at = |y: usize, x: usize| rings[y * 80 + x] > 300;
        let same = (0..30).filter(|&off| at(30 + off, 40) == at(30, 40 + off)).count();
        assert!(same >= 24, "{same}");
    }

    #[test]
    fn images_of_a_file_are_sent_as_they_are_and_others_refused() {
        let file = |shape: &str, dtype: &str, bytes: usize| {
            let text =
                format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n");
            let head = [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..]].concat();
            [head, text.into_bytes(), (0..bytes).map(|at| at as u8).collect()].concat()
        };
        let given = GivenImages::parse(&file("(3, 60, 80)", "<u2", 3 * 9_600)).unwrap();
        assert_eq!((given.pulses, given.rows, given.columns), (None, 60, 80));
        let block = Block::new(&given.pictures, 3, IMAGES);
        for random in 0..7 {
            let shift = block.shift(0, random);
            assert_eq!((shift % 9_600, block.from(shift)[0]), (0, shift as u8));
        }
        // Of trains each begins with its own first image, whatever is drawn.
        let given = GivenImages::parse(&file("(3, 2, 60, 80)", "<u2", 6 * 9_600)).unwrap();
        assert_eq!((given.pulses, given.rows, given.columns), (Some(2), 60, 80));
        let block = Block::new(&given.pictures, 3, IMAGES);
        let begins: Vec<u64> = (4..8).map(|train| block.shift(train, train * 7) / 9_600).collect();
        assert_eq!(begins, [2, 4, 0, 2]);
        for (shape, dtype, bytes) in [
            ("(3, 60, 80)", "<f4", 28_800),
            ("(3, 60, 80)", "<u2", 28_799),
            ("(60, 80)", "<u2", 9_600),
            ("(1, 1, 1, 60, 80)", "<u2", 9_600),
            ("(1, 2, 60, 80)", "<u2", 9_600),
            ("(0, 60, 80)", "<u2", 0),
            ("(4294967295, 4294967295, 4294967295)", "<u2", 2),
        ] {
            let refused = GivenImages::parse(&file(shape, dtype, bytes)).unwrap_err();
            assert!(refused.starts_with("expected a .npy file"), "{refused}");
        }
        assert!(GivenImages::parse(b"\x93NUMPY\x01\x00\xff\xff{").is_err());
    }
}
