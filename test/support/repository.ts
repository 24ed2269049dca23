/** Makes a real git repository for a test. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface TestRepository {
  readonly folder: string;
  /** Runs git; gives its output, throws its error. */
  git(...args: string[]): string;
  write(path: string, content: string): void;
  /** Commits everything. */
  commit(message: string): string;
}

export function createRepository(folder: string): TestRepository {
  mkdirSync(folder, { recursive: true });
  const env = { PATH: process.env.PATH ?? '', HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1', LC_ALL: 'C.UTF-8' };
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder, env, encoding: 'utf8', stdio: 'pipe' });
  git('init', '-q', '-b', 'main');
  git('config', 'user.name', 'Ada');
  git('config', 'user.email', 'ada@example.org');
  return {
    folder,
    git,
    write(path, content) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), content);
    },
    commit(message) {
      git('add', '-A', '-f');
      git('commit', '-q', '--allow-empty', '-m', message);
      return git('rev-parse', 'HEAD').trim();
    },
  };
}
