/**
 * The HTTP requests of the panel: the files of the page, and the proofs by which a page and this listener know each other. Any page in
 * the browser can send requests here, so that each must name this listener as its host, and signing in takes our own page as its origin.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import { readUpTo } from '../../base/text/bounded.ts';
import { jsonOr } from '../../base/text/json.ts';
import { isOwnHost, pathOf } from '../../wire/transport/loopback.ts';
import type { PageFile } from './page-files.ts';
import type { SignIn } from './sign-in.ts';

/** Scripts, styles and images of our own, no other page around it, and no string that becomes markup or code. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'",
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; worker-src 'none'",
  "require-trusted-types-for 'script'; trusted-types 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

export interface PageParts {
  readonly files: ReadonlyMap<string, PageFile>;
  readonly signIn: Pick<SignIn, 'challenge' | 'exchange'>;
  /** Names that the listener may be called by. */
  readonly names: ReadonlySet<string>;
  readonly limits: Pick<Limits, 'panelSignInBytesMax'>;
}

/** Answers one request at the listener with this port; never throws. */
export async function answerPage(
  request: IncomingMessage,
  response: ServerResponse,
  { port, ...parts }: PageParts & { readonly port: number },
): Promise<void> {
  const path = pathOf(request);
  if (!isOwnHost(request.headers.host, port, parts.names)) return refuse(response, 403, 'This host is not the panel.');
  // A worker would outlast the page, and hear what later pages say at this origin.
  if (request.headers['service-worker'] !== undefined) return refuse(response, 403, 'The panel has no worker.');
  if (path === '/session') return answerSignIn(request, response, parts);
  const file = path === undefined ? undefined : parts.files.get(path);
  if (!file) return refuse(response, 404, 'The panel has no such page.');
  if (request.method !== 'GET' && request.method !== 'HEAD') return refuse(response, 405, 'Only GET is allowed here.');
  const cacheControl = file.isImmutable ? 'public, max-age=31536000, immutable' : 'no-store';
  const headers = { 'content-type': file.type, 'content-length': file.bytes.length, 'cache-control': cacheControl };
  response.writeHead(200, { ...HEADERS, ...headers }).end(request.method === 'HEAD' ? undefined : file.bytes);
}

async function answerSignIn(
  request: IncomingMessage,
  response: ServerResponse,
  { signIn, limits }: Omit<PageParts, 'files'>,
): Promise<void> {
  const { host, origin, 'content-type': type, 'sec-fetch-site': site } = request.headers;
  if (request.method !== 'POST') return refuse(response, 405, 'Only POST is allowed here.');
  // A browser sends both headers, and no page can change them.
  if (origin !== `http://${host}` || site !== 'same-origin')
    return refuse(response, 403, 'Only the page of the panel may sign in.');
  if (type !== 'application/json') return refuse(response, 415, 'The body must be application/json.');
  const body = await bodyOf(request, limits.panelSignInBytesMax);
  const asked = body === undefined ? undefined : askedSchema.safeParse(jsonOr(body, undefined)).data;
  if (asked === undefined)
    return refuse(response, 400, 'The body must be {"id": "…", "nonce": "…"} or {"nonce": "…", "proof": "…"}.');
  const answer =
    'id' in asked ? signIn.challenge(asked.id, origin, asked.nonce) : signIn.exchange(asked.nonce, asked.proof);
  if (!answer)
    return refuse(response, 401, 'This code was used, or is too old; run `ringfence panel` for another one.');
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
  response.writeHead(200, { ...HEADERS, ...headers }).end(JSON.stringify(answer));
}

/** The body of a request; undefined if it is longer than `bytesMax`, or the client left. */
async function bodyOf(request: IncomingMessage, bytesMax: number): Promise<string | undefined> {
  const body = await readUpTo(request, bytesMax).catch(() => undefined);
  return body?.toString('utf8');
}

const hex = z.string().regex(/^[\da-f]{16,64}$/);
/** A page asks for a proof, by the id of its code or its own, or gives one. */
const askedSchema = z.union([
  z.strictObject({ id: z.string().regex(/^(?:p_)?[\da-f]{12,16}$/), nonce: hex }),
  z.strictObject({ nonce: hex, proof: hex }),
]);

function refuse(response: ServerResponse, status: number, message: string): void {
  const headers = { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store', connection: 'close' };
  response.writeHead(status, { ...HEADERS, ...headers }).end(`${message}\n`);
}
