//! The one message type the oracle needs: bytes that pass through unread.
//!
//! `connectrpc` is used for its framing, compression, streams and errors, which
//! others wrote. Messages stay opaque to it, so that no second set of
//! generated code has to be built, and so that what it carries is exactly what
//! our side sent.

use std::sync::OnceLock;

use buffa::{
    DecodeContext, DecodeError, DefaultInstance, EncodeSink, HasMessageView, Message, MessageView,
    OwnedView, SizeCache, encoding::Tag,
};
use bytes::{Buf, Bytes};

/// A message as it is on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw(pub Bytes);

impl DefaultInstance for Raw {
    fn default_instance() -> &'static Self {
        static EMPTY: OnceLock<Raw> = OnceLock::new();
        EMPTY.get_or_init(Raw::default)
    }
}

impl Message for Raw {
    fn compute_size(&self, _cache: &mut SizeCache) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    fn write_to(&self, _cache: &mut SizeCache, buf: &mut impl EncodeSink) {
        buf.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: Tag,
        buf: &mut impl Buf,
        _ctx: DecodeContext<'_>,
    ) -> Result<(), DecodeError> {
        // Never called: the whole message is taken by `merge_to_limit`.
        buffa::encoding::skip_field(tag, buf)
    }

    fn merge_to_limit(
        &mut self,
        buf: &mut impl Buf,
        _ctx: DecodeContext<'_>,
        limit: usize,
    ) -> Result<(), DecodeError> {
        self.0 = buf.copy_to_bytes(buf.remaining().saturating_sub(limit));
        Ok(())
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// The borrowed form that the client hands out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawView<'a>(pub &'a [u8]);

impl<'a> MessageView<'a> for RawView<'a> {
    type Owned = Raw;

    fn decode_view(buf: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self(buf))
    }

    fn merge_into_view(
        &mut self,
        buf: &'a [u8],
        _ctx: DecodeContext<'_>,
    ) -> Result<(), DecodeError> {
        self.0 = buf;
        Ok(())
    }

    fn merge_view_field(
        &mut self,
        _tag: Tag,
        _cur: &'a [u8],
        _before_tag: &'a [u8],
        _ctx: DecodeContext<'_>,
    ) -> Result<&'a [u8], DecodeError> {
        // Never called, as above.
        Ok(&[])
    }

    fn to_owned_message(&self) -> Result<Raw, DecodeError> {
        Ok(Raw(Bytes::copy_from_slice(self.0)))
    }
}

/// The handle that a received message comes in.
#[derive(Debug)]
pub struct RawHandle(OwnedView<RawView<'static>>);

impl From<OwnedView<RawView<'static>>> for RawHandle {
    fn from(view: OwnedView<RawView<'static>>) -> Self {
        Self(view)
    }
}

impl AsRef<OwnedView<RawView<'static>>> for RawHandle {
    fn as_ref(&self) -> &OwnedView<RawView<'static>> {
        &self.0
    }
}

impl HasMessageView for Raw {
    type View<'a> = RawView<'a>;
    type ViewHandle = RawHandle;
}
