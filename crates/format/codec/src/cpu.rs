//! The processor's instruction sets, detected at run time.

/// Instruction sets beyond those of every processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for x86-64 alone"))]
pub(crate) enum Cpu {
    /// Only the common ones: SSE2 on x86-64.
    Any,
    /// AVX2 and BMI2.
    Avx2,
    /// AVX-512: F, BW, VL and DQ.
    Avx512,
    /// These, and GFNI, which transposes squares of bits.
    Gfni,
}

impl Cpu {
    /// The best one of this processor.
    pub(crate) fn here() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let bmi2 = is_x86_feature_detected!("bmi2");
            if bmi2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq")
            {
                return if is_x86_feature_detected!("gfni") { Self::Gfni } else { Self::Avx512 };
            }
            if bmi2 && is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Any
    }

    /// All that this processor supports.
    #[cfg(test)]
    pub(crate) fn all_here() -> Vec<Self> {
        match Self::here() {
            Self::Any => vec![Self::Any],
            Self::Avx2 => vec![Self::Any, Self::Avx2],
            Self::Avx512 => vec![Self::Any, Self::Avx2, Self::Avx512],
            Self::Gfni => vec![Self::Any, Self::Avx2, Self::Avx512, Self::Gfni],
        }
    }
}
