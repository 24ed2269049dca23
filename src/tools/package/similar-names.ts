/** Finds names that could be taken for those of popular packages: one slip away, or the same but for dashes and dots. */
import type { RegistryKind } from '../context/requests.ts';

const POPULAR: Readonly<Record<RegistryKind, ReadonlySet<string>>> = {
  npm: wordsOf(`@angular/core @aws-sdk/client-s3 @babel/core @biomejs/biome @eslint/js @nestjs/core @playwright/test @prisma/client
  @reduxjs/toolkit @sentry/node @storybook/react @supabase/supabase-js @tailwindcss/vite @tanstack/react-query
  @testing-library/react @types/node @types/react @typescript-eslint/parser @vitejs/plugin-react
  accepts acorn ajv angular ansi-regex ansi-styles argparse async autoprefixer aws-sdk axios babel-core babel-loader
  balanced-match base64-js bcrypt better-sqlite3 bluebird body-parser bootstrap brace-expansion braces browserify
  browserslist buffer bufferutil bytes camelcase chai chalk chart.js cheerio chokidar classnames cli-spinners clipboard
  clsx coffee-script color-convert color-name colors commander compression concat-map concurrently connect convict
  cookie cookie-parser cookie-session copyfiles core-js cors cross-env cross-spawn crypto-js css-loader csv-parse cypress
  d3 date-fns dayjs debug decimal.js deepmerge depd destroy discord.js dotenv drizzle-orm ejs electron emoji-regex
  enzyme esbuild escape-html escape-string-regexp eslint eslint-config-prettier eslint-plugin-import
  eslint-plugin-react esprima ethers eventemitter3 events execa express express-session extend fast-deep-equal
  fast-glob fastify file-loader fill-range finalhandler find-up firebase fs-extra formidable framer-motion
  fsevents function-bind get-stream glob glob-parent globby got graceful-fs graphql grunt gulp handlebars has-flag
  helmet highlight.js history hono html-webpack-plugin http-errors http-proxy husky i18next iconv-lite ieee754
  immer immutable inherits ini inquirer ioredis ipaddr.js is-number isarray isexe jasmine jest jiti joi jquery
  js-tokens js-yaml jsdom json5 jsonfile jsonwebtoken karma kind-of knex koa less level lint-staged lodash
  lodash-es lodash.merge log4js loose-envify lru-cache lucide-react magic-string marked material-ui merge2
  micromatch mime mime-types minimatch minimist mitt mkdirp mobx mocha moment mongodb mongoose morgan multer mysql
  mysql2 nanoid negotiator next node-fetch node-forge node-gyp node-sass nodemailer nodemon normalize-path
  npm-run-all nuxt nyc object-assign object-inspect once openai optimist ora p-limit p-map parcel parse5 passport
  path-to-regexp pg picocolors picomatch pino playwright pnpm postcss postcss-loader preact prettier prisma
  prop-types proxy-addr pug puppeteer q qs querystring ramda range-parser raw-body react react-dom react-redux
  react-router react-router-dom react-scripts readable-stream readdirp redis redux regenerator-runtime request
  resolve rimraf rollup rxjs safe-buffer sass sass-loader scheduler semver send sequelize serialize-javascript
  serve-static shelljs signal-exit sinon socket.io source-map source-map-support sqlite3 string-width stripe
  strip-ansi style-loader styled-components stylelint superagent supertest supports-color svelte swr tailwindcss tar
  terser three through2 tinymce tmp ts-jest ts-loader ts-node tslib tsup tsx turbo type-is typeorm typescript
  typescript-eslint uglify-js underscore undici unified unist-util-visit update-notifier uuid validator vite vitest vue
  vue-router vuex watchpack web3 webpack webpack-cli webpack-dev-server which winston wordwrap ws xml2js yallist
  yaml yargs yarn zod zone.js zustand`),
  python:
    wordsOf(`aiohttp alembic annotated-types anyio argon2-cffi asyncpg attrs babel bandit bcrypt beautifulsoup4 black boto3 botocore
  cachetools celery certifi cffi chardet charset-normalizer click colorama coverage cryptography cython dask
  django djangorestframework dnspython docutils email-validator execnet fastapi filelock flake8 flask fonttools fsspec
  gevent google-api-core google-auth greenlet grpcio gunicorn httpcore httpx huggingface-hub hypothesis idna importlib-metadata
  ipython isort itsdangerous jinja2 jmespath joblib jsonschema jupyter keras kiwisolver langchain lxml mako markdown
  markupsafe marshmallow matplotlib multidict mypy mysqlclient nltk notebook numba numpy oauthlib openai opencv-python
  openpyxl packaging pandas paramiko passlib pathspec pillow platformdirs playwright pluggy poetry prometheus-client
  protobuf psutil psycopg2 psycopg2-binary pyarrow pyasn1 pycparser pycryptodome pydantic pydantic-core pygments pyjwt
  pylint pymongo pymysql pyparsing pytest pytest-cov python-dateutil python-dotenv pytorch pytz pyyaml redis regex requests
  requests-oauthlib rich ruff scikit-learn scipy scrapy seaborn selenium sentry-sdk setuptools simplejson
  sniffio soupsieve sphinx sqlalchemy starlette sympy tabulate tensorflow tokenizers toml tomli torch torchvision
  tornado tqdm transformers typer typing-extensions tzdata ujson urllib3 uvicorn virtualenv watchdog websocket-client
  websockets werkzeug wheel wrapt xgboost yarl zipp`),
};

/** Widely used packages whose names are one slip from a popular one: not a mistake for it. */
const DISTINCT: Readonly<Record<RegistryKind, ReadonlySet<string>>> = {
  npm: wordsOf(`@testing-library/preact ansistyles aws-cdk brace buffers camel-case cli-spinner clipboardy coffeescript color colord cookies crypt
  css-parse csv-parser dargs enquirer eventemitter2 findup gaxios grant graphiql is-array isnumber jsdoc json3 jsonc jsonp leven merge
  mkdirp2 mquery mssql npm-run-all2 object.assign optimism parse query-string rambda safer-buffer semiver sqlite through tslint
  tslint-config-prettier uglify-es vargs vasync word-wrap xml-js xtend`),
  python: wordsOf(
    `authlib cattrs cchardet gpytorch hjson ijson markdown2 psycopg psycopg-binary pyaml pycryptodomex pymssql scapy usort willow`,
  ),
};

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.split(/\s+/).filter((it) => it !== ''));
}

/** Shorter names are one slip away from too many others. */
const CHARS_MIN = 5;
const bare = (name: string): string => name.toLowerCase().replaceAll(/[-_.]/g, '');

/** The popular package that a name is like; undefined if there is none, or if it is popular itself. Pure. */
export function similarTo(name: string, ecosystem: RegistryKind): string | undefined {
  const popular = POPULAR[ecosystem];
  if (popular.has(name) || DISTINCT[ecosystem].has(name) || name.length < CHARS_MIN || name.length > 64)
    return undefined;
  const same = [...popular].find((it) => bare(it) === bare(name));
  // Python's names are the same whatever their dashes and dots are, and Go's paths may differ by a version at the end.
  if (same !== undefined) return ecosystem === 'python' ? undefined : same;
  return [...popular].find((it) => it.length >= CHARS_MIN && isOneSlip(name, it));
}

/** Whether one letter was added, left out, replaced, or swapped with its neighbour. Pure. */
function isOneSlip(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  let at = 0;
  while (at < a.length && at < b.length && a[at] === b[at]) at += 1;
  const [restA, restB] = [a.slice(at), b.slice(at)];
  if (restA.slice(1) === restB || restA === restB.slice(1) || restA.slice(1) === restB.slice(1)) return true;
  return restA[0] === restB[1] && restA[1] === restB[0] && restA.slice(2) === restB.slice(2);
}
