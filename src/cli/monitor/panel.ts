/** `ringfence panel`: opens the web panel in the browser, and lists and ends the pages that are signed in. */

import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import { type Environment, findUserDirs } from '../../daemon/user-dirs.ts';
import type { Answer } from '../../wire/protocol/answers.ts';
import { EXIT, type JsonFlag, print, printJson, printRows, say, UsageError } from '../output.ts';

type Requests = Pick<Client, 'request'>;

export interface PanelFlags {
  readonly print?: boolean;
  readonly port?: string;
  readonly host?: string;
  readonly json?: boolean;
  readonly state?: string;
}

/** Prints the URL that signs a page in and, unless `--print` was given, opens it in the browser. Returns the exit code. */
export async function panelOpen(flags: PanelFlags, client: Requests, env: Environment): Promise<number> {
  const port = flags.port === undefined ? undefined : portOf(flags.port);
  const { host } = flags;
  if (host !== undefined && host !== '127.0.0.1') throw new UsageError(`--host takes 127.0.0.1, not ${showLine(host)}`);
  const asked = { port, host };
  const opened = (await client.request('panel.open', asked)) as {
    url: string;
    expiresAt: string;
  };
  if (flags.json) printJson(opened);
  else print(opened.url);
  if (flags.print || flags.json) return EXIT.OK;
  const isOpening = await openInBrowser(opened.url, join(findUserDirs(flags, env).stateDir, 'panel.html'), env);
  say(
    isOpening
      ? 'opening it in your browser; the address works once, for a minute'
      : 'open this address in a browser on this machine; it works once, for a minute',
  );
  return EXIT.OK;
}

export function portOf(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw new UsageError(`--port takes a number from 1 to 65535, not ${showLine(text)}`);
}

/**
 * Asks the desktop to open a URL; false if there is no desktop. The desktop gets `file`, which leads to the URL, since every
 * user of the machine can read the arguments of a program, and could sign in first.
 */
export async function openInBrowser(url: string, file: string, env: Environment): Promise<boolean> {
  const isMac = process.platform === 'darwin';
  if (!isMac && !env.DISPLAY && !env.WAYLAND_DISPLAY) return false;
  const refresh = `<meta http-equiv="refresh" content="0;url=${url}">`;
  writeFileSync(file, `<!doctype html><meta charset="utf-8"><title>Ringfence</title>${refresh}\n`, { mode: 0o600 });
  const program = spawn(isMac ? 'open' : 'xdg-open', [file], { stdio: 'ignore', detached: true });
  return new Promise((resolve) => {
    program.once('error', () => resolve(false));
    program.once('spawn', () => {
      program.unref();
      resolve(true);
    });
  });
}

/** Lists the pages that are signed in, oldest first. Returns the exit code. */
export async function panelSessions({ json }: JsonFlag, client: Requests): Promise<number> {
  const { sessions } = await client.request('panel.sessions', {});
  return printRows(sessions, json, 'no page is signed in', (it) => showLine(lineOf(it)));
}

const lineOf = ({ id, signedInAt, usedAt, connections }: Answer<'panel.sessions'>['sessions'][number]): string =>
  `${id}  since ${signedInAt}  ${connections > 0 ? 'connected' : `last used ${usedAt}`}`;

/** Signs a page out. Returns the exit code: 1 if there is none with this id. */
export async function panelRevoke(id: string, { json }: JsonFlag, client: Requests): Promise<number> {
  const { revoked } = await client.request('panel.revoke', { id });
  if (json) printJson({ id, revoked });
  else
    say(
      showLine(revoked ? `signed ${id} out` : `no page ${id} is signed in; list them with: ringfence panel sessions`),
    );
  return revoked ? EXIT.OK : EXIT.FAILED;
}
