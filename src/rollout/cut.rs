//! Cutting text on character boundaries. (The standard library's own came after our oldest compiler.)

/// The last character boundary at or before `at`.
pub fn char_floor(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first character boundary at or after `at`.
pub fn char_ceil(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d36_cuts_stand_between_characters() {
        let text = "a阴b";
        let floors: Vec<_> = (0..8).map(|at| char_floor(text, at)).collect();
        let ceils: Vec<_> = (0..8).map(|at| char_ceil(text, at)).collect();
        assert_eq!(floors, [0, 1, 1, 1, 4, 5, 5, 5]);
        assert_eq!(ceils, [0, 1, 4, 4, 4, 5, 5, 5]);
    }
}
