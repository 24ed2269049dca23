import { expect, test } from 'vitest';
import { environmentIn, isOpenIn, projectsSchema, toProjects } from '../../../src/daemon/config/projects.ts';

const projects = toProjects(
  projectsSchema.parse([
    { workspace: '/p', hosts: ['pypi.org', 'files.example.org:8443'], toolchains: ['/n'] },
    { workspace: '/q', hosts: ['registry.npmjs.org'] },
  ]),
  { toPath: (it) => it, toToolchain: (it) => it },
);

test("a project's programs come first on PATH there, and only there", () => {
  const environment = { PATH: '/usr/bin', LANG: 'C' };
  expect(environmentIn(projects, '/p/below', environment)).toEqual({ PATH: '/n:/usr/bin', LANG: 'C' });
  for (const elsewhere of ['/pq', '/q', '/']) expect(environmentIn(projects, elsewhere, environment)).toBe(environment);
});

test("a project's hosts are open there, and only there", () => {
  const open = (workspace: string, host: string, port = 443) => isOpenIn(projects, workspace, { host, port });
  expect([open('/p', 'pypi.org'), open('/p/below', 'files.example.org', 8443)]).toEqual([true, true]);
  expect([open('/q', 'pypi.org'), open('/p', 'pypi.org', 22), open('/p', 'a.pypi.org'), open('/', 'pypi.org')]).toEqual(
    [false, false, false, false],
  );
});

test('a host that is none is refused with its project', () => {
  const given = projectsSchema.parse([{ workspace: '/p', hosts: ['https://x/'] }]);
  expect(() => toProjects(given, { toPath: (it) => it, toToolchain: (it) => it })).toThrow(
    /^projects: a host of \/p: .*https:\/\/x/,
  );
});
