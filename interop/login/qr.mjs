// Reads a QR code off a screen, as a camera would.

import package_ from "jsqr";

const jsQR = package_.default ?? package_;
const SCALE = 4;

/** Each character is two cells, one above the other; a filled one is light. */
const CELLS = { "█": [1, 1], "▀": [1, 0], "▄": [0, 1], " ": [0, 0] };

/** The text of the code in these rows, or null. */
export function scan(rows) {
  const picture = rows.filter((row) => /^[█▀▄ ]{20,}$/.test(row));
  const width = Math.max(0, ...picture.map((row) => [...row].length));
  const lines = picture.flatMap((row) => {
    const cells = [...row.padEnd(width)].map((character) => CELLS[character]);
    return [cells.map(([upper]) => upper), cells.map(([, lower]) => lower)];
  });
  const [w, h] = [width * SCALE, lines.length * SCALE];
  const pixels = new Uint8ClampedArray(w * h * 4).fill(255);
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const light = lines[Math.floor(y / SCALE)][Math.floor(x / SCALE)];
      pixels.fill(light * 255, (y * w + x) * 4, (y * w + x) * 4 + 3);
    }
  }
  return w && h ? (jsQR(pixels, w, h)?.data ?? null) : null;
}
