//! Where a consumer's bits lie in Java's bloom filter of SQL consumers (`BloomFilter`): kept in `consumerFilter.json`
//! so that a Java broker takes the file as its own.

/// Hash functions at Java's defaults: an error rate of 20 %.
const HASHES: i32 = 3;
/// Bits at Java's defaults: 32 consumers expected.
pub const BITS: i32 = 112;

/// The bit positions of `group#topic`.
pub fn positions(group: &str, topic: &str) -> Vec<i32> {
    let hash = murmur3_64(format!("{group}#{topic}").as_bytes());
    let (low, high) = (hash as i32, (hash >> 32) as i32);
    (1..=HASHES)
        .map(|i| {
            let sum = low.wrapping_add(high.wrapping_mul(i));
            (if sum < 0 { !sum } else { sum }) % BITS
        })
        .collect()
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn mix_1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

/// The first half of MurmurHash3 x64 128 with seed 0.
fn murmur3_64(bytes: &[u8]) -> u64 {
    let word = |part: &[u8]| {
        part.iter()
            .enumerate()
            .fold(0u64, |word, (i, &byte)| word | (u64::from(byte) << (8 * i)))
    };
    let (mut h1, mut h2) = (0u64, 0u64);
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        h1 ^= mix_1(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_2(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let tail = blocks.remainder();
    let (first, second) = tail.split_at(tail.len().min(8));
    h2 ^= mix_2(word(second));
    h1 ^= mix_1(word(first));
    let len = bytes.len() as u64;
    (h1, h2) = (h1 ^ len, h2 ^ len);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (finish(h1), finish(h2));
    h1.wrapping_add(h2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of the reference implementation.
    #[test]
    fn the_hash_is_murmur3() {
        assert_eq!(murmur3_64(b""), 0);
        assert_eq!(murmur3_64(b"hello"), 0xcbd8_a7b3_41bd_9b02);
        assert_eq!(
            murmur3_64(b"The quick brown fox jumps over the lazy dog"),
            0xe34b_bc7b_bc07_1b6c
        );
    }

    /// From the consumerFilter.json of the golden stores `basic` and `features`, which Java wrote.
    #[test]
    fn positions_are_those_that_java_saved() {
        assert_eq!(positions("g_group_sql", "g_fifo"), [109, 109, 109]);
        assert_eq!(positions("g_group_sql", "g_ext"), [10, 100, 99]);
    }

    #[test]
    fn positions_are_in_range() {
        for n in 0..1000 {
            let positions = positions("CID_abc", &n.to_string());
            assert_eq!(positions.len(), 3);
            assert!(positions.iter().all(|bit| (0..BITS).contains(bit)));
        }
    }
}
