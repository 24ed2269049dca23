/** Tasks on which programs of others failed in boxes like ours, as their trackers tell; and tools beside the programs that they stand for. */
import type { Workload } from './workload.ts';

/** A log of 14 MB whose last line tells. */
const LOG = `seq -f 'line %.0f of a log that is as long as logs are' 300000 > big.log; echo needle at the end >> big.log; echo a needle > small.txt`;

export const FROM_ISSUES: readonly Workload[] = [
  {
    name: 'wget from a server on localhost',
    size: 'small',
    project: 'zod',
    needs: ['wget', 'python3'],
    command: `touch $T/said; python3 -u -m http.server 0 --bind 127.0.0.1 > $T/said 2>/dev/null & until grep -q port $T/said; do sleep 0.1; done
      wget -qO- "http://localhost:$(grep -oE 'port [0-9]+' $T/said | cut -c6-)/package.json" | sha256sum; kill %1`,
  },
  {
    name: 'git config --global',
    size: 'small',
    needs: ['git'],
    command: `git config --global user.name Ada && git config --global --list | grep ^user && git config --global --unset user.name`,
  },
  {
    name: 'interfaces and accounts, as Node and the system list them',
    size: 'small',
    needs: ['node', 'getent'],
    command: `node -p 'os.networkInterfaces().lo[0].address; ' && node -p 'os.userInfo().shell.length > 0' && getent passwd "$(id -u)" | wc -l`,
  },
  {
    name: 'what describes the machine (dpkg, lscpu, lsb_release)',
    size: 'small',
    needs: ['dpkg', 'lscpu', 'lsb_release'],
    command: `dpkg -l bash coreutils | tail -2 && lscpu | grep -E '^(Architecture|CPU.s.:|Model name)' && lsb_release -is`,
  },
  {
    name: 'AddressSanitizer',
    size: 'small',
    needs: ['gcc'],
    command: `printf '#include <stdlib.h>\\nint main(int n, char **a) { int *p = malloc(8); p[n] = 7; free(p); return n > 1 ? p[0] : 0; }\\n' > x.c &&
      gcc -fsanitize=address -o $T/x x.c && $T/x && echo right; $T/x a 2>&1 | grep -o heap-use-after-free | head -1`,
  },
  {
    name: 'a debugger (gdb)',
    size: 'small',
    needs: ['gcc', 'gdb'],
    command: `printf 'int twice(int i) { return 2 * i; }\\nint main(void) { return twice(21); }\\n' > x.c && gcc -g -o $T/x x.c &&
      gdb -batch -nx -ex 'set startup-with-shell off' -ex 'break twice' -ex run -ex 'print i' -ex bt $T/x 2>/dev/null | grep -oE '= 21|i=21|main'`,
  },
  {
    name: 'file_edit by an absolute path, beside sed',
    size: 'small',
    project: 'zod',
    command: `sed -i '0,/"name": "zod"/s//"name": "dos"/' package.json && echo 1`,
    call: {
      tool: 'file_edit',
      input: (at) => ({
        path: `${at}/package.json`,
        operations: [{ oldText: '"name": "zod"', newText: '"name": "dos"' }],
      }),
      shown: () => '1\n',
    },
  },
  {
    name: 'file_grep beside a log of 14 MB, and grep',
    size: 'small',
    prepare: LOG,
    command: 'grep -rl needle . | wc -l',
    call: {
      tool: 'file_grep',
      input: () => ({ pattern: 'needle' }),
      // It passes over the log, and says so.
      shown(data) {
        const { matches, skipped } = data as { matches: { file: string }[]; skipped?: { tooLarge?: number } };
        return `${new Set(matches.map((it) => it.file)).size + (skipped?.tooLarge ?? 0)}\n`;
      },
    },
  },
  {
    name: 'file_read of three lines of a log of 14 MB, with numbers as text, and sed',
    size: 'small',
    prepare: LOG,
    command: `sed -n '299990,299992p' big.log`,
    call: {
      tool: 'file_read',
      input: () => ({ path: 'big.log', startLine: '299990', endLine: '299992' }),
      shown: (data) => (data as { content: string }).content,
    },
  },
  {
    name: 'npm install whose prepare runs husky',
    size: 'large',
    needs: ['node', 'npm', 'git'],
    prepare: `git init -q -b main . && printf '{"name":"x","version":"1.0.0","scripts":{"prepare":"husky"}}' > package.json && printf 'node_modules\\n' > .gitignore`,
    command: `npm install --no-audit --no-fund --save-dev husky@9.1.7 >/dev/null 2>&1; echo $?; git config core.hooksPath; ls .husky/_ | wc -l`,
    namesOnly: ['node_modules', '.husky'],
  },
];
