import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { tokenHash } from '../../../../src/lib/token-hash.ts'
import { commented, world } from './cli-world.ts'

t.test('from nothing to a kubeconfig', async (t) => {
  const { file, kas, read, folder } = world(t)
  const agent = await kas('agent create prod --project platform/apps/clusters --git /srv/git/clusters.git')
  t.equal(agent.code, 0)
  t.match(agent.stdout, /^glagent-[\w-]{48}\n$/, 'stdout holds the token alone')
  t.equal((await stat(file)).mode & 0o777, 0o600)
  const ada = await kas(
    'user create ada --role platform/apps/clusters=developer --role platform=guest --expires 2030-01-01',
  )
  const kubeconfig = await kas(
    'kubeconfig --agent prod --user ada --server https://kas.example.com/k8s-proxy/ --namespace web',
  )
  t.equal(kubeconfig.code, 0)
  const contents = await read()
  t.match(
    [...contents.projects.values()],
    [
      {
        path: 'platform/apps/clusters',
        groups: [
          { id: 2n, path: 'platform/apps' },
          { id: 1n, path: 'platform' },
        ],
        git: { url: '/srv/git/clusters.git' },
      },
    ],
  )
  t.equal(contents.agentTokens.get(tokenHash(agent.stdout.trim()))?.owner.name, 'prod')
  const user = contents.userTokens.get(tokenHash(ada.stdout.trim()))
  t.equal(user?.expiresAt, Date.UTC(2030, 0, 1))
  t.equal(user?.owner.projectRoles.get(1n), 'developer')
  t.equal(user?.owner.groupRoles.get(1n), 'guest')
  const config = parse(kubeconfig.stdout)
  t.match(config, {
    clusters: [{ name: 'kas.example.com', cluster: { server: 'https://kas.example.com/k8s-proxy/' } }],
    contexts: [
      {
        name: 'platform/apps/clusters:prod',
        context: { cluster: 'kas.example.com', user: 'kas.example.com:agent:1', namespace: 'web' },
      },
    ],
    'current-context': 'platform/apps/clusters:prod',
  })
  const [, id, token] = config.users[0].user.token.split(':')
  t.equal(id, '1')
  t.equal(contents.userTokens.get(tokenHash(token))?.owner.username, 'ada', 'a token of its own')
  const text = await readFile(file, 'utf8')
  for (const secret of [agent.stdout, ada.stdout, token]) t.notMatch(text, secret.trim())
  t.same(await readdir(folder), ['directory.yaml'], 'no temporary file is left')
})

t.test('comments, order and mode of the file stay', async (t) => {
  const { file, kas, read } = world(t, commented)
  await chmod(file, 0o640)
  t.equal((await kas('agent create prod --project platform/clusters')).code, 0)
  t.equal((await kas('token create --agent prod --expires 2030-01-01')).code, 0)
  const text = await readFile(file, 'utf8')
  for (const comment of ['# who is who', '# the clusters', '# here', '# none yet']) t.match(text, comment)
  t.equal((await stat(file)).mode & 0o777, 0o640)
  t.equal((await read()).agentTokens.size, 2)
})

t.test('a link to the file stays a link', async (t) => {
  const { folder, kas } = world(t)
  await mkdir(join(folder, 'real'))
  await writeFile(join(folder, 'real', 'd.yaml'), commented)
  await symlink('real/d.yaml', join(folder, 'directory.yaml'))
  t.equal((await kas('agent create prod --project platform/clusters')).code, 0)
  t.match(await readFile(join(folder, 'real', 'd.yaml'), 'utf8'), 'name: prod')
  t.same(await readdir(join(folder, 'real')), ['d.yaml'])
})

t.test('tokens of jobs, and revoking by hash or by the token itself', async (t) => {
  const { kas, read } = world(t, commented)
  const agent = await kas('agent create prod --project platform/clusters')
  const user = await kas('user create ada')
  const job = await kas(
    'token create --job 900 --pipeline 90 --user ada --project platform/clusters --environment prod-eu --tier production --environment-name prod/eu --expires 2030-01-01',
  )
  t.match((await read()).jobTokens.get(tokenHash(job.stdout.trim()))?.owner, {
    job: { id: 900n },
    environment: { slug: 'prod-eu', tier: 'production', name: 'prod/eu' },
  })
  for (const { stdout } of [agent, user, job]) {
    const hash = tokenHash(stdout.trim())
    const revoked =
      stdout === user.stdout ? await kas('token revoke -', stdout) : await kas(`token revoke ${hash.slice(0, 12)}`)
    t.equal(revoked.code, 0, revoked.stderr)
  }
  const contents = await read()
  t.equal(contents.agentTokens.size + contents.userTokens.size + contents.jobTokens.size, 0)
  t.equal(contents.agents.size, 1)
  t.match(await kas('token revoke 0123456789ab'), { code: 2, stderr: /no such token/ })
})

t.test('--print writes nothing and says what to change', async (t) => {
  const { file, kas } = world(t, commented)
  const printed = await kas('agent create prod --project platform/clusters --print')
  t.equal(printed.code, 0)
  t.equal(await readFile(file, 'utf8'), commented)
  t.match(printed.stderr, /# add to agents:\n- id: 1\n {2}name: prod\n {2}project: 1\n {2}tokens:\n {4}- sha256: /)
  t.match(printed.stderr, tokenHash(printed.stdout.trim()))
  t.notMatch(printed.stderr, printed.stdout.trim())
})

t.test('kubeconfig with a token that is there, a CA and an own file', async (t) => {
  const { folder, file, kas } = world(t, commented)
  await kas('agent create prod --project platform/clusters')
  const before = await readFile(file, 'utf8')
  await writeFile(join(folder, 'ca.pem'), 'CA')
  await writeFile(join(folder, 'token'), 'secret\n')
  const output = join(folder, 'kubeconfig')
  const rest = `--server https://kas:8154 --ca ${join(folder, 'ca.pem')} --token-file ${join(folder, 'token')} --ci --file ${output}`
  t.match(await kas(`kubeconfig --agent prod ${rest}`), { code: 0, stdout: '' })
  t.match(parse(await readFile(output, 'utf8')), {
    clusters: [{ cluster: { 'certificate-authority-data': Buffer.from('CA').toString('base64') } }],
    users: [{ user: { token: 'ci:1:secret' } }],
  })
  t.equal((await stat(output)).mode & 0o777, 0o600)
  t.equal(await readFile(file, 'utf8'), before)
})

t.test('a wrong command line says what is wrong, and the usage, with exit code 2', async (t) => {
  const { kas, file } = world(t, commented)
  await kas('agent create prod --project platform/clusters')
  await kas('user create ada')
  const before = await readFile(file, 'utf8')
  const wrong: Record<string, RegExp> = {
    agent: /usage: kas agent create/,
    'agent destroy x': /^kas agent destroy: did you mean kas agent delete\?\nusage: kas agent create/,
    'agent add x': /^kas agent add: did you mean kas agent create\?\nusage: kas agent create/,
    'token ls': /^kas token ls: did you mean kas token list\?\n/,
    'agent constructor': /^kas agent constructor: there is no such command\n/,
    'agent create x --foo': /Unknown option '--foo'\nusage/,
    'agent create x -z': /Unknown option '-z'\nusage/,
    'agent create x --project': /--project needs a value\nusage/,
    'agent create x --project --git /x': /--project needs a value\nusage/,
    'agent create': /the NAME of the agent is missing\nusage: kas agent create NAME/,
    'agent create x': /--project is missing/,
    'agent create x y --project platform/clusters': /too much: y/,
    'agent create x --projekt y': /Unknown option '--projekt'/,
    'agent create x --project none': /no project none in the directory; with --git URL/,
    'agent create prod --project platform/clusters': /project platform\/clusters has an agent prod; kas token create/,
    'agent create x --project platform/clusters --git /x': /already: leave out --git/,
    'agent create x --project new --git https://u:s3cret@h/x': /--git: allowed is a URL without a password/,
    'user create Ada': /there is a user Ada/,
    'user create bob --role platform=admin': /ROLE one of guest, planner/,
    'user create bob --role none=guest': /no project or group none/,
    'token create': /--agent, --user or --job is missing/,
    'token create --agent prod --user ada': /--agent stands alone/,
    'token create --agent none': /no agent none in the directory/,
    'token create --job x --pipeline 1 --user ada --project platform/clusters': /--job x: allowed is a whole number/,
    'token create --job 1 --pipeline 1 --user ada --project platform/clusters --environment e': /--tier is missing/,
    'token revoke glagent-abc': /8 to 64 hex digits/,
    'kubeconfig --agent prod --user ada --server kas:8154': /allowed is a URL with https/,
    'kubeconfig --agent prod --server https://kas': /one of --user and --token-file/,
  }
  for (const [command, says] of Object.entries(wrong)) {
    const { code, stdout, stderr } = await kas(command)
    t.equal(code, 2, command)
    t.match(stderr, says)
    t.equal(stdout, '')
    t.notMatch(stderr, 's3cret')
  }
  t.equal(await readFile(file, 'utf8'), before)
})

t.test('what fails for another reason has exit code 1 and changes nothing', async (t) => {
  const broken = world(t, 'agents: [')
  t.match(await broken.kas('user create ada'), { code: 1, stderr: /not YAML/ })
  t.equal(await readFile(broken.file, 'utf8'), 'agents: [')
  const { kas, file } = world(t, commented)
  t.match(await kas('agent create Prod --project platform/clusters'), {
    code: 1,
    stderr: /agents\[0\]\.name: found "Prod", allowed: at most 63/,
  })
  t.match(await kas('user create ada --expires tomorrow'), {
    code: 1,
    stderr: /expires: found "tomorrow", allowed: a date/,
  })
  t.equal(await readFile(file, 'utf8'), commented)
})

t.test('help goes to stdout', async (t) => {
  const { kas } = world(t)
  t.match(await kas('agent create --help'), { code: 0, stdout: /^usage: kas agent create NAME/, stderr: '' })
  t.match(await kas('token --help'), { code: 0, stdout: /usage: kas token create[\s\S]*usage: kas token revoke/ })
})
