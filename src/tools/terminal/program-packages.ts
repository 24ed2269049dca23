/** Which packages bring programs that commands often lack. A static list: nothing is looked up or installed. */

/** A way to get a program: a line for a person to run, or for the agent if the workspace has the program. */
export interface ProgramSource {
  readonly from: 'workspace' | 'debian' | 'npm' | 'pip' | 'cargo' | 'go' | 'rustup' | 'toolchain';
  readonly run: string;
  /** The call by which an agent can ask a person for it. */
  readonly request?: { readonly tool: 'toolchain_request'; readonly input: { readonly name: string } };
}

type Packages = Readonly<Partial<Record<Exclude<ProgramSource['from'], 'workspace'>, string>>>;

const PACKAGES: Readonly<Record<string, Packages>> = {
  // Languages and their package managers
  node: { toolchain: 'node', debian: 'nodejs' },
  npm: { toolchain: 'npm', debian: 'npm' },
  npx: { toolchain: 'npm', debian: 'npm' },
  pnpm: { toolchain: 'pnpm', npm: 'pnpm' },
  yarn: { toolchain: 'yarn', npm: 'yarn' },
  bun: { npm: 'bun' },
  deno: { npm: 'deno' },
  tsc: { toolchain: 'typescript', npm: 'typescript' },
  tsx: { npm: 'tsx' },
  python: { debian: 'python-is-python3' },
  python3: { debian: 'python3' },
  pip: { debian: 'python3-pip' },
  pip3: { debian: 'python3-pip' },
  pipx: { debian: 'pipx' },
  poetry: { debian: 'python3-poetry', pip: 'poetry' },
  uv: { pip: 'uv' },
  virtualenv: { debian: 'virtualenv', pip: 'virtualenv' },
  ruby: { debian: 'ruby' },
  bundle: { debian: 'bundler' },
  php: { debian: 'php-cli' },
  composer: { debian: 'composer' },
  perl: { debian: 'perl' },
  lua: { debian: 'lua5.4' },
  java: { debian: 'default-jre-headless' },
  javac: { debian: 'default-jdk-headless' },
  mvn: { debian: 'maven' },
  gradle: { debian: 'gradle' },
  go: { debian: 'golang-go' },
  gofmt: { debian: 'golang-go' },
  gopls: { debian: 'gopls', go: 'golang.org/x/tools/gopls' },
  cargo: { debian: 'cargo' },
  rustc: { debian: 'rustc' },
  rustfmt: { debian: 'rustfmt', rustup: 'rustfmt' },
  'cargo-clippy': { debian: 'rust-clippy', rustup: 'clippy' },
  'rust-analyzer': { debian: 'rust-analyzer', rustup: 'rust-analyzer' },
  ghc: { debian: 'ghc' },
  elixir: { debian: 'elixir' },
  erl: { debian: 'erlang-base' },
  // Tests, linters, formatters
  pytest: { debian: 'python3-pytest', pip: 'pytest' },
  ruff: { pip: 'ruff', cargo: 'ruff' },
  black: { debian: 'black', pip: 'black' },
  flake8: { debian: 'flake8', pip: 'flake8' },
  mypy: { debian: 'mypy', pip: 'mypy' },
  pyright: { toolchain: 'pyright', npm: 'pyright' },
  eslint: { npm: 'eslint' },
  prettier: { npm: 'prettier' },
  biome: { npm: '@biomejs/biome' },
  vitest: { npm: 'vitest' },
  jest: { npm: 'jest' },
  shellcheck: { debian: 'shellcheck' },
  shfmt: { debian: 'shfmt' },
  'clang-format': { debian: 'clang-format' },
  'clang-tidy': { debian: 'clang-tidy' },
  // Building
  gcc: { debian: 'gcc' },
  cc: { debian: 'gcc' },
  'g++': { debian: 'g++' },
  'c++': { debian: 'g++' },
  clang: { debian: 'clang' },
  make: { debian: 'make' },
  cmake: { debian: 'cmake' },
  ninja: { debian: 'ninja-build' },
  meson: { debian: 'meson' },
  autoconf: { debian: 'autoconf' },
  'pkg-config': { debian: 'pkg-config' },
  protoc: { debian: 'protobuf-compiler' },
  gdb: { debian: 'gdb' },
  just: { debian: 'just', cargo: 'just' },
  // Everyday programs
  git: { debian: 'git' },
  'git-lfs': { debian: 'git-lfs' },
  gh: { debian: 'gh' },
  curl: { debian: 'curl' },
  wget: { debian: 'wget' },
  jq: { debian: 'jq' },
  yq: { debian: 'yq' },
  rg: { debian: 'ripgrep', cargo: 'ripgrep' },
  fd: { debian: 'fd-find', cargo: 'fd-find' },
  fzf: { debian: 'fzf' },
  bat: { debian: 'bat', cargo: 'bat' },
  tree: { debian: 'tree' },
  rsync: { debian: 'rsync' },
  zip: { debian: 'zip' },
  unzip: { debian: 'unzip' },
  '7z': { debian: '7zip' },
  xz: { debian: 'xz-utils' },
  zstd: { debian: 'zstd' },
  file: { debian: 'file' },
  bc: { debian: 'bc' },
  xxd: { debian: 'xxd' },
  sqlite3: { debian: 'sqlite3' },
  psql: { debian: 'postgresql-client' },
  mysql: { debian: 'default-mysql-client' },
  'redis-cli': { debian: 'redis-tools' },
  ssh: { debian: 'openssh-client' },
  openssl: { debian: 'openssl' },
  ps: { debian: 'procps' },
  convert: { debian: 'imagemagick' },
  ffmpeg: { debian: 'ffmpeg' },
  pandoc: { debian: 'pandoc' },
  dot: { debian: 'graphviz' },
  strace: { debian: 'strace' },
  zsh: { debian: 'zsh' },
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
  const packages = Object.hasOwn(PACKAGES, program) ? (PACKAGES[program] as Packages) : {};
  return Object.entries(packages).map(([from, name]) => {
    const source = from as keyof Packages;
    const request = { tool: 'toolchain_request', input: { name } } as const;
    return { from: source, run: LINES[source](name), ...(source === 'toolchain' && { request }) };
  });
}
