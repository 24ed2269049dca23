/** Our own files for the /etc of commands: accounts, settings without a credential, stores of authorities. */

import { join } from 'node:path';
import type { OwnFile } from '../mount.ts';
import { writeAccounts } from './accounts.ts';
import { certificatesIn, writeCertificates } from './certificates.ts';
import { type GivenSettings, ownEtc, settingsIn, writeSettings } from './settings.ts';

interface Ids {
  readonly uid: number;
  readonly gid: number;
}

interface OwnEtcOptions {
  readonly settingsBytesMax: number;
  readonly certificates: readonly string[];
  readonly settings: GivenSettings;
}

const ACCOUNTS = ['passwd', 'group'];
const ofFolder = (folder: string, names: readonly string[]): OwnFile[] =>
  names.map((it) => ({ path: join(folder, it), at: `/etc/${it}` }));

export class OwnEtc {
  /** Files that should hold certificates of authorities, and in which none can be read. */
  readonly withoutCertificates: readonly string[];
  readonly #folder: string;
  readonly #shown: readonly OwnFile[];
  /** Files by uid and gid. Each is written once: a host may still be reading it when the next one starts. */
  readonly #ofOthers = new Map<string, readonly OwnFile[]>();

  /** Writes the files for folders of the daemon's own user, where commands are shown as `ids`. */
  constructor(stateDir: string, ids: Ids, of: OwnEtcOptions) {
    this.#folder = writeAccounts(ownEtc(stateDir), ids);
    writeSettings(this.#folder, of.settingsBytesMax, of.settings);
    this.withoutCertificates = writeCertificates(this.#folder, of.certificates);
    this.#shown = this.#filesOf(this.#folder, settingsIn(this.#folder));
  }

  /** The files for folders of the daemon's own user. */
  ofOwn(): readonly OwnFile[] {
    return this.#shown;
  }

  /** The files for folders of another user, which bubblewrap reads from the descriptors from `firstFd` on. */
  ofOther({ uid, gid }: Ids, firstFd: number): readonly OwnFile[] {
    const key = `${uid}-${gid}`;
    const files =
      this.#ofOthers.get(key) ??
      this.#filesOf(writeAccounts(join(this.#folder, key), { uid, gid }), settingsIn(this.#folder, { ofOthers: true }));
    this.#ofOthers.set(key, files);
    return files.map((it, i) => ({ ...it, fd: firstFd + i }));
  }

  #filesOf(accounts: string, settings: readonly string[]): OwnFile[] {
    return [...ofFolder(accounts, ACCOUNTS), ...ofFolder(this.#folder, [...settings, ...certificatesIn(this.#folder)])];
  }
}
