/** Who may talk to what listens on loopback: no page of another origin, no name that was rebound to us. */
import type { IncomingMessage } from 'node:http';

const NAMES: ReadonlySet<string> = new Set(['127.0.0.1', '::1', 'localhost']);

export const isLoopback = (host: string): boolean => NAMES.has(host);

const own = (port: number): string[] =>
  [...NAMES].map((name) => (name.includes(':') ? `[${name}]:${port}` : `${name}:${port}`));

/** A name that was rebound to this machine shows here. */
export const isOwnHost = (host: string | undefined, port: number): boolean =>
  host !== undefined && own(port).includes(host);

/** Browsers send one, and can be led here by any page; others send none. */
export const isOwnOrigin = (origin: string | undefined, port: number): boolean =>
  origin === undefined || own(port).some((it) => origin === `http://${it}`);

export const bearerOf = (request: IncomingMessage): string | undefined =>
  /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '')?.[1];

/** Of a request's target; undefined for one that is no URL (`//`): anybody can send such, before any token. */
export const pathOf = ({ url = '/' }: IncomingMessage): string | undefined =>
  URL.parse(url, 'http://localhost')?.pathname;
