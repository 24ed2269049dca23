/** What the security rules of code_analyze find of seeded faults, and what they report of harmless code that looks alike. */
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Analysis } from '../../../../src/tools/source/analysis.ts';
import { toolRunner } from '../../../support/search.ts';

type Case = readonly [ending: string, rule: string, code: string];

/** Made here, so that no secret scanner takes them for real ones. */
const AWS = `AKIA${'IOSFODNN7ABCDEFG'}`;
const STRIPE = `sk_live_${'4eC39HqLyjWDarjtT1zdp7dc'}`;

const FAULTS: readonly Case[] = [
  ['ts', 'eval', 'eval(input);'],
  ['ts', 'eval', 'const f = new Function("a", body);'],
  ['ts', 'eval', 'window.eval(`run(${name})`);'],
  ['ts', 'timer-text', 'setTimeout("run(" + name + ")", 10);'],
  ['ts', 'command-injection', 'exec(`ls ${folder}`);'],
  ['ts', 'command-injection', "execSync('rm -rf ' + path);"],
  ['ts', 'command-injection', 'child_process.exec(`git log ${ref}`, done);'],
  ['ts', 'command-injection', 'spawn(`convert ${file}`, { shell: true });'],
  ['ts', 'command-injection', "spawn('sh', ['-c', `tar xf ${file}`]);"],
  ['ts', 'command-injection', "const command = 'ls ' + folder;\nexec(command);"],
  ['ts', 'sql-injection', 'db.query(`SELECT * FROM users WHERE id = ${id}`);'],
  ['ts', 'sql-injection', `db.query("SELECT * FROM users WHERE name = '" + name + "'");`],
  ['ts', 'sql-injection', 'await prisma.$queryRawUnsafe(`DELETE FROM t WHERE a = ${a}`);'],
  ['ts', 'sql-injection', 'const sql = `SELECT * FROM t WHERE a = ${a}`;\ndb.query(sql);'],
  ['ts', 'path-traversal', "fs.readFileSync(path.join('files', req.params.name));"],
  ['ts', 'path-traversal', 'res.sendFile(req.query.file);'],
  ['ts', 'path-traversal', 'const { name } = req.query;\nfs.readFileSync(`files/${name}`);'],
  ['ts', 'weak-hash', "crypto.createHash('md5').update(password);"],
  ['ts', 'weak-hash', "createHash('sha1');"],
  ['ts', 'weak-cipher', "crypto.createCipheriv('aes-128-ecb', key, null);"],
  ['ts', 'weak-cipher', "crypto.createCipher('aes-256-cbc', password);"],
  ['ts', 'weak-random', 'const token = Math.random().toString(36);'],
  ['ts', 'unsafe-html', 'element.innerHTML = comment;'],
  ['ts', 'unsafe-html', 'document.write("<b>" + name + "</b>");'],
  ['tsx', 'unsafe-html', 'const a = <div dangerouslySetInnerHTML={{ __html: text }} />;'],
  ['ts', 'certificates-unchecked', 'https.request({ rejectUnauthorized: false });'],
  ['ts', 'certificates-unchecked', "process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';"],
  ['ts', 'open-redirect', 'res.redirect(req.query.next);'],
  ['ts', 'request-forgery', 'await fetch(req.body.url);'],
  ['ts', 'pattern-injection', 'new RegExp(req.query.search);'],
  ['ts', 'token-unsigned', "jwt.verify(token, key, { algorithms: ['none'] });"],
  ['ts', 'secret-in-code', "const apiKey = 'f3b9c1d0a7e84412';"],
  ['ts', 'secret-in-code', "const config = { password: 'hunter2hunter2' };"],
  ['ts', 'secret-in-code', `const aws = '${AWS}';`],
  ['js', 'secret-in-code', `stripe('${STRIPE}');`],
  ['py', 'eval', 'eval(expression)\n'],
  ['py', 'command-injection', 'os.system(f"ls {folder}")\n'],
  ['py', 'command-injection', 'subprocess.run("ls " + folder, shell=True)\n'],
  ['py', 'command-injection', 'subprocess.call(command, shell=True)\n'],
  ['py', 'sql-injection', `cursor.execute(f"SELECT * FROM t WHERE a = '{a}'")\n`],
  ['py', 'sql-injection', `cursor.execute("SELECT * FROM t WHERE a = '%s'" % a)\n`],
  ['py', 'sql-injection', 'cursor.execute("SELECT * FROM t WHERE a = {}".format(a))\n'],
  ['py', 'unsafe-load', 'pickle.loads(data)\n'],
  ['py', 'unsafe-load', 'yaml.load(text)\n'],
  ['py', 'weak-hash', 'hashlib.md5(password)\n'],
  ['py', 'certificates-unchecked', 'requests.get(url, verify=False)\n'],
  ['py', 'path-traversal', 'open(os.path.join("files", request.args["name"]))\n'],
  ['py', 'weak-random', 'token = random.randint(0, 99999)\n'],
  ['py', 'temporary-name', 'name = tempfile.mktemp()\n'],
  ['py', 'debug-server', 'app.run(debug=True)\n'],
  ['py', 'secret-in-code', 'API_KEY = "f3b9c1d0a7e84412"\n'],
  ['go', 'command-injection', 'package p\nfunc f(a string) { exec.Command("sh", "-c", "ls "+a) }\n'],
  ['go', 'sql-injection', 'package p\nfunc f(a string) { db.Query(fmt.Sprintf("SELECT * FROM t WHERE a = %s", a)) }\n'],
  ['go', 'weak-hash', 'package p\nvar h = md5.New()\n'],
  ['go', 'certificates-unchecked', 'package p\nvar c = tls.Config{InsecureSkipVerify: true}\n'],
  ['go', 'secret-in-code', 'package p\nconst apiKey = "f3b9c1d0a7e84412"\n'],
  ['rs', 'command-injection', 'fn f(a: &str) { Command::new("sh").arg("-c").arg(format!("ls {}", a)); }\n'],
  ['rs', 'sql-injection', 'fn f(a: &str) { client.query(&format!("SELECT {}", a), &[]); }\n'],
  ['rs', 'certificates-unchecked', 'fn f() { Client::builder().danger_accept_invalid_certs(true); }\n'],
  ['rs', 'secret-in-code', 'const API_KEY: &str = "f3b9c1d0a7e84412";\n'],
];

/** Harmless code that looks like a fault. */
const HARMLESS: readonly (readonly [ending: string, code: string])[] = [
  ['ts', '// eval(input)\nconst text = "eval(input)";'],
  ['ts', "const found = /a/.exec(`b ${c}`);\npattern.exec(a + 'b');"],
  ['ts', "execFile('git', ['log', ref]);"],
  ['ts', "spawn('ls', [folder]);"],
  ['ts', 'exec("ls -la");'],
  ['ts', "db.query('SELECT * FROM users WHERE id = ?', [id]);"],
  ['ts', 'db.query(sql`SELECT * FROM users WHERE id = ${id}`);'],
  ['ts', 'log.run(`Selected ${count} users`);'],
  ['ts', "path.join(folder, 'a.txt');"],
  ['ts', "createHash('sha256');"],
  ['ts', "createCipheriv('aes-256-gcm', key, iv);"],
  ['ts', 'const colour = Math.random();\nconst tokens = text.split(" ");'],
  ['ts', "element.innerHTML = '';\nelement.textContent = comment;"],
  ['ts', 'element.innerHTML = DOMPurify.sanitize(comment);'],
  ['ts', 'const options = { rejectUnauthorized: true };'],
  ['ts', "res.redirect('/home');"],
  ['ts', "fetch('https://example.org/' + page);\nfetch(url);"],
  ['ts', "new RegExp('^a+$');"],
  ['ts', 'const password = process.env.PASSWORD;\nconst secretName = "database";'],
  ['ts', "const labels = { password: 'Password', token: 'your-token-here1' };"],
  ['ts', 'type Token = { token: string };\nconst token = readToken();'],
  ['ts', 'setTimeout(() => run(), 10);'],
  ['py', 'ast.literal_eval(text)\n'],
  ['py', 'subprocess.run(["ls", folder])\n'],
  ['py', 'subprocess.run("ls -la", shell=True)\n'],
  ['py', 'os.system("clear")\n'],
  ['py', 'cursor.execute("SELECT * FROM t WHERE a = %s", (a,))\n'],
  ['py', 'yaml.safe_load(text)\nyaml.load(text, Loader=yaml.SafeLoader)\n'],
  ['py', 'hashlib.sha256(a)\nhashlib.md5(a, usedforsecurity=False)\n'],
  ['py', 'requests.get(url, verify=True)\n'],
  ['py', 'open("a.txt")\ncolour = random.randint(0, 255)\n'],
  ['py', 'password = os.environ["PASSWORD"]\n'],
  ['py', 'app.run(debug=False)\n'],
  ['go', 'package p\nfunc f(a string) { exec.Command("ls", a) }\n'],
  ['go', 'package p\nfunc f(a string) { db.Query("SELECT * FROM t WHERE a = $1", a) }\n'],
  ['go', 'package p\nvar h = sha256.New()\nvar c = tls.Config{InsecureSkipVerify: false}\n'],
  ['rs', 'fn f(a: &str) { Command::new("ls").arg(a); }\n'],
  ['rs', 'fn f(a: &str) { client.query("SELECT $1", &[&a]); }\n'],
];

let workspace: string;
let tools: ReturnType<typeof toolRunner>;
beforeAll(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-security-')));
  tools = toolRunner({ workspace });
  for (const [at, [ending, , code]] of FAULTS.entries()) writeFileSync(join(workspace, `fault-${at}.${ending}`), code);
  for (const [at, [ending, code]] of HARMLESS.entries()) writeFileSync(join(workspace, `safe-${at}.${ending}`), code);
});
afterAll(() => {
  tools.servers[Symbol.dispose]();
  rmSync(workspace, { recursive: true, force: true });
});

test('the faults that are found, and the false alarms, are as many as the documentation says', async () => {
  const { security = [] } = await tools.run<Analysis>('code_analyze', { checks: ['security'] });
  const rulesIn = (file: string) => security.filter((it) => it.file === file).map((it) => it.rule);
  const missed = FAULTS.filter(([ending, rule], at) => !rulesIn(`fault-${at}.${ending}`).includes(rule));
  const alarms = security.filter((it) => it.file.startsWith('safe-'));
  // The three that go through a variable: no value is followed.
  expect(missed.map(([, rule, code]) => `${rule}: ${code}`)).toEqual([
    "command-injection: const command = 'ls ' + folder;\nexec(command);",
    'sql-injection: const sql = `SELECT * FROM t WHERE a = ${a}`;\ndb.query(sql);',
    'path-traversal: const { name } = req.query;\nfs.readFileSync(`files/${name}`);',
  ]);
  expect(alarms).toEqual([]);
  const page = readFileSync('docs/how-to/code-tools.md', 'utf8');
  expect(page).toContain(`finds ${FAULTS.length - missed.length} of ${FAULTS.length} seeded faults`);
  expect(page).toContain(`${alarms.length} of ${HARMLESS.length} harmless pieces`);
});

test('the worst come first, each with its place', async () => {
  const { security = [] } = await tools.run<Analysis>('code_analyze', { checks: ['security'] });
  const order = ['critical', 'high', 'medium', 'low'];
  const ranks = security.map((it) => order.indexOf(it.severity));
  expect(ranks).toEqual(ranks.toSorted((a, b) => a - b));
  expect(security[0]).toMatchObject({
    line: expect.any(Number),
    column: expect.any(Number),
    message: expect.any(String),
  });
});
