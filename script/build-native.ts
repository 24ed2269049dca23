/**
 * Fills dist/native/<arch>/: builds the programs of native/ for every architecture with an installed compiler, skipping
 * those newer than their sources, and copies add-ons for both architectures from packages that carry them for all
 * systems, 60 MB of them. Run by script/bootstrap and script/build.ts; the package ships the results.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const native = join(root, 'native');
const sources = readdirSync(native).map((it) => join(native, it));
const programs = sources.filter((it) => it.endsWith('.c'));
const newest = Math.max(...[...sources, import.meta.filename].map((it) => statSync(it).mtimeMs));

/** Compiler names in Debian and Ubuntu; the machine's own compiler may only have a short name. */
const COMPILERS = { x64: 'x86_64-linux-gnu-gcc', arm64: 'aarch64-linux-gnu-gcc' };

const FLAGS = [
  ...['-std=gnu11', '-Os', '-Wall', '-Wextra'],
  // No C library, and no feature that needs one: native/kernel.h explains why.
  ...['-ffreestanding', '-nostdlib', '-static', '-fno-pie', '-no-pie', '-fno-stack-protector'],
  ...['-fno-asynchronous-unwind-tables', '-s', '-Wl,--build-id=none', '-Wl,-z,noexecstack', '-Wl,-z,noseparate-code'],
];

/** Debian installs a compiler for another architecture without the headers of its kernel. */
const canCompile = (compiler: string): boolean => {
  try {
    execFileSync(compiler, ['-E', '-'], { input: '#include <sys/socket.h>', stdio: ['pipe', 'ignore', 'ignore'] });
    return true;
  } catch {
    return false; // ENOENT: not installed.
  }
};

for (const [arch, cross] of Object.entries(COMPILERS)) {
  const isOwn = process.platform === 'linux' && arch === process.arch;
  const compiler = [cross, ...(isOwn ? ['cc'] : [])].find(canCompile);
  for (const source of programs) {
    const name = source.slice(native.length + 1, -'.c'.length);
    const program = join(root, 'dist/native', arch, name);
    if (existsSync(program) && statSync(program).mtimeMs > newest) continue;
    if (compiler !== undefined) {
      mkdirSync(join(program, '..'), { recursive: true });
      execFileSync(compiler, [...FLAGS, source, '-o', program], { stdio: 'inherit' });
    } else if (isOwn) {
      throw new Error(
        `native/${name}.c can't be built without a C compiler (Debian, Ubuntu: apt-get install gcc libc6-dev).`,
      );
    }
  }
}

for (const arch of Object.keys(COMPILERS)) {
  const folder = join(root, 'dist/native', arch);
  mkdirSync(folder, { recursive: true });
  const isolates = join(root, 'node_modules/isolated-vm/prebuilds', `linux-${arch}`);
  // Those for the Node that this is, which the package brings.
  for (const name of readdirSync(isolates).filter((it) => it.includes(`.abi${process.versions.modules}.`)))
    copyFileSync(join(isolates, name), join(folder, name));
  for (const language of ['go', 'python', 'rust']) {
    const parser = `@ast-grep/lang-${language}/prebuilds/prebuild-Linux-${arch.toUpperCase()}/parser.so`;
    copyFileSync(join(root, 'node_modules', parser), join(folder, `parser-${language}.so`));
  }
}
