import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { tokenHash } from '../../../../src/lib/token-hash.ts'
import { world } from './cli-world.ts'

const text = `# who is who
projects:
  - { id: 1, path: platform/clusters, groups: [{ id: 7, path: platform }], git: { url: /srv/git/x.git } } # here
  - { id: 2, path: apps/web, groups: [{ id: 8, path: apps }] }
agents:
  # the first
  - id: 41
    name: prod
    project: 1
    reads: [2] # its charts
    tokens:
      - { name: eu, sha256: ${'a'.repeat(64)} } # in Frankfurt
      - { sha256: ${'b'.repeat(64)}, expires: 2020-01-01 }
  # the last
  - { id: 42, name: prod, project: 2, tokens: [{ sha256: ${'c'.repeat(64)}, expires: 2099-01-01 }] } # its end
users:
  - id: 5
    username: ada # she
    tokens: [{ name: laptop, sha256: ${'d'.repeat(64)} }]
    roles: { projects: { 1: [maintainer] }, groups: { 8: [developer, guest] } }
  - { id: 6, username: bob }
ci_tokens:
  - { sha256: ${'e'.repeat(64)}, user: 5, project: 1, job: 900, pipeline: 90 } # nightly
environments:
  # where it runs
  - { project: 1, slug: production, on: [{ agent: 41 }, { agent: 42, namespace: web }] }
  - { project: 2, slug: only, on: [{ agent: 42 }] }
`

async function filled(t: Test) {
  const parts = world(t, text)
  const comments = async () => [...(await readFile(parts.file, 'utf8')).matchAll(/# (.*)$/gm)].map(([, said]) => said)
  return { ...parts, comments }
}

t.test('list and show say what there is, and change nothing', async (t) => {
  const { kas, file } = await filled(t)
  const shown: Readonly<Record<string, string>> = {
    'agent list':
      'ID  AGENT  PROJECT            TOKENS\n41  prod   platform/clusters  2\n42  prod   apps/web           1\n',
    'agent list --project apps/web': 'ID  AGENT  PROJECT   TOKENS\n42  prod   apps/web  1\n',
    'agent show prod --project platform/clusters':
      'agent prod, id 41, of platform/clusters\nreads apps/web\n\nOF          NAME  SHA256        EXPIRES\nagent prod  eu    aaaaaaaaaaaa  never\nagent prod  -     bbbbbbbbbbbb  2020-01-01 (over)\n',
    'user list':
      'ID  USER  TOKENS  ROLES\n5   ada   1       platform/clusters=maintainer, apps=developer+guest\n6   bob   0       -\n',
    'user show bob': 'user bob, id 6\n\nno tokens\n',
    'token list --user ada': 'OF        NAME    SHA256        EXPIRES\nuser ada  laptop  dddddddddddd  never\n',
    'token show cccccccc': 'OF          NAME  SHA256        EXPIRES\nagent prod  -     cccccccccccc  2099-01-01\n',
    'token show eeeeeeee': 'OF       NAME  SHA256        EXPIRES\njob 900  -     eeeeeeeeeeee  never\n',
  }
  for (const [line, out] of Object.entries(shown)) t.match(await kas(line), { code: 0, stdout: out, stderr: '' }, line)
  t.equal((await kas('token list')).stdout.split('\n').length, 7)
  t.same(JSON.parse((await kas('token list --agent prod --project apps/web -o json')).stdout).items, [
    { ownerKind: 'agent', owner: 'prod', sha256: 'c'.repeat(64), expires: '2099-01-01' },
  ])
  t.match(JSON.parse((await kas('user show ada -o json')).stdout), { id: 5, name: 'ada', tokens: [{ name: 'laptop' }] })
  t.match(JSON.parse((await kas('agent list -o json')).stdout).items, [{ id: 41, tokenCount: 2 }, { id: 42 }])
  t.match(JSON.parse((await kas('agent show prod --project apps/web -o json')).stdout), { id: 42, reads: [] })
  t.equal(await readFile(file, 'utf8'), text)
})

t.test('an empty directory has nothing to list', async (t) => {
  const { kas } = world(t, '{}\n')
  for (const [line, out] of [
    ['agent list', 'no agents\n'],
    ['user list', 'no users\n'],
    ['token list', 'no tokens\n'],
  ] as const) {
    t.match(await kas(line), { code: 0, stdout: out })
  }
})

t.test('an agent that is taken out leaves nothing, and its id stays its own', async (t) => {
  const { kas, read, comments } = await filled(t)
  const deleted = await kas('agent delete prod --project apps/web')
  t.match(deleted, {
    code: 0,
    stdout: '',
    stderr: /agent prod with id 42 is taken out \(tokens: 1, entries of environments: 3\)/,
  })
  const contents = await read()
  t.same([...contents.agents.keys()], [41n])
  t.notOk(contents.agentTokens.has('c'.repeat(64)))
  t.same([...contents.environments.keys()], [41n])
  t.same(await comments(), [
    'who is who',
    'here',
    'the first',
    'its charts',
    'in Frankfurt',
    'she',
    'nightly',
    'where it runs',
  ])
  await kas('agent create prod --project apps/web')
  t.same([...(await read()).agents.keys()], [41n, 43n], 'a kubeconfig that names 42 reaches nobody')
})

t.test('a user who is deleted and made again is another one', async (t) => {
  const { kas, read } = await filled(t)
  t.match(await kas('user delete ada'), { code: 0, stderr: /\(tokens: 1, tokens of CI jobs: 1\)/ })
  const contents = await read()
  t.same([contents.userTokens.size, contents.jobTokens.size], [0, 0])
  await kas('user delete bob')
  await kas('user create ada')
  const [again] = (await read()).userTokens.values()
  t.match(again?.owner, { id: 7n, username: 'ada' })
})

t.test('a token is rotated: name and end stay, the old one is void', async (t) => {
  const { kas, read, comments } = await filled(t)
  const before = await comments()
  const rotated = await kas('agent rotate prod --project apps/web')
  t.match(rotated, { code: 0, stdout: /^glagent-[\w-]{48}\n$/, stderr: /the old one is void:/ })
  const { agentTokens } = await read()
  t.notOk(agentTokens.has('c'.repeat(64)))
  t.match(agentTokens.get(tokenHash(rotated.stdout.trim())), { owner: { id: 42n }, expiresAt: Date.UTC(2099, 0, 1) })
  t.same(await comments(), before)
  const user = await kas('user rotate ada --token-name laptop --expires 30d')
  t.match((await kas(`token show ${tokenHash(user.stdout.trim())}`)).stdout, /^user ada {2}laptop/m)
  t.match(await kas('user rotate ada'), { code: 0 }, 'there is but one')
})

t.test('with --keep the old one goes on for a while, never longer than it did', async (t) => {
  const { kas, read } = await filled(t)
  const rotated = await kas('token rotate aaaaaaaa --keep 7d --expires never')
  t.match(rotated, { code: 0, stderr: /void in 7d/ })
  const { agentTokens } = await read()
  const end = agentTokens.get('a'.repeat(64))?.expiresAt ?? 0
  t.ok(Math.abs(end - Date.now() - 7 * 86_400_000) < 60_000)
  t.equal(agentTokens.get(tokenHash(rotated.stdout.trim()))?.expiresAt, undefined)
  await kas('token rotate cccccccc --keep 36500d')
  t.equal((await read()).agentTokens.get('c'.repeat(64))?.expiresAt, Date.UTC(2099, 0, 1))
})

t.test('--print says what to change', async (t) => {
  const { kas, file } = await filled(t)
  const rotated = await kas('user rotate ada --print')
  t.match(rotated.stderr, /# add to tokens of the user with id 5:\n- name: laptop\n {2}sha256: /)
  t.match(rotated.stderr, /# take out of tokens of the user with id 5: dddddddddddd\n/)
  const kept = await kas('user rotate ada --keep 1d --print')
  t.match(kept.stderr, /# change in the token dddddddddddd of the user with id 5:\nexpires: 2/)
  const deleted = await kas('agent delete prod --project apps/web --print')
  t.match(deleted.stderr, /# change in last_ids:\nagents: 42\n/)
  t.match(deleted.stderr, /# take out of agents: prod\n/)
  t.equal(await readFile(file, 'utf8'), text)
})

t.test('what is not there, or not one alone, is said', async (t) => {
  const { kas, file } = await filled(t)
  const wrong: Readonly<Record<string, RegExp>> = {
    'agent delete none': /no agent none in the directory/,
    'agent delete prod': /several agents are called prod: say which with --project/,
    'agent rotate prod --project platform/clusters':
      /has 2 tokens: say which with --token-name.*eu \(aaaaaaaaaaaa\), without/,
    'agent rotate prod --project apps/web --token-name x': /has no token x; kas token create --agent prod/,
    'token rotate bbbbbbbb': /the token ended at 2020-01-01: say --expires/,
    'token rotate eeeeeeee': /a token of a CI job is not rotated/,
    'token rotate aaaaaaaa --keep 0d': /--keep 0d: allowed are 1d to 36500d/,
    'token show 12345678': /no such token/,
    'user delete carl': /no user carl/,
    'user show': /the NAME of the user is missing/,
    'token create --user ada --token-name laptop': /there is a token laptop already: kas token rotate/,
    'token create --user ada --expires 2020-01-01': /that has passed/,
    'token create --user ada --expires 40000d': /allowed are 1d to 36500d/,
    'token create --job 1 --pipeline 1 --user ada --project apps/web --token-name x': /--token-name goes with/,
  }
  for (const [line, says] of Object.entries(wrong))
    t.match(await kas(line), { code: 2, stdout: '', stderr: says }, line)
  t.match(await kas('user create carl --token-name \u001bx'), { code: 1, stderr: /at most 253 printable/ })
  t.equal(await readFile(file, 'utf8'), text)
})

t.test('a name that is not there is answered with the nearest one that is', async (t) => {
  const { kas } = await filled(t)
  const server = '--server https://kas.example.com:8154'
  const near: Readonly<Record<string, RegExp>> = {
    'agent show prdo': /no agent prdo in the directory\. Did you mean prod\?/,
    'agent show Prod': /Did you mean prod\?/,
    'agent delete prod --project app/web': /no project app\/web in the directory\. Did you mean apps\/web\?/,
    'agent rotate prdo --project apps/web': /no agent prdo of project apps\/web in the directory\. Did you mean prod\?/,
    'agent rotate prod --project apps/web --token-name eus': /no token eus; .* gives one$/m,
    'agent rotate prod --project platform/clusters --token-name ue': /no token ue; .*\. Did you mean eu\?/,
    'agent create x --project app/web': /with --git URL kas agent create adds it\. Did you mean apps\/web\?/,
    'agent list --project app/web': /Did you mean apps\/web\?/,
    'token create --agent prdo': /Did you mean prod\?/,
    'token list --agent prdo': /Did you mean prod\?/,
    'token list --user aad': /no user aad in the directory\. Did you mean ada\?/,
    'token create --user aad': /Did you mean ada\?/,
    'token create --job 1 --pipeline 1 --user aad --project apps/web': /Did you mean ada\?/,
    'token create --job 1 --pipeline 1 --user ada --project app/web': /Did you mean apps\/web\?/,
    'user show aad': /Did you mean ada\?/,
    'user rotate ada --token-name latpop': /Did you mean laptop\?/,
    'user create carl --role app/web=developer': /Did you mean apps\/web\?/,
    'user create carl --role apps/web=developr': /Did you mean developer\?/,
    [`kubeconfig --agent prdo --user ada ${server}`]: /Did you mean prod\?/,
    [`kubeconfig --agent prod --project app/web --user ada ${server}`]: /Did you mean apps\/web\?/,
    [`kubeconfig --agent prod --project apps/web --user aad ${server}`]: /Did you mean ada\?/,
    'user list --ouptut json': /Unknown option '--ouptut'\. Did you mean --output\?/,
  }
  for (const [line, says] of Object.entries(near)) t.match(await kas(line), { code: 2, stdout: '', stderr: says }, line)
})

t.test('a file that kas would refuse is not edited', async (t) => {
  const { kas, file } = await filled(t)
  await writeFile(file, `${text}last_ids: { agents: many }\n`)
  t.match(await kas('agent delete prod --project apps/web'), { code: 1, stderr: /last_ids\.agents: found "many"/ })
})

t.test('a directory that cannot be written: no id and no token is printed, and nothing is half made', async (t) => {
  const { folder, run } = world(t, undefined)
  const file = join(folder, 'd'.repeat(250)) // so long that the name of the temporary file would be too long
  const text = `projects:\n  - { id: 1, path: platform/clusters }\nagents:\n  - { id: 1, name: prod, project: 1, tokens: [{ sha256: ${'a'.repeat(64)} }] }\nusers:\n  - { id: 1, username: ada, tokens: [{ sha256: ${'b'.repeat(64)} }] }\n`
  await writeFile(file, text)
  const lines = [
    'agent create stage --project platform/clusters',
    'agent create x --project platform/other --git /srv/git/x.git',
    'agent delete prod',
    'agent rotate prod',
    'user create bob',
    'user delete ada',
    'user rotate ada --keep 7d',
    'token create --user ada',
    'token create --agent prod',
    'token create --job 5 --pipeline 6 --user ada --project platform/clusters',
    'token rotate aaaaaaaa',
    'token revoke bbbbbbbb',
    'token delete bbbbbbbb',
    `kubeconfig --agent prod --user ada --server https://kas.example.com --file ${folder}/config`,
    'kubeconfig --agent prod --user ada --server https://kas.example.com --file -',
  ]
  for (const line of lines) {
    const { code, stdout, stderr } = await run(line, { KAS_DIRECTORY_FILE: file })
    t.equal(code, 1, line)
    t.equal(stdout, '', line)
    t.match(stderr, /ENAMETOOLONG/, line)
    t.notMatch(stderr, /glagent-|kaspat-|kasci-|has id|shown this once|is void|is taken out|is revoked/, line)
    t.equal(await readFile(file, 'utf8'), text, line)
    t.strictSame(await readdir(folder), ['d'.repeat(250)], line)
  }
})

t.test('what kas kubeconfig writes is named by --file: --output is a format', async (t) => {
  const { kas } = await world(t)
  for (const given of ['--output config', '--output=config', '-o config', '-oconfig', '--output -']) {
    const line = `kubeconfig --agent prod --user ada --server https://kas.example.com ${given}`
    const { code, stdout, stderr } = await kas(line)
    t.equal(code, 2, line)
    t.equal(stdout, '', line)
    t.match(stderr, /Unknown option '--?o(utput)?'\. The file to write is named by --file FILE\n/, line)
  }
})

t.test('each list and show prints as -o says', async (t) => {
  const { kas } = await filled(t)
  const lines = {
    'agent list': 'agent/prod\nagent/prod\n',
    'agent show prod --project apps/web': 'agent/prod\n',
    'user list': 'user/ada\n',
    'user show ada': 'user/ada\n',
    'token list --agent prod --project apps/web': 'token/cccccccccccc\n',
    'token show cccccccc': 'token/cccccccccccc\n',
  }
  for (const [line, names] of Object.entries(lines)) {
    t.match(await kas(`${line} -o name`), { code: 0, stdout: names, stderr: '' }, line)
    const json = JSON.parse((await kas(`${line} -o json`)).stdout)
    t.strictSame(parse((await kas(`${line} --output=yaml`)).stdout), json, line)
    const [noun = '', verb] = line.split(' ')
    const kind = `${noun[0]?.toUpperCase()}${noun.slice(1)}${verb === 'list' ? 'List' : ''}`
    t.match(json, { apiVersion: 'kas/v1', kind }, line)
    t.equal((await kas(`${line} -o wide`)).stdout, (await kas(line)).stdout, line)
    const old = await kas(`${line} --json`)
    t.match(old, { code: 2, stdout: '', stderr: /Unknown option '--json'\. JSON is printed with -o json/ }, line)
    t.match(await kas(`${line} -o xml`), { code: 2, stdout: '', stderr: /-o xml: allowed is table, wide, name/ }, line)
  }
})
