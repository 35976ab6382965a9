import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { WebSocket } from 'ws'
import type { KubectlOperation, KubectlSide } from './kubectl-side.ts'

/** Requests of pages and programs behind `kubectl proxy`, which adds the credentials. A Deployment `web` runs. */
export const proxyOperations: readonly KubectlOperation[] = [
  { name: 'proxy, a page that lists, creates and watches', run: (side) => behindProxy(side, asPage) },
  { name: 'proxy, methods', run: (side) => behindProxy(side, byMethods) },
  { name: 'proxy, a head of 1 MB, and 3,000 parameters', run: (side) => behindProxy(side, longHeads) },
  ...(['WebSocket', 'SPDY'] as const).map((form) => ({
    name: 'proxy, exec over it',
    form,
    run: (side: KubectlSide) => behindProxy(side, (url) => execOver(side, url, form)),
  })),
]

/** @param act - gets the address of the proxy */
async function behindProxy(
  side: KubectlSide,
  act: (url: string, side: KubectlSide) => Promise<string>,
): Promise<string> {
  const args = ['proxy', '--port=0', '--append-server-path', '--reject-paths=^$']
  const proxy = await side.kubectl.start(args)
  const [, address] = await proxy.says(/Starting to serve on (127\.0\.0\.1:\d+)/)
  try {
    return await act(`http://${address}`, side)
  } finally {
    proxy.signal('SIGKILL')
    await proxy.exited
  }
}

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object
}

async function ask(url: string, { method = 'GET', headers = {}, body }: Sent = {}) {
  const content = body && JSON.stringify(body)
  const type = content === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': content.length }
  const sent = request(url, { method, agent: false, headers: { ...headers, ...type } })
  const answered = once(sent, 'response')
  sent.end(content)
  const [answer] = (await answered) as [IncomingMessage]
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) }
}

/** Makes requests as a page: a browser sends `Origin` with each change and each WebSocket. */
async function asPage(url: string, { kubectl }: KubectlSide): Promise<string> {
  const maps = `/api/v1/namespaces/${kubectl.namespace}/configmaps`
  const headers = { Origin: url }
  const created = await ask(url + maps, { method: 'POST', headers, body: { metadata: { name: 'of-a-page' } } })
  assert.equal(created.status, 201, created.body)
  assert.equal(created.headers['access-control-allow-origin'], undefined)
  const listed = await ask(`${url}${maps}?fieldSelector=metadata.name%3Dof-a-page`, { headers })
  assert.match(listed.body, /"of-a-page"/)
  const watched = `${maps}?watch=1&fieldSelector=metadata.name%3Dof-a-page`
  const socket = new WebSocket(url.replace('http', 'ws') + watched, { origin: url })
  const [message] = await once(socket, 'message')
  socket.terminate()
  const { type, object } = JSON.parse(String(message))
  assert.equal(object.metadata.name, 'of-a-page')
  const removed = await ask(`${url}${maps}/of-a-page`, { method: 'DELETE', headers })
  return `${created.status} ${listed.status} ${type} ${removed.status}`
}

/** Sends methods: common ones, one that node knows, one that is unknown, and one in small letters. */
async function byMethods(url: string): Promise<string> {
  const answers = []
  for (const method of ['HEAD', 'OPTIONS', 'PROPFIND', 'FOO', 'foo']) {
    const { status, body } = await ask(`${url}/version`, { method })
    answers.push(`${method} ${status} ${body.includes('"kind":"Status"') || /"kind": ?"Status"/.test(body)}`)
  }
  return answers.join(', ')
}

async function longHeads(url: string): Promise<string> {
  const long = [
    ask(`${url}/version?q=${'a'.repeat(1_000_000)}`),
    ask(`${url}/version?${'command=x&'.repeat(3000)}`),
    ask(`${url}/version`, { headers: { 'X-Long': 'a'.repeat(500_000) } }),
  ]
  const answers = await Promise.all(long)
  for (const { status, body } of answers) assert.equal(status, 200, body)
  return answers.map(({ body }) => body).join()
}

async function execOver({ kubectl }: KubectlSide, url: string, form: 'WebSocket' | 'SPDY'): Promise<string> {
  const environment = { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: String(form === 'WebSocket') }
  const command = ['sh', '-c', 'echo to-stdout; exit 3']
  const args = [`--server=${url}`, 'exec', 'deployment/web', '--', ...command]
  const { code, stdout, stderr } = await kubectl.run(args, { environment })
  assert.equal(code, 3, stderr)
  return stdout.toString()
}
