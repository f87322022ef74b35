//! Looking at raw protobuf where the schema is not enough: arms it does not have,
//! and checkpoints that must go back byte for byte.

/// One field at the top level of an encoded message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    /// The payload of a length-delimited field.
    pub(super) bytes: Option<&'a [u8]>,
    pub(super) varint: Option<u64>,
}

/// The fields of a message, until its end or the first malformed byte.
pub(super) fn top_fields(mut bytes: &[u8]) -> impl Iterator<Item = Field<'_>> {
    std::iter::from_fn(move || {
        let tag = varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).ok()?;
        let mut field = Field { number, bytes: None, varint: None };
        match tag & 7 {
            0 => field.varint = Some(varint(&mut bytes)?),
            1 => _ = take(&mut bytes, 8)?,
            2 => {
                let len = usize::try_from(varint(&mut bytes)?).ok()?;
                field.bytes = Some(take(&mut bytes, len)?);
            }
            5 => _ = take(&mut bytes, 4)?,
            _ => return None,
        }
        Some(field)
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    prost::encoding::decode_varint(bytes).ok()
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head)
}
