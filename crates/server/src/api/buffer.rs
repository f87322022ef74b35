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
    all: Memory,
}

enum Memory {
    Heap(BytesMut),
    /// Beyond `len` the map has room.
    Mapped {
        map: MmapMut,
        len: usize,
    },
}

impl BodyBuffer {
    pub(super) fn new(announced: usize) -> Self {
        Self { announced, first: None, all: Memory::Heap(BytesMut::new()) }
    }

    pub(super) fn len(&self) -> usize {
        self.first.as_ref().map_or(self.all.bytes().len(), Bytes::len)
    }

    pub(super) fn push(&mut self, data: Bytes) {
        let needed = self.len() + data.len();
        if needed == data.len() {
            self.first = Some(data);
            return;
        }
        let _copied = self.all.reserve(needed, self.announced);
        if let Some(first) = self.first.take() {
            self.all.append(&first);
        }
        self.all.append(&data);
    }

    pub(super) fn finish(self) -> Bytes {
        let all = self.all;
        self.first.unwrap_or_else(|| match all {
            Memory::Heap(heap) => heap.freeze(),
            Memory::Mapped { map, len } => Bytes::from_owner(map).slice(..len),
        })
    }
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(heap) => heap,
            Self::Mapped { map, len } => map.get(..*len).unwrap_or_default(),
        }
    }

    /// Makes room for so many bytes in all. True if what was there had to be copied: that happens a
    /// few times for a body, however small its pieces are.
    fn reserve(&mut self, needed: usize, announced: usize) -> bool {
        let room = match self {
            Self::Heap(heap) => heap.capacity(),
            Self::Mapped { map, .. } => map.len(),
        };
        if needed <= room {
            return false;
        }
        let twice = needed.saturating_mul(2);
        let wanted = if announced >= needed { announced.min(twice) } else { twice };
        let map = if wanted > LARGE { MmapMut::map_anon(wanted).ok() } else { None };
        let mut grown = match map {
            Some(map) => Self::Mapped { map, len: 0 },
            // Also where the system refuses a map.
            None => Self::Heap(BytesMut::with_capacity(wanted)),
        };
        grown.append(self.bytes());
        *self = grown;
        true
    }

    fn append(&mut self, data: &[u8]) {
        match self {
            Self::Heap(heap) => heap.extend_from_slice(data),
            Self::Mapped { map, len } => {
                let end = *len + data.len();
                if let Some(room) = map.get_mut(*len..end) {
                    room.copy_from_slice(data);
                    *len = end;
                }
            }
        }
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
    fn large_bodies_are_in_memory_of_their_own() {
        for announced in [0, 2 * LARGE] {
            let mut buffer = BodyBuffer::new(announced);
            for _ in 0..32 {
                buffer.push(Bytes::from(vec![7; LARGE / 16]));
            }
            assert!(matches!(buffer.all, Memory::Mapped { .. }), "announced: {announced}");
        }
    }

    /// Else a client that sends a large piece and then single bytes would keep a core busy.
    #[test]
    fn small_chunks_do_not_copy_earlier_data() {
        for announced in [0, 3 * LARGE] {
            let mut all = Memory::Heap(BytesMut::new());
            let mut copies = 0;
            for needed in 1..=3 * LARGE {
                copies += usize::from(all.reserve(needed, announced));
                all.append(&[7]);
            }
            assert!(copies <= 24, "{copies} copies, announced: {announced}");
        }
    }

    #[test]
    fn a_body_of_one_frame_is_not_copied() {
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
        let Memory::Heap(heap) = &buffer.all else { panic!("it is small") };
        assert!(heap.capacity() <= 8000, "{}", heap.capacity());
    }
}
