import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { rename, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { eventually } from '../../support/eventually.ts'
import { GitRepository } from '../../support/git-repository.ts'
import { Processes } from '../../support/processes.ts'
import { mainOf } from '../../support/programs.ts'

/** kas and agentk as processes, with a directory file, a Git repository, and a plain HTTP server as the cluster. */

t.setTimeout(120_000)
const sha256 = (token: string) => createHash('sha256').update(token).digest('hex')
const configFile = '.gitlab/agents/prod/config.yaml'
const openToUsers = 'user_access:\n  access_as: { agent: {} }\n  projects: [{ id: platform/clusters }]\n'

async function cluster(t: Test) {
  const running: ServerResponse[] = []
  const server = createServer((request, response) => {
    if (request.url === '/slow') {
      response.writeHead(200, { 'content-type': 'application/json' }).write('{"first":1}\n')
      running.push(response)
      return
    }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ url: request.url, authorization: request.headers.authorization }))
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, running }
}

async function ground(t: Test) {
  const { url, running } = await cluster(t)
  const processes = await Processes.start(t)
  const { folder } = processes
  const repository = await GitRepository.create(folder, 'clusters')
  await repository.push(configFile, openToUsers)
  const directory = (users: string[]) => `
projects: [{ id: 1, path: platform/clusters, git: { url: ${repository.path} } }]
agents: [{ id: 42, name: prod, project: 1, tokens: [{ sha256: "${sha256('agent')}" }] }]
users: [{ id: 5, username: ada, tokens: [${users.map((token) => `{ sha256: "${sha256(token)}" }`)}], roles: { projects: { 1: [developer] } } }]
`
  const setDirectory = async (users: string[]) => {
    await writeFile(join(folder, 'next.yaml'), directory(users))
    await rename(join(folder, 'next.yaml'), join(folder, 'directory.yaml'))
  }
  await setDirectory(['one', 'two'])
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: url } }],
    users: [{ name: 'u', user: { token: 'service-account' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  await writeFile(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig))
  await writeFile(join(folder, 'token'), 'agent\n')
  await writeFile(
    join(folder, 'kas.yaml'),
    `
directory: { file: directory.yaml }
agent:
  listen: { address: "127.0.0.1:0", websocket: true, listen_grace_period: 0s }
  kubernetes_api: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }
observability: { listen: { address: "127.0.0.1:0" } }
`,
  )
  const kas = await processes.spawn({
    command: process.execPath,
    args: [mainOf('kas'), '--configuration-file=kas.yaml'],
    environment: { TMPDIR: folder },
  })
  const address = async (name: string) => {
    const [line] = await kas.says(new RegExp(`^.*"${name} endpoint is up".*$`, 'm'))
    return (JSON.parse(line) as { net_address: string }).net_address
  }
  const agents = await address('Agentk API')
  await processes.spawn({
    command: process.execPath,
    args: [
      mainOf('agentk'),
      `--kas-address=ws://${agents}`,
      '--token-file=token',
      '--kubeconfig=kubeconfig',
      '--observability-listen-address=127.0.0.1:0',
    ],
    environment: { POD_NAME: 'agentk-0', POD_NAMESPACE: 'default' },
  })
  const base = `http://${await address('Kubernetes API')}`
  const get = (path: string, token = 'one') =>
    fetch(base + path, { headers: { authorization: `Bearer pat:42:${token}` } })
  return { kas, running, repository, setDirectory, get }
}

t.test('a call finds its way, changes apply to a running replica, and leaving cuts nothing', async (t) => {
  const { kas, running, repository, setDirectory, get } = await ground(t)
  const first = await get('/api/v1/pods?limit=5')
  t.equal(first.status, 200, 'the first call waits for the agent')
  t.strictSame(await first.json(), { url: '/api/v1/pods?limit=5', authorization: 'Bearer service-account' })
  t.equal((await get('/api', 'unknown')).status, 401)

  const answers = (status: number, token?: string) =>
    eventually(async () => assert.equal((await get('/api', token)).status, status))
  await setDirectory(['one'])
  await answers(401, 'two')
  t.equal((await get('/api')).status, 200, 'others stay good')

  await repository.push(configFile, 'user_access: { access_as: { agent: {} }, projects: [] }\n')
  await answers(401)
  await repository.push(configFile, openToUsers)
  await answers(200)

  const watch = await get('/slow')
  const reader = watch.body?.pipeThrough(new TextDecoderStream()).getReader()
  t.equal((await reader?.read())?.value, '{"first":1}\n')
  kas.signal('SIGTERM')
  await kas.says(/"Stopping, a second signal ends at once"/)
  for (const response of running) response.end('{"last":1}\n')
  t.equal((await reader?.read())?.value, '{"last":1}\n', 'a running call ends by itself')
  t.ok((await reader?.read())?.done)
  t.equal((await kas.ends()).code, 0)
})
