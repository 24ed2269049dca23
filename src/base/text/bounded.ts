/** All bytes of a stream; undefined if it has more than `bytesMax`, of which no more are read then. */
export async function readUpTo(stream: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Buffer | undefined> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of stream) {
    bytes += piece.length;
    if (bytes > bytesMax) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}
