import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { CoreV1Api, Exec, KubeConfig, Log, PortForward, type V1Status, Watch } from '@kubernetes/client-node'

/**
 * A Pod as `@kubernetes/client-node` sees it: node-client.ts KUBECONFIG NAMESPACE POD BYTES. Prints one JSON object,
 * and leaves open streams running.
 */

const [kubeconfig = '', namespace = '', pod = '', bytes = '0'] = process.argv.slice(2)
const patienceMs = 60_000
const config = new KubeConfig()
config.loadFromFile(kubeconfig)
const digest = (data: Uint8Array) => createHash('sha256').update(data).digest('hex')

interface Run {
  readonly stdin?: Readable
  readonly tty?: { readonly rows: number; readonly columns: number }
}

async function run(command: string, { stdin, tty }: Run = {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  if (tty) Object.assign(stdout, tty)
  const all = Promise.all([buffer(stdout), text(stderr)])
  const { promise: ended, resolve } = Promise.withResolvers<V1Status>()
  const words = ['sh', '-c', command]
  const isTerminal = tty !== undefined
  const exec = new Exec(config)
  const socket = await exec.exec(namespace, pod, 'main', words, stdout, stderr, stdin ?? null, isTerminal, resolve)
  const { status, details } = await ended
  for (const stream of [stdout, stderr]) stream.end()
  socket.close()
  const [out, error] = await all
  return { out, error, status, code: details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message }
}

async function execStatus() {
  const { out, ...rest } = await run('echo out; echo err >&2; exit 3')
  return { ...rest, out: String(out) }
}

async function execStdin() {
  const data = Buffer.alloc(Number(bytes), 'kas ')
  const { out, status } = await run(`head -c ${data.length} | sha256sum`, { stdin: Readable.from([data]) })
  return [String(out).startsWith(digest(data)), status]
}

async function execStdout() {
  const { out, status } = await run(`yes | head -c ${bytes}`)
  return [digest(out), status]
}

async function execTerminal() {
  const command = 'until [ "$(stty size 2>&1)" = "41 151" ]; do sleep 0.1; done; stty size; exit 7'
  const { out, code } = await run(command, { stdin: new PassThrough(), tty: { rows: 41, columns: 151 } })
  return [String(out).trim(), code]
}

async function portForward() {
  const forward = new PortForward(config)
  const failures = new PassThrough()
  const server = createServer((socket) => void forward.portForward(namespace, pod, [8080], socket, failures, socket))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.write('GET /index.html HTTP/1.0\r\n\r\n')
  let answer = ''
  for await (const part of socket) {
    answer += part
    if (/\r\n\r\n.*\n$/s.test(answer)) break
  }
  server.close()
  return answer.split('\r\n\r\n').at(-1)
}

async function logsFollow() {
  await run('echo a line >/proc/1/fd/1')
  const out = new PassThrough()
  await new Log(config).log(namespace, pod, 'main', out, { follow: true, tailLines: 1 })
  const [line] = await once(out, 'data')
  return String(line)
}

async function watchHttp() {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>()
  const query = { fieldSelector: `metadata.name=${pod}` }
  const path = `/api/v1/namespaces/${namespace}/pods`
  const onEvent = (type: string, { metadata }: { metadata: { name: string } }) => resolve([type, metadata.name])
  await new Watch(config).watch(path, query, onEvent, (error) => reject(error ?? new Error('it ended')))
  return await promise
}

async function list() {
  const { items } = await config
    .makeApiClient(CoreV1Api)
    .listNamespacedPod({ namespace, fieldSelector: `metadata.name=${pod}` })
  return items.map(({ metadata, status }) => [metadata?.name, status?.phase])
}

const scenes = { execStatus, execStdin, execStdout, execTerminal, portForward, logsFollow, watchHttp, list }
const seen: Record<string, unknown> = {}
for (const [name, scene] of Object.entries(scenes)) {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`nothing came in ${patienceMs} ms`)), patienceMs)
  seen[name] = await Promise.race([scene(), late]).catch((error: unknown) => String(error))
  clearTimeout(timer)
}
process.stdout.write(`${JSON.stringify(seen)}\n`, () => process.exit())
