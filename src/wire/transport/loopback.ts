/** Checks requests to loopback listeners: refuses pages of other origins and host names that were rebound to this machine. */
import type { IncomingMessage } from 'node:http';

const NAMES: ReadonlySet<string> = new Set(['127.0.0.1', '::1', 'localhost']);

export const isLoopback = (host: string): boolean => NAMES.has(host);

const originsOf = (port: number, names: ReadonlySet<string>): string[] =>
  [...names].map((name) => (name.includes(':') ? `[${name}]:${port}` : `${name}:${port}`));

/** Whether the Host header names this listener; a rebound DNS name fails here. */
export const isOwnHost = (host: string | undefined, port: number, names = NAMES): boolean =>
  host !== undefined && originsOf(port, names).includes(host);

/**
 * Whether the Origin header is absent or our own. Browsers send the header, and any page can make them connect; other clients send none.
 */
export const isOwnOrigin = (origin: string | undefined, port: number, names = NAMES): boolean =>
  origin === undefined || originsOf(port, names).some((it) => origin === `http://${it}`);

export const bearerOf = (request: IncomingMessage): string | undefined =>
  /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '')?.[1];

/** The path of a request; undefined if its target is no URL (`//`), which anybody can send before authentication. */
export const pathOf = ({ url = '/' }: IncomingMessage): string | undefined =>
  URL.parse(url, 'http://localhost')?.pathname;
