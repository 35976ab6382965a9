import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { AccessLine } from '../../src/kas/access-log/access-line.ts'
import type { LineSink } from '../../src/lib/line-writer.ts'
import { eventually } from '../support/eventually.ts'
import { GitRepository } from '../support/git-repository.ts'
import { runKas } from '../support/kas-command.ts'
import { startKasApps } from './kas-apps.ts'

/** `kas log` of three replicas, at a socket of any of them and with a kubeconfig. */

/** A sink that writes no lines: `kas log` reads the replicas' memory. */
const nowhere: LineSink = {
  write: (lines, _, done) => void setImmediate(done, lines.length),
  writeNow: () => undefined,
}
const users = ['ada', 'bob'] as const
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const userText = (name: string, i: number) =>
  `{ id: ${i + 5}, username: ${name}, tokens: [{ sha256: "${sha256(`${name}-token`)}" }], roles: { projects: { 1: [developer] } } }`

/** Agent 42 accepts Ada and Bob. Agent 44 accepts neither: their requests to it are refused, and logged. */
async function start(t: Test) {
  const home = await mkdtemp(join(tmpdir(), 'kas-log-')) // t.testdir is that of the replicas
  t.teardown(() => rm(home, { recursive: true, force: true, maxRetries: 5 }))
  const repository = await GitRepository.create(home, 'clusters')
  for (const [agent, project] of Object.entries({ prod: 'platform/clusters', closed: 'platform/others' })) {
    const content = `user_access: { access_as: { agent: {} }, projects: [{ id: ${project} }] }\n`
    await repository.push(`.gitlab/agents/${agent}/config.yaml`, content)
  }
  const replicas = await startKasApps(t, 3, {
    project: `, git: { url: ${repository.path} }`,
    directory: `  - { id: 44, name: closed, project: 1, tokens: [{ sha256: "${sha256('closed')}" }] }
users: [${users.map(userText).join(', ')}]`,
    accessSink: nowhere,
    agent: '  kubernetes_api: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }',
  })
  const kubeconfig = async (user: string, port: number) => {
    const file = join(home, `${user}-${port}`)
    const content = {
      clusters: [{ name: 'kas', cluster: { server: `http://127.0.0.1:${port}` } }],
      users: [{ name: user, user: { token: `pat:42:${user}-token` } }],
      contexts: [{ name: user, context: { cluster: 'kas', user } }],
      'current-context': user,
    }
    await writeFile(file, JSON.stringify(content))
    return file
  }
  return { replicas, kubeconfig }
}

const linesOf = (stdout: string) =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as AccessLine)
const callsOf = (lines: readonly AccessLine[]) =>
  lines.map(({ caller, entry, name }) => [caller?.name, entry, name].join(' ')).sort()

t.test(
  'at each replica it has the lines of all; by a kubeconfig a user has own lines of all, and no others',
  async (t) => {
    const { replicas, kubeconfig } = await start(t)
    const wanted: string[] = []
    for (const { name, port } of replicas) {
      for (const user of users) {
        const url = `http://127.0.0.1:${port('Kubernetes API')}/api/v1/namespaces/shop/pods/at-${name}`
        const answer = await fetch(url, { method: 'DELETE', headers: { authorization: `Bearer pat:44:${user}-token` } })
        t.ok([401, 403].includes(answer.status), String(answer.status))
        await answer.body?.cancel()
        wanted.push(`${user} ${name} at-${name}`)
      }
    }
    const complete = (ask: () => ReturnType<typeof runKas>, count: number) =>
      eventually(async () => {
        const answer = await ask()
        const lines = linesOf(answer.stdout)
        if (lines.length !== count) throw new Error(`${lines.length} of ${count} lines: ${answer.stderr}`)
        t.equal(answer.code, 0)
        t.notMatch(answer.stderr, 'note: ', 'each replica has answered')
        t.strictSame(
          lines.map(({ time }) => time),
          lines.map(({ time }) => time).sort(),
          'the oldest first',
        )
        return lines
      })
    for (const { name, socket, port } of replicas) {
      const all = await complete(() => runKas(['log', '-o', 'json', '--socket', socket], ''), wanted.length)
      t.strictSame(callsOf(all), wanted.toSorted(), name)
      const file = await kubeconfig('ada', port('Kubernetes API'))
      const own = await complete(() => runKas(['log', '-o', 'json', '--kubeconfig', file], ''), replicas.length)
      t.strictSame(callsOf(own), wanted.filter((one) => one.startsWith('ada ')).sort(), name)
      const { stdout } = await runKas(['log', '--kubeconfig', file], '')
      t.match(stdout, /ada {2}agent 44 {2}(?:refused {2})?delete pods shop\/at-kas-0 {2}40[13] {2}failed/)
    }
  },
)
