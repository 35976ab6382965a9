import { once } from 'node:events'
import { WebSocket } from 'ws'
import { type KubeOptions, trustOf } from './kube.ts'

/** channels of `v5.channel.k8s.io`: the first byte of each message */
const channel = { stdin: 0, stdout: 1, status: 3, close: 255 } as const

export interface Exec {
  readonly namespace: string
  readonly pod: string
  readonly command: readonly string[]
  readonly stdin: Buffer
}

export interface ExecEnd {
  readonly stdout: Buffer
  readonly exitCode: number
}

/** Runs a command in a pod over a WebSocket, with all of its input at once. @throws Error if the command did not run */
export async function exec(kube: KubeOptions, { namespace, pod, command, stdin }: Exec): Promise<ExecEnd> {
  const url = new URL(`/api/v1/namespaces/${namespace}/pods/${pod}/exec`, kube.server)
  for (const name of ['stdin', 'stdout', 'stderr']) url.searchParams.set(name, 'true')
  for (const word of command) url.searchParams.append('command', word)
  url.protocol = 'wss:'
  const headers = { authorization: `Bearer ${kube.credential}` }
  const socket = new WebSocket(url, ['v5.channel.k8s.io'], { ...trustOf(kube), headers, perMessageDeflate: false })
  const stdout: Buffer[] = []
  let status = ''
  socket.on('message', (data: Buffer) => {
    if (data[0] === channel.stdout) stdout.push(data.subarray(1))
    if (data[0] === channel.status) status += data.subarray(1).toString()
  })
  const closed = once(socket, 'close')
  await once(socket, 'open')
  socket.send(Buffer.concat([Buffer.of(channel.stdin), stdin]))
  socket.send(Buffer.of(channel.close, channel.stdin))
  await closed
  return { stdout: Buffer.concat(stdout), exitCode: exitCodeOf(status) }
}

interface Status {
  readonly status: string
  readonly reason?: string
  readonly details?: { readonly causes?: readonly { readonly reason: string; readonly message: string }[] }
}

function exitCodeOf(text: string): number {
  const status: Status = JSON.parse(text || '{"status":"none"}')
  if (status.status === 'Success') return 0
  const code = status.details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message
  if (status.reason !== 'NonZeroExitCode' || code === undefined)
    throw new Error(`exec ended with ${text || 'no status'}`)
  return Number(code)
}
