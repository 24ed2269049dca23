/** The token of this page: got for the code in the address, and kept by this tab alone. */

const KEY = 'ringfence.token';

/** Takes the code out of the address first, so that it is in no history, and exchanges it. Gives why that failed. */
export async function signIn(): Promise<string | undefined> {
  const code = /^#code=([0-9a-f]{1,64})$/.exec(location.hash)?.[1];
  if (code === undefined) return undefined;
  history.replaceState(null, '', '/');
  const response = await fetch('/session', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ code }),
  });
  if (!response.ok) return (await response.text()).trim();
  const { token } = (await response.json()) as { token: string };
  sessionStorage.setItem(KEY, token);
  return undefined;
}

export const tokenOfPage = (): string | undefined => sessionStorage.getItem(KEY) ?? undefined;

export function forgetToken(): void {
  sessionStorage.removeItem(KEY);
}
