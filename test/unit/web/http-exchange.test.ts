/** Redirects between origins that no server on loopback can be. */
import { describe, expect, test } from 'vitest';
import { exchange, type Hop } from '../../../src/services/web/http-exchange.ts';

/** Follows the redirects that `locations` gives for URLs. */
async function follow(url: string, locations: Record<string, string>, hops: Hop[] = []) {
  const headers = { authorization: 'Bearer t', accept: 'text/x' };
  const request = { url, method: 'GET', headers, followRedirects: true, bytesMax: 1 };
  return exchange(request, {
    redirectsMax: 5,
    async send(hop) {
      hops.push(hop);
      const location = Object.hasOwn(locations, hop.url) ? locations[hop.url] : undefined;
      const rest = { body: new Uint8Array(), truncated: false, cached: 'no' } as const;
      return location === undefined
        ? { status: 200, headers: {}, ...rest }
        : { status: 302, headers: { location }, ...rest };
    },
  });
}

describe('a redirect', () => {
  test('from https to http is not followed', async () => {
    const hops: Hop[] = [];
    const following = follow('https://a.example/', { 'https://a.example/': 'http://a.example/' }, hops);
    await expect(following).rejects.toMatchObject({
      code: 'UPSTREAM_FAILED',
      message: expect.stringContaining('from https'),
    });
    expect(hops).toHaveLength(1);
  });

  test.each([
    ['http://a.example/', 'https://a.example/'],
    ['https://a.example/', '//a.example:8443/'],
    ['https://a.example/', 'https://b.example/'],
    ['https://a.example/', 'https://www.a.example/'],
  ])('from %s to %s is one to another origin', async (from, to) => {
    const hops: Hop[] = [];
    await follow(from, { [from]: to }, hops);
    expect(hops.map((it) => it.headers)).toEqual([
      { authorization: 'Bearer t', accept: 'text/x' },
      { accept: 'text/x' },
    ]);
  });

  test('a redirect to the same origin by another spelling keeps the headers', async () => {
    const hops: Hop[] = [];
    await follow('https://a.example/', { 'https://a.example/': 'https://A.example:443/x' }, hops);
    expect(hops[1]).toMatchObject({ url: 'https://a.example/x', headers: { authorization: 'Bearer t' } });
  });

  test('loses name, password and fragment', async () => {
    const answer = await follow('https://a.example/#x', { 'https://a.example/': 'https://u:p@b.example/#y' });
    expect(answer.finalUrl).toBe('https://b.example/');
  });
});
