/** Verbs that install programs for commands; their code is loaded on demand. */
import type { CliCapability } from '../verbs/verbs.ts';

export default {
  addVerbs(verbs) {
    const toolchain = verbs.addGroup('toolchain', 'install, list and remove programs that only commands see');
    const loadToolchain = () => import('./toolchain.ts');
    verbs
      .addBeside(
        'add <name[@version]>',
        'install node, npm, pnpm, yarn, typescript or pyright from the npm registry',
        toolchain,
      )
      .option('--registry <url>', 'another registry, by https')
      .option('--integrity <hash>', 'install only the package with this hash (sha512-…)')
      .action(verbs.anywhere(async () => (await loadToolchain()).toolchainAdd));
    verbs
      .addBeside(
        'resolve <name[@version]>',
        'show which package and hash `add` would install, without installing it',
        toolchain,
      )
      .option('--registry <url>', 'another registry, by https')
      .action(verbs.anywhere(async () => (await loadToolchain()).toolchainResolve));
    verbs
      .addBeside('list', 'list the installed toolchains and their programs', toolchain)
      .action(verbs.anywhere(async () => (await loadToolchain()).toolchainList));
    verbs
      .addBeside('remove <name>', 'remove a toolchain', toolchain)
      .action(verbs.anywhere(async () => (await loadToolchain()).toolchainRemove));
  },
} satisfies CliCapability;
