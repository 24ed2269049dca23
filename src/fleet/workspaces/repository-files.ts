/** The files of a repository that we make ourselves, so that nothing in it is a template's or a person's. */
import { constants, type Dirent } from 'node:fs';
import { copyFile, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

export interface NewRepository {
  /** Absolute path of the git directory, which must not exist. */
  readonly gitDir: string;
  readonly isBare: boolean;
  /** The branch of HEAD, and its commit. */
  readonly branch?: string;
  readonly commit?: string;
  /** The address that the config names as `origin`. */
  readonly origin?: string | undefined;
  /** Absolute path of a folder with the objects of others. */
  readonly borrows?: string;
}

/** Makes a repository without objects. */
export async function makeRepository(given: NewRepository): Promise<void> {
  const { gitDir, isBare, branch = 'main', commit, origin, borrows } = given;
  await mkdir(gitDir, { mode: 0o700 });
  for (const it of ['objects', 'objects/info', 'objects/pack', 'refs', 'info']) await mkdir(join(gitDir, it));
  const core = ['[core]', 'repositoryformatversion = 0', 'filemode = true', `bare = ${isBare}`];
  const remote = origin === undefined ? [] : ['[remote "origin"]', `url = ${origin}`];
  await writeFile(join(gitDir, 'config'), `${[...core, ...remote].join('\n')}\n`);
  await writeFile(join(gitDir, 'HEAD'), `ref: refs/heads/${branch}\n`);
  if (borrows !== undefined) await writeFile(join(gitDir, 'objects/info/alternates'), `${borrows}\n`);
  const ref = join(gitDir, 'refs/heads', branch);
  await mkdir(join(ref, '..'), { recursive: true });
  if (commit !== undefined) await writeFile(ref, `${commit}\n`);
}

/** The files of finished packs: git writes the index of a pack last. */
export async function packsOf(gitDir: string): Promise<string[]> {
  const names = (await readdir(join(gitDir, 'objects/pack'), { withFileTypes: true }))
    .filter((it: Dirent) => it.isFile())
    .map((it) => it.name);
  return names.filter((it) => /^pack-[0-9a-f]+\.idx$/.test(it)).map((it) => it.slice(0, -'.idx'.length));
}

/**
 * Copies the packs of a repository to another one. They are not linked: a session may write to its own files, and would
 * write to those of all others. Where the file system can share blocks, no byte is copied.
 */
export async function copyPacks(from: string, to: string): Promise<void> {
  // The index comes last here, too, so that no pack is seen half.
  for (const pack of await packsOf(from))
    for (const ending of ['pack', 'idx']) {
      const name = `objects/pack/${pack}.${ending}`;
      await copyFile(join(from, name), join(to, name), constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    }
}
