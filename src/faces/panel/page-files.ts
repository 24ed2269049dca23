/** The files of the panel's page, read once: requests name a file of this list, and never a path on the disk. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { RpcError } from '../../base/errors.ts';

export interface PageFile {
  readonly bytes: Buffer;
  readonly type: string;
  /** Whether its name changes with its content, so that a browser may keep it. */
  readonly isImmutable: boolean;
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** The files of a built page by the paths of their URLs. Throws RpcError INTERNAL if the page is not built. */
export function readPage(folder: string): ReadonlyMap<string, PageFile> {
  if (!existsSync(join(folder, 'index.html')))
    throw new RpcError('INTERNAL', 'the page of the panel is not built; in a checkout, run `npm run build`');
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((it) => TYPES[extname(it)]);
  const files = names.map((name): [string, PageFile] => [
    name === 'index.html' ? '/' : `/${name}`,
    {
      bytes: readFileSync(join(folder, name)),
      type: TYPES[extname(name)] as string,
      isImmutable: name.startsWith('assets/'),
    },
  ]);
  return new Map(files);
}
