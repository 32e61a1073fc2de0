// Bytes as a hex view shows them.

export interface HexRow { offset: string; bytes: string; text: string }

export function hexRows(hex: string, width = 16): HexRow[] {
  const rows: HexRow[] = [];
  for (let start = 0; start < hex.length; start += width * 2) {
    const pairs = hex.slice(start, start + width * 2).match(/../g) ?? [];
    const text = pairs.map((pair) => {
      const code = Number.parseInt(pair, 16);
      return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : "·";
    });
    // A gap after eight, as every hex view has it.
    const half = width / 2;
    const bytes = `${pairs.slice(0, half).join(" ")}  ${pairs.slice(half).join(" ")}`.trimEnd();
    rows.push({ offset: (start / 2).toString(16).padStart(6, "0"), bytes, text: text.join("") });
  }
  return rows;
}
