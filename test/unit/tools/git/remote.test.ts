import { describe, expect, test } from 'vitest';
import { remotesIn, serverUrl } from '../../../../src/tools/git/remote.ts';

describe('the server of a remote', () => {
  test.each([
    ['https://github.com/team/shop.git', 'https://github.com/team/shop.git'],
    ['https://name:pass@github.com/team/shop.git', 'https://github.com/team/shop.git'],
    ['git@github.com:team/shop.git', 'https://github.com/team/shop.git'],
    ['ssh://git@git.example.org:2222/team/shop.git', 'https://git.example.org/team/shop.git'],
    ['https://git.example.org:8443/x.git?a=b#c', 'https://git.example.org:8443/x.git'],
    ['http://127.0.0.1:3000/x.git', 'http://127.0.0.1:3000/x.git'],
  ])('the remote %s is reached at %s', (remote, url) => {
    expect(serverUrl(remote)).toBe(url);
  });

  test.each([
    '../other',
    '/srv/x.git',
    'file:///srv/x.git',
    'http://github.com/x.git',
    'ext::sh -c id',
    '--upload-pack=id',
  ])('the remote %s has no server by https', (remote) => {
    expect(() => serverUrl(remote)).toThrow(/no server that is reached by https/);
  });
});

test('the URL to push to counts before the other, under names in quotes and any case of keys', () => {
  const config = `
[core]
	url = https://not.example/a
[remote "origin"]
	PushURL = https://one.example/p.git
	url = https://one.example/f.git
[Remote "a \\"b\\""]
	url = "https://two.example/x.git"
[branch "main"]
	url = https://not.example/b
`;
  expect([...remotesIn(config)]).toEqual([
    ['origin', 'https://one.example/p.git'],
    ['a "b"', 'https://two.example/x.git'],
  ]);
});
