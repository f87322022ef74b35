// Text messages out of the bytes of a WebSocket, in either direction. Compression has to be
// talked out of the peers before.

const TEXT = 1;
const CONTINUED = 0;

/** Takes bytes as they come, and calls `on` with each whole text. */
export function texts(on) {
  let rest = Buffer.alloc(0);
  let parts = [];
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (let frame = take(rest); frame; frame = take(rest)) {
      rest = rest.subarray(frame.end);
      if (frame.kind !== TEXT && frame.kind !== CONTINUED) continue;
      parts.push(frame.body);
      if (!frame.last) continue;
      on(Buffer.concat(parts).toString());
      parts = [];
    }
  };
}

/** The frame at the start, when all of it is there. */
function take(bytes) {
  if (bytes.length < 2) return null;
  const [short, extra] = [bytes[1] & 0x7f, { 126: 2, 127: 8 }[bytes[1] & 0x7f] ?? 0];
  const masked = (bytes[1] & 0x80) !== 0;
  const start = 2 + extra + (masked ? 4 : 0);
  if (bytes.length < start) return null;
  const size = extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  if (bytes.length < start + size) return null;
  const body = Buffer.from(bytes.subarray(start, start + size));
  if (masked) {
    const mask = bytes.subarray(start - 4, start);
    for (let at = 0; at < size; at += 1) body[at] ^= mask[at % 4];
  }
  return { kind: bytes[0] & 0x0f, last: (bytes[0] & 0x80) !== 0, body, end: start + size };
}
