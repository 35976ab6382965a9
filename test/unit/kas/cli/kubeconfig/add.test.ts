import { writeFileSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { tokenHash } from '../../../../../src/lib/token-hash.ts'
import { commented, world } from '../cli-world.ts'

const foreign = `# mine, by hand
apiVersion: v1
kind: Config
clusters:
- cluster: # the old one
    certificate-authority-data: QUJD
    server: https://prod.example.com:6443
  name: prod
- name:   stage
  cluster: { server: "https://stage.example.com" }   # flow, and odd spaces

# who I am
users:
  - name: me
    user:
      exec: # a plugin
        apiVersion: client.authentication.k8s.io/v1
        command: cloud-login
        args: [ --quiet ,
          "--for=prod" ]
contexts:
  - context: {cluster: prod, user: me, namespace: web}
    name: prod
  - {name: stage, context: {cluster: stage, user: me}}
current-context: stage # careful
preferences: {}
`

const server = 'https://kas.example.com:8154/k8s-proxy/'

async function filled(t: Test) {
  const parts = world(t, commented)
  await parts.kas('agent create prod --project platform/clusters')
  await parts.kas('agent create stage --project platform/clusters')
  await parts.kas('user create ada')
  await parts.kas('user create bob')
  const config = join(parts.folder, 'config')
  const add = (rest = '', agent = 'prod', user = 'ada') =>
    parts.kas(`kubeconfig --agent ${agent} --user ${user} --server ${server} --file ${config}${rest}`)
  const tokenOf = async (name: string, file = config): Promise<string> => {
    const { users } = parse(await readFile(file, 'utf8')) as { users: { name: string; user: { token: string } }[] }
    return users.find((each) => each.name === name)?.user.token.split(':')[2] ?? ''
  }
  const tokensOf = async (username: string) => {
    const { users } = parse(await readFile(parts.file, 'utf8'))
    return users.find((each: { username: string }) => each.username === username).tokens
  }
  return { ...parts, config, add, tokenOf, tokensOf }
}

t.test("others' contexts, comments and a plugin stay", async (t) => {
  const { config, add } = await filled(t)
  await writeFile(config, foreign, { mode: 0o640 })
  const added = await add(' --namespace shop')
  t.match(added, { code: 0, stdout: '', stderr: /context platform\/clusters:prod is new: kubectl --context plat/ })
  t.match(added.stderr, /had mode 0640, and has a token in it: its mode is 0600 now/)
  const text = await readFile(config, 'utf8')
  const commentsOf = (yaml: string) => [...yaml.matchAll(/#.*/g)].map(([comment]) => comment)
  t.strictSame(commentsOf(text), commentsOf(foreign))
  const before = parse(foreign)
  const after = parse(text)
  for (const list of ['clusters', 'users', 'contexts']) t.same(after[list].slice(0, -1), before[list])
  t.same(after.contexts.at(-1), {
    name: 'platform/clusters:prod',
    context: { cluster: 'kas.example.com', user: 'kas.example.com:agent:1', namespace: 'shop' },
  })
  t.equal(after['current-context'], 'stage')
  t.equal((await stat(config)).mode & 0o777, 0o600)
})

t.test('a new file is 0600 and begins with what was added; an empty one is filled', async (t) => {
  const { config, add, folder } = await filled(t)
  await add()
  t.equal((await stat(config)).mode & 0o777, 0o600)
  t.equal(parse(await readFile(config, 'utf8'))['current-context'], 'platform/clusters:prod')
  t.same((await readdir(folder)).sort(), ['config', 'directory.yaml'], 'no lock, no token on its way')
  for (const empty of ['', '\n', '# nothing yet\n', '{}\n']) {
    await writeFile(config, empty)
    t.equal((await add()).code, 0, JSON.stringify(empty))
    const text = await readFile(config, 'utf8')
    t.match(parse(text), { apiVersion: 'v1', kind: 'Config', contexts: [{ name: 'platform/clusters:prod' }] })
    if (empty.startsWith('#')) t.match(text, /^# nothing yet\n/)
  }
})

t.test('20 calls leave one token of this host', async (t) => {
  const { config, add, tokensOf } = await filled(t)
  await writeFile(config, foreign)
  await add()
  const text = await readFile(config, 'utf8')
  for (let i = 1; i < 20; i++) t.equal((await add('', i % 2 ? 'prod' : 'stage')).code, 0)
  const [first, ...others] = (await tokensOf('ada')).slice(1) // the first one comes from `user create`
  t.match(first, { name: hostname() })
  t.same(others, [])
  await add()
  const { users } = parse(await readFile(config, 'utf8'))
  t.same(
    users.slice(1).map(({ user }: { user: { token: string } }) => tokenHash(user.token.split(':')[2] ?? '')),
    [first.sha256, first.sha256],
  )
  t.ok(parse(text).contexts.length === 3)
})

t.test('a token has a name and an end', async (t) => {
  const { add, tokensOf, tokenOf, config } = await filled(t)
  await add(' --token-name laptop --expires 90d')
  const days = async (name: string) => {
    const token = (await tokensOf('ada')).find((each: { name?: string }) => each.name === name)
    return token.expires === undefined ? 'never' : Math.round((Date.parse(token.expires) - Date.now()) / 86_400_000)
  }
  t.equal(await days('laptop'), 90)
  const token = await tokenOf('kas.example.com:agent:1')
  await add(' --token-name laptop')
  t.equal(await days('laptop'), 90, 'reused as it is')
  await add(' --token-name laptop --expires 2099-01-01')
  t.ok(((await days('laptop')) as number) > 9000, 'reused, with another end')
  await add(' --token-name laptop --expires never')
  t.equal(await days('laptop'), 'never')
  t.equal(await tokenOf('kas.example.com:agent:1'), token)
  await rm(config)
  const again = await add(' --token-name laptop')
  t.match(again.stderr, /the token laptop of ada gives way to a new one/)
  t.not(await tokenOf('kas.example.com:agent:1'), token)
  t.equal((await tokensOf('ada')).length, 2)
  await add(' --token-name other')
  t.equal((await tokensOf('ada')).length, 3, 'a name of its own')
})

t.test('a token that the file holds, but that has ended or was taken away, is replaced', async (t) => {
  const { add, kas, tokensOf, tokenOf, file } = await filled(t)
  await add()
  const user = 'kas.example.com:agent:1'
  const first = await tokenOf(user)
  await kas(`token revoke ${tokenHash(first).slice(0, 12)}`)
  await add()
  const second = await tokenOf(user)
  t.not(second, first)
  const text = await readFile(file, 'utf8')
  const hash = tokenHash(second)
  await writeFile(file, text.replace(new RegExp(`(sha256: ${hash}\n +expires: ).*`), '$12020-01-01'))
  await add()
  t.not(await tokenOf(user), second)
  t.equal((await tokensOf('ada')).length, 2)
})

t.test('a token without a name that the file holds gets one, unless another has it', async (t) => {
  const { add, kas, config, tokensOf, folder } = await filled(t)
  const { stdout } = await kas('token create --user ada')
  await writeFile(join(folder, 'token'), stdout)
  await kas(`kubeconfig --agent prod --token-file ${join(folder, 'token')} --server ${server} --file ${config}`)
  const names = async () => (await tokensOf('ada')).map(({ name }: { name?: string }) => name)
  t.match(await add(), { code: 0 })
  t.same(await names(), [undefined, hostname()], 'that of user create, and this one')
  await kas('token create --user ada --token-name desk')
  await add(' --token-name desk')
  t.same(await names(), [undefined, hostname(), 'desk'], 'held by nobody here: one in its place')
})

t.test('a user who is renamed keeps the entry and the token; deleted and made again, he gets his own', async (t) => {
  const { add, kas, file, config, tokenOf } = await filled(t)
  await add()
  const user = 'kas.example.com:agent:1'
  const token = await tokenOf(user)
  await writeFile(file, (await readFile(file, 'utf8')).replace('username: ada', 'username: eve'))
  t.match(await add('', 'prod', 'eve'), { code: 0, stderr: /is there/ })
  t.equal(await tokenOf(user), token)
  await kas('user delete eve')
  await kas('user create eve')
  t.match(await add('', 'prod', 'eve'), { code: 0, stderr: /is there/ })
  t.not(await tokenOf(user), token)
  t.equal(parse(await readFile(config, 'utf8')).users.length, 1)
})

t.test('two users, two clusters, two servers in one file', async (t) => {
  const { add, kas, config } = await filled(t)
  await add()
  await add('', 'stage')
  const refused = await add('', 'prod', 'bob')
  t.match(refused, { code: 2, stderr: /the context platform\/clusters:prod is for something else, and stays/ })
  t.match(refused.stderr, /--context 'platform\/clusters:prod@kas\.example\.com:8154'/)
  t.match(await add(' --context bob-prod', 'prod', 'bob'), { code: 0 })
  t.match(await add('', 'prod', 'bob'), { code: 0, stderr: /context bob-prod is there/ }, 'he is found again')
  const second = `kubeconfig --agent prod --user ada --server https://kas.example.com/ --file ${config}`
  t.match(await kas(second), { code: 2 }, 'the context is of the other server')
  t.match(await kas(`${second} --context second`), { code: 0 })
  const { clusters, users, contexts } = parse(await readFile(config, 'utf8'))
  t.same(
    clusters.map(({ name }: { name: string }) => name),
    ['kas.example.com', 'kas.example.com:443'],
  )
  t.same(
    users.map(({ name }: { name: string }) => name),
    ['kas.example.com:agent:1', 'kas.example.com:agent:2', 'bob-prod', 'kas.example.com:443:agent:1'],
  )
  t.same(
    contexts.map(({ name }: { name: string }) => name),
    ['platform/clusters:prod', 'platform/clusters:stage', 'bob-prod', 'second'],
  )
})

t.test("an entry that is somebody else's is not changed", async (t) => {
  const { add, config } = await filled(t)
  const cases: Readonly<Record<string, string>> = {
    'the context platform/clusters:prod':
      'contexts: [{name: "platform/clusters:prod", context: {cluster: prod, user: me}}]\n',
    'the cluster kas.example.com:8154/k8s-proxy':
      'clusters: [{name: kas.example.com, cluster: {server: "https://a"}}, {name: "kas.example.com:8154/k8s-proxy", cluster: {}}]\n',
    'the user kas.example.com:agent:1': 'users: [{name: "kas.example.com:agent:1", user: {tokenFile: /x}}]\n',
    'the user kas\\.example\\.com:agent:1': 'users: [{name: "kas.example.com:agent:1", user: {token: "pat:2:x"}}]\n',
  }
  for (const [what, text] of Object.entries(cases)) {
    await writeFile(config, text)
    t.match(await add(), { code: 2, stderr: new RegExp(`${what} is for something else`) }, what)
    t.equal(await readFile(config, 'utf8'), text)
    const other = what.includes('context') ? 'mine' : 'platform/clusters:prod@kas'
    t.match(await add(` --context ${other}`), { code: 0 }, what)
  }
})

t.test('what an older kas or GitLab wrote is taken for what it is', async (t) => {
  const { add, config } = await filled(t)
  const old = `apiVersion: v1
kind: Config
clusters: [{name: gitlab, cluster: {server: "${server}"}}]
users: [{name: "agent:1", user: {token: "pat:1:old"}}]
contexts: [{name: "platform/clusters:prod", context: {cluster: gitlab, user: "agent:1"}}]
current-context: platform/clusters:prod
`
  await writeFile(config, old)
  t.equal((await add()).code, 0)
  const text = await readFile(config, 'utf8')
  t.equal(text.replace(/kaspat-[\w-]+/, 'old'), old)
})

t.test("what waits beside the file is its writer's alone, whoever put a file there before", async (t) => {
  const { config, folder, file, run } = await filled(t)
  const waiting = join(folder, '.config.kas-token-1')
  await writeFile(waiting, 'planted\n', { mode: 0o666 })
  await chmod(waiting, 0o666)
  const line = `kubeconfig --agent prod --user ada --server ${server} --file ${config}`
  const said = (note: string) => note.includes('is new') && writeFileSync(config, 'in the way')
  t.equal((await run(line, { KAS_DIRECTORY_FILE: file }, { said })).code, 1)
  t.equal((await stat(waiting)).mode & 0o777, 0o600)
  t.match(await readFile(waiting, 'utf8'), /^kaspat-/)
})

t.test('links stay links, also one that leads nowhere yet', async (t) => {
  const { add, config, folder } = await filled(t)
  await mkdir(join(folder, 'real'))
  await symlink('real/config', config)
  for (let i = 0; i < 2; i++) {
    t.equal((await add()).code, 0)
    t.equal(await readlink(config), 'real/config')
    t.match(parse(await readFile(join(folder, 'real', 'config'), 'utf8')), { kind: 'Config' })
  }
  t.same(await readdir(join(folder, 'real')), ['config'])
})

t.test('KUBECONFIG: an entry is changed where it stands, a new one goes to the first file that is there', async (t) => {
  const { kasWith, folder, config } = await filled(t)
  const [one, two, three] = ['one', 'two', 'three'].map((name) => join(folder, name)) as [string, string, string]
  await writeFile(two, foreign)
  await writeFile(three, '{}\n')
  const KUBECONFIG = `${one}:${two}:${three}`
  const line = `kubeconfig --agent prod --user ada --server ${server}`
  t.match(await kasWith({ KUBECONFIG }, line), { code: 0, stdout: '', stderr: new RegExp(`written to ${two}\n`) })
  t.equal(await readFile(three, 'utf8'), '{}\n')
  t.same(
    await readdir(folder),
    (await readdir(folder)).filter((name) => name !== 'one'),
  )
  const text = await readFile(two, 'utf8')
  t.match(await kasWith({ KUBECONFIG: `${three}:${two}` }, `${line} --namespace other`), { code: 0 })
  t.equal(await readFile(two, 'utf8'), `${text.replace(/(user: kas\S+:agent:1\n)/, '$1    namespace: other\n')}`)
  t.match(await kasWith({ KUBECONFIG }, `${line} --file -`), { code: 0, stdout: /^apiVersion: v1\nkind: Config\n/ })
  t.match(await kasWith({ KUBECONFIG }, `${line} --file ${config}`), { code: 0 })
  t.equal(parse(await readFile(config, 'utf8')).contexts.length, 1)
})

t.test('while another writes the file, it is waited for; left behind, a lock is named', async (t) => {
  const { add, config, tokensOf } = await filled(t)
  await writeFile(config, foreign)
  await writeFile(`${config}.lock`, '')
  const running = add()
  await rm(`${config}.lock`)
  t.match(await running, { code: 0 })
  const before = await readFile(config, 'utf8')
  const tokens = await tokensOf('bob')
  await writeFile(`${config}.lock`, '')
  const refused = await add(' --context bob', 'prod', 'bob')
  t.match(refused, { code: 1, stderr: /config\.lock is there: somebody writes .*: rm \S+config\.lock/ })
  t.equal(await readFile(config, 'utf8'), before)
  t.same(await tokensOf('bob'), tokens, 'no token was made')
  t.equal(await readFile(`${config}.lock`, 'utf8'), '', "it is another's, and stays")
})

t.test('a file that is wrong, read-only or no kubeconfig is refused, and stays; no token is made', async (t) => {
  const { add, config, tokensOf, folder } = await filled(t)
  const before = await tokensOf('ada')
  const wrong: Readonly<Record<string, RegExp>> = {
    'a: [\n': /line 2: not YAML/,
    'just a text\n': /not a block of keys/,
    'kind: Pod\napiVersion: v1\n': /kind: found Pod: this is no kubeconfig/,
    'clusters: {}\n': /clusters: found no list/,
    'users: [{user: {}}]\n': /users: found an item without a name/,
    'contexts: [{name: x, context: y}]\n': /no block of keys as context of x/,
    'a: 1\n---\nb: 1\n': /more than one document/,
    'x: &l [{name: a}]\nclusters: *l\n': /cannot be changed in place/,
  }
  for (const [text, says] of Object.entries(wrong)) {
    await writeFile(config, text)
    t.match(await add(), { code: 1, stderr: says }, text)
    t.equal(await readFile(config, 'utf8'), text)
  }
  await writeFile(config, Buffer.from('# \xff\n', 'latin1'))
  t.match(await add(), { code: 1, stderr: /is not UTF-8/ })
  await writeFile(config, foreign)
  await chmod(config, 0o400)
  t.match(await add(), { code: 1, stderr: /is read-only|EACCES/ })
  t.equal(await readFile(config, 'utf8'), foreign)
  t.same(await tokensOf('ada'), before)
  t.same((await readdir(folder)).sort(), ['config', 'directory.yaml'])
})

t.test('aliases of others are left alone', async (t) => {
  const { add, config } = await filled(t)
  const text = `x: &c {server: "https://prod"}\nclusters:\n- name: prod\n  cluster: *c\n- name: again\n  cluster:\n    <<: *c\n`
  await writeFile(config, text)
  t.equal((await add()).code, 0)
  const after = await readFile(config, 'utf8')
  t.match(after, /cluster: \*c\n[\s\S]*<<: \*c\n/)
  t.same(parse(after, { merge: true }).clusters.slice(0, -1), parse(text, { merge: true }).clusters)
})

t.test('a file that changes meanwhile is not written over, and the token is not lost', async (t) => {
  const { add, config, run, file, tokensOf, tokenOf } = await filled(t)
  await writeFile(config, foreign)
  const line = `kubeconfig --agent prod --user ada --server ${server} --file ${config}`
  const changed = `${foreign}# by another\n`
  const said = (note: string) => note.includes('is new') && writeFileSync(config, changed)
  t.match(await run(line, { KAS_DIRECTORY_FILE: file }, { said }), { code: 1, stderr: /config changed meanwhile/ })
  t.equal(await readFile(config, 'utf8'), changed)
  const [, made] = await tokensOf('ada')
  t.equal((await add()).code, 0)
  t.equal(tokenHash(await tokenOf('kas.example.com:agent:1')), made.sha256)
  t.equal((await tokensOf('ada')).length, 2)
})
