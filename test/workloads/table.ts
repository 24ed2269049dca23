/** Everyday tasks of developers, on projects from elsewhere. */
import type { Workload } from './workload.ts';

const TIMES = [/\b\d+(\.\d+)? ?m?s\b/g, /duration_ms \d+(\.\d+)?/g, /# duration.*/g];

/** Serves the folder on localhost, and fetches one page of it. */
const SERVE_PYTHON = `python3 -c "
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(('localhost', 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(len(urllib.request.urlopen('http://localhost:%d/package.json' % server.server_address[1]).read()))
" 2>/dev/null`;

/** Parses every module of the project in eight threads, each with a WebAssembly memory of its own. */
const LEXERS = `cat > /tmp/lexers.cjs <<'END'
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const { readFileSync, globSync, readdirSync } = require('node:fs');
if (isMainThread) {
  let left = 8, all = 0;
  for (let i = 0; i < 8; i++) new Worker(__filename).on('message', (it) => { all += it; if (--left === 0) console.log(all); });
} else {
  const { init, parse } = require(process.cwd() + '/dist/lexer.cjs');
  init.then(() => parentPort.postMessage(parse(readFileSync('dist/lexer.js', 'utf8'))[1].length));
}
END
node /tmp/lexers.cjs`;

export const WORKLOADS: readonly Workload[] = [
  {
    name: "a package's own tests (node --test)",
    size: 'small',
    project: '@pinojs/redact',
    needs: ['node'],
    command: 'node --test --test-reporter=tap test/*.test.js | grep -c "^ok"',
  },
  {
    name: 'a parser in C, compiled',
    size: 'small',
    project: '@ast-grep/lang-go',
    needs: ['gcc'],
    command: 'gcc -std=c11 -O0 -c -Isrc src/parser.c -o parser.o && size parser.o',
  },
  {
    name: 'make with several jobs',
    size: 'small',
    project: 'zod',
    needs: ['make'],
    prepare: `printf 'FILES := $(wildcard src/v4/core/*.ts)\\nall: $(FILES:.ts=.sum)\\n%%.sum: %%.ts\\n\\t@sha256sum < $< > $@\\n' > Makefile`,
    command: 'make -s -j4 && cat src/v4/core/*.sum | sha256sum',
  },
  {
    name: 'git: init, add, commit, log, diff HEAD',
    size: 'small',
    project: 'zod',
    needs: ['git'],
    command: `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
      export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
      git init -q -b main . && git add -A && git commit -qm all && echo x >> package.json && git log --format=%T && git diff --stat @`,
  },
  {
    name: 'an archive, packed and unpacked',
    size: 'small',
    project: 'typescript',
    command: 'tar czf /tmp/all.tgz lib && rm -r lib && tar xzf /tmp/all.tgz && find lib -type f | wc -l',
  },
  {
    name: 'a Python server on localhost',
    size: 'small',
    project: 'zod',
    needs: ['python3'],
    command: SERVE_PYTHON,
  },
  {
    name: 'a Node server on localhost',
    size: 'small',
    project: 'zod',
    needs: ['node'],
    command: `node -e "
      const { createServer } = require('node:http'); const { readFileSync } = require('node:fs');
      const server = createServer((_, it) => it.end(readFileSync('package.json'))).listen(0, 'localhost', async () => {
        console.log((await (await fetch('http://localhost:' + server.address().port)).text()).length); server.close(); })"`,
  },
  {
    name: 'WebAssembly in eight threads',
    size: 'small',
    project: 'es-module-lexer',
    needs: ['node'],
    command: LEXERS,
  },
  {
    name: 'an agent with a Unix socket (gpg)',
    size: 'small',
    project: 'zod',
    needs: ['gpg'],
    // In a home of its own: the path of the agent's socket may have at most 107 bytes.
    command: `export GNUPGHOME=$(mktemp -d); gpg --batch --quiet --passphrase '' --quick-gen-key a@example.org ed25519 sign never 2>/dev/null &&
      gpg --batch --quiet --detach-sign package.json && gpg --verify package.json.sig 2>/dev/null; echo $?; rm -f package.json.sig; gpgconf --kill all; rm -rf "$GNUPGHOME"`,
  },
  {
    name: 'a terminal multiplexer (tmux)',
    size: 'small',
    project: 'zod',
    needs: ['tmux'],
    // A session that ends at once also ends its server, while clients talk to it.
    command: `tmux -L workload -f /dev/null new-session -d -s w &&
      tmux -L workload send-keys -t w 'wc -c package.json > part && mv part counted' Enter;
      for i in $(seq 100); do [ -e counted ] && break; sleep 0.1; done; tmux -L workload kill-server; cat counted`,
  },
  {
    name: 'PostgreSQL and its client',
    size: 'small',
    refusesRoot: true,
    needs: ['initdb', 'pg_ctl', 'psql'],
    command: `initdb -D /tmp/pg -A trust -U me >/dev/null && pg_ctl -s -D /tmp/pg -o '-k /tmp -h ""' -l /tmp/pg.log -w start &&
      psql -h /tmp -U me -d postgres -Atc 'select sum(i) from generate_series(1, 1000) i'; pg_ctl -s -D /tmp/pg -m fast stop; rm -rf /tmp/pg /tmp/pg.log`,
  },
  {
    name: 'npm install of a Vite project, cold, and its build',
    size: 'large',
    project: 'create-vite@9',
    needs: ['node', 'npm'],
    prepare: `mkdir ../t && mv template-vanilla-ts/* ../t && rm -rf ./* && mv ../t/* . && rmdir ../t && mv _gitignore .gitignore; touch .gitignore`,
    command:
      'npm install --no-audit --no-fund >/dev/null 2>&1; echo $?; npm run build 2>&1 | grep -c dist/; ls node_modules/@rolldown node_modules/@rollup node_modules/@esbuild 2>/dev/null',
    varies: TIMES,
    namesOnly: ['node_modules'],
  },
  {
    name: 'tests of zod by vitest',
    size: 'large',
    project: 'zod',
    needs: ['node', 'npm'],
    prepare: 'npm install --no-audit --no-fund --no-save --ignore-scripts vitest@3 >/dev/null',
    command: 'npx vitest run src/v4/core 2>&1 | grep -E "Tests|Test Files"',
    varies: TIMES,
    namesOnly: ['node_modules'],
  },
];
