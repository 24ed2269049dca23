/** Everyday tasks of developers, on projects from elsewhere. */
import { FROM_ISSUES } from './issues.ts';
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
const LEXERS = `cat > $T/lexers.cjs <<'END'
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
node $T/lexers.cjs`;

/** Names and dates that make commits the same on both sides. */
const GIT_DATES =
  'export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=advice.detachedHead GIT_CONFIG_VALUE_0=false';

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
    command: 'tar czf $T/all.tgz lib && rm -r lib && tar xzf $T/all.tgz && find lib -type f | wc -l',
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
    command: `export SHELL=/bin/bash; tmux -L workload -f /dev/null new-session -d -s w &&
      tmux -L workload send-keys -t w 'wc -c package.json > part && mv part counted' Enter;
      for i in $(seq 100); do [ -e counted ] && break; sleep 0.1; done; tmux -L workload kill-server; cat counted`,
  },
  {
    name: 'PostgreSQL and its client',
    size: 'small',
    refusesRoot: true,
    needs: ['initdb', 'pg_ctl', 'psql'],
    command: `initdb -D $T/pg -A trust -U me >/dev/null && pg_ctl -s -D $T/pg -o '-k $T -h ""' -l $T/pg.log -w start &&
      psql -h $T -U me -d postgres -Atc 'select sum(i) from generate_series(1, 1000) i'; pg_ctl -s -D $T/pg -m fast stop; rm -rf $T/pg $T/pg.log`,
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
  {
    name: 'git: config, remote, branch renamed, submodule, worktree, stash, rebase',
    size: 'small',
    project: '@pinojs/redact',
    needs: ['git'],
    command: `${GIT_DATES}; git init -q -b main . && git config user.name a && git config user.email a@example.org &&
      git add -A && git commit -qm one && git remote add origin https://example.org/x.git && git branch -m main trunk &&
      git config branch.trunk.description text && git checkout -qb side && echo a > a && git add a && git commit -qm two &&
      git checkout -q trunk && echo b > b && git add b && git commit -qm three && git rebase -q trunk side && echo c >> a &&
      git stash -q && git stash pop -q && git worktree add -q $T/tree HEAD~1 && git log --format='%T %s' && git status -s &&
      git -C $T/tree log --format=%T -1 && git remote -v && git branch --list && git worktree remove $T/tree && rm -rf .git`,
  },
  {
    name: 'git: sparse checkout, remotes given other names and addresses, submodules set up',
    size: 'small',
    project: 'zod',
    needs: ['git'],
    prepare: `${GIT_DATES}; git init -q -b main . && git config user.name a && git config user.email a@example.org &&
      printf '[submodule "s"]\n\tpath = s\n\turl = https://example.org/s.git\n' > .gitmodules && git add -A &&
      git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,s && git commit -qm one`,
    command: `git sparse-checkout set src && ls && git sparse-checkout add v4 && git sparse-checkout list && git status -s &&
      git sparse-checkout disable && git status -s && git remote add origin https://example.org/x.git &&
      git remote set-url origin git@example.org:x.git && git remote rename origin up && git remote -v && git remote remove up &&
      git remote && git submodule init && git config --get-regexp submodule && git log --format='%T %s'`,
  },
  {
    name: "an archive of another user's files, copied and given to oneself",
    size: 'small',
    project: 'zod',
    command: `tar cf $T/t.tar --owner=nobody:65534 --group=nogroup:65534 src && rm -r src && tar xf $T/t.tar && cp -a src copy &&
      chown -R "$(id -u):$(id -g)" copy && diff -r src copy && find copy -type f | wc -l && rm -r copy`,
  },
  {
    name: 'a SQLite database in WAL mode',
    size: 'small',
    project: 'zod',
    needs: ['sqlite3'],
    command: `sqlite3 t.db 'pragma journal_mode=wal; create table t(a, b); with recursive c(i) as (select 1 union all select i + 1 from c
      where i < 20000) insert into t select i, hex(i * 7) from c; create index i on t(b); select count(*), sum(a) from t where b like "3%"' &&
      sqlite3 t.db 'pragma integrity_check' && rm t.db*`,
  },
  {
    name: 'Python: bytecode, a zip application, subprocesses',
    size: 'small',
    project: 'zod',
    needs: ['python3'],
    command: `mkdir app && printf 'import sys, subprocess, tempfile, pathlib, concurrent.futures\ndef main():\n  with concurrent.futures.ProcessPoolExecutor(4) as pool:\n    print(sum(pool.map(abs, range(1000))))\n  print(subprocess.run(["wc", "-c", "package.json"], capture_output=True, text=True).stdout)\n  with tempfile.TemporaryDirectory() as d: pathlib.Path(d, "x").write_text("y")\nif __name__ == "__main__": main()\n' > app/__main__.py &&
      python3 -m compileall -q app && python3 -m zipapp app -o app.pyz && python3 app.pyz; rm -r app app.pyz`,
  },
  {
    name: 'C++ through CMake',
    size: 'small',
    needs: ['cmake', 'g++', 'make'],
    command: `printf 'cmake_minimum_required(VERSION 3.10)\nproject(x CXX)\nadd_library(l STATIC l.cpp)\nadd_executable(x x.cpp)\ntarget_link_libraries(x l)\n' > CMakeLists.txt &&
      printf 'int twice(int i) { return 2 * i; }\n' > l.cpp && printf '#include <cstdio>\nint twice(int);\nint main() { std::printf("%%d\\n", twice(21)); }\n' > x.cpp &&
      cmake -S . -B $T/cmake-build >/dev/null && cmake --build $T/cmake-build -j2 >/dev/null && $T/cmake-build/x; rm -rf $T/cmake-build`,
  },
  {
    name: 'Rust by cargo, without dependencies',
    size: 'small',
    needs: ['cargo'],
    command: `export CARGO_TARGET_DIR=$T/cargo-target; cargo init -q --name x --vcs none . && cargo build -q --offline && $T/cargo-target/debug/x && cargo test -q --offline 2>&1 | grep -c ok; rm -rf $T/cargo-target`,
  },
  {
    name: 'Java, compiled and run',
    size: 'small',
    needs: ['javac', 'java'],
    command: `printf 'public class X { public static void main(String[] a) { System.out.println(java.util.stream.IntStream.range(0, 1000).parallel().sum()); } }\n' > X.java && (javac -d $T/classes X.java && java -cp $T/classes X) 2>&1 | grep -v '^Picked up'; rm -rf $T/classes`,
  },
  {
    name: 'keys and signatures (openssl, ssh-keygen)',
    size: 'small',
    project: 'zod',
    needs: ['openssl', 'ssh-keygen'],
    command: `d=$(mktemp -d); openssl req -x509 -newkey rsa:2048 -nodes -keyout $d/k -out $d/c -days 1 -subj /CN=localhost 2>/dev/null && openssl verify -CAfile $d/c $d/c | sed 's/.*: //' &&
      ssh-keygen -q -t ed25519 -N '' -f $d/id && ssh-keygen -q -Y sign -f $d/id -n file package.json 2>/dev/null && printf 'a@example.org ' > $d/who && cat $d/id.pub >> $d/who &&
      ssh-keygen -q -Y verify -f $d/who -I a@example.org -n file -s package.json.sig < package.json; echo $?; rm -rf $d package.json.sig`,
  },
  {
    name: 'many small processes (find, xargs -P, awk, sed, sort)',
    size: 'small',
    project: 'zod',
    command: `find . -name '*.ts' -print0 | sort -z | head -z -n 120 | xargs -0 -P4 -n4 sha256sum | sort -k2 | awk '{ print substr($1, 1, 8), $2 }' | sed 's/[a-f]/x/g' | tail -20`,
  },
  {
    name: 'text of a whole tree changed in place (perl -pi)',
    size: 'small',
    project: 'zod',
    needs: ['perl'],
    command: `find src -name '*.ts' -exec perl -pi -e 's/\\bZodType\\b/ZodKind/g' {} + && grep -rl ZodKind src | wc -l`,
  },
  {
    name: 'jobs, traps, signals and exit codes of a shell',
    size: 'small',
    command: `trap 'echo ended' EXIT; (trap 'echo term; exit 7' TERM; while :; do sleep 0.05; done) & job=$!; sleep 0.2; kill $job; wait $job; echo $?;
      exec 9>lock; flock -n 9 && (exec 9<lock; flock -n 9 || echo locked); mkfifo p; (echo through > p) & cat p; rm p lock; exec 2>/dev/null; sh -c 'kill -9 $$' 2>/dev/null; echo $?`,
  },
  {
    name: 'archives of other kinds (zip, xz in threads)',
    size: 'small',
    project: 'zod',
    needs: ['zip', 'unzip', 'xz'],
    command: `zip -qr $T/a.zip src && unzip -qt $T/a.zip >/dev/null && echo whole && tar c src | xz -T2 -1 > $T/a.xz && xz -dc $T/a.xz | tar t | wc -l; rm $T/a.zip $T/a.xz`,
  },
  {
    name: "npm: a project's script and its program, offline",
    size: 'small',
    needs: ['node', 'npm'],
    command: `printf '{"name":"x","version":"1.0.0","scripts":{"pretest":"echo before","test":"says hello"},"bin":{"says":"says.js"},"dependencies":{"y":"file:y"}}' > package.json && mkdir y && printf '{"name":"y","version":"1.0.0","bin":{"says":"says.js"}}' > y/package.json && printf '#!/usr/bin/env node\nconsole.log(process.argv[2], process.env.npm_lifecycle_event)\n' > y/says.js && chmod +x y/says.js &&
      npm install --offline --no-audit --no-fund --loglevel=error >/dev/null && npm test --silent && npm ls --json | grep -c version; rm -rf node_modules`,
  },
  {
    name: 'TypeScript: the compiler over zod',
    size: 'large',
    project: 'zod',
    needs: ['node', 'npm'],
    prepare: 'npm install --no-audit --no-fund --no-save --ignore-scripts typescript@5 >/dev/null 2>&1',
    command:
      'npx tsc --noEmit --skipLibCheck --target es2022 --module nodenext --moduleResolution nodenext --strict src/v4/core/*.ts | wc -l',
    namesOnly: ['node_modules'],
  },
  {
    name: 'prettier and esbuild over zod',
    size: 'large',
    project: 'zod',
    needs: ['node', 'npm'],
    prepare: 'npm install --no-audit --no-fund --no-save prettier@3 esbuild@0.25 >/dev/null 2>&1',
    command:
      'npx prettier --check src/v4/core 2>&1 | tail -1 | cut -c1-20; npx esbuild src/v4/core/index.ts --bundle --format=esm --outfile=$T/o.js --log-level=error; sha256sum < $T/o.js; rm $T/o.js',
    namesOnly: ['node_modules'],
  },
  ...FROM_ISSUES,
];
