import { describe, expect, test } from 'vitest';
import { sshServerOf } from '../../../src/tools/context/ssh-server.ts';

describe('the server of a remote by ssh', () => {
  test.each([
    ['git@github.com:team/shop.git', { user: 'git', host: 'github.com', port: 22, path: 'team/shop.git' }],
    ['git@GitHub.com:/srv/shop.git', { user: 'git', host: 'github.com', port: 22, path: '/srv/shop.git' }],
    ['ssh://me@git.example.org:2222/~me/x', { user: 'me', host: 'git.example.org', port: 2222, path: '~me/x' }],
    ['ssh://git@10.0.0.4/srv/x.git', { user: 'git', host: '10.0.0.4', port: 22, path: '/srv/x.git' }],
  ])('the remote %s names user, host, port and path', (remote, server) => {
    expect(sshServerOf(remote)).toEqual(server);
  });

  test.each([
    'https://github.com/team/shop.git',
    'https://git@github.com:443/x.git',
    'ssh://github.com/team/shop.git',
    'ssh://git@-oProxyCommand=id/x',
    '-oProxyCommand=id@host:x',
    'git@-oProxyCommand=id:x',
    'git@host:-x',
    'git@host:a\nb',
    'ssh://git@host:99999/x',
    'ssh://git@host%00/x',
    'ext::sh -c id',
  ])('the remote %j is not reached by ssh', (remote) => {
    expect(sshServerOf(remote)).toBeUndefined();
  });
});
