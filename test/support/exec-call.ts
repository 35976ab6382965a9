import { once } from 'node:events'
import { WebSocket } from 'ws'

/** channels of `v5.channel.k8s.io`: the first byte of each message */
const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, close: 255 } as const

export interface ExecCall {
  /** of the API, https */
  server: string
  ca: string
  token: string
  namespace: string
  pod: string
  command: readonly string[]
  stdin: Buffer
}

/** One exec over a WebSocket, without kubectl: sends `stdin` whole, gives stdout. @throws when its status is not Success */
export async function execCall(call: ExecCall): Promise<Buffer> {
  const url = new URL(`/api/v1/namespaces/${call.namespace}/pods/${call.pod}/exec`, call.server)
  for (const name of ['stdin', 'stdout', 'stderr']) url.searchParams.set(name, 'true')
  for (const word of call.command) url.searchParams.append('command', word)
  url.protocol = 'wss:'
  const socket = new WebSocket(url, ['v5.channel.k8s.io'], {
    ca: call.ca,
    headers: { authorization: `Bearer ${call.token}` },
    perMessageDeflate: false,
  })
  const stdout: Buffer[] = []
  let status = ''
  socket.on('message', (data: Buffer) => {
    if (data[0] === channel.stdout) stdout.push(data.subarray(1))
    if (data[0] === channel.status) status += data.subarray(1).toString()
  })
  const closed = once(socket, 'close')
  await once(socket, 'open')
  socket.send(Buffer.concat([Buffer.of(channel.stdin), call.stdin]))
  socket.send(Buffer.of(channel.close, channel.stdin))
  await closed
  if (JSON.parse(status || '{}').status !== 'Success') throw new Error(`exec: ${status || 'no status'}`)
  return Buffer.concat(stdout)
}
