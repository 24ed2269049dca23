/** Reads the files that a call sends to a service, in a host that can change nothing and by the rules of the call's policy. */

import { ToolError } from '../../base/errors.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import type { DaemonParts } from '../capability.ts';

/** A file below the folder that is sent. */
export interface UploadedFile {
  /** Relative to the folder. */
  readonly path: string;
  readonly data: string;
  readonly encoding: 'base64';
}

export type UploadParts = Pick<DaemonParts, 'hosts' | 'limits' | 'viewOf'>;

/** The files below a folder that is not hidden or ignored. Throws FILE_LIMIT, and what reading throws. */
export async function filesBelow(folder: string, call: ClearedCall, parts: UploadParts): Promise<UploadedFile[]> {
  const { connectorUploadFilesMax: filesMax, connectorUploadBytesMax: bytesMax } = parts.limits;
  const run = readerOf(call, parts);
  const found = await run('file_glob', { pattern: '**/*', path: folder, maxResults: filesMax });
  const { paths, truncated } = found as { paths: string[]; truncated: boolean };
  if (truncated) throw tooMuch(`more than ${filesMax} files`, filesMax);
  const prefix = folder.replace(/^(\.\/+)+/, '').replace(/\/+$/, '');
  const files: UploadedFile[] = [];
  let bytes = 0;
  for (const path of paths) {
    const { content, size } = (await run('file_read', { path, encoding: 'base64' })) as {
      content: string;
      size: number;
    };
    bytes += size;
    if (bytes > bytesMax) throw tooMuch(`more than ${bytesMax} bytes`, bytesMax);
    const isBelow = prefix !== '' && prefix !== '.' && path.startsWith(`${prefix}/`);
    files.push({ path: isBelow ? path.slice(prefix.length + 1) : path, data: content, encoding: 'base64' });
  }
  return files;
}

/** Runs built-in tools that only read, in the read_only host of the call's workspace. */
function readerOf(call: ClearedCall, { hosts, viewOf }: UploadParts) {
  const { workspace, controller } = call;
  const hostKey = { tier: 'read_only', workspace, view: viewOf({ ...call, policy: call.policyNow() }) } as const;
  return async (tool: string, given: object): Promise<unknown> => {
    const input = call.toolset.get(tool)?.tool.input.parse(given) ?? given;
    const { result } = await hosts.run(hostKey, { tool, input }, { signal: controller.signal });
    if (result.ok) return result.data;
    throw ToolError.fromWire(result.error);
  };
}

const tooMuch = (what: string, limit: number): ToolError =>
  new ToolError('FILE_LIMIT', `the folder has ${what}, the most that one call sends`, {
    suggestion: 'Name a smaller folder, or list what it need not send in .gitignore.',
    details: { limit, enforcedBy: 'daemon' },
  });
