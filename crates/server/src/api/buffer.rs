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
        self.all.reserve(needed, self.announced);
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

    /// Makes room for so many bytes in all, and for as many again if they are announced.
    fn reserve(&mut self, needed: usize, announced: usize) {
        let is_enough = match self {
            Self::Heap(heap) => needed <= heap.capacity() && needed <= LARGE,
            Self::Mapped { map, .. } => needed <= map.len(),
        };
        if is_enough {
            return;
        }
        let wanted = announced.min(needed.saturating_mul(2)).max(needed);
        let map = if needed > LARGE { MmapMut::map_anon(wanted).ok() } else { None };
        let mut grown = match map {
            Some(map) => Self::Mapped { map, len: 0 },
            // Also where the system refuses a map.
            None => Self::Heap(BytesMut::with_capacity(wanted)),
        };
        grown.append(self.bytes());
        *self = grown;
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
        let is_mapped = matches!(buffer.all, Memory::Mapped { .. });
        assert_eq!(is_mapped, total > LARGE && total > piece, "{total} bytes by {piece}");
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
    fn a_body_of_one_frame_is_not_copied() {
        let frame = Bytes::from(vec![7; 2 * LARGE]);
        let at = frame.as_ptr();
        let mut buffer = BodyBuffer::new(frame.len());
        buffer.push(frame);
        assert_eq!(buffer.finish().as_ptr(), at);
    }

    #[test]
    fn what_is_announced_and_does_not_come_takes_no_memory() {
        let mut buffer = BodyBuffer::new(1 << 40);
        buffer.push(Bytes::from_static(&[1; 1000]));
        buffer.push(Bytes::from_static(&[2; 1000]));
        let Memory::Heap(heap) = &buffer.all else { panic!("it is small") };
        assert!(heap.capacity() <= 8000, "{}", heap.capacity());
    }
}
