import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Makes sources of 2 KiB, ten per directory, a tenth of them ignored; every hundredth file holds the needle. */
export function makeTree(root: string, files: number): void {
  for (let at = 0; at < files; at++) {
    const number = Math.floor(at / 10);
    const folder = join(root, `part-${number % 20}`, `d${Math.floor(number / 20)}`);
    if (at % 10 === 0) mkdirSync(folder, { recursive: true });
    const body = `export const value${at} = ${at};\n// some words about what this one is for\n`.repeat(28);
    const name = at % 10 === 0 ? `f${at}.log` : `f${at}.${at % 3 === 0 ? 'js' : 'ts'}`;
    writeFileSync(join(folder, name), at % 100 === 1 ? `${body}needle ${at}\n` : body);
  }
  writeFileSync(join(root, '.gitignore'), '*.log\n');
}
