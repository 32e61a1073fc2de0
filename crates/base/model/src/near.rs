//! Suggestions for a misspelt name.

/// The names that a misspelt one may stand for, nearest first.
pub fn near_matches<'n>(got: &str, known: &[&'n str]) -> Vec<&'n str> {
    let within = (got.chars().count() / 3).max(2);
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|&name| {
            let part = got.len() >= 3 && (name.contains(got) || got.contains(name));
            (if part { 1 } else { edit_distance(got, name) }, name)
        })
        .filter(|&(distance, name)| distance <= within && distance < name.len())
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, &right) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_found_and_far_ones_are_not() {
        assert_eq!(near_matches("treads", &["threads", "spin", "cpus"]), ["threads"]);
        assert_eq!(near_matches("socket", &["socket_buffer", "spin"]), ["socket_buffer"]);
        assert!(near_matches("colour", &["threads", "spin"]).is_empty());
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
