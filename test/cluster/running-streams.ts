import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { WebSocket } from 'ws'
import type { KubectlSide } from '../support/kubectl-side.ts'
import type { TestProcess } from '../support/processes.ts'
import type { FrontClient } from './front-client.ts'

/** Streams that must go on after an event; each side has a running Deployment `web`. */

/** A stream that goes on, mostly of kubectl. */
export interface Running {
  readonly what: string
  /** Resolves once the stream has been seen to work, and has ended. */
  goesOn(): Promise<unknown>
}

const waitForFile = 'echo begun; while [ ! -e "$1" ]; do sleep 0.1; done; echo over; exit 7'

export async function runningExec({ name, kubectl, folder }: KubectlSide, isWebSocket: boolean): Promise<Running> {
  const file = join(folder, randomUUID())
  const environment = { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: String(isWebSocket) }
  const args = ['exec', 'deployment/web', '--', 'sh', '-c', waitForFile, 'sh', file]
  const exec = await kubectl.start(args, { environment })
  await exec.says(/begun/)
  const what = `${name}: exec by ${isWebSocket ? 'WebSocket' : 'SPDY'}`
  return {
    what,
    async goesOn() {
      await writeFile(file, '')
      const { code, stdout, stderr } = await exec.ends()
      assert.equal(code, 7, `${what}: ${code} after ${JSON.stringify(stdout.toString())} ${stderr}`)
      assert.equal(stdout.toString(), 'begun\nover\n', what)
    },
  }
}

export async function runningWatch({ name, kubectl }: KubectlSide): Promise<Running> {
  const watch = await kubectl.start(['get', 'configmaps', '--watch', '--output-watch-events', '--no-headers'])
  await watch.says(/ADDED +kube-root-ca.crt /)
  return {
    what: `${name}: watch`,
    async goesOn() {
      const late = `late-${randomUUID()}`
      await kubectl.ok(['create', 'configmap', late])
      await watch.says(new RegExp(`ADDED +${late} `))
      await killed(watch)
    },
  }
}

export async function runningLogs({ name, kubectl, writeLogLine }: KubectlSide): Promise<Running> {
  const logs = await kubectl.start(['logs', '--follow', 'deployment/web'])
  await logs.says(/^hello from the pod\n/)
  return {
    what: `${name}: logs --follow`,
    async goesOn() {
      const mark = randomUUID()
      await writeLogLine(mark)
      await logs.says(new RegExp(`^${mark}$`, 'm'))
      await killed(logs)
    },
  }
}

export async function runningForward({ name, kubectl }: KubectlSide): Promise<Running> {
  const environment = { KUBECTL_PORT_FORWARD_WEBSOCKETS: 'true' }
  const forward = await kubectl.start(['port-forward', 'deployment/web', ':80'], { environment })
  const [, port] = await forward.says(/Forwarding from 127\.0\.0\.1:(\d+) -> 80/)
  const ask = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: 'close' } })
    assert.equal(await answer.text(), `hello from the pod: GET ${path}\n`)
  }
  await ask('/before')
  return {
    what: `${name}: port-forward`,
    async goesOn() {
      await ask('/after')
      await killed(forward)
    },
  }
}

async function killed(running: TestProcess): Promise<void> {
  assert.doesNotMatch(running.stderr, /error|lost/i)
  running.signal('SIGKILL')
  await running.exited
}

/** A watch of a client that sends nothing at all, where kubectl sends PINGs of HTTP/2. */
export async function silentWatch({ name, kubectl }: KubectlSide, client: FrontClient): Promise<Running> {
  const leave = new AbortController()
  const path = `/api/v1/namespaces/${kubectl.namespace}/configmaps?watch=1&timeoutSeconds=3600`
  const lines = await client.lines(path, { signal: leave.signal })
  await toldOf(lines, 'kube-root-ca.crt')
  return {
    what: `${name}: watch by HTTP/1.1`,
    async goesOn() {
      const late = `late-${randomUUID()}`
      const told = toldOf(lines, late)
      await kubectl.ok(['create', 'configmap', late])
      await told
      leave.abort()
    },
  }
}

async function toldOf(lines: AsyncIterator<string>, name: string): Promise<void> {
  for (;;) {
    const { done, value } = await lines.next()
    assert.ok(!done, 'the watch ended')
    if (JSON.parse(value).object.metadata.name === name) return
  }
}

/** channels of `v5.channel.k8s.io`: the first byte of each message */
const channel = { stdin: 0, stdout: 1 } as const

/** An exec of a client that sends nothing at all, where kubectl sends PINGs of WebSocket and of SPDY. */
export async function silentExec(
  { name, kubectl }: KubectlSide,
  { url, ca, headers }: { url: string; ca: string; headers: Readonly<Record<string, string>> },
): Promise<Running> {
  const pod = (await kubectl.ok(['get', 'pods', '-o', 'jsonpath={.items[0].metadata.name}'])).trim()
  const path = `/api/v1/namespaces/${kubectl.namespace}/pods/${pod}/exec?command=cat&stdin=true&stdout=true`
  const socket = new WebSocket(`${url.replace('https:', 'wss:')}${path}`, ['v5.channel.k8s.io'], {
    ca,
    headers,
    perMessageDeflate: false,
  })
  await once(socket, 'open')
  const echoes = async (line: string) => {
    const seen = new Promise<void>((resolve, reject) => {
      socket.once('close', () => reject(new Error('it was closed')))
      socket.on('message', (data: Buffer) => {
        if (data[0] === channel.stdout && data.subarray(1).toString() === line) resolve()
      })
    })
    socket.send(Buffer.concat([Buffer.of(channel.stdin), Buffer.from(line)]))
    await seen
  }
  await echoes('before\n')
  return {
    what: `${name}: exec by WebSocket, without PINGs`,
    async goesOn() {
      await echoes('after\n')
      socket.terminate()
    },
  }
}
