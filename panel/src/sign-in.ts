/**
 * The sign-in of this page: a key that it shares with the daemon, got by the code in the address and kept by this tab alone. Neither is
 * ever sent: page and listener prove to each other that they have it, the listener first.
 */

const KEY = 'ringfence.page';
const OTHER = 'What answers at this address is not the daemon that signed this page in. Run `ringfence panel` again.';

/** A page that is signed in. */
interface Page {
  readonly id: string;
  readonly key: string;
}

/** What listens here does not have the key, or does not know it any more. */
export class NotSignedIn extends Error {}

/** Takes the code out of the address first, so that it is in no history, and uses it. Gives why that failed. */
export async function signIn(): Promise<string | undefined> {
  const [, id, secret] = /^#code=([0-9a-f]{16})([0-9a-f]{32})$/.exec(location.hash) ?? [];
  if (id === undefined || secret === undefined) return undefined;
  history.replaceState(null, '', '/');
  try {
    const { nonce, proof, key } = await prove({ id, key: secret });
    const { page } = (await post({ nonce, proof })) as { page: string };
    sessionStorage.setItem(KEY, JSON.stringify({ id: page, key }));
    return undefined;
  } catch (error) {
    if (error instanceof NotSignedIn) return error.message;
    throw error;
  }
}

/** What this page says hello with, once; undefined if it is not signed in. Throws NotSignedIn, and TypeError if nothing answers. */
export async function ticket(): Promise<string | undefined> {
  const kept = sessionStorage.getItem(KEY);
  if (kept === null) return undefined;
  const page = JSON.parse(kept) as Page;
  const { nonce, proof } = await prove(page);
  return `${page.id}.${nonce}.${proof}`;
}

export function forgetPage(): void {
  sessionStorage.removeItem(KEY);
}

/** Has the listener prove that it has the key, and gives our proof and the key that follows from both. */
async function prove({ id, key }: Page): Promise<{ nonce: string; proof: string; key: string }> {
  const own = hexOf(crypto.getRandomValues(new Uint8Array(32)));
  const { nonce, proof } = (await post({ id, nonce: own })) as { nonce: string; proof: string };
  const words = [location.origin, own, nonce];
  if (proof !== (await proofOf(key, 'daemon', words))) throw new NotSignedIn(OTHER);
  return { nonce, proof: await proofOf(key, 'page', words), key: await proofOf(key, 'key', words) };
}

async function post(body: object): Promise<unknown> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch('/session', { method: 'POST', headers, body: JSON.stringify(body) });
  if (!response.ok) throw new NotSignedIn((await response.text()).slice(0, 200).trim());
  return response.json();
}

/** HMAC-SHA256 in hexadecimal, as src/faces/panel/challenges.ts makes it. */
async function proofOf(key: string, role: string, words: readonly string[]): Promise<string> {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', bytes(key), algorithm, false, ['sign']);
  return hexOf(new Uint8Array(await crypto.subtle.sign('HMAC', imported, bytes([role, ...words].join('\n')))));
}

const hexOf = (bytes: Uint8Array): string => [...bytes].map((it) => it.toString(16).padStart(2, '0')).join('');
