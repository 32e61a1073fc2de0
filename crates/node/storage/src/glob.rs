//! Names by pattern: `L1:FAST-*`. `*` is any number of characters, `?` is one; there is no more to
//! it.

/// Whether a name fits a pattern.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star stands, and what it has swallowed: only the last one is ever tried again,
    // so that this takes at most pattern times name.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, swallowed)) => {
                    star = Some((at, swallowed + 1));
                    (p, n) = (at + 1, swallowed + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_names_with_gaps() {
        for (pattern, name) in [
            ("", ""),
            ("*", ""),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*b*c", "axxbyyc"),
            ("L1:FAST-00??", "L1:FAST-0042"),
            ("*aab", "aaab"),
            ("ü?", "üß"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("", "a"), ("a?", "a"), ("a*c", "ab"), ("abc", "abcd"), ("?", "")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
