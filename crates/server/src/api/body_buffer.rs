//! The bytes of a request body while it is read.

use bytes::{Bytes, BytesMut};
use memmap2::MmapMut;

/// From here on a body is in memory that goes back to the system when the request is done. The
/// allocator would keep it: glibc takes what was freed once as the size that is usual.
const LARGE: usize = 1 << 20;

/// A body that grows.
pub(super) struct BodyBuffer {
    /// Its length, as far as the client announced it. It may never come, so memory is taken for what
    /// is there.
    announced: usize,
    /// The first frame. Most bodies have no other, and then nothing is copied.
    first: Option<Bytes>,
    all: BodyMemory,
}

enum BodyMemory {
    Heap(BytesMut),
    /// Beyond `len` the map has room.
    Mapped {
        map: MmapMut,
        len: usize,
    },
}

impl BodyBuffer {
    pub(super) fn new(announced: usize) -> Self {
        Self { announced, first: None, all: BodyMemory::Heap(BytesMut::new()) }
    }

    pub(super) fn len(&self) -> usize {
        self.first.as_ref().map_or(self.all.bytes().len(), Bytes::len)
    }

    pub(super) fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = Some(data);
            return;
        }
        if let Some(first) = self.first.take() {
            self.all.append(&first, self.announced);
        }
        self.all.append(&data, self.announced);
    }

    pub(super) fn finish(self) -> Bytes {
        let all = self.all;
        self.first.unwrap_or_else(|| match all {
            BodyMemory::Heap(heap) => heap.freeze(),
            BodyMemory::Mapped { map, len } => Bytes::from_owner(map).slice(..len),
        })
    }
}

impl BodyMemory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(heap) => heap,
            Self::Mapped { map, len } => map.get(..*len).unwrap_or_default(),
        }
    }

    /// Adds these bytes. True if what was there had to be copied to a larger place: that happens a
    /// few times for a body, however small its pieces are.
    fn append(&mut self, data: &[u8], announced: usize) -> bool {
        let full = !self.append_within(data);
        if full {
            *self = self.grown(data, announced);
        }
        full
    }

    /// Adds these bytes if there is room for them. False: there is none, and nothing has changed.
    #[must_use]
    fn append_within(&mut self, data: &[u8]) -> bool {
        match self {
            Self::Heap(heap) => {
                let fits = data.len() <= heap.capacity() - heap.len();
                if fits {
                    heap.extend_from_slice(data);
                }
                fits
            }
            Self::Mapped { map, len } => {
                let end = *len + data.len();
                let Some(room) = map.get_mut(*len..end) else { return false };
                room.copy_from_slice(data);
                *len = end;
                true
            }
        }
    }

    /// A larger one that has these bytes, too.
    fn grown(&self, data: &[u8], announced: usize) -> Self {
        let before = self.bytes();
        let needed = before.len() + data.len();
        let twice = needed.saturating_mul(2);
        let wanted = if announced >= needed { announced.min(twice) } else { twice };
        if wanted > LARGE
            && let Ok(map) = MmapMut::map_anon(wanted)
        {
            let mut mapped = Self::Mapped { map, len: 0 };
            if mapped.append_within(before) && mapped.append_within(data) {
                return mapped;
            }
        }
        // Also where the system refuses a map. This one grows by itself, so no byte is lost.
        let mut heap = BytesMut::with_capacity(wanted);
        heap.extend_from_slice(before);
        heap.extend_from_slice(data);
        Self::Heap(heap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_in_pieces(total: usize, piece: usize) {
        let all: Vec<u8> = (0..total).map(|at| (at % 251) as u8).collect();
        let mut buffer = BodyBuffer::new(if piece.is_multiple_of(2) { total } else { 0 });
        for piece in all.chunks(piece) {
            buffer.push(Bytes::copy_from_slice(piece));
            assert!(buffer.len() <= total);
        }
        assert_eq!(buffer.len(), total);
        assert_eq!(buffer.finish(), all);
    }

    #[test]
    fn bodies_of_all_sizes_are_read_whole() {
        for total in [0, 1, 100, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 7] {
            for piece in [8191, 65536, 1_500_000, 1 << 23] {
                read_in_pieces(total, piece);
            }
        }
    }

    #[test]
    fn large_bodies_are_memory_mapped() {
        for announced in [0, 2 * LARGE] {
            let mut buffer = BodyBuffer::new(announced);
            for _ in 0..32 {
                buffer.push(Bytes::from(vec![7; LARGE / 16]));
            }
            assert!(matches!(buffer.all, BodyMemory::Mapped { .. }), "announced: {announced}");
        }
    }

    /// Else a client that sends a large piece and then single bytes would keep a core busy.
    #[test]
    fn small_chunks_do_not_copy_earlier_data() {
        for announced in [0, 3 * LARGE] {
            let mut all = BodyMemory::Heap(BytesMut::new());
            let mut copies = 0;
            for _ in 0..3 * LARGE {
                copies += usize::from(all.append(&[7], announced));
            }
            assert!(copies <= 24, "{copies} copies, announced: {announced}");
        }
    }

    /// A map cannot grow. What does not fit is refused before a byte of it is written; the caller
    /// must check that.
    #[test]
    fn no_byte_is_lost_when_a_map_is_full() {
        let map = MmapMut::map_anon(4).unwrap();
        let mut all = BodyMemory::Mapped { map, len: 0 };
        assert!(all.append_within(&[1, 2, 3]));
        assert!(!all.append_within(&[4, 5]));
        assert_eq!(all.bytes(), [1, 2, 3]);
        assert!(!all.append(&[4], 0), "it still fits");
        assert!(all.append(&[5, 6], 0));
        assert_eq!(all.bytes(), [1, 2, 3, 4, 5, 6]);
        // Larger than what was announced, in one piece.
        assert!(all.append(&vec![7; 3 * LARGE], 8));
        assert_eq!(all.bytes().len(), 6 + 3 * LARGE);
        assert!(matches!(all, BodyMemory::Mapped { .. }));
    }

    #[test]
    fn single_frame_body_is_not_copied() {
        let frame = Bytes::from(vec![7; 2 * LARGE]);
        let at = frame.as_ptr();
        let mut buffer = BodyBuffer::new(frame.len());
        buffer.push(frame);
        assert_eq!(buffer.finish().as_ptr(), at);
    }

    #[test]
    fn announced_length_reserves_no_memory() {
        let mut buffer = BodyBuffer::new(1 << 40);
        buffer.push(Bytes::from_static(&[1; 1000]));
        buffer.push(Bytes::from_static(&[2; 1000]));
        let BodyMemory::Heap(heap) = &buffer.all else { panic!("it is small") };
        assert!(heap.capacity() <= 8000, "{}", heap.capacity());
    }
}
