//! Random numbers that a seed repeats (SplitMix64).

pub struct Dice(u64);

impl Dice {
    /// A sequence of its own for each use of a seed.
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = Self(seed ^ purpose.wrapping_mul(0xA076_1D64_78BD_642F));
        dice.next();
        dice
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `from..to`.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from).max(1)
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.next() as usize % of.len()]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend(self.next().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}
