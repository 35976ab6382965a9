import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { createProjectRepository } from '../../../dev/start/project-repository.ts'
import { runCli } from '../../../src/kas/cli/cli.ts'
import { agentToken, type KasApp, startKasApps } from '../../cluster/kas-apps.ts'
import { eventually } from '../../support/eventually.ts'
import { FakeAgent } from '../../support/fake-agent.ts'

/** Two replicas without GitLab, with the commands of an administrator of the directory file and of a user. */

const access = 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }\n'

async function start(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'administration-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const repository = join(folder, 'clusters.git')
  await createProjectRepository(repository, { '.gitlab/agents/prod/config.yaml': access })
  const replicas = (await startKasApps(t, 2, {
    project: `, git: { url: ${repository} }`,
    agent: '  kubernetes_api: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }',
  })) as [KasApp, KasApp]
  const file = join(t.testdirName, 'directory.yaml')
  const run = async (line: string, env: Readonly<Record<string, string>> = {}) => {
    const out = { code: 0, stdout: '', stderr: '' }
    const sink = (name: 'stdout' | 'stderr') => ({
      write: (text: string) => {
        out[name] += text
      },
    })
    const io = { env, stdout: sink('stdout'), stderr: sink('stderr'), stdin: Readable.from([]) }
    out.code = await runCli(line.split(' '), io)
    return out
  }
  const [first] = replicas
  const server = `http://127.0.0.1:${first.port('Kubernetes API')}/`
  const asKeeper = (line: string) => run(line, { KAS_DIRECTORY_FILE: file })
  return { replicas, server, run, asKeeper, config: join(folder, 'config'), folder }
}

t.test(
  'all agents that let a user in come into one kubeconfig, with a token that kas learns of meanwhile',
  async (t) => {
    const { server, run, asKeeper, config, folder, replicas } = await start(t)
    const created = await asKeeper('user create ada --role platform/clusters=developer')
    await asKeeper('user create bob')
    const added = await asKeeper(`kubeconfig --all --user ada --server ${server} --file ${config}`)
    t.match(added, { code: 0, stderr: /context platform\/clusters:prod is new/ }, added.stderr)
    const { contexts, users } = parse(await readFile(config, 'utf8'))
    t.equal(contexts.length, 1, 'the other agent has no user_access')
    t.match(users, [{ user: { token: /^pat:42:kaspat-/ } }])
    const listed = await run(`agents --kubeconfig ${config}`)
    t.match(listed, { code: 0, stdout: /^ID +AGENT +PROJECT +REPLICA +SINCE\n42 +prod +platform\/clusters +- +-\n$/ })
    t.match(listed.stderr, /the configuration of 1 more could not be read/)

    const agent = await FakeAgent.dial(replicas[1].port('Agentk API'), agentToken)
    t.teardown(() => agent.close())
    agent.open()
    const tokenFile = join(folder, 'token')
    await writeFile(tokenFile, created.stdout)
    const connected = await eventually(async () => {
      const { stdout } = await run(`agents --server ${server} --token-file ${tokenFile} -o json`)
      const [one] = JSON.parse(stdout).items
      return one.connected.length > 0 && one
    })
    t.match(connected, { id: '42', name: 'prod', project: 'platform/clusters', connected: [{ replica: 'kas-1' }] })
    t.ok(Math.abs(Date.parse(connected.connected[0].since) - Date.now()) < 60_000)

    t.test('a user does so by himself, without the directory file', async (t) => {
      const own = join(folder, 'own')
      const line = `kubeconfig --server ${server} --token-file ${tokenFile} --file ${own}`
      t.match(await run(`${line} --all`), { code: 0 })
      t.equal((await run(`${line} --agent prod`)).code, 0)
      t.match(await run(`${line} --agent none`), {
        code: 1,
        stderr: /not one agent none lets ada in at .*; there are: platform\/clusters:prod/,
      })
      t.match(await run(`${line} --agent prdo`), { code: 1, stderr: /clusters:prod\. Did you mean prod\?$/m })
      t.equal(parse(await readFile(own, 'utf8')).contexts.length, 1)
      const before = await readFile(own, 'utf8')
      const carl = await asKeeper('user create carl --role platform/clusters=developer')
      await writeFile(tokenFile, carl.stdout)
      const other = await eventually(async () => {
        const tried = await run(`${line} --all`)
        return !/answered 401/.test(tried.stderr) && tried
      })
      t.match(other, { code: 2, stderr: /the context platform\/clusters:prod is for something else, and stays/ })
      t.equal(await readFile(own, 'utf8'), before, "ada's token is not carl's to replace")
      t.match(await run(`${line} --agent prod --context carl-prod`), { code: 0 })
      t.equal(parse(await readFile(own, 'utf8')).contexts.length, 2)
      await writeFile(tokenFile, created.stdout)
    })

    t.test('who is let in nowhere, and who is nobody', async (t) => {
      const bob = await asKeeper(`kubeconfig --all --user bob --server ${server}`)
      t.match(bob, { code: 1, stdout: '', stderr: /no agent lets bob in/ })
      await writeFile(tokenFile, 'kaspat-made-up')
      t.match(await run(`agents --server ${server} --token-file ${tokenFile}`), { code: 1, stderr: /kas answered 401/ })
      const answer = await fetch(`${server}agents`, { method: 'POST', headers: { authorization: 'Bearer pat:0:x' } })
      t.equal(answer.status, 405)
      const asJob = await fetch(`${server}agents`, { headers: { authorization: 'Bearer ci:42:x' } })
      t.match([asJob.status, await asJob.json()], [401, { message: /expecting Bearer pat:<id>:<token>/ }])
    })
  },
)
