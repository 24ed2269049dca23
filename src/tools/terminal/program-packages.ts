/** Which packages bring programs that commands often lack. A static list: nothing is looked up or installed. */

/** A way to get a program: a line for a person to run, or for the agent if the workspace has the program. */
export interface ProgramSource {
  readonly from: 'workspace' | 'debian' | 'npm' | 'pip' | 'cargo' | 'go' | 'rustup' | 'toolchain';
  readonly run: string;
  /** The call by which an agent can ask a person for it. */
  readonly request?: { readonly tool: 'toolchain_request'; readonly input: { readonly name: string } };
}

type Packages = Readonly<Partial<Record<Exclude<ProgramSource['from'], 'workspace'>, string>>>;

/** Programs that the package of their name brings, and nothing else. */
const OWN_PACKAGES: Readonly<Partial<Record<keyof Packages, readonly string[]>>> = {
  debian: [
    ...['python3', 'pipx', 'ruby', 'composer', 'perl', 'gradle', 'cargo', 'rustc', 'ghc', 'elixir', 'shellcheck'],
    ...['shfmt', 'clang-format', 'clang-tidy', 'gcc', 'g++', 'clang', 'make', 'cmake', 'meson', 'autoconf'],
    ...['pkg-config', 'gdb', 'git', 'git-lfs', 'gh', 'curl', 'wget'],
    ...['jq', 'yq', 'fzf', 'tree', 'rsync', 'zip', 'unzip'],
    ...['zstd', 'file', 'bc', 'xxd', 'sqlite3', 'openssl', 'ffmpeg', 'pandoc', 'strace', 'zsh'],
  ],
  npm: ['bun', 'deno', 'tsx', 'eslint', 'prettier', 'vitest', 'jest'],
  pip: ['uv'],
};

const PACKAGES: Readonly<Record<string, Packages>> = {
  // Languages and their package managers
  node: { toolchain: 'node', debian: 'nodejs' },
  npm: { toolchain: 'npm', debian: 'npm' },
  npx: { toolchain: 'npm', debian: 'npm' },
  pnpm: { toolchain: 'pnpm', npm: 'pnpm' },
  yarn: { toolchain: 'yarn', npm: 'yarn' },
  tsc: { toolchain: 'typescript', npm: 'typescript' },
  python: { debian: 'python-is-python3' },
  pip: { debian: 'python3-pip' },
  pip3: { debian: 'python3-pip' },
  poetry: { debian: 'python3-poetry', pip: 'poetry' },
  virtualenv: { debian: 'virtualenv', pip: 'virtualenv' },
  bundle: { debian: 'bundler' },
  php: { debian: 'php-cli' },
  lua: { debian: 'lua5.4' },
  java: { debian: 'default-jre-headless' },
  javac: { debian: 'default-jdk-headless' },
  mvn: { debian: 'maven' },
  go: { debian: 'golang-go' },
  gofmt: { debian: 'golang-go' },
  gopls: { debian: 'gopls', go: 'golang.org/x/tools/gopls' },
  rustfmt: { debian: 'rustfmt', rustup: 'rustfmt' },
  'cargo-clippy': { debian: 'rust-clippy', rustup: 'clippy' },
  'rust-analyzer': { debian: 'rust-analyzer', rustup: 'rust-analyzer' },
  erl: { debian: 'erlang-base' },
  // Tests, linters, formatters
  pytest: { debian: 'python3-pytest', pip: 'pytest' },
  ruff: { pip: 'ruff', cargo: 'ruff' },
  black: { debian: 'black', pip: 'black' },
  flake8: { debian: 'flake8', pip: 'flake8' },
  mypy: { debian: 'mypy', pip: 'mypy' },
  pyright: { toolchain: 'pyright', npm: 'pyright' },
  biome: { npm: '@biomejs/biome' },
  // Building
  cc: { debian: 'gcc' },
  'c++': { debian: 'g++' },
  ninja: { debian: 'ninja-build' },
  protoc: { debian: 'protobuf-compiler' },
  just: { debian: 'just', cargo: 'just' },
  // Everyday programs
  rg: { debian: 'ripgrep', cargo: 'ripgrep' },
  fd: { debian: 'fd-find', cargo: 'fd-find' },
  bat: { debian: 'bat', cargo: 'bat' },
  '7z': { debian: '7zip' },
  xz: { debian: 'xz-utils' },
  psql: { debian: 'postgresql-client' },
  mysql: { debian: 'default-mysql-client' },
  'redis-cli': { debian: 'redis-tools' },
  ssh: { debian: 'openssh-client' },
  ps: { debian: 'procps' },
  convert: { debian: 'imagemagick' },
  dot: { debian: 'graphviz' },
};

const LINES: Readonly<Record<keyof Packages, (name: string) => string>> = {
  toolchain: (name) => `ringfence toolchain add ${name}`,
  debian: (name) => `apt-get install ${name}`,
  npm: (name) => `npm install --save-dev ${name}`,
  pip: (name) => `pip install ${name}`,
  cargo: (name) => `cargo install ${name}`,
  go: (name) => `go install ${name}@latest`,
  rustup: (name) => `rustup component add ${name}`,
};

/** The ways to get a program, the best first; empty if the list does not have it. */
export function sourcesOf(program: string): ProgramSource[] {
  const own = Object.entries(OWN_PACKAGES).find(([, programs]) => programs.includes(program))?.[0];
  const packages = own !== undefined ? { [own]: program } : Object.hasOwn(PACKAGES, program) ? PACKAGES[program] : {};
  return Object.entries(packages ?? {}).map(([from, name]) => {
    const source = from as keyof Packages;
    const request = { tool: 'toolchain_request', input: { name } } as const;
    return { from: source, run: LINES[source](name), ...(source === 'toolchain' && { request }) };
  });
}
