/** Makes zip archives without compression, for packages that tests publish. */
import { crc32 } from 'node:zlib';

/** The archive of files by their paths. */
export function zipOf(files: Readonly<Record<string, string>>): Buffer {
  const entries = Object.entries(files).map(([path, text]) => ({
    name: Buffer.from(path),
    content: Buffer.from(text),
  }));
  let offset = 0;
  const local: Buffer[] = [];
  const central: Buffer[] = [];
  for (const { name, content } of entries) {
    const fields = Buffer.alloc(26);
    fields.writeUInt16LE(20, 0);
    fields.writeUInt16LE(0x21, 8); // 1980-01-01, as reproducible builds have it.
    fields.writeUInt32LE(crc32(content), 10);
    fields.writeUInt32LE(content.length, 14);
    fields.writeUInt32LE(content.length, 18);
    fields.writeUInt16LE(name.length, 22);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(0o100644 * 0x10000, 6);
    tail.writeUInt32LE(offset, 10);
    const header = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), fields, name, content]);
    local.push(header);
    central.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\x00', 'latin1'), fields, tail, name]));
    offset += header.length;
  }
  const size = central.reduce((sum, it) => sum + it.length, 0);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(size, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...local, ...central, Buffer.from('PK\x05\x06', 'latin1'), end]);
}
