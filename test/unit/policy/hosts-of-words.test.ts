import { expect, test } from 'vitest';
import { hostsOfWords } from '../../../src/policy/shell/hosts-of-words.ts';

const command = (program: string, ...args: (string | undefined)[]) => ({
  text: '',
  words: [program, ...args],
  program,
  programPath: undefined,
  unknown: undefined,
});

test.each([
  [['curl', '-sS', 'https://api.example.com/v1?x=https://y.example'], ['api.example.com:443']],
  [['curl', 'http://a.example:8080'], ['a.example:8080']],
  [['git', 'clone', 'git@github.com:a/b.git'], ['github.com:22']],
  [
    ['pip', 'install', 'git+ssh://git@host.example/a'],
    ['pypi.org:443', 'host.example:22'],
  ],
  [['npm', '--silent', 'install', undefined], ['registry.npmjs.org:443']],
  [['npm', 'run', 'build'], []],
  [['go', 'test', './...'], []],
  [['echo', 'see://', 'http://', 'https://[', '--url=https://z.example'], ['z.example:443']],
])('the words %j point to %j', (words, hosts) => {
  const [program = '', ...args] = words;
  const found = hostsOfWords([command(program, ...args)]).map(({ host, port }) => `${host}:${port}`);
  expect(found.sort()).toEqual(hosts.sort());
});
