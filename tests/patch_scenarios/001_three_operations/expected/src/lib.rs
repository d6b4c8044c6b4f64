pub fn one() -> u32 {
    2
}
