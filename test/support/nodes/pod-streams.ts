import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { absent } from '../absent.ts'
import type { Kubectl } from '../kubectl.ts'
import type { Processes, TestProcess } from '../processes.ts'
import { patience } from '../slowness.ts'
import type { NodeCluster } from './node-cluster.ts'
import { container, namespaceOf } from './workloads.ts'

/** kubectl's streams at a real kubelet and its containers, by each protocol. */

/** namespace and name of the Pod for the streams */
export const box = { namespace: 'streams', pod: 'box' } as const
const { namespace, pod } = box
const page = 'hello from the box'
/** More than any window or buffer on the way. */
const payloadBytes = 1_000_000
/** Number of streams that run at once: each mostly waits. */
const streamsAtOnce = 4

/** One kubectl that uses one protocol for its streams. */
export interface StreamClient {
  /** name such as `kubectl 1.20, SPDY` */
  readonly name: string
  readonly kubectl: Kubectl
  readonly protocol: 'WebSocket' | 'SPDY'
  /** reason why it is missing, for tap's `skip` */
  readonly skip: string | false
}

/** A stream of one client, whose result is reported later. */
export interface PlayedStream {
  readonly name: string
  readonly skip: string | false
  /** Rejects with the failure; undefined where it is skipped. */
  readonly done: Promise<void> | undefined
}

interface Ground {
  readonly client: StreamClient
  /** a folder of this client alone */
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
}

/** Prints each line of its input, and serves a page. */
const script = `mkdir /tmp/served; echo ${page} >/tmp/served/index.html; httpd -p 8080 -h /tmp/served; exec cat`

const streams: Readonly<Record<string, { readonly needs?: string; play(ground: Ground): Promise<void> }>> = {
  'exec, both outputs and the exit status': { play: execStatus },
  'exec, stdin': { play: execInput },
  'exec, TTY and resize': { needs: 'script', play: execTerminal },
  'attach, and logs that follow': { play: attachAndLogs },
  cp: { play: copies },
  'port-forward': { play: forwards },
}

/** Starts all streams of these clients at a Pod of their own; they run beside other tests. */
export function playStreams(
  clients: readonly StreamClient[],
  { cluster, processes }: { readonly cluster: NodeCluster; readonly processes: Processes },
  ready: Promise<void> = createBox(cluster),
): PlayedStream[] {
  const lanes = Array.from({ length: streamsAtOnce }, () => ready)
  let started = 0
  const inTurn = (play: () => Promise<void>): Promise<void> => {
    const lane = started++ % streamsAtOnce
    const done = (lanes[lane] as Promise<void>).catch(() => ready).then(play)
    lanes[lane] = done
    done.catch(() => undefined) // reported by the caller
    return done
  }
  return clients.flatMap((client) =>
    Object.entries(streams).map(([name, { needs, play }]) => {
      const skip = client.skip || (needs !== undefined && absent(needs) && `needs ${needs}`)
      const environment = {
        KUBECTL_REMOTE_COMMAND_WEBSOCKETS: String(client.protocol === 'WebSocket'),
        KUBECTL_PORT_FORWARD_WEBSOCKETS: String(client.protocol === 'WebSocket'),
      }
      const folder = join(processes.folder, `streams-${randomBytes(8).toString('hex')}`)
      const done = skip ? undefined : inTurn(() => play({ client, folder, environment }))
      return { name: `${client.name}: ${name}`, skip, done }
    }),
  )
}

const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name: 'streams', namespace } }
const resources = ['pods', 'pods/log', 'pods/exec', 'pods/attach', 'pods/portforward']
const rights: readonly KubernetesObject[] = [
  { ...rbac, kind: 'Role', rules: [{ apiGroups: [''], resources, verbs: ['get', 'create'] }] },
  {
    ...rbac,
    kind: 'RoleBinding',
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'streams' },
    subjects: [{ kind: 'ServiceAccount', name: 'agentk', namespace: 'agentk' }],
  },
]

/** Resolves when the Pod runs. */
export async function createBox(cluster: NodeCluster): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}`
  const signal = AbortSignal.timeout(patience(60_000))
  await cluster.create(namespaceOf(namespace), ...rights)
  await cluster.admin.until(`${path}/serviceaccounts`, ({ metadata }) => metadata.name === 'default', signal)
  const containers = [container({ script, more: { stdin: true } })]
  const spec = { terminationGracePeriodSeconds: 1, containers }
  await cluster.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name: pod, namespace }, spec })
  await cluster.admin.until(`${path}/pods`, ({ status }) => status?.phase === 'Running', signal)
}

const digest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

const inBox = ({ client }: Ground) => client.kubectl.with({ namespace })

async function execStatus(ground: Ground): Promise<void> {
  const command = ['sh', '-c', 'echo to-stdout; echo to-stderr >&2; exit 3']
  const { environment } = ground
  const { code, stdout, stderr } = await inBox(ground).run(['exec', pod, '--', ...command], { environment })
  assert.equal(code, 3, stderr)
  assert.equal(stdout.toString(), 'to-stdout\n')
  assert.match(stderr, /^to-stderr\n/)
}

async function execInput(ground: Ground): Promise<void> {
  const payload = randomBytes(payloadBytes)
  const { environment } = ground
  const args = ['exec', '--stdin', pod, '--', 'cat']
  const { code, stdout, stderr } = await inBox(ground).run(args, { stdin: payload, environment })
  assert.equal(code, 0, stderr)
  assert.equal(digest(stdout), digest(payload))
}

/** Makes kubectl's terminal larger while the command runs, which must see both sizes. */
async function execTerminal(ground: Ground): Promise<void> {
  const { environment, folder } = ground
  await mkdir(folder, { recursive: true })
  const asked = join(folder, 'resize')
  const before = `stty rows 30 cols 100; (until [ -e ${asked} ]; do sleep 0.05; done; stty -F /dev/tty rows 41 cols 151) &`
  const command = 'while :; do s=$(stty size); echo $s; [ "$s" = "41 151" ] && exit 7; sleep 0.3; done'
  const args = ['exec', '-it', pod, '--', 'sh', '-c', command]
  const terminal = await inBox(ground).startInTerminal(before, args, { environment })
  await terminal.says(/30 100/)
  await writeFile(asked, '')
  await terminal.says(/41 151/)
  assert.equal((await terminal.ends()).code, 7)
}

async function attachAndLogs(ground: Ground): Promise<void> {
  const { environment } = ground
  const kubectl = inBox(ground)
  const mark = `mark-${randomBytes(8).toString('hex')}`
  const logs = await kubectl.start(['logs', '--follow', '--tail=1', pod], { environment })
  const attach = await kubectl.start(['attach', '--stdin', pod], { stdin: `${mark}\n`, keepsInput: true, environment })
  await Promise.all([attach.says(new RegExp(`^${mark}$`, 'm')), logs.says(new RegExp(`^${mark}$`, 'm'))])
  await Promise.all([killed(attach), killed(logs)])
}

async function copies(ground: Ground): Promise<void> {
  const { folder, environment } = ground
  const kubectl = inBox(ground)
  const payload = randomBytes(payloadBytes)
  const there = `/tmp/${randomBytes(8).toString('hex')}`
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'sent'), payload)
  await kubectl.ok(['cp', join(folder, 'sent'), `${pod}:${there}`], { environment })
  await kubectl.ok(['cp', `${pod}:${there}`, join(folder, 'back')], { environment })
  assert.equal(digest(await readFile(join(folder, 'back'))), digest(payload))
}

async function forwards(ground: Ground): Promise<void> {
  const { environment } = ground
  const forward = await inBox(ground).start(['port-forward', `pod/${pod}`, ':8080'], { environment })
  const [, port] = await forward.says(/Forwarding from 127\.0\.0\.1:(\d+) -> 8080/)
  for (const _ of [1, 2]) {
    const answer = await fetch(`http://127.0.0.1:${port}/index.html`, { headers: { connection: 'close' } })
    assert.equal(await answer.text(), `${page}\n`)
  }
  await killed(forward)
}

async function killed(running: TestProcess): Promise<void> {
  running.signal('SIGKILL')
  await running.exited
}
